//! A step in a container, as a command line of docker or podman.
//!
//! The engine's own program is the process of the step: it hands on what the container prints, its exit code and the signal
//! of a stop. What it cannot do is to end the container once it is killed itself, so that is asked of the engine again, by
//! the container's name, when a step was stopped, and at the next start when the executor was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cadran_core::{Body, Container, ContainerCommand, Start, Step};
use tokio::time::Instant;

use crate::command;
use crate::environment::Environment;
use crate::family;

/// In this order, when a step names none.
const ENGINES: [&str; 2] = ["docker", "podman"];

/// How long the removal of a container may take. A daemon that does not answer must not hold the run for ever.
const REMOVAL_TIME_MAX: Duration = Duration::from_secs(10);

/// Exit code of the engine's program when the engine itself failed, so that the container may be on.
const EXIT_ENGINE_FAILED: i32 = 125;

/// Files beside the scripts that name containers which are on.
const FILE_SUFFIX: &str = ".container";

/// A container of an attempt.
#[derive(Debug)]
pub(crate) struct Running {
    /// Removes it, whether it is on or not.
    remove: Command,
    name: String,
}

/// The words of the command line, and what ends the container.
pub(crate) fn command_line(
    (body, step, container): (&Body, &Step, &Container),
    start: &Start,
    env: &Environment,
    base: &[(String, String)],
    dir: &Path,
) -> Result<(Vec<String>, Running), String> {
    let engine = engine(container, env, dir)?;
    let name = format!("cadran-{}-{}-{}", start.run, start.step.0, start.attempt);
    let mut words: Vec<String> = [engine.as_str(), "run", "--rm"].into_iter().map(str::to_owned).collect();
    words.push(format!("--name={name}"));
    // Its time to end is over when it is removed: podman would wait once more.
    words.push("--stop-timeout=0".to_owned());
    words.push(format!("--label=cadran.run={}", start.run));
    words.push(format!("--label=cadran.job={}", start.context.job_name));
    let given = [
        ("user", &container.user),
        ("workdir", &container.dir),
        ("network", &container.network),
        ("memory", &container.memory),
        ("cpus", &container.cpus),
        ("pull", &container.pull),
    ];
    for (option, value) in given {
        if let Some(value) = value {
            words.push(format!("--{option}={}", filled(option, env.expand(value))?));
        }
    }
    for mount in &container.mounts {
        words.push(format!("--volume={}", self::mount(mount, env, dir)?));
    }
    // By name alone: the engine's program takes the values from its own environment, where other users of the machine
    // do not see them.
    words.extend(env.beyond(base).map(|name| format!("--env={name}")));
    words.extend(container.options.iter().map(|option| env.expand(option)));
    let image = filled("image", env.expand(&container.image))?;
    let (entry, args) = match &container.command {
        ContainerCommand::Image(args) => (None, args.iter().map(|arg| env.expand(arg)).collect()),
        ContainerCommand::Program(program) => {
            let mut program: Vec<String> = program.iter().map(|word| env.expand(word)).collect();
            let entry = (!program.is_empty()).then(|| program.remove(0));
            (entry, program)
        }
        ContainerCommand::Shell(text) => {
            let mut shell = command::shell_argv(body, step, text, env)?;
            (Some(shell.remove(0)), shell)
        }
    };
    words.extend(entry.map(|entry| format!("--entrypoint={entry}")));
    words.push(image);
    words.extend(args);
    let remove: Vec<String> = [&engine, "rm", "-f", &name].into_iter().map(str::to_owned).collect();
    Ok((words, Running { remove: command::prepare(&remove, env, dir)?, name }))
}

/// The engine to use, by its name or its whole path.
fn engine(container: &Container, env: &Environment, dir: &Path) -> Result<String, String> {
    let wanted: Vec<&str> = match container.engine.as_deref() {
        Some(engine) => vec![engine],
        None => ENGINES.to_vec(),
    };
    let found = wanted.iter().find(|engine| command::resolve(engine, env, dir).is_ok());
    found.map(|engine| (*engine).to_owned()).ok_or_else(|| {
        let path = env.get("PATH").unwrap_or_default();
        match container.engine.as_deref() {
            Some(engine) => format!("{engine} is not installed: the program was not found in PATH ({path})"),
            None => {
                format!("neither docker nor podman is installed: no such program was found in PATH ({path})")
            }
        }
    })
}

