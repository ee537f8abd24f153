-- Runs that a run asked for. Most have nobody above them and cost nothing here; what is indexed never changes.
create index runs_by_parent on runs (parent, run) where parent is not null;
