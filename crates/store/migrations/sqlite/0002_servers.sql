-- Who works on this record: a server's number is part of every id it gives out. Its name is kept with its data.
create table servers (
    number integer primary key,
    name text not null unique,
    seen_at integer not null
) strict;
