//! Forgetting what a job's history no longer keeps, a slice of the jobs at a time.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::RangeInclusive;

use cadran_core::{JobId, Millis, RunId};

use crate::StoreError;
use crate::code::{self, DAY_MS};
use crate::read::{numbers_text, open_runs};
use crate::source::{Dialect, Fields, Question, Source};

/// Jobs looked at by one call: some ten milliseconds of reading when none of them has anything to forget.
pub(crate) const JOBS_PER_CALL: i64 = 4096;
/// Jobs whose rows are fetched by one question.
const JOBS_PER_QUESTION: usize = 64;
/// Stands for "as much as there is": more days and rows than anybody keeps.
const ANY: i64 = 10_000_000_000;

/// What is kept of each job at most, whatever the job itself asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Runs and skips that ended so many days ago go.
    pub days_max: Option<u32>,
    /// Of each job, so many of the newest runs stay, and as many skips.
    pub runs_max: Option<u32>,
}

/// One walk over all jobs that forgets what is to be forgotten: begin one, and call [`crate::Store::prune`] until it is
/// over.
#[derive(Debug)]
pub struct PrunePass {
    pub(crate) now: Millis,
    pub(crate) retention: Retention,
    /// The first job that was not looked at yet.
    pub(crate) from: i64,
    pub(crate) stage: Stage,
    /// The jobs of the slice that is being worked on.
    jobs: RangeInclusive<i64>,
    tasks: Vec<Task>,
}

/// What a pass does next with its slice of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Slice,
    /// By age comes before by count, which is counted from what is left.
    ByAge,
    ByCount,
    Definitions,
    Over,
}

/// What one call forgot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Runs, whose logs may go now.
    pub runs: Vec<RunId>,
    /// How many skips went.
    pub skips: u64,
}

/// Rows of one job that are to go.
#[derive(Debug)]
struct Task {
    table: &'static Table,
    job: i64,
    bound: Bound,
}

#[derive(Debug)]
enum Bound {
    /// Those that ended before this.
    Before(Millis),
    /// So many of the oldest.
    Oldest(i64),
}

impl PrunePass {
    /// A pass that has looked at nothing yet. `now` is the wall clock.
    pub fn new(now: Millis, retention: Retention) -> PrunePass {
        let jobs = 0..=0;
        PrunePass { now, retention, from: 0, stage: Stage::Slice, jobs, tasks: Vec::new() }
    }

    /// Whether every job was looked at and has nothing more to forget.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }
}

/// What the finding part hands to the forgetting part.
#[derive(Default)]
pub(crate) struct Expired {
    /// Candidates; a run that was opened again meanwhile stays.
    pub(crate) runs: Vec<i64>,
    pub(crate) skips: Vec<i64>,
    /// Jobs whose old definitions go, when no run is as old as they are.
    pub(crate) definitions_of: Option<RangeInclusive<i64>>,
}

pub(crate) trait Forget: Source {
    /// Deletes in one transaction.
    fn forget(&self, expired: &Expired) -> impl Future<Output = Result<Pruned, StoreError>> + Send;
}

pub(crate) async fn prune(
    store: &impl Forget,
    pass: &mut PrunePass,
    rows_max: u32,
) -> Result<Pruned, StoreError> {
    while pass.stage != Stage::Over {
        if pass.tasks.is_empty() {
            let next = next_stage(store, pass).await?;
            let was = std::mem::replace(&mut pass.stage, next);
            if was == Stage::Definitions && has_old_definitions(store, &pass.jobs).await? {
                let definitions_of = Some(pass.jobs.clone());
                return store.forget(&Expired { definitions_of, ..Expired::default() }).await;
            }
            // A slice of the jobs is enough for one call.
            if was == Stage::Definitions {
                return Ok(Pruned::default());
            }
            continue;
        }
        let expired = find_rows(store, &mut pass.tasks, rows_max).await?;
        if !expired.runs.is_empty() || !expired.skips.is_empty() {
            return store.forget(&expired).await;
        }
    }
    Ok(Pruned::default())
}

