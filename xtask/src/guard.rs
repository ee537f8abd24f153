use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// Does something once we are gone, however we go.
///
/// A guard is a small shell in a process group of its own that waits for the end of our pipe to it. The pipe ends when
/// we call it off or on, and just as well when we panic, are interrupted or killed. So what we started never outlives
/// us, and no signal handler is needed for that.
pub(crate) struct Guard {
    shell: Child,
}

impl Guard {
    /// `deed` is shell text in which `$1`, `$2`… are the arguments.
    pub(crate) fn post(deed: &str, arguments: &[&OsStr]) -> Result<Guard, String> {
        let script =
            format!("trap '' INT TERM HUP\nread -r word\n[ \"$word\" = dismissed ] && exit 0\n{deed}");
        let shell = Command::new("sh")
            .args(["-c", &script, "guard"])
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a shell: {error}"))?;
        Ok(Guard { shell })
    }

    /// There is nothing left to do.
    pub(crate) fn dismiss(mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            let _ = pipe.write_all(b"dismissed\n");
        }
        let _ = self.shell.wait();
    }

    /// Does the deed now.
    pub(crate) fn call(mut self) -> Result<(), String> {
        // Waiting closes the pipe first, which is what the guard waits for.
        match self.shell.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_guard_acts_unless_it_is_dismissed() {
        let path = std::env::temp_dir().join(format!("cadran-xtask-guard-{}", std::process::id()));
        let post = || Guard::post("echo done > \"$1\"", &[path.as_os_str()]).unwrap();
        post().dismiss();
        assert!(!path.exists());
        post().call().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "done\n");
        fs::remove_file(&path).unwrap();
        assert!(Guard::post("exit 3", &[]).unwrap().call().is_err());
    }

    #[test]
    fn a_guard_acts_when_its_owner_is_killed() {
        let path = std::env::temp_dir().join(format!("cadran-xtask-killed-{}", std::process::id()));
        // The owner: a shell that holds the guard's pipe, as we would, until it is killed.
        let owner = "exec 3>&1 >/dev/null; kill -s KILL $$";
        let mut guard = Guard::post("echo done > \"$1\"", &[path.as_os_str()]).unwrap();
        let pipe = guard.shell.stdin.take().unwrap();
        let mut owner = Command::new("sh").args(["-c", owner]).stdout(pipe).spawn().unwrap();
        assert!(!owner.wait().unwrap().success());
        assert!(guard.shell.wait().unwrap().success());
        assert_eq!(fs::read_to_string(&path).unwrap(), "done\n");
        fs::remove_file(&path).unwrap();
    }
}
