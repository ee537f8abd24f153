//! A directory tree of job files, and what changed in it since the last look.

mod calls;
mod file_stamp;
mod resources_file;
mod walk;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadran_core::{Job, JobName, Millis};

use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::read::{Parsed, ReadOptions, Reader};
use crate::suggest::nearest;
use crate::tree::FILE_BYTES_MAX;
use file_stamp::{Mark, Stat};
use resources_file::ResourcesFile;
use walk::TreeScan;

pub use calls::problems as call_problems;
pub use walk::FILES_MAX;
pub use watch::{Caller, WatchHandle, WatchOptions, watch};

/// A file that was written so recently may not be complete: an error in it is looked at again before it is reported.
pub(crate) const HALF_WRITTEN_MS: Millis = 1_000;
/// Time stamps of files advance in steps: two writes within this time may look like one, so such a file is read again.
const STEADY_MS: Millis = 2_000;

/// A change of the jobs in a folder.
#[derive(Clone, Debug)]
pub enum Change {
    /// A job that is new, or whose file changed. The definition may be the same as before: then only the mark is new.
    Put {
        /// The job.
        job: Job,
        /// The job for the store.
        definition: Arc<str>,
        /// The file, relative to the folder.
        source: Arc<str>,
        /// What the file looked like, for [`Folder::known`] after a restart.
        source_mark: Arc<str>,
    },
    /// A job whose file is gone, or says another name now.
    Remove {
        /// Its name.
        name: JobName,
    },
}

/// What is wrong with one file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiagnostics {
    /// The file, relative to the folder; empty for the folder itself.
    pub source: Arc<str>,
    /// The job that stays as it was last read although the file is bad now.
    pub kept: Option<JobName>,
    /// What is wrong; never empty.
    pub diagnostics: Arc<[Diagnostic]>,
}

/// What one look at a folder found.
#[derive(Clone, Debug)]
pub struct Scan {
    /// What changed since the look before: removals first, then puts in the order of their files.
    pub changes: Vec<Change>,
    /// Everything that is wrong now, in the order of the files.
    pub diagnostics: Arc<[FileDiagnostics]>,
    /// Whether that list differs from the one before.
    pub diagnostics_changed: bool,
    /// How many job files there are.
    pub files: usize,
    /// How many files were so fresh that an error in them is looked at again before it is reported: look again soon.
    pub unsettled: usize,
    /// Whether there are directories that were not there before.
    pub new_directories: bool,
    /// Why changes are only looked for from time to time, when they are.
    pub polling: Option<String>,
}

/// A directory tree of job files and what is known about it.
///
/// A file that becomes bad keeps its last good job in place; a directory that cannot be read keeps all of its jobs.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    reader: Reader,
    files: BTreeMap<Arc<str>, FileState>,
    /// Which files give a job of this name, in order: the first one is it.
    claims: BTreeMap<JobName, BTreeSet<Arc<str>>>,
    /// Which file each job was last put from.
    owners: BTreeMap<JobName, Arc<str>>,
    /// The children of jobs that have some.
    children: BTreeMap<JobName, Vec<JobName>>,
    /// The jobs that the steps of jobs call.
    calls: BTreeMap<JobName, Vec<JobName>>,
    directories: BTreeSet<Arc<str>>,
    diagnostics: Arc<[FileDiagnostics]>,
    shared: ResourcesFile,
}

/// What is known about one file.
#[derive(Debug, Default)]
struct FileState {
    /// What it looked like when it was last judged.
    mark: Option<Mark>,
    /// Whether the mark can be trusted without reading the file.
    steady: bool,
    /// The name of its last good job.
    name: Option<JobName>,
    /// What is wrong with it.
    found: Arc<[Diagnostic]>,
}

impl FileState {
    fn is_bad(&self) -> bool {
        self.found.iter().any(|found| found.severity == Severity::Error)
    }
}

