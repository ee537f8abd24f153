use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::guard::Guard;
use crate::program;

/// A database server for the tests, in a directory of its own, on loopback. A [`Guard`] stops it, so it never outlives
/// the tests.
pub(crate) struct Database {
    url: String,
    guard: Guard,
}

/// Which server.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    name: &'static str,
    /// `start DIR` prints a URL, `stop DIR` stops what was started there. It installs Debian's package when it is missing.
    script: &'static str,
    /// What its URL begins with.
    scheme: &'static str,
    /// What to do without one.
    help: &'static str,
}

pub(crate) const POSTGRES: Kind = Kind {
    name: "PostgreSQL",
    script: "scripts/postgres.sh",
    scheme: "postgres",
    help: "Set CADRAN_TEST_POSTGRES to use a server of yours, or go without: --quick",
};

pub(crate) const MARIADB: Kind = Kind {
    name: "MariaDB",
    script: "scripts/mariadb.sh",
    scheme: "mysql",
    help: "Set CADRAN_TEST_MYSQL to use a server of yours, or go without: CADRAN_SKIP_MYSQL=1",
};

/// A server that never came up has nothing to stop; its directory goes too.
pub(crate) const STOP: &str = "\"$1\" stop \"$2\" >&2; stopped=$?\nrm -rf -- \"$2\"\nexit $stopped";

impl Database {
    pub(crate) fn start(kind: Kind) -> Result<Database, String> {
        let dir = std::env::temp_dir().join(format!("cadran-test-{}-{}", kind.scheme, std::process::id()));
        Database::start_with(kind, Path::new(kind.script), dir)
    }

    fn start_with(kind: Kind, script: &Path, dir: PathBuf) -> Result<Database, String> {
        make_dir(&dir)?;
        // Before the server starts: an interrupt may come while it does.
        let guard = Guard::post(STOP, &[script.as_os_str(), dir.as_os_str()])?;
        let started = program::read(Command::new(script).arg("start").arg(&dir));
        let url = started.and_then(|text| {
            last_url(&text, kind.scheme)
                .ok_or_else(|| format!("{} printed no URL: {text:?}", script.display()))
        });
        match url {
            Ok(url) => {
                println!("{}: started at {url}", kind.name);
                Ok(Database { url, guard })
            }
            Err(why) => {
                let _ = guard.call();
                Err(format!("{why}. {}", kind.help))
            }
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn stop(self) -> Result<(), String> {
        self.guard.call().map_err(|why| format!("the database at {} does not stop: {why}", self.url))
    }
}

/// The server runs as another user when we are root: that user must be able to pass through.
pub(crate) fn make_dir(dir: &Path) -> Result<(), String> {
    let made = fs::create_dir(dir).and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)));
    made.map_err(|error| format!("cannot make {}: {error}", dir.display()))
}

fn last_url(text: &str, scheme: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| line.starts_with(scheme)).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_the_last_line_that_looks_like_one() {
        let check =
            |text, expected: Option<&str>| assert_eq!(last_url(text, "postgres").as_deref(), expected);
        check("postgres://u@127.0.0.1:1/db\n", Some("postgres://u@127.0.0.1:1/db"));
        check("starting\npostgresql://h/db\n\n", Some("postgresql://h/db"));
        check("", None);
        check("cannot start", None);
    }

    #[test]
    fn what_was_started_is_stopped_and_leaves_nothing() {
        let base = std::env::temp_dir().join(format!("cadran-xtask-database-{}", std::process::id()));
        fs::create_dir(&base).unwrap();
        let script = base.join("script");
        let play = |start: &str| {
            let text =
                format!("#!/bin/sh\necho $1 >> {}/log\n[ $1 = stop ] || {{ {start}; }}\n", base.display());
            // Written by another process: a test beside this one that forks while we hold the file open for writing
            // would keep it busy, and a busy file cannot be executed.
            let write = "printf %s \"$2\" > \"$1\" && chmod +x \"$1\"";
            let mut shell = Command::new("sh");
            shell.args(["-c", write, "sh"]).arg(&script).arg(text);
            assert!(shell.status().unwrap().success());
            let _ = fs::remove_file(base.join("log"));
            let url = Database::start_with(POSTGRES, &script, base.join("data")).map(|database| {
                let url = database.url().to_string();
                database.stop().unwrap();
                url
            });
            assert!(!base.join("data").exists());
            assert_eq!(fs::read_to_string(base.join("log")).unwrap(), "start\nstop\n");
            url
        };
        assert_eq!(play("echo postgres://there").as_deref(), Ok("postgres://there"));
        assert!(play("echo hello").is_err());
        assert!(play("exit 1").is_err());
        fs::remove_dir_all(&base).unwrap();
    }
}
