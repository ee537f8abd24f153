use crate::{Millis, RunId};

/// Why an open run waits, at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// In one sentence.
    pub sentence: String,
    /// What for: `job`, `slot`, `key` or `pool`.
    pub kind: &'static str,
    /// The key or the pool; of a wait for its own job, `job:` and its name.
    pub key: Option<String>,
    /// What the run wants with it: `read`, `write`, `claim`, or units of a pool.
    pub wanted: Option<String>,
    /// The run in the way.
    pub holder: Option<RunId>,
    /// Its job.
    pub holder_job: Option<String>,
    /// Since when that one holds it, or waits for it.
    pub held_since: Option<Millis>,
    /// That one waits itself, and goes first.
    pub in_line: bool,
    /// Since when the run waits.
    pub since: Option<Millis>,
    /// How many of its kind are before it.
    pub before: usize,
    /// Nothing that conflicts passes it any more.
    pub ticket: bool,
    /// How often it was tried in vain.
    pub tries: u32,
}

/// What an open run holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Keys with their use, as in `write of table:orders`; pools as in `2 of pool gpu`.
    pub list: Vec<String>,
    /// Since when.
    pub since: Option<Millis>,
}
