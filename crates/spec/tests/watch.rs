//! A watched folder. Every test waits for what it expects to hear, never for a time.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use cadran_spec::{Change, Folder, ReadOptions, Scan, WatchHandle, WatchOptions, watch};
use tempfile::TempDir;

/// Far longer than any of this takes; reached only when something is lost.
const TIMEOUT: Duration = Duration::from_secs(120);

struct Watched {
    handle: Option<WatchHandle>,
    heard: Receiver<Scan>,
    /// The jobs as somebody who only listens knows them: name and command.
    jobs: BTreeMap<String, String>,
    last: Option<Scan>,
}

impl Watched {
    fn new(root: &Path, options: WatchOptions) -> Watched {
        let (tell, heard) = mpsc::channel();
        let folder = Folder::new(root, ReadOptions::default());
        let handle = watch(folder, options, move |scan| drop(tell.send(scan))).unwrap();
        Watched { handle: Some(handle), heard, jobs: BTreeMap::new(), last: None }
    }

    /// Listens until the jobs and the last look are as expected.
    #[track_caller]
    fn until(&mut self, what: &str, expected: impl Fn(&BTreeMap<String, String>, &Scan) -> bool) {
        while !self.last.as_ref().is_some_and(|last| expected(&self.jobs, last)) {
            let Ok(scan) = self.heard.recv_timeout(TIMEOUT) else {
                panic!(
                    "never heard: {what}\n{} jobs, last {:?}",
                    self.jobs.len(),
                    self.last.as_ref().map(|l| &l.diagnostics)
                );
            };
            for change in &scan.changes {
                match change {
                    Change::Put { job, .. } => {
                        let cadran_core::Work::Shell(line) = &job.body.steps[0].work else { panic!() };
                        self.jobs.insert(job.name.to_string(), line.clone());
                    }
                    Change::Remove { name } => {
                        assert!(self.jobs.remove(name.as_str()).is_some(), "{name} was never put");
                    }
                }
            }
            self.last = Some(scan);
        }
    }

    #[track_caller]
    fn until_jobs(&mut self, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(name, line)| (name.to_string(), line.to_string())).collect();
        self.until(&format!("{expected:?}"), |jobs, _| *jobs == expected);
    }
}

/// Hints only: what is heard was not found by the safety net.
fn hints() -> WatchOptions {
    WatchOptions { rescan_every: Duration::from_secs(3600), ..WatchOptions::default() }
}

fn write(root: &Path, source: &str, line: &str) {
    fs::write(root.join(source), format!("run: {line}\n")).unwrap();
}

#[test]
fn create_edit_rename_delete_and_delete_with_recreate() {
    let root = TempDir::new().unwrap();
    let path = root.path();
    write(path, "a.yaml", "one");
    let mut watched = Watched::new(path, hints());
    watched.until_jobs(&[("a", "one")]);
    write(path, "b.yaml", "two");
    watched.until_jobs(&[("a", "one"), ("b", "two")]);
    write(path, "a.yaml", "three");
    watched.until_jobs(&[("a", "three"), ("b", "two")]);
    fs::rename(path.join("a.yaml"), path.join("c.yaml")).unwrap();
    watched.until_jobs(&[("b", "two"), ("c", "three")]);
    fs::remove_file(path.join("b.yaml")).unwrap();
    watched.until_jobs(&[("c", "three")]);
    // An editor that deletes and writes anew.
    fs::remove_file(path.join("c.yaml")).unwrap();
    write(path, "c.yaml", "four");
    watched.until_jobs(&[("c", "four")]);
    // An editor that writes beside and renames.
    write(path, ".c.yaml.tmp", "five");
    fs::rename(path.join(".c.yaml.tmp"), path.join("c.yaml")).unwrap();
    watched.until_jobs(&[("c", "five")]);
    assert!(!watched.handle.as_ref().unwrap().is_finished());
    assert_eq!(watched.last.as_ref().unwrap().polling, None);
    // Dropped: it ends, and with it the listening.
    drop(watched.handle.take());
    assert!(watched.heard.iter().next().is_none());
}

#[test]
fn directories_that_come_filled_and_go() {
    let root = TempDir::new().unwrap();
    let path = root.path();
    let mut watched = Watched::new(path, hints());
    watched.until("the first look", |jobs, _| jobs.is_empty());
    fs::create_dir_all(path.join("x/y/z")).unwrap();
    write(path, "x/y/z/deep.yaml", "deep");
    write(path, "x/flat.yaml", "flat");
    watched.until_jobs(&[("deep", "deep"), ("flat", "flat")]);
    write(path, "x/y/z/deep.yaml", "deeper");
    watched.until_jobs(&[("deep", "deeper"), ("flat", "flat")]);
    fs::rename(path.join("x/y"), path.join("moved")).unwrap();
    write(path, "moved/z/deep.yaml", "moved");
    watched.until_jobs(&[("deep", "moved"), ("flat", "flat")]);
    fs::remove_dir_all(path.join("x")).unwrap();
    watched.until_jobs(&[("deep", "moved")]);
}