impl Folder {
    /// A folder about which nothing is known yet.
    pub fn new(root: impl Into<PathBuf>, options: ReadOptions) -> Folder {
        Folder {
            root: root.into(),
            reader: Reader::new(options),
            files: BTreeMap::new(),
            claims: BTreeMap::new(),
            owners: BTreeMap::new(),
            children: BTreeMap::new(),
            calls: BTreeMap::new(),
            directories: BTreeSet::new(),
            diagnostics: Arc::new([]),
            shared: ResourcesFile::default(),
        }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Tells what the store knows, (source, source_mark, name): files that still look like that are not read again,
    /// and jobs whose files are gone are reported as removed. Rows without a source are not from files.
    pub fn known<S: AsRef<str>, M: AsRef<str>>(&mut self, rows: impl IntoIterator<Item = (S, M, JobName)>) {
        for (source, mark, name) in rows {
            if source.as_ref().is_empty() {
                continue;
            }
            let source: Arc<str> = source.as_ref().into();
            let mark = Mark::from_text(mark.as_ref(), self.zone());
            let state = FileState { mark, steady: true, name: Some(name.clone()), found: Arc::new([]) };
            self.claims.entry(name.clone()).or_default().insert(source.clone());
            self.owners.insert(name, source.clone());
            self.files.insert(source, state);
        }
    }

    /// Tells the children of jobs that [`Folder::known`] told of: their files are not read again to see them.
    pub fn known_children(&mut self, rows: impl IntoIterator<Item = (JobName, Vec<JobName>)>) {
        self.children.extend(rows);
    }

    /// Tells which jobs the steps of known jobs call.
    pub fn known_calls(&mut self, rows: impl IntoIterator<Item = (JobName, Vec<JobName>)>) {
        self.calls.extend(rows);
    }

    /// Looks at the tree and reads what changed. `now` is the wall clock: it tells fresh files from settled ones.
    pub fn scan(&mut self, now: Millis) -> Scan {
        let mut found = walk::walk(&self.root);
        let mut look = Look::default();
        // Before the jobs: they are judged by it.
        look.unsettled += usize::from(self.shared.look(&self.root, &mut found, &mut self.reader, now));
        for (source, stat) in &found.files {
            self.look_at(source, *stat, now, &mut look);
        }
        let gone: Vec<Arc<str>> = self.files.keys().filter(|source| found.is_gone(source)).cloned().collect();
        for source in gone {
            if let Some(FileState { name: Some(name), .. }) = self.files.remove(&source) {
                self.unclaim(&name, &source);
                look.touched.insert(name);
            }
        }
        let changes = self.settle(&mut look);
        let diagnostics = self.list(&found);
        let diagnostics_changed = diagnostics != *self.diagnostics;
        if diagnostics_changed {
            self.diagnostics = diagnostics.into();
        }
        let new_directories = !found.directories.is_subset(&self.directories);
        let files = found.files.len();
        self.directories = found.directories;
        Scan {
            changes,
            diagnostics: self.diagnostics.clone(),
            diagnostics_changed,
            files,
            unsettled: look.unsettled,
            new_directories,
            polling: None,
        }
    }

    /// The directory of a file, from the root of the file system.
    fn folder_of(&self, source: &str) -> PathBuf {
        let path = self.root.join(source);
        let folder = path.parent().unwrap_or(&self.root);
        std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
    }

    fn zone(&self) -> &str {
        self.reader.options().default_zone.name()
    }

    /// Reads a file if it may have changed.
    fn look_at(&mut self, source: &Arc<str>, stat: Stat, now: Millis, look: &mut Look) {
        // Then it decides how every file is read.
        let says_how = self.reader.options().resources.dialect().is_some();
        let state = self.files.get(source);
        let known = state.and_then(|state| state.mark);
        if let Some(state) = state
            && state.steady
            && known.is_some_and(|mark| mark.stat == stat && mark.is_judged_by(self.shared.hash(), says_how))
        {
            return;
        }
        let steady = !stat.is_recent(now, STEADY_MS);
        let bytes = match read_file(&self.root.join(&**source)) {
            Ok(bytes) => bytes,
            // It was deleted since the walk; the next look sees that.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                look.unsettled += 1;
                return;
            }
            Err(error) => {
                let found = Diagnostic::whole_file(
                    Severity::Error,
                    Code::File,
                    format!("the file cannot be read: {error}"),
                );
                let state = self.files.entry(source.clone()).or_default();
                (state.mark, state.found) = (None, Arc::new([found]));
                return;
            }
        };
        let mut mark =
            Mark { stat, hash: file_stamp::hash(&bytes, self.zone()), resources: self.shared.hash() };
        let same = |known: &Mark| known.hash == mark.hash && known.is_judged_by(self.shared.hash(), says_how);
        if let Some(known) = known.filter(same) {
            mark.resources = known.resources;
            if let Some(state) = self.files.get_mut(source) {
                (state.mark, state.steady) = (Some(mark), steady);
            }
            return;
        }
        match self.reader.read_in(&bytes, stem(source), Some(&self.folder_of(source))) {
            Ok(parsed) => {
                if parsed.job.body.footprint.is_empty() && self.reader.options().resources.dialect().is_none()
                {
                    mark.resources = None;
                }
                let name = parsed.job.name.clone();
                let state = self.files.entry(source.clone()).or_default();
                (state.mark, state.steady) = (Some(mark), steady);
                state.found = parsed.warnings.as_slice().into();
                let before = state.name.replace(name.clone());
                if let Some(before) = before
                    && before != name
                {
                    self.unclaim(&before, source);
                    look.touched.insert(before);
                }
                self.claims.entry(name.clone()).or_default().insert(source.clone());
                look.touched.insert(name);
                look.parsed.insert(source.clone(), (parsed, mark));
            }
            // It may be half written. It keeps its old state and is read again at the next look.
            Err(_) if stat.is_recent(now, HALF_WRITTEN_MS) => look.unsettled += 1,
            Err(found) => {
                let state = self.files.entry(source.clone()).or_default();
                (state.mark, state.steady, state.found) = (Some(mark), steady, found.into());
            }
        }
    }

