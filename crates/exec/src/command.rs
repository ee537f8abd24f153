use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cadran_core::{Body, Start, Step, Work};
use nix::unistd::{AccessFlags, access};

use crate::LocalOptions;
use crate::container;
use crate::environment::Environment;
use crate::http_order::HttpOrder;

/// A script on disk while it runs.
#[derive(Debug)]
pub(crate) struct Script(PathBuf);

impl Drop for Script {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "a script could not be removed");
        }
    }
}

/// The program that makes requests is this one, also when its file was replaced since it was started.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The command of a step, ready but for its input and output, and what must outlive it or be ended with it.
pub(crate) struct Prepared {
    pub(crate) command: Command,
    pub(crate) script: Option<Script>,
    pub(crate) container: Option<container::Running>,
}

/// The command of a step. `mark` names the attempt.
pub(crate) fn of_step(
    start: &Start,
    step: &Step,
    env: &Environment,
    dir: &Path,
    options: &LocalOptions,
    mark: &str,
) -> Result<Prepared, String> {
    let body = &*start.context.body;
    let script_path = || options.scripts().join(mark.replace('/', "-"));
    let (mut is_ours, mut container) = (false, None);
    let (argv, script) = match &step.work {
        Work::Shell(text) => (shell_argv(body, step, text, env)?, None),
        Work::Program(words) => {
            (words.iter().map(|word| env.try_expand(word)).collect::<Result<_, _>>()?, None)
        }
        Work::Script(text) => {
            let path = script_path();
            let script = write_script(&path, text)
                .map_err(|error| format!("cannot write the script to {}: {error}", path.display()))?;
            let file = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            let mut argv = interpreter(text).unwrap_or_else(|| shell(body, step));
            argv.push(file.into());
            argv.extend_from_slice(env.positional());
            (argv, Some(script))
        }
        Work::Http(request) => {
            let path = script_path();
            let order = HttpOrder::of(request, step, env, &options.http_allow);
            let script = write_script(&path, &order.text())
                .map_err(|error| format!("cannot write the request to {}: {error}", path.display()))?;
            let file = path.to_str().ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
            is_ours = true;
            (vec![OWN_PROGRAM.into(), "http-step".into(), file.into()], Some(script))
        }
        Work::Container(found) => {
            let (argv, running) =
                container::command_line((body, step, found), start, env, &options.base_env, dir)?;
            let path = options.scripts().join(container::file_name(mark));
            let note = write_script(&path, &running.note())
                .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            container = Some(running);
            (argv, Some(note))
        }
        Work::Job(_) => return Err("a step that calls a job is carried out by the server".into()),
        Work::Handler(_) | Work::Glue(..) => {
            return Err("only an executor of a group can run this; name one with `executor`".into());
        }
    };
    let mut command = prepare(&argv, env, dir)?;
    if is_ours {
        command.arg0("cadran");
    }
    Ok(Prepared { command, script, container })
}

/// A command line for the shell of a step, as a precondition is one.
pub(crate) fn of_shell(
    body: &Body,
    step: &Step,
    text: &str,
    env: &Environment,
    dir: &Path,
) -> Result<Command, String> {
    prepare(&shell_argv(body, step, text, env)?, env, dir)
}

/// The directory a step runs in, checked, since the system's own message would not say which path is missing.
pub(crate) fn dir_of_step(
    body: &Body,
    step: &Step,
    env: &Environment,
    base: &Path,
) -> Result<PathBuf, String> {
    let job_dir = body.dir.as_deref().map(|dir| env.path("dir", dir, base)).transpose()?;
    let dir = match (&step.dir, job_dir) {
        (Some(dir), job_dir) => env.path("dir", dir, job_dir.as_deref().unwrap_or(base))?,
        (None, Some(job_dir)) => job_dir,
        (None, None) => base.to_path_buf(),
    };
    if body.create_dir
        && let Err(error) = fs::create_dir_all(&dir)
    {
        return Err(format!("the working directory {} cannot be made: {error}", dir.display()));
    }
    match fs::metadata(&dir) {
        Ok(meta) if meta.is_dir() => Ok(dir),
        Ok(_) => Err(format!("the working directory {} is not a directory", dir.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("the working directory {} does not exist; create it or correct `dir`", dir.display()))
        }
        Err(error) => Err(format!("the working directory {} cannot be used: {error}", dir.display())),
    }
}

