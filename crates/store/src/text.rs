//! Lists inside a row, as JSON text with a shape of their own. A missing list is no text at all, so that the
//! common row stays narrow. JSON escapes NUL, which PostgreSQL's text cannot hold.

use std::borrow::Cow;

use cadran_core::{
    Address, CallRecord, Millis, Promise, RunId, RunStatus, SeatRecord, SeatStatus, StepRecord, StepStatus,
};
use serde::{Deserialize, Serialize};

/// One step in a row. Names are short because the row of every run carries them.
#[derive(Serialize, Deserialize)]
struct StepShape<'a> {
    #[serde(borrow, rename = "n")]
    name: Cow<'a, str>,
    #[serde(borrow, rename = "s")]
    status: Cow<'a, str>,
    #[serde(rename = "a", default, skip_serializing_if = "is_zero")]
    attempt: u32,
    #[serde(rename = "l", default, skip_serializing_if = "is_zero")]
    lost: u32,
    #[serde(rename = "b", default, skip_serializing_if = "Option::is_none")]
    started_at: Option<Millis>,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Millis>,
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(borrow, rename = "m", default, skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "o", default, skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    seats: Vec<SeatShape<'a>>,
    #[serde(borrow, rename = "c", default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<CallShape<'a>>,
}

/// One run that a step asked for.
#[derive(Serialize, Deserialize)]
struct CallShape<'a> {
    #[serde(rename = "i", default, skip_serializing_if = "is_zero")]
    index: u32,
    #[serde(rename = "r")]
    run: u64,
    #[serde(borrow, rename = "v", default, skip_serializing_if = "str::is_empty")]
    item: Cow<'a, str>,
    #[serde(borrow, rename = "s")]
    status: Cow<'a, str>,
    #[serde(borrow, rename = "o", default, skip_serializing_if = "Option::is_none")]
    output: Option<Cow<'a, str>>,
}

impl<'a> From<&'a CallRecord> for CallShape<'a> {
    fn from(call: &'a CallRecord) -> CallShape<'a> {
        CallShape {
            index: call.index,
            run: call.run.raw(),
            item: Cow::Borrowed(&call.item),
            status: Cow::Borrowed(call.status.word()),
            output: call.output.as_deref().map(Cow::Borrowed),
        }
    }
}

impl CallShape<'_> {
    fn call(self) -> Result<CallRecord, String> {
        Ok(CallRecord {
            index: self.index,
            run: RunId::from_raw(self.run),
            item: self.item.into(),
            status: RunStatus::from_word(&self.status)
                .ok_or_else(|| format!("calls: no status is named {:?}", self.status))?,
            output: self.output.map(Into::into),
        })
    }
}

/// One share of a step at an executor.
#[derive(Serialize, Deserialize)]
struct SeatShape<'a> {
    #[serde(rename = "i", default, skip_serializing_if = "is_zero")]
    index: u32,
    #[serde(rename = "t", default = "one", skip_serializing_if = "is_one")]
    total: u32,
    #[serde(borrow, rename = "u")]
    address: Cow<'a, str>,
    #[serde(rename = "l")]
    log: u64,
    #[serde(rename = "a", default = "one", skip_serializing_if = "is_one")]
    attempt: u32,
    #[serde(rename = "b")]
    at: Millis,
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<Millis>,
    #[serde(borrow, rename = "s")]
    status: Cow<'a, str>,
    #[serde(borrow, rename = "m", default, skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(rename = "r", default, skip_serializing_if = "is_false")]
    again: bool,
}

