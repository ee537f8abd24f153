//! The watched folder of job files: changes go to the engine, mistakes to the log and the API.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use cadran_core::Job;
use cadran_engine::{Event, JobChange};
use cadran_http::{EventLog, FileProblem, LiveChange};
use cadran_spec::{
    Caller, Change, Diagnostic, FileDiagnostics, Folder, ReadOptions, Scan, WatchHandle, WatchOptions,
};

use super::{LoopHandle, Problems};
use crate::defaults;

/// The changes that a scan found, for the engine. Its diagnostics go to the log and the API.
pub fn job_changes(scan: Scan, root: &Path, problems: &Problems) -> Vec<JobChange> {
    if scan.diagnostics_changed {
        let views: Vec<FileProblem> =
            scan.diagnostics.iter().flat_map(|file| problem_views(file, root)).collect();
        for view in problems.set_files(views) {
            tracing::warn!(file = %view.file, line = view.line, column = view.column, "{}", view.message);
        }
    }
    let changes = scan.changes.into_iter();
    changes
        .map(|change| match change {
            Change::Put { job, definition, source, source_mark } => {
                problems.settle(&job.name);
                JobChange::Put { job, definition, source, source_mark }
            }
            Change::Remove { name } => JobChange::Remove { name },
        })
        .collect()
}

fn problem_views(file: &FileDiagnostics, root: &Path) -> Vec<FileProblem> {
    // Read again only to underline the place; a file that is gone by now is shown without it.
    let text = cadran_spec::read_file(&root.join(&*file.source)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let view = |diagnostic: &Diagnostic| FileProblem {
        file: file.source.to_string(),
        line: diagnostic.line,
        column: diagnostic.column,
        severity: diagnostic.severity.word().to_owned(),
        code: diagnostic.code.word().to_owned(),
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        rendered: diagnostic.render(&file.source, &text, false),
    };
    file.diagnostics.iter().map(view).collect()
}

/// Watches the folder from now on: each change of a file is told to the loop.
pub fn watch(
    folder: Folder,
    loop_handle: LoopHandle,
    problems: Problems,
    events: Arc<EventLog>,
) -> anyhow::Result<WatchHandle> {
    let root = folder.root().to_owned();
    let watch = cadran_spec::watch(folder, WatchOptions::default(), move |scan: Scan| {
        let problems_changed = scan.diagnostics_changed;
        let changes = job_changes(scan, &root, &problems);
        if problems_changed {
            events.push(vec![LiveChange::Problems]);
        }
        if !changes.is_empty() {
            tracing::info!(changes = changes.len(), "job files changed");
            loop_handle.send(Event::Jobs(changes));
        }
    });
    watch.context("cannot watch the jobs folder")
}

/// The job that a file of the jobs folder holds, if this version can read it: what a restart falls back to.
pub fn read_job_file(jobs: &Path, source: &str, options: &ReadOptions) -> Option<Job> {
    let path = jobs.join(source);
    let bytes = cadran_spec::read_file(&path).ok()?;
    let stem = path.file_stem()?.to_str()?;
    cadran_spec::read_job(&bytes, stem, options).ok().map(|parsed| parsed.job)
}

/// Reads all job files again, now, as SIGHUP asks. The server's log goes to standard error, so there is no log file to
/// reopen.
pub fn reload(caller: Caller) {
    tracing::info!("SIGHUP: reading the job files again");
    tokio::task::spawn_blocking(move || match caller.scan_now(defaults::RELOAD_TIME_MAX) {
        true => tracing::info!("the job files were read again"),
        false => {
            let seconds = defaults::RELOAD_TIME_MAX.as_secs();
            tracing::warn!("reading the job files takes longer than {seconds} s");
        }
    });
}
