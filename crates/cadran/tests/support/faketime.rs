//! A wall clock that belongs to the test. The monotonic clock stays true, as it does when a machine's clock is set.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::Home;

pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// A true clock, for now. `None` when tests of clock jumps are left out on purpose.
    pub fn new(home: &Home) -> Option<Clock> {
        let library = library()?;
        let clock = Clock { library, file: home.path("clock") };
        clock.set("+0");
        Some(clock)
    }

    /// Puts a server under this clock. What its jobs start sees the true one: their files empty `LD_PRELOAD`.
    pub fn rule(&self, mut command: Command) -> Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("FAKETIME_TIMESTAMP_FILE", &self.file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("TZ", "UTC");
        command
    }

    /// `+3600` and `-3600` are seconds off, `+0 x3600` is a rate that stays until another is given, and
    /// `2026-11-15 12:00:00` stands still.
    pub fn set(&self, text: &str) {
        let half = self.file.with_extension("new");
        fs::write(&half, format!("{text}\n")).expect("a file can be written");
        fs::rename(&half, &self.file).expect("a file can be renamed");
    }
}

fn library() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("CADRAN_TEST_FAKETIME").filter(|path| !path.is_empty()) {
        return Some(path.into());
    }
    if std::env::var("CADRAN_SKIP_FAKETIME").is_ok_and(|skip| skip == "1") {
        eprintln!("passed over: CADRAN_SKIP_FAKETIME=1");
        return None;
    }
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut paths = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    let found = paths.find(|path| path.exists());
    Some(found.expect(
        "libfaketime is not installed, so there is no clock to jump with: run `cargo xtask test`, which installs \
         Debian's package (scripts/faketime.sh), or set CADRAN_SKIP_FAKETIME=1 to leave these tests out",
    ))
}