    fn unclaim(&mut self, name: &JobName, source: &Arc<str>) {
        if let Some(claims) = self.claims.get_mut(name) {
            claims.remove(source);
            if claims.is_empty() {
                self.claims.remove(name);
            }
        }
    }

    /// Decides for every name that was touched which file gives the job now.
    fn settle(&mut self, look: &mut Look) -> Vec<Change> {
        let mut removed = Vec::new();
        let mut puts: BTreeMap<Arc<str>, Change> = BTreeMap::new();
        while let Some(name) = look.touched.pop_first() {
            let first = self.claims.get(&name).and_then(|claims| claims.first().cloned());
            let Some(source) = first else {
                self.children.remove(&name);
                self.calls.remove(&name);
                if self.owners.remove(&name).is_some() {
                    removed.push(Change::Remove { name });
                }
                continue;
            };
            if !look.parsed.contains_key(&source) {
                if self.owners.get(&name) == Some(&source) {
                    continue; // Nothing new about it: only a file behind it came or went.
                }
                // The file before it in line went away; this one was read before, but its job was not kept.
                self.read_again(&name, &source, look);
            }
            let Some((parsed, mark)) = look.parsed.remove(&source) else { continue };
            if parsed.job.body.children.is_empty() {
                self.children.remove(&name);
            } else {
                self.children.insert(name.clone(), parsed.job.body.children.clone());
            }
            let calls: Vec<JobName> = parsed.job.body.calls().cloned().collect();
            self.calls.insert(name.clone(), calls);
            self.calls.retain(|_, calls| !calls.is_empty());
            self.owners.insert(name, source.clone());
            let put = Change::Put {
                job: parsed.job,
                definition: parsed.definition,
                source: source.clone(),
                source_mark: mark.text(self.zone()).into(),
            };
            puts.insert(source, put);
        }
        removed.extend(puts.into_values());
        removed
    }

