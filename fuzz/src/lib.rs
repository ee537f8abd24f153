//! What comes from outside, read: each function takes any bytes and panics only when a promise is broken.
//!
//! `cargo xtask fuzz TARGET` runs one under libFuzzer; `crates/cadran/tests/fuzz.rs` runs all of them over seeds and
//! changed seeds with every test.

mod api;

pub use api::api;

use cadran_core::{JobName, RunId};
use cadran_cron::{Dialect, INSTANT_END, Schedule, Zone, parse_duration};
use cadran_spec::{Decoder, ReadOptions, Resources, read_job};

/// Every target with a few texts to begin from.
pub const TARGETS: &[(&str, fn(&[u8]), &[&str])] = &[
    (
        "cron",
        cron,
        &[
            "*/5 9-17 * * MON-FRI",
            "0 0 0 LW 1/2 ? 2030-2040",
            "CRON_TZ=Europe/Paris 30 2 * * 5L",
            "every 1h30m",
            "at 2026-12-24T18:00:00+01:00",
            "@daily",
            "0 0 15W,L-3 * FRI#2",
        ],
    ),
    ("zone", zone, &["Europe/Paris", "UTC", "America/Argentina/ComodRivadavia", "Etc/GMT+12", "no"]),
    ("duration", duration, &["1h30m", "250ms", "1.5s", "2d", "9223372036854775807ms"]),
    (
        "job_file",
        job_file,
        &[
            "schedule: every 10s\nrun: echo\n",
            "env: &a {A: 1}\nsteps:\n  - {name: a, run: [x, '${A}'], env: *a, retry: {limit: 2, interval: 1s}}\n  - {name: b, script: |\n      y\n    , depends: a}\n",
            "params: {d: x}\nrun: x\nfootprint: {reads: ['t:${d}/', a:b], writes: s3://c/d, capacity: {gpu: 2 of 4}, on_conflict: skip}\n",
            "resources: {gpu: 4, 't:a': {ordered: true}}\nkinds: [t, s3]\n",
            "schedule: {start: ['* * * * *'], stop: '@daily'}\ntimezone: Asia/Tokyo\nparams: \"a k=v\"\nrun: x\nhandlers: {exit: y}\n",
        ],
    ),
    (
        "stored",
        stored,
        &[
            "{}",
            "{\"v\":1,\"steps\":[]}",
            "{\"schedules\":[{\"text\":\"* * * * *\"}],\"policy\":{},\"body\":{\"steps\":[]}}",
        ],
    ),
    (
        "api",
        api,
        &[
            "GET /api/v1/runs?status=failed&limit=5&from=2026-01-01T00:00:00Z\n",
            "POST /api/v1/jobs/a/trigger\n{\"params\":{\"a\":\"b\"}}",
            "GET /api/v1/runs/0000000000001/logs/main?tail=5\n",
            "GET /api/v1/upcoming?minutes=5\n",
            "POST /api/v1/jobs/%2e%2e/pause\n{}",
        ],
    ),
    ("run_id", run_id, &["0ahye7ej00006", "0000000000000", "7zzzzzzzzzzzz", "nightly.backup-2"]),
];

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// A schedule or an error with a column in the text; dues rise, and all ways of asking agree.
pub fn cron(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let paris = Zone::get("Europe/Paris").expect("a zone");
    for dialect in Dialect::ALL {
        let Ok(schedule) = Schedule::parse(text, &paris, dialect) else { continue };
        for from in [0, 1_774_746_000_000, INSTANT_END - 86_400_000, i64::MAX, i64::MIN] {
            let Some(due) = schedule.next(from) else { continue };
            assert!(due > from && (0..INSTANT_END).contains(&due), "{text:?}: {due} after {from}");
            assert_eq!(schedule.count(due, due + 1), 1, "{text:?}: {due}");
            assert_eq!(schedule.previous(due + 1), Some(due), "{text:?}");
            assert_eq!(schedule.between(due, due + 1).next(), Some(due), "{text:?}");
            if let Some(later) = schedule.next(due) {
                assert!(later > due, "{text:?}");
            }
        }
    }
}

/// A zone of the database, or an error.
pub fn zone(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match Zone::get(text) {
        Ok(zone) => {
            assert!(!zone.name().contains(['\0', '\n']) && !zone.name().starts_with('/'), "{text:?}");
            assert!(zone.offset_at(0).abs() <= 26 * 3_600_000);
        }
        Err(error) => assert!(error.to_string().len() < 2_000),
    }
}

/// A positive number of milliseconds, or an error.
pub fn duration(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match parse_duration(text) {
        Ok(millis) => assert!(millis >= 0, "{text:?}: {millis}"),
        Err(error) => assert!(error.to_string().len() < 2_000),
    }
}

/// A job that survives the store, or errors that can be shown; and the same bytes as a resources file.
pub fn job_file(data: &[u8]) {
    let shown = String::from_utf8_lossy(data);
    let resources = Resources::read(data).unwrap_or_else(|found| {
        assert!(!found.is_empty() && found.len() <= 20);
        Resources::default()
    });
    let options = ReadOptions { resources: resources.into(), ..ReadOptions::default() };
    match read_job(data, "job", &options) {
        Ok(parsed) => {
            let footprint = parsed.job.body.footprint.resolve(&parsed.job.body.params, &[]);
            for (key, _) in footprint.iter().flat_map(|footprint| &footprint.keys) {
                assert!(key.touches(key) && key.parts().all(|part| !part.is_empty()), "{key}");
            }
            let again = Decoder::default()
                .decode(parsed.job.name.clone(), &parsed.definition)
                .expect("what was written");
            assert_eq!((&again.body, &again.policy), (&parsed.job.body, &parsed.job.policy));
        }
        Err(found) => {
            assert!(!found.is_empty() && found.len() <= 20);
            for found in found {
                let text = found.render("f", &shown, false);
                assert!(!text.contains('\x1b') && text.len() < 10_000, "{text}");
                assert!(found.line as usize <= shown.lines().count() + 1, "{found}");
            }
        }
    }
}

/// What stands in the store is a job or an error, whoever wrote it.
pub fn stored(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let name: JobName = "job".parse().expect("a name");
    if let Err(error) = Decoder::default().decode(name, text) {
        assert!(error.to_string().len() < 5_000);
    }
}

/// Names that are safe wherever they stand, and ids that come back as they were.
pub fn run_id(data: &[u8]) {
    let Some(text) = text(data) else { return };
    if let Ok(id) = text.parse::<RunId>() {
        assert_eq!(id.to_string(), text);
        assert_eq!(RunId::from_raw(id.raw()), id);
    }
    if let Ok(name) = text.parse::<JobName>() {
        assert!(
            !name.as_str().contains(['/', '\\', '\0', ' ', '%']) && !name.as_str().starts_with(['.', '-'])
        );
    }
}
