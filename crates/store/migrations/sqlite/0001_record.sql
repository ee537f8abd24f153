-- The record. Codes of status, trigger, reason and history stand in src/code.rs; times are milliseconds since the
-- epoch, UTC. A job's planning state has a table of its own: it changes with every due, the definition rarely.

create table jobs (
    job integer primary key,
    name text not null unique,
    revision integer not null,
    history_kind integer not null,
    history_amount integer not null,
    removed_at integer,
    source text not null,
    source_mark text not null,
    definition text not null
) strict;

-- Definitions that are no longer the latest of their job. Runs promised under them still refer to them.
create table definitions (
    job integer not null,
    revision integer not null,
    definition text not null,
    primary key (job, revision)
) strict, without rowid;

create table job_states (
    job integer primary key,
    watermark integer,
    paused_at integer,
    holes text
) strict;

create table runs (
    run integer primary key,
    job integer not null,
    revision integer not null,
    due integer not null,
    trigger integer not null,
    promised_at integer not null,
    parent integer,
    parent_depth integer,
    params text,
    status integer not null,
    attempt integer not null,
    started_at integer,
    ended_at integer,
    skip integer,
    message text,
    steps text
) strict;

-- Among scheduled runs (trigger below 10) a job and a due name one run. The due comes first so that a tick appends
-- to one place of the index instead of touching one page for every job; it serves queries by due as well.
create unique index runs_by_due on runs (due, job, (case when trigger < 10 then 0 else run end));

-- History of one job, newest first: SQLite keeps the run behind the job in the index.
create index runs_by_job on runs (job);

-- What a start has to go on with (status below 3).
create index runs_open on runs (status) where status < 3;

create table skips (
    id integer primary key,
    job integer not null,
    first_due integer not null,
    last_due integer not null,
    count integer not null,
    reason integer not null,
    at integer not null
) strict;

create index skips_by_job on skips (job);