fn is_false(it: &bool) -> bool {
    !*it
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl<'a> From<&'a SeatRecord> for SeatShape<'a> {
    fn from(seat: &'a SeatRecord) -> SeatShape<'a> {
        SeatShape {
            index: seat.index,
            total: seat.total,
            address: Cow::Borrowed(seat.address.as_str()),
            log: seat.log,
            attempt: seat.attempt,
            at: seat.at,
            ended_at: seat.ended_at,
            status: Cow::Borrowed(seat.status.word()),
            message: seat.message.as_deref().map(Cow::Borrowed),
            again: seat.again,
        }
    }
}

impl SeatShape<'_> {
    fn seat(self) -> Result<SeatRecord, String> {
        Ok(SeatRecord {
            index: self.index,
            total: self.total,
            address: self.address.parse().map_err(|error| format!("steps: {error}"))?,
            log: self.log,
            attempt: self.attempt,
            at: self.at,
            ended_at: self.ended_at,
            status: SeatStatus::from_word(&self.status)
                .ok_or_else(|| format!("steps: no status of a share is named {:?}", self.status))?,
            message: self.message.map(Into::into),
            again: self.again,
        })
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

pub(crate) fn steps_text(steps: &[StepRecord]) -> String {
    let shapes: Vec<StepShape<'_>> = steps
        .iter()
        .map(|step| StepShape {
            name: Cow::Borrowed(&step.name),
            status: Cow::Borrowed(step.status.word()),
            attempt: step.attempt,
            lost: step.lost,
            started_at: step.started_at,
            ended_at: step.ended_at,
            exit_code: step.exit_code,
            message: step.message.as_deref().map(Cow::Borrowed),
            output: step.output.as_deref().map(Cow::Borrowed),
            seats: step.seats.iter().map(SeatShape::from).collect(),
            calls: step.calls.iter().map(CallShape::from).collect(),
        })
        .collect();
    to_json(&shapes)
}

pub(crate) fn steps(text: &str) -> Result<Vec<StepRecord>, String> {
    let shapes: Vec<StepShape<'_>> = serde_json::from_str(text).map_err(|e| format!("steps: {e}"))?;
    shapes
        .into_iter()
        .map(|shape| {
            Ok(StepRecord {
                status: StepStatus::from_word(&shape.status)
                    .ok_or_else(|| format!("steps: no status is named {:?}", shape.status))?,
                name: shape.name.into(),
                attempt: shape.attempt,
                lost: shape.lost,
                started_at: shape.started_at,
                ended_at: shape.ended_at,
                exit_code: shape.exit_code,
                message: shape.message.map(Into::into),
                output: shape.output.map(Into::into),
                seats: shape.seats.into_iter().map(SeatShape::seat).collect::<Result<_, _>>()?,
                calls: shape.calls.into_iter().map(CallShape::call).collect::<Result<_, _>>()?,
            })
        })
        .collect()
}

/// What was given with a trigger: values alone are a list, as they always were.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum TriggerInput {
    Params(Params),
    Both {
        #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
        params: Params,
        #[serde(rename = "u")]
        addresses: Vec<Box<str>>,
    },
}

type Params = Vec<(Box<str>, Box<str>)>;

/// `None` where nothing was given.
pub(crate) fn trigger_input_text(promise: &Promise) -> Option<String> {
    let Promise { params, addresses, .. } = promise;
    if addresses.is_empty() {
        return (!params.is_empty()).then(|| to_json(params));
    }
    let addresses = addresses.iter().map(|address| address.as_str().into()).collect();
    Some(to_json(&TriggerInput::Both { params: params.clone(), addresses }))
}

/// Values for parameters, and executors.
pub(crate) fn trigger_input(text: Option<&str>) -> Result<(Params, Vec<Address>), String> {
    let Some(text) = text else { return Ok(Default::default()) };
    match serde_json::from_str(text).map_err(|e| format!("params: {e}"))? {
        TriggerInput::Params(params) => Ok((params, Vec::new())),
        TriggerInput::Both { params, addresses } => {
            let address = |text: Box<str>| text.parse().map_err(|e| format!("params: {text:?}: {e}"));
            Ok((params, addresses.into_iter().map(address).collect::<Result<_, _>>()?))
        }
    }
}

/// `None` for an empty list.
pub(crate) fn holes_text(holes: &[(Millis, Millis)]) -> Option<String> {
    (!holes.is_empty()).then(|| to_json(&holes))
}

pub(crate) fn holes(text: Option<&str>) -> Result<Vec<(Millis, Millis)>, String> {
    text.map_or(Ok(Vec::new()), |text| serde_json::from_str(text).map_err(|e| format!("holes: {e}")))
}

/// A message with every NUL shown as `␀`: messages quote what programs said, and a stray NUL must not stop a commit.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\u{2400}")) } else { Cow::Borrowed(text) }
}

