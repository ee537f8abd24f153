//! Job files that people and programs change by the API: the same files as those of an editor, in the same folder, read
//! back the same way. Written by the one writer of job files, [`JobFiles`], whose lock is held meanwhile.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cadran_core::JobName;
use cadran_http::{ExpectedFile, FileProblem, JobFileRefusal, JobFileSaved, etag};
use cadran_spec::{Diagnostic, RESOURCES_FILE, ReadOptions, read_job};
use tokio::time::{Instant, sleep};

use super::job_files::{JobFiles, WRITE_TIMEOUT};
/// Between two looks at the record for what the file says.
const RECORD_INTERVAL: Duration = Duration::from_millis(20);

/// Files of the folder that are no jobs, whatever is in them.
const OTHER_STEMS: [&str; 2] = ["resources", "executors"];

impl JobFiles {
    /// Writes the file of a job, or removes it (`None`), if it is as expected. Answers when the job is so on record.
    pub async fn save(
        &self,
        name: &JobName,
        text: Option<String>,
        expected: ExpectedFile,
        reading: &ReadOptions,
    ) -> Result<JobFileSaved, JobFileRefusal> {
        let failed = |why: String| JobFileRefusal::Failed(why);
        let _writing = self.lock().await.map_err(failed)?;
        let known = self.store().job(name).await.map_err(|error| failed(error.to_string()))?;
        let known = known.filter(|view| view.removed_at.is_none()).map(|view| view.put);
        let source = match &known {
            Some(put) if !put.source.is_empty() => put.source.to_string(),
            _ if OTHER_STEMS.contains(&name.as_str()) => {
                let why = format!("{name}.yaml is no job file; give the job another name");
                return Err(JobFileRefusal::Elsewhere(why));
            }
            _ => format!("{name}.yaml"),
        };
        let path = self.inside(&source)?;
        let there = match cadran_spec::read_file(&path) {
            Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(format!("{source} cannot be read: {error}"))),
        };
        match (&expected, &there) {
            (ExpectedFile::None, Some(_)) => return Err(JobFileRefusal::Exists { source }),
            (ExpectedFile::Text(_), None) if known.is_none() => return Err(JobFileRefusal::NoSuchJob),
            (ExpectedFile::Text(tag), there) => {
                let etag = there.as_deref().map(etag);
                if etag.as_ref() != Some(tag) {
                    return Err(JobFileRefusal::Changed { etag });
                }
            }
            (ExpectedFile::None, None) => {}
        }
        let Some(text) = text else {
            self.delete(&path).await.map_err(failed)?;
            self.on_record(name, None).await?;
            tracing::info!(job = %name, file = source, "a job file was removed by the API");
            return Ok(JobFileSaved { source, ..JobFileSaved::default() });
        };
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let problems = |found: Vec<Diagnostic>| -> Vec<FileProblem> {
            found.into_iter().map(|one| FileProblem::new(&source, &text, one)).collect()
        };
        let parsed = read_job(text.as_bytes(), stem, reading)
            .map_err(|found| JobFileRefusal::Invalid(problems(found)))?;
        if parsed.job.name != *name {
            return Err(JobFileRefusal::OtherName(parsed.job.name.to_string()));
        }
        self.write(&path, &text).await.map_err(failed)?;
        let revision = self.on_record(name, Some(&parsed.definition)).await?;
        tracing::info!(job = %name, file = source, revision, "a job file was written by the API");
        Ok(JobFileSaved { etag: etag(&text), revision, problems: problems(parsed.warnings), source })
    }

    /// The place of a file below the jobs folder, also where links lead.
    fn inside(&self, source: &str) -> Result<PathBuf, JobFileRefusal> {
        let outside = || JobFileRefusal::Elsewhere(format!("{source} lies outside of the jobs folder"));
        let plain =
            Path::new(source).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !plain || source == RESOURCES_FILE {
            return Err(outside());
        }
        let path = self.root().join(source);
        let real = |path: &Path| path.canonicalize();
        let parent = path.parent().and_then(|parent| real(parent).ok());
        let target = real(&path).ok().or_else(|| parent.clone());
        let root = real(self.root())
            .map_err(|error| JobFileRefusal::Failed(format!("the jobs folder cannot be read: {error}")))?;
        let is_inside = [parent, target].into_iter().all(|at| at.is_some_and(|at| at.starts_with(&root)));
        if is_inside { Ok(path) } else { Err(outside()) }
    }

    /// Waits until the job has this definition, or is gone, on record; its revision.
    async fn on_record(&self, name: &JobName, definition: Option<&str>) -> Result<u32, JobFileRefusal> {
        let until = Instant::now() + WRITE_TIMEOUT;
        loop {
            let job = self.store().job(name).await.ok().flatten();
            let put = job.filter(|view| view.removed_at.is_none()).map(|view| view.put);
            if put.as_ref().map(|put| &*put.definition) == definition {
                return Ok(put.map(|put| put.revision).unwrap_or_default());
            }
            if Instant::now() >= until {
                let why = "the file was written, and the job is not as it says: another file may be of the same job, or \
                           the store is slow";
                return Err(JobFileRefusal::Failed(why.to_owned()));
            }
            sleep(RECORD_INTERVAL).await;
        }
    }
}
