-- Which version of the program used this record last: an older one that cannot read it says so.
create table program (
    id integer primary key check (id = 1),
    version text not null
) strict;