    /// Reads a file whose turn has come. If it is not good any more, it loses its claim and the next one is tried.
    fn read_again(&mut self, name: &JobName, source: &Arc<str>, look: &mut Look) {
        let path = self.root.join(&**source);
        let fresh = read_file(&path).and_then(|bytes| Ok((Stat::of(&path.metadata()?), bytes)));
        let parsed = match fresh {
            Ok((stat, bytes)) => {
                let folder = self.folder_of(source);
                let parsed = self.reader.read_in(&bytes, stem(source), Some(&folder)).ok();
                parsed.map(|parsed| {
                    let shares = !parsed.job.body.footprint.is_empty();
                    let says_how = self.reader.options().resources.dialect().is_some();
                    let resources = self.shared.hash().filter(|_| shares || says_how);
                    (parsed, Mark { stat, hash: file_stamp::hash(&bytes, self.zone()), resources })
                })
            }
            Err(_) => None,
        };
        match parsed {
            Some((parsed, mark)) if parsed.job.name == *name => {
                look.parsed.insert(source.clone(), (parsed, mark));
            }
            _ => {
                // Read it from the beginning at the next look, whatever it says then.
                self.files.remove(source);
                self.unclaim(name, source);
                look.touched.insert(name.clone());
                look.unsettled += 1;
            }
        }
    }

    /// Everything that is wrong now.
    fn list(&self, found: &TreeScan) -> Vec<FileDiagnostics> {
        let mut list: BTreeMap<Arc<str>, Vec<Diagnostic>> = BTreeMap::new();
        for (source, problem) in &found.problems {
            list.entry(source.clone()).or_default().push(problem.clone());
        }
        if let Some((source, problems)) = self.shared.problems() {
            list.entry(source).or_default().extend(problems);
        }
        for (source, state) in self.files.iter().filter(|(_, state)| !state.found.is_empty()) {
            list.entry(source.clone()).or_default().extend(state.found.iter().cloned());
        }
        for (name, claims) in self.claims.iter().filter(|(_, claims)| claims.len() > 1) {
            let mut claims = claims.iter();
            let Some(first) = claims.next() else { continue };
            for other in claims {
                let message = format!("the job name {name} is taken by {first}, so {other} is not used");
                let problem = Diagnostic::whole_file(Severity::Error, Code::Name, message);
                list.entry(other.clone())
                    .or_default()
                    .push(problem.with_help("give one of the two another `name`"));
            }
        }
        for (name, children) in &self.children {
            let Some(source) = self.owners.get(name) else { continue };
            let missing = children.iter().filter(|child| !self.owners.contains_key(*child));
            let problems = missing.map(|child| missing_child(child, self.owners.keys()));
            list.entry(source.clone()).or_default().extend(problems);
        }
        for (name, problem) in calls::problems(&self.calls, |name| self.owners.contains_key(name)) {
            if let Some(source) = self.owners.get(&name) {
                list.entry(source.clone()).or_default().push(problem);
            }
        }
        list.retain(|_, problems| !problems.is_empty());
        let bad = |(source, mut diagnostics): (Arc<str>, Vec<Diagnostic>)| {
            let state = self.files.get(&source);
            let kept = state.filter(|state| state.is_bad()).and_then(|state| state.name.clone());
            let kept = kept.filter(|name| self.owners.get(name) == Some(&source));
            if let Some(name) = &kept {
                let message = format!("the job {name} stays as it was before this change");
                diagnostics.push(Diagnostic::whole_file(Severity::Warning, Code::File, message));
            }
            FileDiagnostics { source, kept, diagnostics: diagnostics.into() }
        };
        list.into_iter().map(bad).collect()
    }
}

/// The warning about a child that is no job. `known` are the names of all jobs.
pub fn missing_child<'a>(child: &JobName, known: impl IntoIterator<Item = &'a JobName>) -> Diagnostic {
    let message = format!("`children` names the job {child}, which does not exist; it is not run");
    let help = match nearest(child.as_str(), known.into_iter().map(JobName::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "add a job file of that name, or correct the name".to_owned(),
    };
    Diagnostic::whole_file(Severity::Warning, Code::Missing, message).with_help(&help)
}

/// What one look has found so far.
#[derive(Default)]
struct Look {
    parsed: BTreeMap<Arc<str>, (Parsed, Mark)>,
    /// Names that some file took up or gave up.
    touched: BTreeSet<JobName>,
    unsettled: usize,
}

/// The bytes of a file, one more than allowed at most: the reader refuses it then, with its own words.
/// The bytes of a job file, at most one more than [`FILE_BYTES_MAX`]. Only of a regular file: a pipe would hold up
/// whoever opens it, and a device may have no end.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The file's name without directory and ending.
fn stem(source: &str) -> &str {
    let name = source.rsplit('/').next().unwrap_or(source);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}
