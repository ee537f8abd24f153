//! Every question that is asked of a database, and how its rows become records again.

use std::sync::Arc;

use cadran_core::{
    JobId, JobName, JobPut, JobState, Millis, Promise, RunId, RunRecord, RunStatus, RunUpdate, Skip,
};
use rustc_hash::FxHashSet;

use crate::code::{self, STATUS_ENDED_FROM, STATUS_SUCCEEDED};
use crate::query::{
    Counts, JobQuery, JobRecord, JobView, LastRun, RunQuery, RunView, SkipQuery, SkipView, bounded,
};
use crate::source::{Dialect, Fields, Question, Source};
use crate::{StoreError, packed, text};

const JOB_COLUMNS: &str = "j.job, j.name, j.revision, j.history_kind, j.history_amount, j.removed_at, j.source, \
     j.source_mark, j.definition, s.watermark, s.paused_at, s.holes";

pub(crate) const RUN_COLUMNS: &str = "r.run, r.job, r.revision, r.due, r.trigger, r.promised_at, r.parent, r.parent_depth, \
     r.params, r.status, r.attempt, r.started_at, r.ended_at, r.skip, r.message, r.steps";
/// The columns of a skip, and the name of its job.
pub(crate) const SKIPS: &str = "select s.id, s.job, s.first_due, s.last_due, s.count, s.reason, s.at, j.name \
     from skips s join jobs j on j.job = s.job";

/// Where the columns behind [`RUN_COLUMNS`] begin.
const AFTER_RUN: usize = 16;

/// Jobs in one packed answer: a few hundred kilobytes of text, and a thousandth of the hops.
const JOBS_PACKED: i64 = 2_000;

/// Job numbers in one slice of a load: what is held besides the jobs themselves stays small.
const JOBS_SLICE: i64 = 20_000;

/// How many different texts a load remembers in order to share equal ones. Enough for the definitions a person
/// writes; where every text differs, looking for more would cost time and memory for nothing.
const SHARED_TEXTS_MAX: usize = 1 << 16;

/// The jobs from this number on, a slice of them, and the number to go on with.
pub(crate) async fn load_jobs<S: Source>(
    source: &S,
    first: JobId,
) -> Result<(Vec<JobRecord>, Option<JobId>), StoreError> {
    let (first, end) = (i64::from(first.0), i64::from(first.0) + JOBS_SLICE);
    let mut jobs = Vec::new();
    let mut texts = Texts::default();
    let mut from = first;
    while from < end {
        let part = "(select * from jobs where job >= $1 and job < $2 order by job) j \
             left join job_states s on s.job = j.job";
        // PostgreSQL streams rows; SQLite's are packed.
        let (step, sql) = match S::DIALECT {
            Dialect::Postgres => (JOBS_SLICE, format!("select {JOB_COLUMNS} from {part}")),
            Dialect::Sqlite => {
                (JOBS_PACKED, format!("select json_group_array(json_array({JOB_COLUMNS})) from {part}"))
            }
        };
        let question = Question::new("load", sql).about("jobs").int(from).int(from + step);
        let push = &mut |row: &dyn Fields| {
            if S::DIALECT == Dialect::Postgres {
                jobs.push(job_record(row, &mut texts)?);
                return Ok(());
            }
            for packed in packed::rows(row.text(0)?)? {
                jobs.push(job_record(&packed, &mut texts)?);
            }
            Ok(())
        };
        source.each(question, push).await?;
        from += step;
    }
    // The order inside of a joined or packed answer is not promised by SQL.
    jobs.sort_by_key(|record| record.put.job);
    let mut next = None;
    let question = Question::new("load", "select min(job) from jobs where job >= $1").about("jobs").int(end);
    let note = &mut |row: &dyn Fields| {
        next = row.maybe_int(0)?;
        Ok(())
    };
    source.each(question, note).await?;
    Ok((jobs, next.map(|job| JobId(job as u32))))
}

/// Runs that are open, and the highest id of runs and skips.
pub(crate) async fn load_runs(source: &impl Source) -> Result<(Vec<RunRecord>, Option<RunId>), StoreError> {
    let (mut open, mut last_id) = (Vec::new(), None);
    let sql = format!("select {RUN_COLUMNS} from {} order by r.run", open_runs(source));
    let push = &mut |row: &dyn Fields| {
        open.push(run_record(row)?);
        Ok(())
    };
    source.each(Question::new("load", sql).about("open runs"), push).await?;
    let sql = "select max(run) from runs union all select max(id) from skips";
    let note = &mut |row: &dyn Fields| {
        last_id = last_id.max(row.maybe_int(0)?.map(code::run));
        Ok(())
    };
    source.each(Question::new("load", sql).about("last id"), note).await?;
    Ok((open, last_id))
}

