//! What the passes have in common: which target, its state, its runner, and how errors are told.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadran_exec::Guard;
use cadran_fuzz::{
    Bucket, BucketOptions, CommitHash, Config, FuzzError, Halt, History as _, HistoryError, PassRunner,
    Pipeline, Why,
};
use tokio::signal::unix::{SignalKind, signal};

use super::progress::Screen;
use crate::client::{Exit, Failure, talk};
use crate::commands::files;
use crate::server::clock;

/// Which target, and how to answer.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct Common {
    /// The target's file [default: fuzz.yaml, or NAME/fuzz.yaml with --target NAME].
    #[arg(long, env = "CADRAN_FUZZ_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The target's name, to choose among several.
    #[arg(long, value_name = "NAME")]
    pub target: Option<String>,
    /// Where the clone and the work live on this machine [default: ~/.cache/cadran/fuzz].
    #[arg(long, env = "CADRAN_FUZZ_CACHE", value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// JSON for programs instead of text for people.
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// Reads the target's file.
    pub(super) fn config(&self) -> Result<Config, Failure> {
        let path = self.config_path();
        let text = files::read(&path).map_err(|error| {
            let help = "write one with: cadran fuzz init --target NAME --repo URL --store URL";
            Failure::new(Exit::Usage, "config", format!("{error:#}")).help(help)
        })?;
        let config = Config::read(&text).map_err(|problems| {
            let text = String::from_utf8_lossy(&text);
            let file = path.display().to_string();
            let shown: Vec<String> =
                problems.iter().map(|problem| problem.render(&file, &text, false)).collect();
            Failure::new(Exit::Usage, "config", format!("{file} has errors\n{}", shown.join("\n")))
        })?;
        match &self.target {
            Some(name) if *name != config.target.name.as_str() => {
                let message =
                    format!("{} is about the target {}, not {name}", path.display(), config.target.name);
                Err(Failure::new(Exit::NotFound, "target", message).help("give its file with --config"))
            }
            _ => Ok(config),
        }
    }

    fn config_path(&self) -> PathBuf {
        let plain = PathBuf::from("fuzz.yaml");
        match (&self.config, &self.target) {
            (Some(path), _) => path.clone(),
            (None, Some(name)) if Path::new(name).join("fuzz.yaml").is_file() => {
                Path::new(name).join("fuzz.yaml")
            }
            _ => plain,
        }
    }

    fn cache(&self) -> PathBuf {
        let base = || {
            let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
            set.or_else(home)
                .map_or_else(|| std::env::temp_dir().join("cadran-fuzz"), |base| base.join("cadran/fuzz"))
        };
        self.cache.clone().unwrap_or_else(base)
    }

    /// Opens the state of the target.
    pub(super) async fn pipeline(&self, pass: &str) -> Result<(Pipeline, Config), Failure> {
        let config = self.config()?;
        let options = BucketOptions { retries: config.store_retries, ..BucketOptions::default() };
        let bucket = Bucket::open(&config.store, &options).await.map_err(failure)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let host = if host.trim().is_empty() { "somewhere" } else { host.trim() };
        let actor = format!("{pass}@{host}");
        let target = config.target.clone();
        let pipeline = Pipeline::open(bucket, target, Arc::new(clock::wall), actor).await.map_err(failure)?;
        Ok((pipeline, config))
    }

    /// Opens the runner: the state, and what is needed to do something about it. Ctrl-C stops its work from here on.
    pub(super) async fn runner(&self, pass: &str) -> Result<(PassRunner, Arc<Screen>), Failure> {
        let (pipeline, config) = self.pipeline(pass).await?;
        let guard = Arc::new(Guard::open(keeper()).map_err(|error| Failure::here(error.to_string()))?);
        let (halt, screen) = (Halt::default(), Arc::new(Screen::new()));
        stop_on_signal(halt.clone(), screen.clone())?;
        let runner = PassRunner::open(pipeline, config.tools, self.cache(), guard, halt, screen.clone());
        Ok((runner.map_err(failure)?, screen))
    }
}

/// The commit that was named. The jobs that `cadran fuzz init` writes hand on an empty text when none was.
pub(super) fn named(commit: Option<&str>) -> Option<&str> {
    commit.map(str::trim).filter(|commit| !commit.is_empty())
}

/// Which commit a person means, with a warning on standard error when the filter would have left it out.
pub(super) async fn resolve(runner: &PassRunner, text: &str) -> Result<CommitHash, Failure> {
    let repository = runner.repository();
    repository.head().await.map_err(|HistoryError(why)| failure(FuzzError::History(why)))?;
    let (hash, warning) = runner.pipeline().resolve(repository, text).await.map_err(failure)?;
    if let Some(warning) = warning {
        talk(&format!("warning: {warning}"));
    }
    Ok(hash)
}

/// A failure with the exit code that fits.
pub(super) fn failure(error: FuzzError) -> Failure {
    let (exit, code) = match &error {
        FuzzError::Url(_) => (Exit::Usage, "store_url"),
        FuzzError::Input(_) => (Exit::NotFound, "input"),
        FuzzError::NoConditions(_) => (Exit::Refused, "no_conditions"),
        FuzzError::Unavailable(_) => (Exit::Unreachable, "store_unavailable"),
        FuzzError::Refused(_) => (Exit::Refused, "store_refused"),
        FuzzError::Contended(_) => (Exit::Unreachable, "contended"),
        FuzzError::Broken(_) => (Exit::RunFailed, "broken"),
        FuzzError::Stale(_) => (Exit::RunFailed, "stale"),
        FuzzError::History(_) => (Exit::Unreachable, "repository"),
    };
    Failure::new(exit, code, error.to_string())
}

/// The process that outlives us by a moment and ends what we started.
fn keeper() -> Option<Vec<OsString>> {
    let program = std::env::current_exe().ok()?;
    Some(vec![program.into_os_string(), "keeper".into()])
}

/// The first signal asks the work to stop and save; the second gives up. What runs is ended in both cases.
fn stop_on_signal(halt: Halt, screen: Arc<Screen>) -> Result<(), Failure> {
    let broken = |error: std::io::Error| Failure::here(format!("cannot listen for signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(broken)?;
    tokio::spawn(async move {
        let mut asked = 0;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
            asked += 1;
            if asked > 1 {
                std::process::exit(Exit::Interrupted.number().into());
            }
            screen.line("stopping, and saving what was found; once more gives up");
            halt.halt(Why::Asked);
        }
    });
    Ok(())
}
