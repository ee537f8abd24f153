//! Every default, with a sentence each. Library crates receive plain options.

use std::path::PathBuf;
use std::time::Duration;

/// Loopback: a fresh server is nobody else's business. The port is free in the usual lists.
pub const LISTEN: &str = "127.0.0.1:7788";

/// Where executors register and report: loopback too, until somebody says otherwise.
pub const EXECUTOR_LISTEN: &str = "127.0.0.1:7789";

/// How long running steps may go on after a stop was asked for, before they are stopped too. A restart of the server
/// should not cost a run that is about to end anyway.
pub const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// How long what a worker runs may go on after it was told to go: most steps end within minutes.
pub const DRAIN_TIME: Duration = Duration::from_secs(300);

/// Runs that hold a slot at once: enough for a burst, few enough for the process table of a laptop.
pub const SLOTS: usize = 1_000;

/// How far the index looks ahead: dues, forecast and "what runs next" come from it. Two hours of a fleet that starts a
/// thousand runs a minute take half a megabyte; of busier ones the planner makes it shorter.
pub const LOOKAHEAD_MS: i64 = 2 * 3_600_000;

/// How long ago the loop may have turned for the server to be called well. It turns at least once a second; with a
/// million jobs a turn may take a few.
pub const LOOP_AGE_MAX: Duration = Duration::from_secs(10);

/// How long ago the store may have answered. It is asked every two seconds at least.
pub const STORE_AGE_MAX: Duration = Duration::from_secs(10);

/// How long the executor inside the server may be silent. It moves every half second at least.
pub const EXECUTOR_AGE_MAX: Duration = Duration::from_secs(10);

/// What a SQLite database may have in use. With the write-ahead log (128 MiB at most) and the logs below, a laptop's disk
/// loses less than 2 GiB to the server, whatever its jobs do.
pub const DATABASE_BYTES_MAX: u64 = 1 << 30;

/// What all logs together may take of the disk.
pub const LOG_BYTES_MAX: u64 = 768 << 20;

/// Shortest rest between two passes that clean away what is past its retention: a hundred runs a second that print
/// something take 12 MiB meanwhile.
pub const PRUNE_REST_MIN: Duration = Duration::from_secs(15);

/// Longest rest between two such passes, when passes take long: what a hundred runs a second print meanwhile, 48 MiB, still
/// fits into the 2 GiB.
pub const PRUNE_REST_MAX: Duration = Duration::from_secs(60);

/// Rows cleaned away in one transaction, some milliseconds of work: a commit waits for one of them at most.
pub const PRUNE_ROWS: u32 = 256;

/// Where a worker of a group keeps its data when nobody says: beside the server's.
pub fn worker_dir(group: &cadran_core::GroupName) -> PathBuf {
    data_dir().with_file_name("cadran-worker").join(group.as_str())
}

/// Where the data lives when nobody says: `$XDG_DATA_HOME/cadran`, else `~/.local/share/cadran`, else here.
pub fn data_dir() -> PathBuf {
    let base = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    base.or_else(home).map_or_else(|| PathBuf::from("cadran-data"), |base| base.join("cadran"))
}