pub(crate) async fn last_successes(
    source: &impl Source,
    jobs: &[JobId],
) -> Result<Vec<(JobId, Millis)>, StoreError> {
    let list = numbers_text(jobs.iter().map(|job| i64::from(job.0)));
    let jobs_of = match dialect(source) {
        Dialect::Sqlite => "(select distinct value as job from json_each($1))",
        Dialect::Postgres => "(select distinct value::bigint as job from json_array_elements_text($1::json))",
    };
    let sql = format!(
        "select w.job, (select r.due from runs r where r.job = w.job and r.status = {STATUS_SUCCEEDED} \
         order by r.run desc limit 1) as due from {jobs_of} w order by w.job"
    );
    let mut found = Vec::new();
    source
        .each(Question::new("last_successes", sql).text(list), &mut |row| {
            if let Some(due) = row.maybe_int(1)? {
                found.push((job(row, 0)?, due));
            }
            Ok(())
        })
        .await?;
    Ok(found)
}

pub(crate) async fn definition(
    source: &impl Source,
    job: JobId,
    revision: u32,
) -> Result<Option<Arc<str>>, StoreError> {
    let sql = "select definition from jobs where job = $1 and revision = $2 \
         union all select definition from definitions where job = $1 and revision = $2";
    let question = Question::new("definition", sql)
        .about(format_args!("job {job} revision {revision}"))
        .int(job.0.into())
        .int(revision.into());
    let mut found = None;
    source
        .each(question, &mut |row| {
            if found.is_none() {
                found = Some(Arc::from(row.text(0)?));
            }
            Ok(())
        })
        .await?;
    Ok(found)
}

pub(crate) async fn revisions(source: &impl Source, job: JobId) -> Result<Vec<u32>, StoreError> {
    let sql = "select cast(revision as bigint) as revision from definitions where job = $1 \
         union select cast(revision as bigint) from jobs where job = $1 order by revision";
    let question = Question::new("revisions", sql).about(format_args!("job {job}")).int(job.0.into());
    let mut found = Vec::new();
    source
        .each(question, &mut |row| {
            found.push(row.int(0)? as u32);
            Ok(())
        })
        .await?;
    Ok(found)
}

pub(crate) async fn run(source: &impl Source, run: RunId) -> Result<Option<RunView>, StoreError> {
    let sql =
        format!("select {RUN_COLUMNS}, j.name from runs r join jobs j on j.job = r.job where r.run = $1");
    let question = Question::new("run", sql).about(run).int(code::run_code(run));
    Ok(run_views(source, question).await?.pop())
}

pub(crate) async fn runs(source: &impl Source, query: &RunQuery) -> Result<Vec<RunView>, StoreError> {
    let only_open = !query.statuses.is_empty() && query.statuses.iter().all(|status| !status.is_ended());
    let from = if only_open { open_runs(source) } else { "runs r" };
    let mut question = Question::new(
        "runs",
        format!("select {RUN_COLUMNS}, j.name from {from} join jobs j on j.job = r.job where r.run >= 0"),
    );
    if let Some(name) = &query.job {
        question = question
            .and_text(" and r.job = (select job from jobs where name = ?)", name.as_str())
            .about(format_args!("job {name}"));
    }
    if !query.statuses.is_empty() {
        let codes: Vec<String> = query.statuses.iter().map(|s| code::status_code(*s).to_string()).collect();
        question = question.and(&format!(" and r.status in ({})", codes.join(", ")));
    }
    if let Some(parent) = query.parent {
        question = question.and_int(" and r.parent = ?", code::run_code(parent));
    }
    if let Some(before) = query.before {
        question = question.and_int(" and r.run < ?", code::run_code(before));
    }
    if let Some(from) = query.due_from {
        question = question.and_int(" and r.due >= ?", from);
    }
    if let Some(to) = query.due_to {
        question = question.and_int(" and r.due < ?", to);
    }
    run_views(source, question.and_int(" order by r.run desc limit ?", bounded(query.limit).into())).await
}

