//! What is wrong at this moment, for the API and the log.

use std::sync::{Arc, PoisonError, RwLock};

use cadran_core::JobName;
use cadran_http::FileProblem;

/// What is wrong with job files as the watcher last saw them, and with what was read at the start. Clones share it.
#[derive(Clone, Default)]
pub struct Problems {
    shared: Arc<RwLock<Lists>>,
}

#[derive(Default)]
struct Lists {
    files: Vec<FileProblem>,
    /// Found at the start; those about a job go when its file is read.
    found: Vec<(Option<JobName>, FileProblem)>,
}

impl Problems {
    /// Everything that is wrong.
    pub fn all(&self) -> Vec<FileProblem> {
        let lists = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        lists.found.iter().map(|(_, problem)| problem).chain(&lists.files).cloned().collect()
    }

    /// Replaces what is wrong with job files, and returns what was not there before.
    pub fn set_files(&self, files: Vec<FileProblem>) -> Vec<FileProblem> {
        let mut lists = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = files.iter().filter(|problem| !lists.files.contains(problem)).cloned().collect();
        lists.files = files;
        fresh
    }

    /// Adds something that was found at the start, about a job or not.
    pub fn add(
        &self,
        job: Option<JobName>,
        file: &str,
        severity: &str,
        code: &str,
        message: String,
        help: &str,
    ) {
        let rendered = format!("{file}: {severity}: {message}\n  help: {help}");
        let problem = FileProblem {
            file: file.to_owned(),
            line: 0,
            column: 0,
            severity: severity.to_owned(),
            code: code.to_owned(),
            message,
            help: Some(help.to_owned()),
            rendered,
        };
        self.shared.write().unwrap_or_else(PoisonError::into_inner).found.push((job, problem));
    }

    /// The job's file was read: what was wrong with its stored definition is over.
    pub fn settle(&self, job: &JobName) {
        let mut lists = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        lists.found.retain(|(about, _)| about.as_ref() != Some(job));
    }
}
