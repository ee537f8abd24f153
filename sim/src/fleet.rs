//! Jobs drawn from chance: every kind of schedule and policy, in many zones.

use std::sync::Arc;

use cadran_core::{
    Body, Dst, FootprintSpec, Handler, Handlers, Job, JobName, Millis, Misfire, OnConflict, Overlap, Policy,
    PoolShare, Retry, ScheduleAction, ScheduleEntry, Step, StepNo, Zone,
};

use cadran_spec::ScheduleText;

use crate::dice::Dice;

pub(crate) const SEC: Millis = 1_000;
pub(crate) const MIN: Millis = 60_000;
pub(crate) const HOUR: Millis = 3_600_000;
pub(crate) const DAY: Millis = 86_400_000;

/// Zones with early, late, half-hour, double and no clock changes, on both sides of the world.
pub(crate) const ZONES: [&str; 40] = [
    "UTC",
    "Europe/Paris",
    "Europe/London",
    "Europe/Dublin",
    "Europe/Athens",
    "Europe/Moscow",
    "Europe/Istanbul",
    "Europe/Chisinau",
    "America/New_York",
    "America/Chicago",
    "America/Denver",
    "America/Los_Angeles",
    "America/Anchorage",
    "America/St_Johns",
    "America/Halifax",
    "America/Havana",
    "America/Santiago",
    "America/Asuncion",
    "America/Sao_Paulo",
    "America/Mexico_City",
    "America/Nuuk",
    "America/Miquelon",
    "Atlantic/Azores",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Africa/Lagos",
    "Asia/Beirut",
    "Asia/Jerusalem",
    "Asia/Gaza",
    "Asia/Tehran",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Asia/Tokyo",
    "Australia/Sydney",
    "Australia/Lord_Howe",
    "Australia/Adelaide",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Kiritimati",
    "Antarctica/Troll",
];

/// Schedules of a busy fleet. Several parts are separated by `|`.
const BUSY: [&str; 24] = [
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "*/20 * * * * *",
    "7 */2 * * * *",
    "every 7s",
    "every 1m30s",
    "every 2500ms",
    "* * * * * | */7 * * * *",
    "*/10 * * * * | 5-50/3 * * * * | every 4m",
    "*/3 * * * * | stop: 30 */7 * * * *",
    "*/4 * * * * | restart: 0 */9 * * * *",
    "30 2 * * *",
    "30 1,2,3 * * *",
    "15,45 0-5 * * *",
    "0 0 1 * * | */15 * * * *",
    "0 12 L * * | 0 */2 * * *",
    "*/30 * * * MON-FRI",
    "0 9 * * MON#1 | 10 * * * *",
    "59 59 * * * *",
    "@hourly",
    "every 11m",
    "0 30 2 * * * | 0 30 1 * * *",
    "*/6 * * * *",
];

/// Schedules of a fleet that is watched for years: about 14 dues a day on average.
const CALM: [&str; 16] = [
    "0 * * * *",
    "30 2 * * *",
    "*/30 * * * MON-FRI",
    "15 1,2,3 * * *",
    "0 */2 * * *",
    "0 9 * * MON-FRI",
    "0 0 L * *",
    "0 12 * * MON#2",
    "10,40 * * * *",
    "every 30m",
    "every 90m",
    "every 3h20m",
    "5 0 15W * *",
    "0 0 1 * * | 30 6 * * *",
    "23 */3 * * *",
    "*/20 8-18 * * *",
];

/// What a fleet is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Busy,
    Calm,
}

pub(crate) fn name(no: u64) -> JobName {
    match format!("j{no}").parse() {
        Ok(name) => name,
        Err(error) => unreachable!("j{no}: {error}"),
    }
}

pub(crate) fn zone(no: u64) -> Zone {
    Zone::get(ZONES[no as usize % ZONES.len()]).unwrap_or_else(|_| Zone::utc())
}

