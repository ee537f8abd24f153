//! Job files named on the command line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use cadran_core::{Job, JobName, Zone};
use cadran_spec::{
    Change, DaguOptions, Diagnostic, FILE_BYTES_MAX, FileDialect, Folder, Parsed, RESOURCES_FILE,
    ReadOptions, Resources, Scan, Severity, call_problems, missing_child, read_job, read_job_in,
};

/// What is wrong with one file, and its text to point at.
pub struct FileProblems {
    /// The file, as a person would name it here.
    pub file: PathBuf,
    /// What is wrong with it.
    pub diagnostics: Vec<Diagnostic>,
    text: String,
}

impl FileProblems {
    /// Whether the file is not usable.
    pub fn is_error(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// For a terminal.
    pub fn render(&self, colour: bool) -> String {
        let file = self.file.display().to_string();
        let rendered: Vec<String> =
            self.diagnostics.iter().map(|diagnostic| diagnostic.render(&file, &self.text, colour)).collect();
        rendered.join("\n")
    }
}

/// The bytes of a file that was named: it may be a pipe, as in `cadran check <(make-job)`, and never takes more memory
/// than a job file may.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut text));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

/// The options of this machine for job files: the zone of those that name none, and what Dagu's files take from it.
pub fn options(zone: Zone) -> ReadOptions {
    let shell = std::env::var("SHELL").ok().filter(|shell| shell.starts_with('/'));
    let machine = jiff::tz::TimeZone::system();
    let dagu = DaguOptions {
        shell: shell.unwrap_or_else(|| DaguOptions::default().shell),
        zone: machine.iana_name().and_then(|name| Zone::get(name).ok()).unwrap_or_else(|| zone.clone()),
    };
    ReadOptions { default_zone: zone, dagu, ..ReadOptions::default() }
}

/// The value of `--as`.
pub fn dialect(word: &str) -> Result<FileDialect, String> {
    FileDialect::from_word(word).ok_or_else(|| {
        let words: Vec<&str> = FileDialect::WORDS.iter().map(|(word, _)| *word).collect();
        format!("allowed are {}", words.join(", "))
    })
}

/// Reads one job file that was named, at its place.
pub fn read_at(text: &[u8], path: &Path, options: &ReadOptions) -> Result<Parsed, Vec<Diagnostic>> {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or("job");
    let folder = std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf));
    match folder {
        Some(folder) => read_job_in(text, stem, &folder, options),
        None => read_job(text, stem, options),
    }
}

/// The options for one job file by itself: what jobs share stands in the resources file beside it, if there is one.
pub fn beside(path: &Path, options: &ReadOptions) -> anyhow::Result<ReadOptions> {
    let file = path.with_file_name(RESOURCES_FILE);
    if !file.is_file() {
        return Ok(options.clone());
    }
    let text = read(&file)?;
    let resources = Resources::read(&text).map_err(|problems| {
        let (name, text) = (file.display().to_string(), String::from_utf8_lossy(&text));
        let shown: Vec<String> = problems.iter().map(|problem| problem.render(&name, &text, false)).collect();
        anyhow::anyhow!("the resources file has errors\n{}", shown.join("\n"))
    })?;
    Ok(ReadOptions { resources: Arc::new(resources), ..options.clone() })
}

/// Reads all job files below a folder, as the server does when it starts.
pub fn read_folder(root: &Path, options: ReadOptions) -> anyhow::Result<(Scan, Vec<FileProblems>)> {
    if !root.is_dir() {
        bail!("there is no folder {}", root.display());
    }
    // Looked at from the far future every file is settled: nothing is put off as half written.
    let scan = Folder::new(root, options).scan(i64::MAX);
    let problems = scan
        .diagnostics
        .iter()
        .map(|file| {
            let path = root.join(&*file.source);
            let text = cadran_spec::read_file(&path).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            FileProblems { file: path, diagnostics: file.diagnostics.to_vec(), text }
        })
        .collect();
    Ok((scan, problems))
}

/// The jobs that are good with their files, and what is wrong.
pub type Checked = (Vec<(PathBuf, Job)>, Vec<FileProblems>);

/// Warns of children that no checked file defines, for files that were named one by one. A folder is judged as a whole
/// when it is read.
pub fn check_children(paths: &[PathBuf], checked: &mut [Checked]) {
    let known: BTreeSet<JobName> =
        checked.iter().flat_map(|(jobs, _)| jobs.iter().map(|(_, job)| job.name.clone())).collect();
    for (path, (jobs, problems)) in paths.iter().zip(checked).filter(|(path, _)| !path.is_dir()) {
        let children = jobs.iter().flat_map(|(_, job)| &job.body.children);
        for child in children.filter(|child| !known.contains(*child)) {
            let mut warning = missing_child(child, &known);
            warning.message =
                format!("`children` names the job {child}, which none of the checked files defines");
            match problems.first_mut() {
                Some(problem) => problem.diagnostics.push(warning),
                None => problems.push(FileProblems {
                    file: path.clone(),
                    diagnostics: vec![warning],
                    text: String::new(),
                }),
            }
        }
    }
}

/// What is wrong with the calls among files that were named one by one. A folder is judged as a whole when it is read.
pub fn check_calls(paths: &[PathBuf], checked: &mut [Checked]) {
    let calls: BTreeMap<JobName, Vec<JobName>> = checked
        .iter()
        .flat_map(|(jobs, _)| {
            jobs.iter().map(|(_, job)| (job.name.clone(), job.body.calls().cloned().collect()))
        })
        .collect();
    // A job of another file may well be there: only what is wrong for certain is said.
    let found = call_problems(&calls, |_| true);
    for (path, (jobs, problems)) in paths.iter().zip(checked).filter(|(path, _)| !path.is_dir()) {
        let own = |(name, _): &&(JobName, Diagnostic)| jobs.iter().any(|(_, job)| job.name == *name);
        let diagnostics: Vec<Diagnostic> =
            found.iter().filter(own).map(|(_, problem)| problem.clone()).collect();
        if !diagnostics.is_empty() {
            problems.push(FileProblems { file: path.clone(), diagnostics, text: String::new() });
        }
    }
}

/// One file or folder, checked: the jobs that are good with their files, and what is wrong.
pub fn check(path: &Path, options: &ReadOptions) -> anyhow::Result<Checked> {
    if path.is_dir() {
        let (scan, problems) = read_folder(path, options.clone())?;
        let good = scan.changes.into_iter().filter_map(|change| match change {
            Change::Put { job, source, .. } => Some((path.join(&*source), job)),
            Change::Remove { .. } => None,
        });
        return Ok((good.collect(), problems));
    }
    let text = read(path)?;
    let (good, diagnostics) = if path.file_name().is_some_and(|name| name == RESOURCES_FILE) {
        (Vec::new(), Resources::read(&text).err().unwrap_or_default())
    } else {
        match read_at(&text, path, &beside(path, options)?) {
            Ok(parsed) => (vec![(path.to_owned(), parsed.job)], parsed.warnings),
            Err(diagnostics) => (Vec::new(), diagnostics),
        }
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let wrong = (!diagnostics.is_empty()).then(|| FileProblems { file: path.to_owned(), diagnostics, text });
    Ok((good, wrong.into_iter().collect()))
}
