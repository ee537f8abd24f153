//! Mistakes made on purpose, so that the simulation can show that it finds them.
//!
//! Without the feature `planted` no bug can be switched on, and every place that asks compiles to nothing. The
//! deciding crates ask [`on`] at the place where a person could have made the mistake.

/// A mistake that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Bug {
    /// The next due is written as if it were planned, ahead of its promise.
    WatermarkEarly,
    /// A run enters the ring before its promise is durable.
    FireBeforeCommit,
    /// A run that was stopped keeps its place.
    PlaceKeptOnStop,
    /// A waiter that is withdrawn keeps its place in the line.
    WaiterKept,
    /// After a restart an attempt is ordered again under its old number.
    AttemptReused,
    /// A step is tried again under the same number.
    RetrySameAttempt,
    /// Reports are not compared with the attempt that is on.
    StaleReportTaken,
    /// Dues that the index does not cover are passed over.
    IndexAsFilter,
    /// Live dues that pass while a backlog drains are not part of it.
    LiveDueDroppedInBacklog,
    /// The edit of a job forgets its runs that wait.
    WaiterLostOnEdit,
    /// Dues that were promised ahead of a pause are counted as paused too.
    PauseCountedTwice,
    /// The first due inside the catch-up window counts as outside.
    WindowOffByOne,
    /// Runs in the ring are lost when the clock steps back.
    RingLostOnStepBack,
    /// Superseded dues leave no skip.
    SupersededUnsaid,
    /// Stretches that a pause recorded are forgotten by a restart.
    HolesLostOnRestart,
    /// The backlog of a removed job goes on.
    BacklogSurvivesRemoval,
    /// A fixed time runs in both passes of a fold.
    FoldTwice,
    /// A backlog has no bound.
    BacklogUnbounded,
    /// A caught-up run does not see that its job is active.
    OverlapIgnoredByCatchUp,
    /// An order of a job that runs at most once leaves before its start is on record.
    OrderBeforeRecord,
    /// The end of a run leaves one of its keys taken.
    KeyKeptOnRelease,
    /// A refused footprint leaves one of its keys taken.
    PartialMark,
    /// After a restart runs that are on do not hold what they touch.
    FootprintNotRestored,
    /// A key does not exclude what lies below it.
    ParentUnseen,
    /// Every run counts as one unit of a pool.
    PoolUncounted,
    /// An unmet precondition of a job is taken for a mistake of the engine.
    PreconditionPanics,
}

impl Bug {
    /// Every bug with its name on a command line.
    pub const ALL: &'static [(Bug, &'static str)] = &[
        (Bug::WatermarkEarly, "watermark-early"),
        (Bug::FireBeforeCommit, "fire-before-commit"),
        (Bug::PlaceKeptOnStop, "place-kept-on-stop"),
        (Bug::WaiterKept, "waiter-kept"),
        (Bug::AttemptReused, "attempt-reused"),
        (Bug::RetrySameAttempt, "retry-same-attempt"),
        (Bug::StaleReportTaken, "stale-report-taken"),
        (Bug::IndexAsFilter, "index-as-filter"),
        (Bug::LiveDueDroppedInBacklog, "live-due-dropped-in-backlog"),
        (Bug::WaiterLostOnEdit, "waiter-lost-on-edit"),
        (Bug::PauseCountedTwice, "pause-counted-twice"),
        (Bug::WindowOffByOne, "window-off-by-one"),
        (Bug::RingLostOnStepBack, "ring-lost-on-step-back"),
        (Bug::SupersededUnsaid, "superseded-unsaid"),
        (Bug::HolesLostOnRestart, "holes-lost-on-restart"),
        (Bug::BacklogSurvivesRemoval, "backlog-survives-removal"),
        (Bug::FoldTwice, "fold-twice"),
        (Bug::BacklogUnbounded, "backlog-unbounded"),
        (Bug::OverlapIgnoredByCatchUp, "overlap-ignored-by-catch-up"),
        (Bug::OrderBeforeRecord, "order-before-record"),
        (Bug::KeyKeptOnRelease, "key-kept-on-release"),
        (Bug::PartialMark, "partial-mark"),
        (Bug::FootprintNotRestored, "footprint-not-restored"),
        (Bug::ParentUnseen, "parent-unseen"),
        (Bug::PoolUncounted, "pool-uncounted"),
        (Bug::PreconditionPanics, "precondition-panics"),
    ];
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Whether this bug is switched on, on this thread.
#[cfg(feature = "planted")]
pub fn on(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Never: bugs are planted only where the simulation asks for them.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn on(_: Bug) -> bool {
    false
}

/// Switches one bug on, on this thread, and every other off.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}
