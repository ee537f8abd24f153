use cadran_core::{Millis, StepRecord, StepStatus};

/// How many attempts of a step may be lost before the run is given up. A step that takes its executor down each
/// time would otherwise do so forever.
pub const LOST_MAX: u32 = 3;

/// Where a step stands. Finer than [`StepStatus`]: a retry that waits for its interval and one that waits for a
/// free place differ here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    /// Not reached.
    #[default]
    Pending,
    /// An attempt is on.
    Running,
    /// Waits for the interval of its retry.
    Waiting,
    /// Wants another attempt as soon as there is a place.
    Due,
    Succeeded,
    Failed,
    Skipped,
    Stopped,
}

impl State {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Skipped | State::Stopped)
    }

    fn status(self) -> StepStatus {
        match self {
            State::Pending => StepStatus::Pending,
            State::Running => StepStatus::Running,
            State::Waiting | State::Due => StepStatus::Retrying,
            State::Succeeded => StepStatus::Succeeded,
            State::Failed => StepStatus::Failed,
            State::Skipped => StepStatus::Skipped,
            State::Stopped => StepStatus::Stopped,
        }
    }
}

impl From<StepStatus> for State {
    fn from(status: StepStatus) -> State {
        match status {
            StepStatus::Pending => State::Pending,
            StepStatus::Running => State::Running,
            StepStatus::Retrying => State::Waiting,
            StepStatus::Succeeded => State::Succeeded,
            StepStatus::Failed => State::Failed,
            StepStatus::Skipped => State::Skipped,
            StepStatus::Stopped => State::Stopped,
        }
    }
}

/// What is known of one step or handler of a run. Kept small: most runs have one, and many runs are live at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) message: Option<Box<str>>,
    pub(crate) started_at: Moment,
    pub(crate) ended_at: Moment,
    pub(crate) exit_code: Option<i32>,
    /// The highest attempt given out, across openings of the run.
    pub(crate) attempt: u32,
    /// Attempts that failed in this opening of the run; `retry` allows so many.
    pub(crate) failures: u32,
    /// Attempts lost in this opening of the run.
    pub(crate) lost: u32,
    pub(crate) state: State,
    /// The live attempt was told to stop.
    pub(crate) stopping: bool,
    /// Failed because too many attempts were lost.
    pub(crate) given_up: bool,
}

impl Slot {
    /// Begins the next attempt and forgets what the last one left.
    pub(crate) fn start(&mut self) -> u32 {
        self.attempt = self.attempt.saturating_add(1);
        self.state = State::Running;
        self.stopping = false;
        self.started_at = Moment::default();
        self.ended_at = Moment::default();
        self.exit_code = None;
        self.message = None;
        self.attempt
    }

    pub(crate) fn record(&self, name: &str, output: Option<&str>) -> StepRecord {
        StepRecord {
            name: name.into(),
            status: self.state.status(),
            attempt: self.attempt,
            lost: self.lost,
            started_at: self.started_at.get(),
            ended_at: self.ended_at.get(),
            exit_code: self.exit_code,
            message: self.message.clone(),
            output: output.map(Into::into),
            seats: Vec::new(),
            calls: Vec::new(),
        }
    }
}

/// An instant or none, in the eight bytes of the instant. The earliest number means none; no clock shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment(Millis);

impl Moment {
    pub(crate) fn get(self) -> Option<Millis> {
        (self.0 != Millis::MIN).then_some(self.0)
    }
}

impl Default for Moment {
    fn default() -> Moment {
        Moment(Millis::MIN)
    }
}

impl From<Option<Millis>> for Moment {
    fn from(at: Option<Millis>) -> Moment {
        Moment(at.unwrap_or(Millis::MIN))
    }
}

impl From<Millis> for Moment {
    fn from(at: Millis) -> Moment {
        Moment(at)
    }
}
