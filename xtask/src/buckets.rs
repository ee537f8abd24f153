use std::path::{Path, PathBuf};
use std::process::Command;

use crate::database::{STOP, make_dir};
use crate::guard::Guard;
use crate::program;

/// S3 servers for the tests, in a directory of their own, on loopback: one that keeps the conditions of conditional
/// puts and one that ignores them. A [`Guard`] stops them, so they never outlive the tests.
pub(crate) struct Buckets {
    variables: Vec<(String, String)>,
    guard: Guard,
}

/// `start DIR` prints variables with addresses, `stop DIR` stops what was started there. It installs the servers when
/// they are missing.
const SCRIPT: &str = "scripts/seaweedfs.sh";

impl Buckets {
    pub(crate) fn start() -> Result<Buckets, String> {
        let dir = std::env::temp_dir().join(format!("cadran-test-s3-{}", std::process::id()));
        Buckets::start_with(Path::new(SCRIPT), dir)
    }

    fn start_with(script: &Path, dir: PathBuf) -> Result<Buckets, String> {
        make_dir(&dir)?;
        // Before the servers start: an interrupt may come while they do.
        let guard = Guard::post(STOP, &[script.as_os_str(), dir.as_os_str()])?;
        let started = program::read(Command::new(script).arg("start").arg(&dir));
        let variables = started.and_then(|text| {
            let variables = variables(&text);
            if variables.is_empty() {
                Err(format!("{} printed no address", script.display()))
            } else {
                Ok(variables)
            }
        });
        match variables {
            Ok(variables) => {
                println!("S3: started");
                Ok(Buckets { variables, guard })
            }
            Err(why) => {
                let _ = guard.call();
                Err(format!(
                    "{why}. Set CADRAN_TEST_S3 to use a server of yours, or go without: CADRAN_SKIP_S3=1"
                ))
            }
        }
    }

    /// Where tests look for them.
    pub(crate) fn variables(&self) -> &[(String, String)] {
        &self.variables
    }

    pub(crate) fn stop(self) -> Result<(), String> {
        self.guard.call().map_err(|why| format!("{SCRIPT} stop: {why}"))
    }
}

fn variables(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter_map(|line| line.trim().split_once('='));
    lines
        .filter(|(name, _)| name.starts_with("CADRAN_"))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_lines_that_look_like_them() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> =
                expected.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            assert_eq!(variables(text), pairs, "{text}");
        };
        check("", &[]);
        check("starting\nA=b\n", &[]);
        check("CADRAN_TEST_S3=http://k:s@h:1/b?x=y\n", &[("CADRAN_TEST_S3", "http://k:s@h:1/b?x=y")]);
        check(" CADRAN_A=1\nCADRAN_B=\n", &[("CADRAN_A", "1"), ("CADRAN_B", "")]);
    }
}
