//! When a job is due, as its file says.

use super::support::{Home, run, wait_for};
use super::{said, stdout};

/// The first dues of a job file after an instant.
fn dues(text: &str, from: &str, count: usize) -> Vec<String> {
    let home = Home::new();
    home.job("job", &format!("{text}\nrun: x\n"));
    let file = home.path("jobs/job.yaml").display().to_string();
    let output = run(&["next", &file, "--from", from, "--count", &count.to_string(), "--json"]);
    assert!(output.status.success(), "{text}: {}", said(&output));
    let answer: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let times = answer["times"].as_array().expect("a list").iter();
    times.map(|time| time.as_str().expect("a text").trim_end_matches(".000Z").to_owned()).collect()
}

// covers: key job.{schedule,timezone,time_zone,tz,dialect,dst}
// covers: key schedule.{cron,expression,every,from,anchor,at,timezone,time_zone,tz,dialect,dst,kind}
#[test]
fn schedules_name_their_instants() {
    let (winter, spring, autumn) = ("2026-01-01T00:00:00Z", "2026-03-29T00:00:00Z", "2026-10-25T00:00:00Z");
    for (text, from, expected) in [
        ("schedule: '30 7 * * *'", winter, vec!["2026-01-01T07:30:00", "2026-01-02T07:30:00"]),
        ("schedule: every 90m", winter, vec!["2026-01-01T01:30:00", "2026-01-01T03:00:00"]),
        ("schedule: at 2026-05-01T00:00:00Z", winter, vec!["2026-05-01T00:00:00"]),
        ("schedule: {cron: '0 8 * * *'}", winter, vec!["2026-01-01T08:00:00"]),
        ("schedule: {expression: '0 8 * * *', kind: cron}", winter, vec!["2026-01-01T08:00:00"]),
        ("schedule: {every: 1h, from: 2026-01-01T00:10:00Z}", winter, vec!["2026-01-01T00:10:00"]),
        ("schedule: {every: 1h, anchor: 2026-01-01T00:20:00Z}", winter, vec!["2026-01-01T00:20:00"]),
        ("schedule: {at: 2026-02-02T02:02:02Z}", winter, vec!["2026-02-02T02:02:02"]),
        (
            "schedule: ['0 8 * * *', {at: 2026-01-01T07:00:00Z}]",
            winter,
            vec!["2026-01-01T07:00:00", "2026-01-01T08:00:00"],
        ),
        // The zone of the job, and of one schedule.
        ("timezone: Asia/Tokyo\nschedule: '0 9 * * *'", winter, vec!["2026-01-02T00:00:00"]),
        ("time_zone: America/New_York\nschedule: '0 9 * * *'", winter, vec!["2026-01-01T14:00:00"]),
        (
            "tz: Asia/Tokyo\nschedule: {cron: '0 9 * * *', timezone: Europe/Paris}",
            winter,
            vec!["2026-01-01T08:00:00"],
        ),
        (
            "schedule: [{cron: '0 9 * * *', time_zone: Asia/Tokyo}, {cron: '0 9 * * *', tz: Europe/Paris}]",
            winter,
            vec!["2026-01-01T08:00:00", "2026-01-02T00:00:00"],
        ),
        // Quartz counts weekdays from Sunday as 1, cron from Sunday as 0: the second day is Monday here, Tuesday there.
        ("dialect: quartz\nschedule: '0 0 9 ? * 2'", winter, vec!["2026-01-05T09:00:00"]),
        ("schedule: {cron: '0 0 9 ? * 2', dialect: quartz}", winter, vec!["2026-01-05T09:00:00"]),
        ("dialect: vixie\nschedule: '0 9 * * 2'", winter, vec!["2026-01-06T09:00:00"]),
        // 02:30 does not exist on the day of the change in spring, and comes twice in autumn.
        (
            "timezone: Europe/Paris\nschedule: '30 2 * * *'",
            spring,
            vec!["2026-03-29T01:00:00", "2026-03-30T00:30:00"],
        ),
        ("timezone: Europe/Paris\ndst: skip\nschedule: '30 2 * * *'", spring, vec!["2026-03-30T00:30:00"]),
        (
            "timezone: Europe/Paris\nschedule: {cron: '30 2 * * *', dst: both}",
            autumn,
            vec!["2026-10-25T00:30:00", "2026-10-25T01:30:00"],
        ),
        (
            "timezone: Europe/Paris\ndst: auto\nschedule: '30 2 * * *'",
            autumn,
            vec!["2026-10-25T00:30:00", "2026-10-26T01:30:00"],
        ),
    ] {
        assert_eq!(dues(text, from, expected.len()), expected, "{text}");
    }
    let home = Home::new();
    home.job("wrong", "schedule: {cron: '0 8 * * *', kind: every}\nrun: x\n");
    let output = run(&["check", &home.path("jobs").display().to_string()]);
    assert_eq!((output.status.code(), said(&output).contains("`kind` is every")), (Some(1), true));
}

// covers: key job.schedule
// covers: key schedule_actions.{start,stop,restart}
#[test]
fn a_schedule_stops_and_restarts_what_runs() {
    let home = Home::new();
    let line = |name: &str, schedule: &str| {
        let out = home.path(name).display().to_string();
        home.job(name, &format!("schedule: {schedule}\nrun: echo begun >> {out}; trap 'echo ended >> {out}; exit 1' TERM; sleep 300 & wait\n"));
    };
    line("stopped", "{start: every 3s, stop: {every: 3s, from: 2026-01-01T00:00:01Z}}");
    line("restarted", "{restart: every 2s}");
    let server = home.serve();
    let stopped = server.run_with("stopped", "stopped");
    assert_eq!(stopped["trigger"], "schedule", "{stopped}");
    wait_for("a second start", || (home.lines("stopped").len() >= 3).then_some(()));
    assert_eq!(home.lines("stopped")[..3], ["begun", "ended", "begun"]);
    wait_for("a second start", || (home.lines("restarted").len() >= 3).then_some(()));
    assert_eq!(home.lines("restarted")[..3], ["begun", "ended", "begun"]);
    server.run_with("restarted", "stopped");
    assert!(server.stop().success());
}
