//! YAML text to a job, or to everything that is wrong with it.

mod call;
mod container;
mod executors;
mod fields;
mod findings;
mod flow;
mod footprint;
mod for_each;
mod http;
mod job;
mod keys;
mod lists;
mod resources;
mod scalar;
mod schedule;
mod settings;
mod step;
mod target;

use std::path::Path;
use std::sync::Arc;

use cadran_core::{Job, JobName, Zone};

use crate::dagu::{self, DaguOptions, FileDialect, Rewritten};
use crate::diagnostic::Diagnostic;
use crate::stored::{JobInterner, ScheduleText, encode_parts};
use crate::tree::{self, Tree};
pub use executors::{ExecutorsFile, GroupEntry, read_executors};
pub use resources::{RESOURCES_FILE, Resources};

pub(crate) use fields::{Field, Fields, keys as fields_keys, snake_case};
pub use fields::{Key, Shape, key};
pub(crate) use findings::Findings;
pub use keys::{JOB_FILE, KeyTable, OTHER_FILES, key_words, keys};
pub(crate) use lists::exit_codes;
pub(crate) use scalar::{filled, flag, one_or_many, scalar, short, text, whole};
pub use settings::{Section, read_settings};
pub use target::HERE;

/// Steps of one run at once, for a file that does not say.
pub const MAX_ACTIVE_STEPS_DEFAULT: u16 = 64;

/// What a file leaves to the server.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The zone of schedules that name none.
    pub default_zone: Zone,
    /// What jobs share, from the resources file of their folder.
    pub resources: Arc<Resources>,
    /// Warn of steps in containers: the machine has neither docker nor podman.
    pub no_container_engine: bool,
    /// By whose rules files are read that do not say; `None` goes by their keys.
    pub dialect: Option<FileDialect>,
    /// What Dagu takes from the machine, for files in its form.
    pub dagu: DaguOptions,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            default_zone: Zone::utc(),
            resources: Arc::default(),
            no_container_engine: false,
            dialect: None,
            dagu: DaguOptions::default(),
        }
    }
}

/// A job file that was understood.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The job.
    pub job: Job,
    /// The job for the store, without its name; [`Decoder`](crate::Decoder) reads it back.
    pub definition: Arc<str>,
    /// The schedules as they were written, in the order of `job.schedules`.
    pub schedules: Vec<ScheduleText>,
    /// What is probably not meant.
    pub warnings: Vec<Diagnostic>,
    /// By whose rules it was read.
    pub dialect: FileDialect,
}

/// Reads job files and lets jobs that are alike share what they have in common.
#[derive(Debug, Default)]
pub struct Reader {
    options: ReadOptions,
    interner: JobInterner,
}

impl Reader {
    /// A reader with these options.
    pub fn new(options: ReadOptions) -> Reader {
        Reader { options, interner: JobInterner::default() }
    }

    /// The options.
    pub fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// From here on jobs share this.
    pub(crate) fn set_resources(&mut self, resources: Arc<Resources>) {
        self.options.resources = resources;
    }

    /// Reads one file. `file_stem` is its name without directory and ending: the job's name, unless the file gives one.
    ///
    /// Takes time and memory in proportion to the text, at most [`FILE_BYTES_MAX`](crate::FILE_BYTES_MAX) of it.
    /// The error is never empty, in the order of the file, and holds 20 diagnostics at most.
    pub fn read(&mut self, text: &[u8], file_stem: &str) -> Result<Parsed, Vec<Diagnostic>> {
        self.read_in(text, file_stem, None)
    }

    /// The same for a file of this directory: files in Dagu's form work there, and `dotenv` is looked up there.
    pub fn read_in(
        &mut self,
        text: &[u8],
        file_stem: &str,
        folder: Option<&Path>,
    ) -> Result<Parsed, Vec<Diagnostic>> {
        let Tree { root, twice } = tree::parse(text).map_err(|found| vec![found])?;
        let mut findings = Findings::with(twice);
        let dialect = dagu::dialect_of(&root, self.options.dialect.or(self.options.resources.dialect()));
        let translated = match dialect {
            FileDialect::Cadran => {
                dagu::warn_of_other_meaning(&root, &mut findings);
                None
            }
            _ => dagu::translate(
                &root,
                dialect,
                &self.options.dagu,
                folder,
                &self.options.resources,
                &mut findings,
            ),
        };
        let draft = match (&translated, dialect) {
            (None, FileDialect::Cadran) => job::read(&root, file_stem, folder, &self.options, &mut findings),
            // One mistake, one message: what could not be rewritten is not read again.
            (Some(own), _) if !findings.has_errors() => {
                job::read(&own.root, file_stem, folder, &self.options, &mut findings)
            }
            _ => None,
        };
        let draft = match draft {
            Some(draft) if !findings.has_errors() => draft,
            _ => return Err(findings.finish(&root)),
        };
        let Some(name) = draft.name else { return Err(findings.finish(&root)) };
        let (definition, body_text) = encode_parts(&draft.schedules.texts, &draft.policy, &draft.body);
        let job = Job {
            name,
            schedules: self.interner.schedules(draft.schedules.entries),
            policy: draft.policy,
            body: self.interner.body(&body_text, || draft.body),
        };
        Ok(Parsed {
            job,
            definition,
            schedules: draft.schedules.texts,
            warnings: findings.finish(&root),
            dialect,
        })
    }
}

/// Reads one job file by itself. See [`Reader::read`].
pub fn read_job(text: &[u8], file_stem: &str, options: &ReadOptions) -> Result<Parsed, Vec<Diagnostic>> {
    Reader::new(options.clone()).read(text, file_stem)
}

/// Reads one job file by itself that lies in this directory. See [`Reader::read`].
pub fn read_job_in(
    text: &[u8],
    file_stem: &str,
    folder: &Path,
    options: &ReadOptions,
) -> Result<Parsed, Vec<Diagnostic>> {
    Reader::new(options.clone()).read_in(text, file_stem, Some(folder))
}

/// A file in Dagu's form as one of Cadran's own.
#[derive(Clone, Debug)]
pub struct Rewriting {
    /// The job's name.
    pub name: JobName,
    /// The job file.
    pub text: String,
    /// What became of what Dagu does differently, in the order of the file.
    pub rewritten: Vec<Rewritten>,
    /// What is probably not meant, or means something else in another version.
    pub warnings: Vec<Diagnostic>,
}

/// Rewrites a file in Dagu's form; see [`Reader::read`] for what it is given and for its errors.
pub fn rewrite_dagu(
    text: &[u8],
    file_stem: &str,
    folder: Option<&Path>,
    options: &ReadOptions,
) -> Result<Rewriting, Vec<Diagnostic>> {
    let Tree { root, twice } = tree::parse(text).map_err(|found| vec![found])?;
    let mut findings = Findings::with(twice);
    let dialect = dagu::dialect_of(&root, Some(options.dialect.unwrap_or(FileDialect::Dagu)));
    let own = dagu::translate(&root, dialect, &options.dagu, folder, &options.resources, &mut findings);
    let Some(own) = own.filter(|_| !findings.has_errors()) else { return Err(findings.finish(&root)) };
    let draft = job::read(&own.root, file_stem, folder, options, &mut findings);
    match draft.and_then(|draft| draft.name) {
        Some(name) if !findings.has_errors() => {
            let mut rewritten = own.rewritten.clone();
            rewritten.sort_by_key(|one| one.line);
            Ok(Rewriting { name, text: own.yaml(), rewritten, warnings: findings.finish(&root) })
        }
        _ => Err(findings.finish(&root)),
    }
}