pub(crate) async fn skips(source: &impl Source, query: &SkipQuery) -> Result<Vec<SkipView>, StoreError> {
    let mut question = Question::new("skips", format!("{SKIPS} where s.id >= 0"));
    if let Some(name) = &query.job {
        question = question
            .and_text(" and s.job = (select job from jobs where name = ?)", name.as_str())
            .about(format_args!("job {name}"));
    }
    if let Some(before) = query.before {
        question = question.and_int(" and s.id < ?", code::run_code(before));
    }
    skip_views(source, question.and_int(" order by s.id desc limit ?", bounded(query.limit).into())).await
}

pub(crate) async fn skip_views(
    source: &impl Source,
    question: Question,
) -> Result<Vec<SkipView>, StoreError> {
    let mut views = Vec::new();
    source
        .each(question, &mut |row| {
            let reason = row.int(5)?;
            let skip = Skip {
                id: code::run(row.int(0)?),
                job: job(row, 1)?,
                first_due: row.int(2)?,
                last_due: row.int(3)?,
                count: row.int(4)?.unsigned_abs(),
                reason: code::reason(reason).ok_or_else(|| format!("no skip reason has code {reason}"))?,
                at: row.int(6)?,
            };
            views.push(SkipView { skip, job_name: name(row, 7)? });
            Ok(())
        })
        .await?;
    Ok(views)
}

pub(crate) async fn jobs(source: &impl Source, query: &JobQuery) -> Result<Vec<JobView>, StoreError> {
    let mut question = Question::new("jobs", format!("{} where j.job >= 0", job_view_sql()));
    if let Some(after) = &query.after {
        question = question.and_text(" and j.name > ?", after.as_str());
    }
    if let Some(text) = query.text.as_deref().filter(|text| !text.is_empty()) {
        // Names are ASCII, so lower() means the same in both dialects; position() does not exist in SQLite.
        let sql = match dialect(source) {
            Dialect::Sqlite => " and instr(lower(j.name), ?) > 0",
            Dialect::Postgres => " and strpos(lower(j.name), ?) > 0",
        };
        question = question.and_text(sql, text::message(&text.to_ascii_lowercase()));
    }
    if !query.include_removed {
        question = question.and(" and j.removed_at is null");
    }
    job_views(source, question.and_int(" order by j.name limit ?", bounded(query.limit).into())).await
}

pub(crate) async fn job_named(source: &impl Source, name: &JobName) -> Result<Option<JobView>, StoreError> {
    let question = Question::new("job", format!("{} where j.name = $1", job_view_sql()));
    Ok(job_views(source, question.about(name).text(name.as_str())).await?.pop())
}

pub(crate) async fn counts(source: &impl Source) -> Result<Counts, StoreError> {
    let sql = format!(
        "select -1 as status, count(*) as runs from jobs where removed_at is null \
         union all select r.status, count(*) from {} group by r.status",
        open_runs(source)
    );
    let mut counts = Counts::default();
    source
        .each(Question::new("counts", sql), &mut |row| {
            let count = row.int(1)?.unsigned_abs();
            match row.int(0)? {
                -1 => counts.jobs = count,
                0 => counts.promised = count,
                1 => counts.waiting = count,
                _ => counts.running = count,
            }
            Ok(())
        })
        .await?;
    Ok(counts)
}

/// Open runs as a table `r`, by way of whatever the dialect keeps to find them fast.
pub(crate) fn open_runs(source: &impl Source) -> &'static str {
    const { assert!(STATUS_ENDED_FROM == 3) };
    match dialect(source) {
        Dialect::Sqlite => "(select * from runs where status < 3) r",
        // The upper bound tells a planner without statistics that this is a narrow range.
        Dialect::Postgres => {
            "(select r.* from open_runs o join runs r on r.run = o.run where r.status < 3 union all \
             select r.* from runs r where r.run >= (select h.run from open_horizon h) \
             and r.run <= 9223372036854775807 and r.status < 3) r"
        }
    }
}

fn dialect<S: Source>(_: &S) -> Dialect {
    S::DIALECT
}

pub(crate) fn job_view_sql() -> String {
    format!(
        "select {JOB_COLUMNS}, r.run, r.status, r.due from jobs j left join job_states s on s.job = j.job \
         left join runs r on r.run = (select max(l.run) from runs l where l.job = j.job)"
    )
}

pub(crate) async fn job_views(source: &impl Source, question: Question) -> Result<Vec<JobView>, StoreError> {
    let mut views = Vec::new();
    let mut texts = Texts::default();
    source
        .each(question, &mut |row| {
            let JobRecord { put, removed_at, state } = job_record(row, &mut texts)?;
            let last_run = match row.maybe_int(12)? {
                None => None,
                Some(run) => {
                    Some(LastRun { run: code::run(run), status: status(row.int(13)?)?, due: row.int(14)? })
                }
            };
            views.push(JobView { put, removed_at, state, last_run });
            Ok(())
        })
        .await?;
    Ok(views)
}