/// What comes after the present stage, with its tasks.
async fn next_stage(store: &impl Forget, pass: &mut PrunePass) -> Result<Stage, StoreError> {
    match pass.stage {
        Stage::Slice => {
            let sql =
                "select max(job) from (select job from jobs where job >= $1 order by job limit $2) slice";
            let mut last = None;
            let question = Question::new("prune", sql).int(pass.from).int(JOBS_PER_CALL);
            let answer = &mut |row: &dyn Fields| {
                last = row.maybe_int(0)?;
                Ok(())
            };
            store.each(question, answer).await?;
            let Some(last) = last else { return Ok(Stage::Over) };
            (pass.jobs, pass.from) = (pass.from..=last, last + 1);
            for table in [&RUNS, &SKIPS] {
                let days = pass.retention.days_max.map_or(ANY, i64::from);
                let question = table.aged(&pass.jobs).int(pass.now).int(days);
                let tasks = &mut pass.tasks;
                store
                    .each(question, &mut |row| {
                        tasks.push(Task { table, job: row.int(0)?, bound: Bound::Before(row.int(1)?) });
                        Ok(())
                    })
                    .await?;
            }
            Ok(Stage::ByAge)
        }
        Stage::ByAge => {
            let mut open: BTreeMap<i64, i64> = BTreeMap::new();
            let sql = format!("select r.job, count(*) from {} group by r.job", open_runs(store));
            let question = Question::new("prune", sql).about("open runs");
            let count = &mut |row: &dyn Fields| {
                open.insert(row.int(0)?, row.int(1)?);
                Ok(())
            };
            store.each(question, count).await?;
            for table in [&RUNS, &SKIPS] {
                let runs = pass.retention.runs_max.map_or(ANY, i64::from);
                let tasks = &mut pass.tasks;
                store
                    .each(table.crowded(&pass.jobs).int(runs), &mut |row| {
                        let job = row.int(0)?;
                        // Open runs are counted with the others, and stay.
                        let open =
                            if table.name == RUNS.name { open.get(&job).copied().unwrap_or(0) } else { 0 };
                        let excess = row.int(1)? - open;
                        tasks.extend((excess > 0).then_some(Task {
                            table,
                            job,
                            bound: Bound::Oldest(excess),
                        }));
                        Ok(())
                    })
                    .await?;
            }
            Ok(Stage::ByCount)
        }
        Stage::ByCount => Ok(Stage::Definitions),
        Stage::Definitions => Ok(Stage::Slice),
        Stage::Over => Ok(Stage::Over),
    }
}

/// Rows of the last tasks, `rows_max` at most. Tasks that have no more are done.
async fn find_rows(store: &impl Forget, tasks: &mut Vec<Task>, rows_max: u32) -> Result<Expired, StoreError> {
    let mut expired = Expired::default();
    let Some(table) = tasks.last().map(|task| task.table) else { return Ok(expired) };
    let alike = tasks.iter().rev().take_while(|task| task.table.name == table.name).count();
    let first = tasks.len() - alike.min(JOBS_PER_QUESTION).min(rows_max.max(1) as usize);
    let each_max = i64::from(rows_max) / (tasks.len() - first) as i64;
    let jobs = numbers_text(tasks[first..].iter().map(|task| task.job));
    let mut rows: BTreeMap<i64, Vec<(i64, Millis)>> = BTreeMap::new();
    let question = table.oldest(dialect(store), each_max).text(jobs);
    store
        .each(question, &mut |row| {
            rows.entry(row.int(0)?).or_default().push((row.int(1)?, row.int(2)?));
            Ok(())
        })
        .await?;
    let gone = if table.name == RUNS.name { &mut expired.runs } else { &mut expired.skips };
    let mut again = Vec::new();
    for mut task in tasks.drain(first..) {
        let mut rows = rows.remove(&task.job).unwrap_or_default();
        rows.sort_unstable();
        let before = gone.len();
        match &mut task.bound {
            Bound::Before(cutoff) => {
                gone.extend(rows.iter().filter(|(_, at)| at < cutoff).map(|(row, _)| *row));
            }
            Bound::Oldest(left) => {
                gone.extend(rows.iter().take(usize::try_from(*left).unwrap_or(0)).map(|(row, _)| *row));
                *left -= (gone.len() - before) as i64;
            }
        }
        let is_done = ((gone.len() - before) as i64) < each_max || matches!(task.bound, Bound::Oldest(..=0));
        again.extend((!is_done).then_some(task));
    }
    tasks.append(&mut again);
    Ok(expired)
}

async fn has_old_definitions(store: &impl Forget, jobs: &RangeInclusive<i64>) -> Result<bool, StoreError> {
    let sql = "select 1 from definitions d where d.job between $1 and $2 and d.revision < coalesce(\
         (select r.revision from runs r where r.job = d.job order by r.run limit 1), d.revision + 1) limit 1";
    let mut found = false;
    let question = Question::new("prune", sql).about("definitions").int(*jobs.start()).int(*jobs.end());
    let answer = &mut |_: &dyn Fields| {
        found = true;
        Ok(())
    };
    store.each(question, answer).await?;
    Ok(found)
}

/// The number of newest runs to keep of each job, so that about this part of all runs is left. Jobs with the longest
/// histories give; rare ones keep theirs.
pub(crate) async fn cap_for(source: &impl Source, part: f64) -> Result<u32, StoreError> {
    let sql = "select c.n, count(*) from (select count(*) as n from runs group by job) c group by c.n";
    let mut histories: Vec<(u64, u64)> = Vec::new();
    source
        .each(Question::new("prune", sql).about("histories"), &mut |row| {
            histories.push((row.int(0)?.unsigned_abs(), row.int(1)?.unsigned_abs()));
            Ok(())
        })
        .await?;
    Ok(cap(&histories, part))
}