/// Lists of texts and numbers always have a JSON form.
fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str) -> StepRecord {
        StepRecord {
            name: name.into(),
            status: StepStatus::Pending,
            attempt: 0,
            lost: 0,
            started_at: None,
            ended_at: None,
            exit_code: None,
            message: None,
            output: None,
            seats: Vec::new(),
            calls: Vec::new(),
        }
    }

    fn promise(params: &[&str], addresses: &[&str]) -> Promise {
        Promise {
            run: cadran_core::RunId::from_raw(1),
            job: cadran_core::JobId(0),
            revision: 1,
            due: 0,
            trigger: cadran_core::Trigger::Manual,
            promised_at: 0,
            params: params.iter().map(|&name| (name.into(), "v".into())).collect(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            parent: None,
        }
    }

    fn seat(status: SeatStatus, message: Option<&str>) -> SeatRecord {
        let address = "http://10.0.0.1:9999/".parse().unwrap();
        SeatRecord {
            index: 1,
            total: 2,
            address,
            log: (1 << 53) - 1,
            attempt: 1,
            at: 7,
            ended_at: status.is_ended().then_some(9),
            status,
            message: message.map(Into::into),
            again: false,
        }
    }

    #[test]
    fn steps_survive_their_text() {
        let full = StepRecord {
            status: StepStatus::Failed,
            attempt: 3,
            lost: 2,
            started_at: Some(-5),
            ended_at: Some(i64::MAX),
            exit_code: Some(-1),
            message: Some("it said \"no\"\n\0\\ 🦀".into()),
            output: Some("".into()),
            seats: vec![seat(SeatStatus::Succeeded, None), seat(SeatStatus::Failed, Some("\0 no"))],
            ..step("b'; drop table runs; --")
        };
        let all = vec![step("a"), full];
        let text = steps_text(&all);
        assert!(!text.contains('\0'), "{text}");
        assert_eq!(steps(&text), Ok(all));
        assert_eq!(steps(&steps_text(&[])), Ok(Vec::new()));
        for (status, _) in StepStatus::WORDS {
            let one = vec![StepRecord { status: *status, ..step("x") }];
            assert_eq!(steps(&steps_text(&one)), Ok(one));
        }
    }

    #[test]
    fn shares_survive_their_text() {
        for (status, _) in SeatStatus::WORDS {
            let repeated = SeatRecord { attempt: 3, ..seat(*status, Some("said")) };
            let asked = SeatRecord { again: true, ..repeated.clone() };
            let one = vec![StepRecord { seats: vec![repeated, asked], ..step("x") }];
            assert_eq!(steps(&steps_text(&one)), Ok(one));
        }
    }

    #[test]
    fn the_shape_on_disk_never_changes() {
        let one = StepRecord { status: StepStatus::Succeeded, attempt: 1, started_at: Some(5), ..step("a") };
        assert_eq!(steps_text(&[one]), r#"[{"n":"a","s":"succeeded","a":1,"b":5}]"#);
        let placed = StepRecord { seats: vec![seat(SeatStatus::Running, None)], ..step("a") };
        assert_eq!(
            steps_text(&[placed]),
            r#"[{"n":"a","s":"pending","p":[{"i":1,"t":2,"u":"http://10.0.0.1:9999/","l":9007199254740991,"b":7,"s":"running"}]}]"#
        );
        assert_eq!(trigger_input_text(&promise(&["k"], &[])).unwrap(), r#"[["k","v"]]"#);
        assert_eq!(trigger_input_text(&promise(&[], &["http://h"])).unwrap(), r#"{"u":["http://h"]}"#);
        assert_eq!(
            trigger_input_text(&promise(&["k"], &["http://h", "worker:w"])).unwrap(),
            r#"{"p":[["k","v"]],"u":["http://h","worker:w"]}"#
        );
        assert_eq!(trigger_input_text(&promise(&[], &[])), None);
        assert_eq!(holes_text(&[(1, 2)]).unwrap(), "[[1,2]]");
    }

    #[test]
    fn a_damaged_text_is_an_error_with_its_place() {
        assert!(steps("[{").unwrap_err().starts_with("steps: "));
        assert!(steps(r#"[{"n":"a","s":"odd"}]"#).unwrap_err().contains("\"odd\""));
        assert!(trigger_input(Some("7")).is_err());
        assert!(trigger_input(Some(r#"{"u":["nowhere"]}"#)).unwrap_err().contains("nowhere"));
        assert!(holes(Some("[[1]]")).is_err());
    }
}
