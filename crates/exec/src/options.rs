use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cadran_core::Report;

/// Where reports go. Called on the executor's own threads, one batch at a time, in order; it must not block for long.
pub type Sink = Arc<dyn Fn(Vec<Report>) + Send + Sync>;

/// How [`crate::Local`] works.
#[derive(Clone, Debug)]
pub struct LocalOptions {
    /// Directory of the log files.
    pub logs: PathBuf,
    /// The journal file; its directory also holds the lock file and the scripts being run.
    pub journal: PathBuf,
    /// Time between the signal of a stop or a time limit and KILL.
    pub grace: Duration,
    /// How long a process in the background may keep the output open after its step's own process has ended.
    pub linger: Duration,
    /// Largest log file of one attempt.
    pub log_bytes_max: u64,
    /// Largest captured output of one attempt; more fails it.
    pub output_bytes_max: usize,
    /// Time limit of one precondition.
    pub precondition_timeout: Duration,
    /// How many attempts may be alive at once; the others wait in line.
    pub live_max: usize,
    /// Environment every process gets first. No `CADRAN_*` of the server's own is ever passed on.
    pub base_env: Vec<(String, String)>,
    /// Directory of steps that name none, and base of relative ones.
    pub base_dir: PathBuf,
    /// Networks that requests of steps may go to although they are not public, as `10.1.0.0/16` or `127.0.0.1`.
    pub http_allow: Vec<String>,
    /// Command that runs [`crate::keeper_main`]; `None` goes without a keeper.
    pub keeper: Option<Vec<OsString>>,
}

impl LocalOptions {
    /// The defaults, with everything below one data directory.
    pub fn new(data: impl AsRef<Path>) -> LocalOptions {
        let data = data.as_ref();
        LocalOptions {
            logs: data.join("logs"),
            journal: data.join("exec").join("journal"),
            grace: Duration::from_secs(5),
            linger: Duration::from_secs(1),
            log_bytes_max: 10 << 20,
            output_bytes_max: 1 << 20,
            precondition_timeout: Duration::from_secs(30),
            // About four handles each: fits the usual hard limit of 4096 handles, and a burst of thousands of
            // attempts stays within the memory of a small machine.
            live_max: 1000,
            base_env: base_env(),
            base_dir: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            http_allow: Vec::new(),
            keeper: None,
        }
    }

    pub(crate) fn scripts(&self) -> PathBuf {
        self.journal.with_file_name("scripts")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        let mut name = self.journal.file_name().unwrap_or_default().to_os_string();
        name.push(".lock");
        self.journal.with_file_name(name)
    }
}

/// What of the server's environment a step may see. A list of what is passed, so that a secret in a variable nobody
/// thought of stays with the server.
const PASSED_ON: [&str; 9] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"];

/// Used when the server itself has no PATH.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

fn base_env() -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| PASSED_ON.contains(&name.as_str()) || name.starts_with("LC_"))
        .collect();
    if !env.iter().any(|(name, _)| name == "PATH") {
        env.push(("PATH".into(), PATH_DEFAULT.into()));
    }
    env.sort();
    env
}