/// Of histories as (length, how many there are).
pub(crate) fn cap(histories: &[(u64, u64)], part: f64) -> u32 {
    let kept = |cap: u64| -> u64 { histories.iter().map(|(length, count)| (*length).min(cap) * count).sum() };
    let wanted = (kept(u64::MAX) as f64 * part) as u64;
    let (mut low, mut high) = (0, histories.iter().map(|(length, _)| *length).max().unwrap_or(0));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if kept(middle) <= wanted { low = middle } else { high = middle - 1 }
    }
    u32::try_from(low).unwrap_or(u32::MAX)
}

/// Which of these runs are recorded.
pub(crate) async fn known_runs(source: &impl Source, runs: &[RunId]) -> Result<Vec<RunId>, StoreError> {
    let list = numbers_text(runs.iter().map(|run| code::run_code(*run)));
    let sql = match dialect(source) {
        Dialect::Sqlite => "select run from runs where run in (select value from json_each($1))",
        Dialect::Postgres => {
            "select run from runs where run in (select value::bigint from json_array_elements_text($1::json))"
        }
    };
    let mut known = Vec::new();
    let answer = &mut |row: &dyn Fields| {
        known.push(code::run(row.int(0)?));
        Ok(())
    };
    source.each(Question::new("known_runs", sql).text(list), answer).await?;
    Ok(known)
}

/// A table of rows that belong to jobs and expire: its key, the moment that counts for days, and the condition of
/// rows that may go, of a row `x`.
#[derive(Debug)]
struct Table {
    name: &'static str,
    key: &'static str,
    moment: &'static str,
    over: &'static str,
}

static RUNS: Table =
    Table { name: "runs", key: "run", moment: "coalesce(x.ended_at, x.promised_at)", over: "x.status >= 3" };
static SKIPS: Table = Table { name: "skips", key: "id", moment: "x.at", over: "x.at is not null" };

impl Table {
    /// Jobs whose oldest row ended more days before `$3` than they keep, or than `$4`, and the instant that divides. It
    /// costs one look at a job.
    fn aged(&self, jobs: &RangeInclusive<i64>) -> Question {
        let Table { name, key, moment, over } = self;
        let sql = format!(
            "select c.job, c.cutoff from (select j.job, j.history_kind, $3 - {DAY_MS} * \
             (case when j.history_kind = 0 and j.history_amount < $4 then j.history_amount else $4 end) as cutoff \
             from jobs j where j.job between $1 and $2) c where (c.history_kind = 0 or $4 < {ANY}) and \
             (select {moment} from {name} x where x.job = c.job and {over} order by x.{key} limit 1) < c.cutoff"
        );
        Question::new("prune", sql).about(name).int(*jobs.start()).int(*jobs.end())
    }

    /// Jobs with more rows than they keep, or than `$3`, and how many more. Counted by the index alone.
    fn crowded(&self, jobs: &RangeInclusive<i64>) -> Question {
        let Table { name, .. } = self;
        let sql = format!(
            "select d.job, d.n - d.keep from (select c.job, c.keep, \
             (select count(*) from {name} x where x.job = c.job) as n from (select j.job, \
             (case when j.history_kind = 1 and j.history_amount < $3 then j.history_amount else $3 end) as keep \
             from jobs j where j.job between $1 and $2) c where c.keep < {ANY}) d where d.n > d.keep"
        );
        Question::new("prune", sql).about(name).int(*jobs.start()).int(*jobs.end())
    }

    /// The oldest rows that may go of each of the jobs in `$1`, as (job, row, moment).
    fn oldest(&self, dialect: Dialect, each_max: i64) -> Question {
        let Table { name, key, moment, over } = self;
        let sql = match dialect {
            Dialect::Sqlite => format!(
                "select x.job, x.{key}, {moment} from json_each($1) p cross join {name} x on x.{key} in \
                 (select x.{key} from {name} x where x.job = p.value and {over} order by x.{key} limit {each_max})"
            ),
            Dialect::Postgres => format!(
                "select x.job, x.{key}, {moment} from (select value::bigint as job \
                 from json_array_elements_text($1::json)) p cross join lateral (select * from {name} x \
                 where x.job = p.job and {over} order by x.{key} limit {each_max}) x"
            ),
        };
        Question::new("prune", sql).about(name)
    }
}

fn dialect<S: Source>(_: &S) -> Dialect {
    S::DIALECT
}

/// Numbers that came from the store, as runs.
pub(crate) fn run_ids(numbers: impl IntoIterator<Item = i64>) -> Vec<RunId> {
    numbers.into_iter().map(code::run).collect()
}

/// For stores that go by the job itself.
pub(crate) fn job_of(number: i64) -> JobId {
    JobId(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::cap;

    #[test]
    fn the_longest_histories_give_first() {
        // A hundred jobs with ten runs each, and one with a thousand.
        let histories = [(10, 100), (1000, 1)];
        for (part, expected) in [(1.0, 1000), (0.75, 500), (0.51, 20), (0.5, 9), (0.0, 0)] {
            assert_eq!(cap(&histories, part), expected, "{part}");
        }
        assert_eq!(cap(&[], 0.5), 0);
    }
}
