-- The record. Codes of status, trigger, reason and history stand in src/code.rs; times are milliseconds since the
-- epoch, UTC. Rows that change often leave room on their pages and have no index on what changes, so that a change
-- stays on its page and touches no index: a third of a page of fresh runs has room for their starts and their ends.

create table jobs (
    job bigint primary key,
    name text collate "C" not null unique,
    revision integer not null,
    history_kind smallint not null,
    history_amount bigint not null,
    removed_at bigint,
    source text not null,
    source_mark text not null,
    definition text not null
);

-- Definitions that are no longer the latest of their job. Runs promised under them still refer to them.
create table definitions (
    job bigint not null,
    revision integer not null,
    definition text not null,
    primary key (job, revision)
);

create table job_states (
    job bigint primary key,
    watermark bigint,
    paused_at bigint,
    holes text
) with (fillfactor = 50);

create table runs (
    run bigint primary key,
    job bigint not null,
    due bigint not null,
    promised_at bigint not null,
    started_at bigint,
    ended_at bigint,
    parent bigint,
    revision integer not null,
    attempt integer not null,
    parent_depth integer,
    trigger smallint not null,
    status smallint not null,
    skip smallint,
    params text,
    message text,
    steps text
) with (fillfactor = 30);

-- Among scheduled runs (trigger below 10) a job and a due name one run. The due comes first so that a tick appends
-- to one place of the index instead of touching one page for every job; it serves queries by due as well.
create unique index runs_by_due on runs (due, job, (case when trigger < 10 then 0 else run end));

-- History of one job, newest first.
create index runs_by_job on runs (job, run);

-- What a start has to go on with are runs with a status below 3. An index on the status would make every change of
-- a run touch every index, and a row for every open run would cost as much as the run. So recent runs, from the
-- horizon on, are simply looked through, and only the few that are still open when the horizon passes them are kept
-- here. A run below the horizon with a status below 3 is always here; the horizon only rises.
create table open_runs (
    run bigint primary key
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

create table open_horizon (
    only_row boolean primary key default true check (only_row),
    run bigint not null
);
insert into open_horizon (run) values (0);

create table skips (
    id bigint primary key,
    job bigint not null,
    first_due bigint not null,
    last_due bigint not null,
    count bigint not null,
    reason smallint not null,
    at bigint not null
) with (fillfactor = 80);

create index skips_by_job on skips (job, id);
