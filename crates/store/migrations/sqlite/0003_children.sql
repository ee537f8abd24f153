-- Runs that a run asked for. Most have nobody above them and cost nothing here.
create index runs_by_parent on runs (parent) where parent is not null;