#[test]
fn a_bulk_copy_of_ten_thousand_files_is_complete() {
    let root = TempDir::new().unwrap();
    let path = root.path().to_owned();
    let mut watched = Watched::new(&path, hints());
    watched.until("the first look", |jobs, _| jobs.is_empty());
    let copier = std::thread::Builder::new()
        .spawn({
            let path = path.clone();
            move || {
                for at in 0..10_000 {
                    if at % 1_000 == 0 {
                        fs::create_dir(path.join(format!("d{}", at / 1_000))).unwrap();
                    }
                    write(&path, &format!("d{}/j{at}.yaml", at / 1_000), "x");
                }
            }
        })
        .unwrap();
    watched.until("10,000 jobs", |jobs, _| jobs.len() == 10_000);
    copier.join().unwrap();
    fs::remove_dir_all(path.join("d3")).unwrap();
    watched.until("9,000 jobs", |jobs, _| jobs.len() == 9_000);
    assert!(watched.last.unwrap().diagnostics.is_empty());
}

#[test]
fn the_folder_vanishes_and_comes_back() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("jobs");
    fs::create_dir(&path).unwrap();
    write(&path, "a.yaml", "one");
    let mut watched = Watched::new(&path, hints());
    watched.until_jobs(&[("a", "one")]);
    fs::remove_dir_all(&path).unwrap();
    // A look may still see the directory without its file; the job is kept only if the directory went first.
    watched.until("the folder is gone", |_, scan| scan.diagnostics.iter().any(|file| file.source.is_empty()));
    fs::create_dir(&path).unwrap();
    write(&path, "b.yaml", "two");
    watched.until_jobs(&[("b", "two")]);
    // The new directory is watched like the old one.
    write(&path, "b.yaml", "three");
    watched.until_jobs(&[("b", "three")]);
}

#[test]
fn a_bad_file_is_reported_and_forgotten_when_it_is_good() {
    let root = TempDir::new().unwrap();
    let mut watched = Watched::new(root.path(), hints());
    watched.until("the first look", |_, scan| scan.files == 0);
    // Nothing tells the watch when the second is over in which the file may be half written.
    fs::write(root.path().join("a.yaml"), "runn: x\n").unwrap();
    watched.until("the error", |_, scan| scan.diagnostics.len() == 1);
    write(root.path(), "a.yaml", "x");
    watched.until("no error", |jobs, scan| jobs.len() == 1 && scan.diagnostics.is_empty());
}

#[test]
fn without_hints_the_folder_is_polled() {
    let root = TempDir::new().unwrap();
    let options =
        WatchOptions { events: false, poll_every: Duration::from_millis(20), ..WatchOptions::default() };
    let mut watched = Watched::new(root.path(), options);
    watched.until("it says so", |_, scan| scan.polling.is_some());
    write(root.path(), "a.yaml", "x");
    watched.until_jobs(&[("a", "x")]);
}

#[test]
fn a_look_can_be_asked_for() {
    let root = TempDir::new().unwrap();
    let hour = Duration::from_secs(3600);
    let options =
        WatchOptions { events: false, poll_every: hour, rescan_every: hour, ..WatchOptions::default() };
    let mut watched = Watched::new(root.path(), options);
    watched.until("the first look", |_, scan| scan.files == 0);
    write(root.path(), "a.yaml", "x");
    watched.handle.as_ref().unwrap().rescan();
    watched.until_jobs(&[("a", "x")]);
}

#[test]
fn whoever_asks_for_a_look_knows_when_it_is_over() {
    let root = TempDir::new().unwrap();
    // Neither hints nor looks of its own: what is heard was asked for.
    let never = Duration::from_secs(3600);
    let options = WatchOptions { events: false, poll_every: never, ..hints() };
    let mut watched = Watched::new(root.path(), options);
    watched.until_jobs(&[]);
    let caller = watched.handle.as_ref().unwrap().caller();
    for line in ["one", "two"] {
        write(root.path(), "a.yaml", line);
        assert!(caller.scan_now(TIMEOUT));
        // It was told before the answer came.
        let scan = watched.heard.try_recv().expect("a look that found something");
        assert_eq!(scan.changes.len(), 1, "{line}");
    }
    fs::remove_file(root.path().join("a.yaml")).unwrap();
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let caller = caller.clone();
            #[allow(clippy::disallowed_methods)] // a test's own thread
            std::thread::spawn(move || caller.scan_now(TIMEOUT))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().unwrap()));
    assert!(matches!(watched.heard.try_recv().unwrap().changes[..], [Change::Remove { .. }]));
    watched.handle = None;
    assert!(!caller.scan_now(TIMEOUT), "nobody looks any more");
}