/// What begins with a `-` would be an option, and what is empty would shift the words behind it.
fn filled(key: &str, value: String) -> Result<String, String> {
    if value.is_empty() || value.starts_with('-') {
        return Err(format!(
            "`{key}` of the container cannot be {value:?}; a `${{NAME}}` in it may have no value"
        ));
    }
    Ok(value)
}

/// A mount with the whole path of its source. A source without a `/` and without a `.` or `~` in front is the name of a
/// volume. The parts are told apart before values are put in, so that no value adds an option.
fn mount(mount: &str, env: &Environment, dir: &Path) -> Result<String, String> {
    let mut parts = mount.split(':');
    let source = parts.next().unwrap_or_default();
    let is_volume = !source.contains('/') && !source.starts_with(['.', '~', '$']);
    let source = if is_volume {
        source.to_owned()
    } else {
        // Without the `.` of `./data`.
        let path: PathBuf = env.path("mounts", source, dir)?.components().collect();
        path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?.to_owned()
    };
    let rest: Vec<String> = parts.map(|part| env.expand(part)).collect();
    if let Some(bad) = std::iter::once(&source).chain(&rest).find(|part| part.contains(':')) {
        return Err(format!("the mount {mount} cannot be used: {bad:?} holds a `:`"));
    }
    Ok(std::iter::once(source).chain(rest).collect::<Vec<_>>().join(":"))
}

impl Running {
    /// Ends the container if it can still be on: its engine's program was stopped, or did not say that it ended.
    pub(crate) async fn end(self, code: Option<i32>, was_stopped: bool) {
        if !was_stopped && code.is_some_and(|code| code != EXIT_ENGINE_FAILED) {
            return;
        }
        let mut remove = tokio::process::Command::from(self.remove);
        remove.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let removed = match family::spawn(&mut remove) {
            Ok((mut child, _leader)) => tokio::time::timeout(REMOVAL_TIME_MAX, child.wait()).await.is_ok(),
            Err(_) => false,
        };
        if !removed {
            tracing::warn!(container = %self.name, "the container may still be on; its engine did not answer");
        }
    }

    /// Names it in a file, for the next life of the executor.
    pub(crate) fn note(&self) -> String {
        let engine = Path::new(self.remove.get_program()).display();
        format!("{engine}\n{}\n", self.name)
    }
}

/// The name of the file that names the container of an attempt.
pub(crate) fn file_name(mark: &str) -> String {
    format!("{}{FILE_SUFFIX}", mark.replace('/', "-"))
}

/// Ends the containers that an executor left which was killed. Their files are in `dir`.
pub(crate) fn end_left(dir: &Path) {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    let notes = files.filter(|file| file.file_name().to_string_lossy().ends_with(FILE_SUFFIX));
    let mut by_engine: std::collections::BTreeMap<String, Vec<String>> = std::collections::BTreeMap::new();
    for text in notes.filter_map(|file| fs::read_to_string(file.path()).ok()) {
        let mut lines = text.lines();
        if let (Some(engine), Some(name)) = (lines.next(), lines.next()) {
            by_engine.entry(engine.to_owned()).or_default().push(name.to_owned());
        }
    }
    for (engine, names) in by_engine {
        tracing::warn!(%engine, containers = ?names, "containers of the previous server were left and are removed");
        let mut remove = Command::new(engine);
        remove
            .args(["rm", "-f"])
            .args(&names)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = remove.spawn() else { continue };
        let deadline = Instant::now() + REMOVAL_TIME_MAX;
        while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
            #[allow(clippy::disallowed_methods)] // nobody tells when a container is gone
            std::thread::sleep(Duration::from_millis(20));
        }
        // No more than a child that is over, when it was in time.
        let _ = child.kill();
        let _ = child.wait();
    }
}
