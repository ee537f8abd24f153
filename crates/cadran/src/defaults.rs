//! Every default, with a sentence each: one struct for each component. Library crates receive plain options.
//!
//! Defaults that depend on one another are compared at compile time, at the end of this file.

use std::path::PathBuf;
use std::time::Duration;

/// Options of `cadran serve`.
pub struct Serve {
    /// Loopback: a fresh server is nobody else's business. The port is free in the usual lists.
    pub listen: &'static str,
    /// Where executors register and report: loopback too, until somebody says otherwise.
    pub executor_listen: &'static str,
    /// Job files that name no zone mean the one zone without daylight saving time.
    pub timezone: &'static str,
    /// Runs that hold a slot at once: enough for a burst, few enough for the process table of a laptop.
    pub slots: usize,
}

/// Options of `cadran serve`.
pub const SERVE: Serve =
    Serve { listen: "127.0.0.1:7788", executor_listen: "127.0.0.1:7789", timezone: "UTC", slots: 1_000 };

/// The executor of this machine.
pub struct Executor {
    /// How long processes have after their signal when everything is stopped, before they are killed: longer than the
    /// grace of a step, so that each is ended by its own.
    pub stop_timeout: Duration,
}

/// The executor of this machine.
pub const EXECUTOR: Executor = Executor { stop_timeout: Duration::from_secs(10) };

/// Options of `cadran worker`.
pub struct Worker {
    /// How long what a worker runs may go on after it was told to go: most steps end within minutes.
    pub drain_timeout: Duration,
}

/// Options of `cadran worker`.
pub const WORKER: Worker = Worker { drain_timeout: Duration::from_secs(300) };

/// The event loop.
pub struct Loop {
    /// Messages from outside that may wait for one iteration: far more than arrive in one, far less than hurts.
    pub inbox_len_max: usize,
    /// An iteration at least this often, also when there is nothing to do: whoever asks whether the loop works is not misled
    /// by a quiet hour.
    pub iteration_interval_max: Duration,
    /// Commands whose answers wait for the store at once. More are refused before anything is done about them.
    pub pending_replies_max: usize,
    /// How long a command may wait until it is durable. Below what an endpoint has for its answer, so that whoever asks is
    /// told that the outcome is not known.
    pub command_timeout: Duration,
    /// How long a query of the engine may wait for the loop.
    pub query_timeout: Duration,
}

/// The event loop.
pub const LOOP: Loop = Loop {
    inbox_len_max: 10_000,
    iteration_interval_max: Duration::from_secs(1),
    pending_replies_max: 10_000,
    command_timeout: Duration::from_secs(20),
    query_timeout: Duration::from_secs(5),
};

/// How far the index looks ahead: dues, forecast and "what runs next" come from it. Two hours of a fleet that starts a
/// thousand runs a minute take half a megabyte; of busier ones the planner makes it shorter.
pub const LOOKAHEAD_MS: i64 = cadran_plan::LOOKAHEAD_MS;

/// How long ago each part may have shown that it works for the server to be called well.
pub struct Health {
    /// The loop. It iterates at least once a second; with a million jobs an iteration may take a few.
    pub loop_age_max: Duration,
    /// The store. It is asked every [`ping_interval`](Health::ping_interval) at least.
    pub store_age_max: Duration,
    /// The executor of this machine. It moves every half second at least.
    pub executor_age_max: Duration,
    /// How often the store is asked for a sign of life. A server without anything to record asks nothing else of it.
    pub ping_interval: Duration,
    /// How long one such question may take, so that a second one can still be answered in time.
    pub ping_timeout: Duration,
}

/// How long ago each part may have shown that it works for the server to be called well.
pub const HEALTH: Health = Health {
    loop_age_max: Duration::from_secs(10),
    store_age_max: Duration::from_secs(10),
    executor_age_max: Duration::from_secs(10),
    ping_interval: Duration::from_secs(2),
    ping_timeout: Duration::from_secs(5),
};

/// What is kept on disk, and how what is past its retention is removed.
pub struct Retention {
    /// What a SQLite database may have in use. With the write-ahead log (128 MiB at most) and the logs below, a laptop's disk
    /// loses less than 2 GiB to the server, whatever its jobs do.
    pub database: &'static str,
    /// What all logs together may take of the disk.
    pub logs: &'static str,
    /// Shortest rest between two passes: a hundred runs a second that print something take 12 MiB meanwhile.
    pub rest_min: Duration,
    /// Longest rest between two passes, when passes take long: what a hundred runs a second print meanwhile, 48 MiB, still
    /// fits into the 2 GiB.
    pub rest_max: Duration,
    /// Rows removed in one transaction, some milliseconds of work: a commit waits for one of them at most.
    pub rows_per_transaction: u32,
}

/// What is kept on disk, and how what is past its retention is removed.
pub const RETENTION: Retention = Retention {
    database: "1GiB",
    logs: "768MiB",
    rest_min: Duration::from_secs(15),
    rest_max: Duration::from_secs(60),
    rows_per_transaction: 256,
};

/// How long a reading of all job files may take before the log says so: a million files take about this long.
pub const RELOAD_TIME_MAX: Duration = Duration::from_secs(60);

/// The engine of a server. Its number is not known before the store is open.
pub fn engine(limits: cadran_place::Limits) -> cadran_engine::Options {
    cadran_engine::Options { limits, lookahead_ms: LOOKAHEAD_MS, ..cadran_engine::Options::default() }
}

/// The listener for executors, which keep connections open between two calls that are half a minute apart.
pub fn executor_http() -> cadran_http::Limits {
    cadran_http::Limits {
        connections_max: 4096,
        head_time_max: Duration::from_secs(75),
        ..cadran_http::Limits::default()
    }
}

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

const _: () = {
    assert!(HEALTH.ping_timeout.as_millis() < HEALTH.store_age_max.as_millis());
    assert!(HEALTH.ping_interval.as_millis() < HEALTH.store_age_max.as_millis());
    assert!(LOOP.iteration_interval_max.as_millis() < HEALTH.loop_age_max.as_millis());
    assert!(LOOP.query_timeout.as_millis() < LOOP.command_timeout.as_millis());
    assert!(RETENTION.rest_min.as_millis() <= RETENTION.rest_max.as_millis());
    assert!(SERVE.slots > 0);
};