pub(crate) async fn run_views(source: &impl Source, question: Question) -> Result<Vec<RunView>, StoreError> {
    let mut views = Vec::new();
    source
        .each(question, &mut |row| {
            views.push(RunView { record: run_record(row)?, job_name: name(row, AFTER_RUN)? });
            Ok(())
        })
        .await?;
    Ok(views)
}

/// The columns of [`JOB_COLUMNS`].
fn job_record(row: &dyn Fields, texts: &mut Texts) -> Result<JobRecord, String> {
    let id = job(row, 0)?;
    job_columns(row, id, texts).map_err(|why| format!("job {id}: {why}"))
}

fn job_columns(row: &dyn Fields, id: JobId, texts: &mut Texts) -> Result<JobRecord, String> {
    let (kind, amount) = (row.int(3)?, row.int(4)?);
    Ok(JobRecord {
        put: JobPut {
            job: id,
            name: name(row, 1)?,
            revision: row.int(2)? as u32,
            history: code::history(kind, amount)
                .ok_or_else(|| format!("no history has code {kind} {amount}"))?,
            source: texts.share(row.text(6)?),
            source_mark: texts.share(row.text(7)?),
            definition: texts.share(row.text(8)?),
        },
        removed_at: row.maybe_int(5)?,
        state: JobState {
            job: id,
            watermark: row.maybe_int(9)?,
            paused_at: row.maybe_int(10)?,
            holes: text::holes(row.maybe_text(11)?)?,
        },
    })
}

/// The columns of [`RUN_COLUMNS`].
fn run_record(row: &dyn Fields) -> Result<RunRecord, String> {
    let run = code::run(row.int(0)?);
    run_columns(row, run).map_err(|why| format!("run {run}: {why}"))
}

fn run_columns(row: &dyn Fields, run: RunId) -> Result<RunRecord, String> {
    let trigger = row.int(4)?;
    let parent = row.maybe_int(6)?.map(code::run);
    let skip = row.maybe_int(13)?;
    let (params, addresses) = text::trigger_input(row.maybe_text(8)?)?;
    Ok(RunRecord {
        promise: Promise {
            run,
            job: job(row, 1)?,
            revision: row.int(2)? as u32,
            due: row.int(3)?,
            trigger: code::trigger(trigger).ok_or_else(|| format!("no trigger has code {trigger}"))?,
            promised_at: row.int(5)?,
            params,
            addresses,
            parent: parent.map(|parent| Ok::<_, String>((parent, row.int(7)? as u32))).transpose()?,
        },
        state: RunUpdate {
            run,
            status: status(row.int(9)?)?,
            attempt: row.int(10)? as u32,
            started_at: row.maybe_int(11)?,
            ended_at: row.maybe_int(12)?,
            skip: skip
                .map(|skip| code::reason(skip).ok_or_else(|| format!("no reason has code {skip}")))
                .transpose()?,
            message: row.maybe_text(14)?.map(Into::into),
            steps: row.maybe_text(15)?.map(text::steps).transpose()?,
        },
    })
}

pub(crate) fn job(row: &dyn Fields, at: usize) -> Result<JobId, String> {
    let number = row.int(at)?;
    code::job(number).ok_or_else(|| format!("{number} is not the number of a job"))
}

fn name(row: &dyn Fields, at: usize) -> Result<JobName, String> {
    row.text(at)?.parse().map_err(|e| format!("a recorded job name: {e}"))
}

fn status(number: i64) -> Result<RunStatus, String> {
    code::status(number).ok_or_else(|| format!("no run status has code {number}"))
}

/// Numbers as a JSON list, the one form of a list that both dialects read.
pub(crate) fn numbers_text(numbers: impl Iterator<Item = i64>) -> String {
    let mut text = String::from("[");
    for number in numbers {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    text.push(']');
    text
}

/// Equal texts, kept once.
#[derive(Default)]
struct Texts {
    known: FxHashSet<Arc<str>>,
}

impl Texts {
    fn share(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.known.get(text) {
            return known.clone();
        }
        let fresh: Arc<str> = text.into();
        if self.known.len() < SHARED_TEXTS_MAX {
            self.known.insert(fresh.clone());
        }
        fresh
    }
}
