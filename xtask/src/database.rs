use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::program::{self, is_there, program};

/// A PostgreSQL server for the tests, in a directory of its own, on loopback.
///
/// It is stopped by a guard: a small shell in a process group of its own that waits for the end of our pipe to it.
/// The pipe ends when we stop the server, and just as well when we panic, are interrupted or killed. So a server
/// never outlives the tests, and no signal handler is needed for it.
pub(crate) struct Database {
    url: String,
    guard: Child,
}

const SCRIPT: &str = "scripts/postgres.sh";

impl Database {
    pub(crate) fn start() -> Result<Database, String> {
        install()?;
        let dir = std::env::temp_dir().join(format!("cadran-test-postgres-{}", std::process::id()));
        make_dir(&dir)?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", SCRIPT])
            .arg(&dir)
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a shell: {error}"))?;
        let mut database = Database { url: String::new(), guard };
        let started = program::read(Command::new(SCRIPT).arg("start").arg(&dir));
        let url =
            started.and_then(|text| last_url(&text).ok_or(format!("{SCRIPT} printed no URL: {text:?}")));
        match url {
            Ok(url) => {
                println!("PostgreSQL: started at {url}");
                database.url = url;
                Ok(database)
            }
            Err(why) => {
                let _ = database.stop();
                Err(format!(
                    "{why}. Set CADRAN_TEST_POSTGRES to use a server of yours, or go without: --quick"
                ))
            }
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn stop(mut self) -> Result<(), String> {
        // Waiting closes the pipe first, which is what the guard waits for.
        match self.guard.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{SCRIPT} stop: {status}")),
            Err(error) => Err(format!("{SCRIPT} stop: {error}")),
        }
    }
}

/// `$1` is the script, `$2` the directory. A server that never came up has nothing to stop; its directory goes too.
const GUARD: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
"$1" stop "$2" >&2; stopped=$?
rm -rf -- "$2"
exit $stopped
"#;

/// Installs Debian's package when no PostgreSQL is there, and says so.
fn install() -> Result<(), String> {
    if is_installed(Path::new("/usr/lib/postgresql")) || is_there("initdb --version") {
        return Ok(());
    }
    if !is_there("apt-get --version") {
        let todo = "install it, set CADRAN_TEST_POSTGRES to the URL of a server, or go without: --quick";
        return Err(format!(
            "PostgreSQL is not installed, and there is no apt-get to install it with; {todo}"
        ));
    }
    let root = program::read(&mut program("id -u"))?.trim() == "0";
    let sudo = if root { "" } else { "sudo " };
    println!(
        "PostgreSQL is not installed: installing Debian's package, {}",
        if root { "as root" } else { "with sudo" }
    );
    let apt = |arguments: &str| {
        let mut command = program(&format!("{sudo}env DEBIAN_FRONTEND=noninteractive apt-get {arguments}"));
        program::run(&mut command)
    };
    apt("update -qq")?;
    apt("install -y -qq --no-install-recommends postgresql")
}

/// Debian keeps the server's programs outside the path, by major version.
fn is_installed(versions: &Path) -> bool {
    let Ok(entries) = fs::read_dir(versions) else {
        return false;
    };
    entries.flatten().any(|entry| entry.path().join("bin/initdb").exists())
}

/// The server runs as another user when we are root: that user must be able to pass through.
fn make_dir(dir: &PathBuf) -> Result<(), String> {
    let made = fs::create_dir(dir).and_then(|()| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)));
    made.map_err(|error| format!("cannot make {}: {error}", dir.display()))
}

fn last_url(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| line.starts_with("postgres")).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_is_the_last_line_that_looks_like_one() {
        let check = |text, expected: Option<&str>| assert_eq!(last_url(text).as_deref(), expected);
        check("postgres://u@127.0.0.1:1/db\n", Some("postgres://u@127.0.0.1:1/db"));
        check("starting\npostgresql://h/db\n\n", Some("postgresql://h/db"));
        check("", None);
        check("cannot start", None);
    }

    #[test]
    fn an_installation_has_initdb() {
        assert!(!is_installed(Path::new("/nowhere/at/all")));
        assert!(!is_installed(Path::new(env!("CARGO_MANIFEST_DIR"))));
    }
}
