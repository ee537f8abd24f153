//! The resources file of a folder: what its jobs share.

use std::path::Path;
use std::sync::Arc;

use cadran_core::Millis;

use super::file_stamp::{self, Stat};
use super::walk::TreeScan;
use super::{HALF_WRITTEN_MS, read_file};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::read::{RESOURCES_FILE, Reader, Resources};

/// What is known about the resources file. One that becomes bad leaves what it said before in force.
#[derive(Debug, Default)]
pub(super) struct ResourcesFile {
    /// What it looked like when it was last judged; `None` while there is none.
    seen: Option<(Stat, u64)>,
    /// The hash of what is in force: 0 without a file, `None` when the first look found a bad one.
    hash: Option<u64>,
    problems: Vec<Diagnostic>,
    was_read: bool,
}

impl ResourcesFile {
    /// Takes the resources file out of what was found and reads it if it may have changed. True when it is so fresh
    /// that it may be half written.
    pub(super) fn look(
        &mut self,
        root: &Path,
        found: &mut TreeScan,
        reader: &mut Reader,
        now: Millis,
    ) -> bool {
        let stat = found.files.remove(RESOURCES_FILE);
        let first = !std::mem::replace(&mut self.was_read, true);
        let Some(stat) = stat else {
            // A folder that cannot be read says nothing about the file.
            if first || found.is_gone(RESOURCES_FILE) && self.seen.take().is_some() {
                self.problems.clear();
                self.take(Resources::default(), 0, reader);
            }
            return false;
        };
        if self.seen.is_some_and(|(seen, _)| seen == stat && !stat.is_recent(now, super::STEADY_MS)) {
            return false;
        }
        let read = read_file(&root.join(RESOURCES_FILE));
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                let message = format!("the file cannot be read: {error}");
                self.problems = vec![Diagnostic::whole_file(Severity::Error, Code::File, message)];
                if first {
                    reader.set_resources(Arc::new(Resources::unknown()));
                }
                return true;
            }
        };
        let hash = file_stamp::hash_resources(&bytes);
        if self.seen.is_some_and(|(_, seen)| seen == hash) {
            self.seen = Some((stat, hash));
            return false;
        }
        match Resources::read(&bytes) {
            Ok(resources) => {
                self.problems.clear();
                self.take(resources, hash, reader);
            }
            Err(_) if stat.is_recent(now, HALF_WRITTEN_MS) => {
                if first {
                    reader.set_resources(Arc::new(Resources::unknown()));
                }
                return true;
            }
            Err(problems) => {
                self.problems = problems;
                let message = "what it said before stays in force";
                self.problems.push(Diagnostic::whole_file(Severity::Warning, Code::File, message));
                if first {
                    reader.set_resources(Arc::new(Resources::unknown()));
                }
            }
        }
        self.seen = Some((stat, hash));
        false
    }

    /// What job files are judged by.
    pub(super) fn hash(&self) -> Option<u64> {
        self.hash
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Option<(Arc<str>, Vec<Diagnostic>)> {
        (!self.problems.is_empty()).then(|| (RESOURCES_FILE.into(), self.problems.clone()))
    }

    fn take(&mut self, resources: Resources, hash: u64, reader: &mut Reader) {
        self.hash = Some(hash);
        reader.set_resources(Arc::new(resources));
    }
}
