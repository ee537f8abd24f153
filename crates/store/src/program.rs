//! Which version of the program used the record last.

pub(crate) const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) const VERSION: &str = "select version from program";

pub(crate) const PUT: &str = "insert into program (id, version) values (1, $1) \
     on conflict (id) do update set version = excluded.version where program.version <> excluded.version";