/// A sentence for a spawn that failed.
pub(crate) fn spawn_failure(command: &Command, error: &io::Error) -> String {
    let program = Path::new(command.get_program()).display().to_string();
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => format!(
            "cannot start {program}: its parameters, outputs and environment are too large for the system \
             (one value has at most 128 KiB); pass large data in a file"
        ),
        io::ErrorKind::NotFound => format!(
            "cannot start {program}: {error}; if it is a script, its #! line may name an interpreter that is not there"
        ),
        io::ErrorKind::InvalidInput => {
            format!("cannot start {program}: an argument or variable has a NUL byte in it")
        }
        _ => format!("cannot start {program}: {error}"),
    }
}

fn shell(body: &Body, step: &Step) -> Vec<String> {
    match step.shell.as_ref().or(body.shell.as_ref()) {
        Some(words) if !words.is_empty() => words.clone(),
        _ => vec!["/bin/sh".into()],
    }
}

/// `shell -c text name args…`: the text is handed over as it is written, nothing is put into it.
pub(crate) fn shell_argv(
    body: &Body,
    step: &Step,
    text: &str,
    env: &Environment,
) -> Result<Vec<String>, String> {
    if text.contains('\0') {
        return Err("the command has a NUL byte in it".into());
    }
    let mut argv = shell(body, step);
    if argv.last().is_none_or(|last| last != "-c") {
        argv.push("-c".into());
    }
    argv.push(text.into());
    argv.push(step.name.clone());
    argv.extend_from_slice(env.positional());
    Ok(argv)
}

/// The words of a `#!` line, as the kernel splits them: a path and at most one argument.
///
/// We start the interpreter ourselves. To execute a file that was just written can fail with "text file busy" when
/// another thread spawns at the same moment and its child still holds our handle; and the data directory may be
/// mounted `noexec`.
fn interpreter(text: &str) -> Option<Vec<String>> {
    let line = text.strip_prefix("#!")?.lines().next()?.trim();
    let mut words =
        line.splitn(2, [' ', '\t']).map(|word| word.trim().to_owned()).filter(|word| !word.is_empty());
    let program = words.next()?;
    Some(std::iter::once(program).chain(words).collect())
}

fn write_script(path: &Path, text: &str) -> io::Result<Script> {
    let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(0o700).open(path);
    let mut file = match (open(), path.parent()) {
        (Err(error), Some(dir)) if error.kind() == io::ErrorKind::NotFound => {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            open()?
        }
        (other, _) => other?,
    };
    let script = Script(path.to_path_buf());
    file.write_all(text.as_bytes())?;
    Ok(script)
}

/// In its own process group, with our environment only. Deliberately without `pre_exec`, users or groups: any of
/// them would make the standard library fork the whole server instead of calling posix_spawn.
pub(crate) fn prepare(argv: &[String], env: &Environment, dir: &Path) -> Result<Command, String> {
    let Some((program, args)) = argv.split_first() else {
        return Err("the step has no command; give it `run` or `script`".into());
    };
    let mut command = Command::new(resolve(program, env, dir)?);
    command.arg0(program).args(args).current_dir(dir).env_clear().envs(env.vars()).process_group(0);
    Ok(command)
}

/// The file a program name stands for in the *step's* PATH, seen from the step's directory.
pub(crate) fn resolve(program: &str, env: &Environment, dir: &Path) -> Result<OsString, String> {
    if program.is_empty() {
        return Err("the step's command is empty; a `${NAME}` in it may have no value".into());
    }
    if program.contains('/') {
        let path = dir.join(program);
        return match access(&path, AccessFlags::X_OK) {
            Ok(()) if path.is_dir() => Err(format!("{} is a directory, not a program", path.display())),
            Ok(()) => Ok(path.into()),
            Err(_) if path.exists() => {
                Err(format!("{} may not be executed; check its permissions (chmod +x)", path.display()))
            }
            Err(_) => Err(format!("the program {} does not exist", path.display())),
        };
    }
    let search = env.get("PATH").unwrap_or_default();
    let found = std::env::split_paths(search)
        .map(|entry| dir.join(entry).join(program))
        .find(|path| access(path, AccessFlags::X_OK).is_ok() && path.is_file());
    found.map(Into::into).ok_or_else(|| format!("the program {program} was not found in PATH ({search})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_shebang_lines_as_the_kernel_does() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let expected =
                expected.map(|words| words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            assert_eq!(interpreter(text), expected, "{text:?}");
        };
        check("echo", None);
        check("", None);
        check("#!", None);
        check("#!/bin/sh", Some(&["/bin/sh"]));
        check("#! /bin/sh -eu\nx", Some(&["/bin/sh", "-eu"]));
        check("#!/usr/bin/env -S a b\n", Some(&["/usr/bin/env", "-S a b"]));
        check(" #!/bin/sh", None);
    }
}