/// A job in one of a few zones.
pub(crate) fn job(dice: &mut Dice, no: u64, zones: &[Zone], kind: Kind) -> (Job, Vec<ScheduleText>) {
    let zone = &zones[dice.roll(zones.len() as u64) as usize];
    let text = match kind {
        Kind::Busy => dice.pick(&BUSY),
        Kind::Calm => dice.pick(&CALM),
    };
    let dst = dice.pick(&[Dst::Auto, Dst::Auto, Dst::Auto, Dst::Skip, Dst::Shift, Dst::Both]);
    let misfire = dice.pick(&[Misfire::Skip, Misfire::Once, Misfire::All, Misfire::All]);
    let windows = [0, 5 * MIN, HOUR, 6 * HOUR, 30 * DAY];
    let policy = Policy {
        misfire,
        catchup_window_ms: dice.pick(&windows),
        overlap: dice.pick(&[
            Overlap::Allow,
            Overlap::Skip,
            Overlap::Wait,
            Overlap::Latest,
            Overlap::Replace,
        ]),
        priority: dice.roll(3) as i32,
        skip_if_successful: dice.percent(10),
        at_most_once: dice.percent(15),
    };
    let texts = schedules(text, zone, dst);
    let compiled = texts.iter().map(|text| match text.compile() {
        Ok(schedule) => ScheduleEntry { schedule: Arc::new(schedule), action: text.action },
        Err(error) => unreachable!("{}: {error}", text.text),
    });
    let schedules = compiled.collect();
    (Job { name: name(no), schedules, policy, body: Arc::new(body(dice, kind)) }, texts)
}

fn body(dice: &mut Dice, kind: Kind) -> Body {
    let step = |name: &str, dice: &mut Dice| Step {
        name: name.into(),
        retry: Retry {
            limit: dice.roll(3) as u32,
            interval_ms: dice.pick(&[0, 2 * SEC, 20 * SEC]),
            ..Retry::default()
        },
        ..Step::default()
    };
    let mut body = Body { steps: vec![step("work", dice)], ..Body::default() };
    if kind == Kind::Calm {
        return body;
    }
    if dice.percent(25) {
        body.steps.push(Step { depends: vec![StepNo(0)], ..step("then", dice) });
    }
    if dice.percent(15) {
        body.steps.push(step("beside", dice));
        body.max_active_steps = dice.roll(3) as u16;
    }
    if dice.percent(15) {
        let mut handlers = Handlers::default();
        handlers.steps[Handler::Exit as usize] = Some(Box::new(step("on_exit", dice)));
        handlers.steps[Handler::Failure as usize] = Some(Box::new(step("on_failure", dice)));
        body.handlers = handlers;
    }
    body.timeout_ms = dice.percent(20).then_some(90 * SEC);
    // From dice of its own, so that what a job touches changes nothing else about a script.
    body.footprint = footprint(&mut Dice::of(&[dice.clone().draw(), 7]));
    body
}

/// What runs touch: a few things that many want, parents and children of one another.
fn footprint(dice: &mut Dice) -> FootprintSpec {
    let mut footprint = FootprintSpec::default();
    if !dice.percent(40) {
        return footprint;
    }
    for _ in 0..dice.roll(4) {
        let key = dice.pick(&["t:a", "t:a/x", "t:a/y/", "t:b", "t:/", "port:1"]).to_owned();
        match dice.roll(5) {
            0 | 1 => footprint.reads.push(key),
            2 | 3 => footprint.writes.push(key),
            _ => footprint.claims.push(key),
        }
    }
    if dice.percent(40) {
        let units = 1 + dice.roll(3) as u32;
        footprint.pools.push(PoolShare { pool: "gpu".to_owned(), units, capacity: POOL_UNITS });
    }
    footprint.ordered = dice.percent(20);
    if dice.percent(25) {
        footprint.on_conflict = OnConflict::Skip;
    }
    footprint
}

/// Units of the only pool.
pub(crate) const POOL_UNITS: u32 = 4;

/// Schedules of a text, each part with an optional `stop:` or `restart:` before it.
fn schedules(text: &str, zone: &Zone, dst: Dst) -> Vec<ScheduleText> {
    let entry = |part: &str| {
        let (action, expression) = match part.trim().split_once(": ") {
            Some(("stop", rest)) => (ScheduleAction::Stop, rest),
            Some(("restart", rest)) => (ScheduleAction::Restart, rest),
            _ => (ScheduleAction::Start, part.trim()),
        };
        ScheduleText { action, zone: zone.clone(), dst, ..ScheduleText::new(expression) }
    };
    text.split('|').map(entry).collect()
}
