//! Jobs as text in the store: compact, canonical, versioned.

mod intern;
mod shape;
mod work;

use std::sync::Arc;

use cadran_core::{Body, Dst, Job, JobName, Millis, Policy, Schedule, ScheduleAction, ScheduleEntry, Zone};
use cadran_cron::{Dialect, Rule};
use serde_json::value::RawValue;

pub(crate) use intern::JobInterner;
use intern::NamelessJob;
use shape::{BodyShape, Head, Row, ScheduleShape};

/// The version this program writes. It reads this one and those before it.
const VERSION: u32 = 1;

/// A schedule as text, with everything that decides its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleText {
    /// A cron expression, `every …` or `at …`.
    pub text: String,
    /// What its dues do.
    pub action: ScheduleAction,
    /// The zone it is read in, unless the text begins with one.
    pub zone: Zone,
    /// The notation.
    pub dialect: Dialect,
    /// What happens when the clocks change.
    pub dst: Dst,
    /// It has no dues before this instant.
    pub not_before: Option<Millis>,
    /// It has no dues after this instant.
    pub not_after: Option<Millis>,
}

impl ScheduleText {
    /// A start schedule in Cadran's own notation, in UTC.
    pub fn new(text: impl Into<String>) -> ScheduleText {
        ScheduleText {
            text: text.into(),
            action: ScheduleAction::Start,
            zone: Zone::utc(),
            dialect: Dialect::default(),
            dst: Dst::default(),
            not_before: None,
            not_after: None,
        }
    }

    /// The schedule it names.
    pub fn compile(&self) -> Result<Schedule, cadran_cron::Error> {
        let schedule = Schedule::parse(&self.text, &self.zone, self.dialect)?;
        let schedule = schedule.within(self.not_before, self.not_after);
        // Elapsed time and single instants know no clock changes.
        Ok(if matches!(schedule.rule(), Rule::Cron(_)) { schedule.with_dst(self.dst) } else { schedule })
    }
}

/// Why a stored text is not a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not the JSON this program writes.
    #[error("the stored definition of job {name} does not read: {why}")]
    Text {
        /// The job.
        name: JobName,
        /// What the reader of the text says.
        why: String,
    },
    /// Written by a newer program.
    #[error(
        "the stored definition of job {name} has version {found}; this program reads up to {VERSION}: use a newer one"
    )]
    Version {
        /// The job.
        name: JobName,
        /// Its version.
        found: u32,
    },
    /// A schedule, zone or word that this program does not know.
    #[error("the stored definition of job {name} has a bad schedule: {why}")]
    Schedule {
        /// The job.
        name: JobName,
        /// What is wrong with it.
        why: String,
    },
}

/// A job without its name, as text for the store: the same job always gives the same text.
///
/// ```
/// use cadran_core::{Body, Policy, Step, Work};
/// use cadran_spec::{Decoder, ScheduleText, encode};
///
/// let step = Step { name: "main".into(), work: Work::Shell("date".into()), ..Step::default() };
/// let body = Body { steps: vec![step], max_active_steps: 64, ..Body::default() };
/// let text = encode(&[ScheduleText::new("*/5 * * * *")], &Policy::DEFAULT, &body);
/// assert_eq!(&*text, r#"{"v":1,"schedules":["*/5 * * * *"],"body":{"steps":[{"name":"main","run":"date"}]}}"#);
/// let job = Decoder::default().decode("clock".parse().unwrap(), &text).unwrap();
/// assert_eq!(*job.body, body);
/// ```
pub fn encode(schedules: &[ScheduleText], policy: &Policy, body: &Body) -> Arc<str> {
    encode_parts(schedules, policy, body).0
}

/// The text, and the part of it that is the body: jobs with the same body text share the body.
pub(crate) fn encode_parts(schedules: &[ScheduleText], policy: &Policy, body: &Body) -> (Arc<str>, String) {
    // Plain structs of text and numbers always serialise; an empty text would be refused when it is read back.
    let body = serde_json::to_string(&BodyShape::from(body)).unwrap_or_default();
    let head = Head::new(VERSION, schedules.iter().map(ScheduleShape::from).collect(), policy);
    let mut text = serde_json::to_string(&head).unwrap_or_default();
    text.pop();
    text.push_str(",\"body\":");
    text.push_str(&body);
    text.push('}');
    (text.into(), body)
}

/// Reads stored definitions, and lets jobs that are alike share what they have in common.
///
/// It remembers a bounded number of texts, so that a million jobs of a few kinds cost a look-up each.
#[derive(Debug, Default)]
pub struct Decoder {
    interner: JobInterner,
}

impl Decoder {
    /// The job of this name with this definition.
    pub fn decode(&mut self, name: JobName, text: &str) -> Result<Job, DecodeError> {
        if let Some(known) = self.interner.whole(text) {
            return Ok(Job { name, schedules: known.schedules, policy: known.policy, body: known.body });
        }
        let read: Row<'_> = match serde_json::from_str(text) {
            Ok(read) => read,
            Err(error) => return Err(DecodeError::Text { name, why: error.to_string() }),
        };
        if read.v > VERSION {
            return Err(DecodeError::Version { name, found: read.v });
        }
        let policy = match read.policy() {
            Ok(policy) => policy,
            Err(why) => return Err(DecodeError::Text { name, why }),
        };
        let schedules = match self.schedules(read.schedules) {
            Ok(schedules) => schedules,
            Err(why) => return Err(DecodeError::Schedule { name, why }),
        };
        let body = match self.interner.known_body(read.body.get()) {
            Some(body) => body,
            None => {
                let shape: Result<BodyShape<'_>, _> = serde_json::from_str(read.body.get());
                let body = shape.map_err(|error| error.to_string()).and_then(|shape| shape.body());
                match body {
                    Ok(body) => self.interner.body(read.body.get(), || body),
                    Err(why) => return Err(DecodeError::Text { name, why }),
                }
            }
        };
        self.interner
            .remember(text, NamelessJob { schedules: schedules.clone(), policy, body: body.clone() });
        Ok(Job { name, schedules, policy, body })
    }

    fn schedules(&mut self, raw: Option<&RawValue>) -> Result<Arc<[ScheduleEntry]>, String> {
        let Some(raw) = raw else { return Ok(self.interner.schedules(Vec::new())) };
        if let Some(known) = self.interner.known_schedules(raw.get()) {
            return Ok(known);
        }
        let mut entries = Vec::new();
        for text in schedule_texts(raw)? {
            let schedule = text.compile().map_err(|error| format!("`{}`: {error}", text.text))?;
            entries.push(ScheduleEntry { schedule: Arc::new(schedule), action: text.action });
        }
        let entries = self.interner.schedules(entries);
        self.interner.remember_schedules(raw.get(), &entries);
        Ok(entries)
    }
}

/// The schedules of a stored definition as they were written, for people to read.
pub fn stored_schedules(name: &JobName, text: &str) -> Result<Vec<ScheduleText>, DecodeError> {
    let read: Row<'_> = serde_json::from_str(text)
        .map_err(|error| DecodeError::Text { name: name.clone(), why: error.to_string() })?;
    match read.schedules {
        Some(raw) => schedule_texts(raw).map_err(|why| DecodeError::Schedule { name: name.clone(), why }),
        None => Ok(Vec::new()),
    }
}

fn schedule_texts(raw: &RawValue) -> Result<Vec<ScheduleText>, String> {
    let shapes: Vec<ScheduleShape<'_>> =
        serde_json::from_str(raw.get()).map_err(|error| error.to_string())?;
    shapes.into_iter().map(ScheduleShape::text).collect()
}
