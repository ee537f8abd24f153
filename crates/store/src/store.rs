use std::sync::Arc;

use cadran_core::{Batch, JobId, JobName, Millis, RunId, RunRecord, TriggerKey};

use crate::claim::{Claim, Hold};
use crate::memory::Memory;
use crate::postgres::Postgres;
use crate::query::{
    Committed, Counts, JobQuery, JobRecord, JobView, Loaded, RunQuery, RunView, SkipQuery, SkipView,
};
use crate::sqlite::Sqlite;
use crate::{PrunePass, Pruned, RunHead, StoreError, Usage, fold::Folded, heads, keys, prune, read};

/// The durable record. Cheap to clone; all clones are one store.
#[derive(Clone, Debug)]
pub struct Store {
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

/// A call on memory, or the same call on whichever database it is.
macro_rules! each {
    ($self:ident, $memory:ident => $plain:expr, $database:ident => $call:expr) => {
        match &$self.backend {
            Backend::Memory($memory) => $plain,
            Backend::Sqlite($database) => $call.await,
            Backend::Postgres($database) => $call.await,
        }
    };
}

impl Store {
    /// Opens the store that `url` names, brings its tables up to date, and creates it if it is a file that is not
    /// there: `sqlite:PATH`, `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, or `memory:` for tests and trials.
    pub async fn open(url: &str) -> Result<Store, StoreError> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let backend = match scheme {
            "memory" => Backend::Memory(Arc::new(Memory::default())),
            "sqlite" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                if path.is_empty() {
                    return Err(StoreError::Url("sqlite: needs the path of a file".into()));
                }
                Backend::Sqlite(Arc::new(Sqlite::open(path).await?))
            }
            "postgres" | "postgresql" => Backend::Postgres(Arc::new(Postgres::open(url).await?)),
            // The text behind the scheme may hold a password, and a text without a known scheme may be one.
            _ => return Err(StoreError::Url("it starts with no known scheme".into())),
        };
        Ok(Store { backend })
    }

    /// Writes a batch in one transaction. When it answers, the batch is durable.
    ///
    /// Jobs are written first, then removals (a job that is put and removed in one batch is removed), states,
    /// promises, updates, skips, keys of triggers. After a transient error, give the same batch again.
    pub async fn commit(&self, batch: &Batch) -> Result<Committed, StoreError> {
        if batch.is_empty() {
            return Ok(Committed::default());
        }
        let folded = Folded::new(batch)?;
        each!(self, memory => memory.commit(batch, &folded), database => database.commit(batch, &folded))
    }

    /// Everything a start needs, at once.
    pub async fn load(&self) -> Result<Loaded, StoreError> {
        let mut jobs = Vec::new();
        let mut from = Some(JobId(0));
        while let Some(first) = from {
            let (mut slice, next) = self.load_jobs(first).await?;
            jobs.append(&mut slice);
            from = next;
        }
        let (open, last_id) = self.load_runs().await?;
        Ok(Loaded { jobs, open, last_id })
    }

    /// A slice of the jobs, by number, from this one on, and where the next slice begins: a million jobs need not be
    /// in memory twice.
    pub async fn load_jobs(&self, first: JobId) -> Result<(Vec<JobRecord>, Option<JobId>), StoreError> {
        each!(self, memory => memory.load_jobs(first), database => read::load_jobs(&**database, first))
    }

    /// The runs that are promised, waiting or running, by id, and the highest id among runs and skips.
    pub async fn load_runs(&self) -> Result<(Vec<RunRecord>, Option<RunId>), StoreError> {
        each!(self, memory => memory.load_runs(), database => read::load_runs(&**database))
    }

    /// Keys of triggers since an instant, oldest first. They are kept for a day.
    pub async fn trigger_keys(&self, since: Millis) -> Result<Vec<TriggerKey>, StoreError> {
        each!(self, memory => memory.trigger_keys(since), database => keys::load(&**database, since))
    }

    /// The due of the latest succeeded run of each of these jobs, for those that have one, by job.
    pub async fn last_successes(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Millis)>, StoreError> {
        each!(self, memory => memory.last_successes(jobs), database => read::last_successes(&**database, jobs))
    }

    /// A definition as it was under a revision, while a run or the job still has it.
    pub async fn definition(&self, job: JobId, revision: u32) -> Result<Option<Arc<str>>, StoreError> {
        each!(self, memory => memory.definition(job, revision), database => read::definition(&**database, job, revision))
    }

    /// One run.
    pub async fn run(&self, run: RunId) -> Result<Option<RunView>, StoreError> {
        each!(self, memory => memory.run(run), database => read::run(&**database, run))
    }

    /// Runs, newest first.
    pub async fn runs(&self, query: &RunQuery) -> Result<Vec<RunView>, StoreError> {
        each!(self, memory => memory.runs(query), database => read::runs(&**database, query))
    }

    /// Skips, newest first.
    pub async fn skips(&self, query: &SkipQuery) -> Result<Vec<SkipView>, StoreError> {
        each!(self, memory => memory.skips(query), database => read::skips(&**database, query))
    }

    /// Jobs, by name.
    pub async fn jobs(&self, query: &JobQuery) -> Result<Vec<JobView>, StoreError> {
        each!(self, memory => memory.jobs(query), database => read::jobs(&**database, query))
    }

    /// One job, removed or not.
    pub async fn job(&self, name: &JobName) -> Result<Option<JobView>, StoreError> {
        each!(self, memory => memory.job(name), database => read::job_named(&**database, name))
    }

    /// Runs in short, newest first, those below an id; at most [`HEADS_MAX`](crate::HEADS_MAX).
    pub async fn run_heads(&self, before: Option<RunId>, limit: u32) -> Result<Vec<RunHead>, StoreError> {
        each!(self, memory => memory.run_heads(before, limit), database => heads::run_heads(&**database, before, limit))
    }

    /// These runs, newest first; those that are not recorded are missing. At most [`LIMIT_MAX`](crate::LIMIT_MAX).
    pub async fn runs_by_id(&self, runs: &[RunId]) -> Result<Vec<RunView>, StoreError> {
        each!(self, memory => memory.runs_by_id(runs), database => heads::runs_by_id(&**database, runs))
    }

    /// These skips, newest first; those that are not recorded are missing. At most [`LIMIT_MAX`](crate::LIMIT_MAX).
    pub async fn skips_by_id(&self, skips: &[RunId]) -> Result<Vec<SkipView>, StoreError> {
        each!(self, memory => memory.skips_by_id(skips), database => heads::skips_by_id(&**database, skips))
    }

    /// These jobs, in no order; those that are not recorded are missing. At most [`LIMIT_MAX`](crate::LIMIT_MAX).
    pub async fn jobs_by_id(&self, jobs: &[JobId]) -> Result<Vec<JobView>, StoreError> {
        each!(self, memory => memory.jobs_by_id(jobs), database => heads::jobs_by_id(&**database, jobs))
    }

    /// The revisions of a job whose definitions are still there, rising, with the one that is in force last.
    pub async fn revisions(&self, job: JobId) -> Result<Vec<u32>, StoreError> {
        each!(self, memory => memory.revisions(job), database => read::revisions(&**database, job))
    }

    /// How many jobs there are, and runs in each open state.
    pub async fn counts(&self) -> Result<Counts, StoreError> {
        each!(self, memory => memory.counts(), database => read::counts(&**database))
    }

    /// Forgets ended runs and skips that are older than their job's history or the pass's limits say, and definitions
    /// that no run refers to.
    ///
    /// One call looks at a bounded slice of the jobs and forgets at most `rows_max` rows, so that no commit waits for
    /// long. Call it again until the pass is over.
    pub async fn prune(&self, pass: &mut PrunePass, rows_max: u32) -> Result<Pruned, StoreError> {
        each!(self, memory => memory.prune(pass, rows_max), database => prune::prune(&**database, pass, rows_max))
    }

    /// How much of the disk the record takes. In memory that is nothing.
    pub async fn usage(&self) -> Result<Usage, StoreError> {
        each!(self, _memory => Ok(Usage::default()), database => database.usage())
    }

    /// Gives free pages of the database back to the file system, at most so many, where the database does not do so by
    /// itself.
    pub async fn shrink(&self, pages_max: u32) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => sqlite.shrink(pages_max).await,
            Backend::Memory(_) | Backend::Postgres(_) => Ok(()),
        }
    }

    /// The number of newest runs to keep of each job, as [`Retention::runs_max`], so that about this part of all runs is
    /// left: jobs with the longest histories give first. `None` where the disk is not the store's own business: in
    /// memory, and on a database server, whose operator sees to it.
    pub async fn cap_for(&self, part: f64) -> Result<Option<u32>, StoreError> {
        match &self.backend {
            Backend::Sqlite(sqlite) => prune::cap_for(&**sqlite, part).await.map(Some),
            Backend::Memory(_) | Backend::Postgres(_) => Ok(None),
        }
    }

    /// Which of these runs are recorded.
    pub async fn known_runs(&self, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        each!(self, memory => memory.known_runs(runs), database => prune::known_runs(&**database, runs))
    }

    /// The number of the server with this name, below 1024: the same at every start, and nobody else's. `name` is kept
    /// with the server's own data and made once.
    pub async fn enlist(&self, name: &str, now: Millis) -> Result<u16, StoreError> {
        each!(self, memory => memory.enlist(name, now), database => database.enlist(name, now))
    }

    /// Takes the record for one server, by the same name as in [`Store::enlist`]: a second one is refused for as long as
    /// the [`Claim`] lives.
    pub async fn claim(&self, name: &str) -> Result<Claim, StoreError> {
        each!(self, _memory => Ok(Claim::new(Hold::Memory)), database => database.claim(name))
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        each!(self, memory => memory.ping(), database => database.ping())
    }

    /// Lets go of the database; later calls fail. What was answered is durable without this.
    pub async fn close(&self) {
        each!(self, memory => memory.close(), database => database.close())
    }
}
