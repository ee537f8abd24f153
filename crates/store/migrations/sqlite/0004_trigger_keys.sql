-- Triggers that came with a key of the caller's own: the same key within a day names the same run. Key and request are
-- hashes.
create table trigger_keys (
    key text primary key,
    request integer not null,
    run integer not null,
    at integer not null
) strict, without rowid;
create index trigger_keys_by_at on trigger_keys (at);
