//! Rows for the cases.

use cadran_core::{
    Batch, History, JobId, JobName, JobPut, JobState, Millis, Promise, RunId, RunStatus, RunUpdate, Skip,
    SkipReason, StepRecord, StepStatus, Trigger,
};

pub(crate) const DAY: Millis = 24 * 60 * 60 * 1000;

pub(crate) fn name(text: &str) -> JobName {
    text.parse().unwrap()
}

pub(crate) fn run(raw: u64) -> RunId {
    RunId::from_raw(raw)
}

pub(crate) fn put(job: u32) -> JobPut {
    JobPut {
        job: JobId(job),
        name: name(&format!("job-{job:06}")),
        revision: 1,
        definition: format!("{{\"steps\":[\"echo {job}\"]}}").into(),
        source: format!("team/job-{job}.yaml").into(),
        source_mark: "12:34:ab".into(),
        history: History::default(),
    }
}

pub(crate) fn state(job: u32, watermark: Millis) -> JobState {
    JobState { job: JobId(job), watermark: Some(watermark), paused_at: None, holes: Vec::new() }
}

pub(crate) fn promise(raw: u64, job: u32, due: Millis) -> Promise {
    Promise {
        run: run(raw),
        job: JobId(job),
        revision: 1,
        due,
        trigger: Trigger::Schedule,
        promised_at: due - 5,
        params: Vec::new(),
        addresses: Vec::new(),
        parent: None,
    }
}

pub(crate) fn update(raw: u64, status: RunStatus) -> RunUpdate {
    RunUpdate {
        run: run(raw),
        status,
        attempt: 1,
        started_at: None,
        ended_at: None,
        skip: None,
        message: None,
        steps: None,
    }
}

pub(crate) fn ended(raw: u64, ended_at: Millis) -> RunUpdate {
    RunUpdate {
        started_at: Some(ended_at - 1),
        ended_at: Some(ended_at),
        steps: Some(vec![step("main", StepStatus::Succeeded)]),
        ..update(raw, RunStatus::Succeeded)
    }
}

pub(crate) fn step(name: &str, status: StepStatus) -> StepRecord {
    StepRecord {
        name: name.into(),
        status,
        attempt: 1,
        lost: 0,
        started_at: Some(1),
        ended_at: Some(2),
        exit_code: Some(0),
        message: None,
        output: None,
        seats: Vec::new(),
        calls: Vec::new(),
    }
}

pub(crate) fn skip(id: u64, job: u32, at: Millis) -> Skip {
    Skip {
        id: run(id),
        job: JobId(job),
        first_due: at,
        last_due: at,
        count: 1,
        reason: SkipReason::Missed,
        at,
    }
}

/// `count` jobs from number 0, with their states.
pub(crate) fn jobs(count: u32) -> Batch {
    Batch {
        jobs: (0..count).map(put).collect(),
        states: (0..count).map(|job| state(job, 0)).collect(),
        ..Batch::default()
    }
}

pub(crate) fn promised(promised: Vec<Promise>) -> Batch {
    Batch { promised, ..Batch::default() }
}

pub(crate) fn updated(runs: Vec<RunUpdate>) -> Batch {
    Batch { runs, ..Batch::default() }
}
