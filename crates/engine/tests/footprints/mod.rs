//! What runs touch: held from admission to the end, on every way a run can end.

use std::sync::Arc;

use cadran_core::{
    Body, Command, FootprintSpec, Job, OnConflict, Overlap, Param, PoolShare, Refusal, Reply, RunId,
    RunStatus,
};

use crate::world::*;

/// Reads `r a:x, w b:y, c port:1, 2 gpu` of a capacity of 4, and `skip` for `on_conflict: skip`.
fn touches(text: &str) -> impl FnOnce(&mut Job) + use<> {
    let mut spec = FootprintSpec::default();
    for item in text.split(", ") {
        let (how, name) = item.split_once(' ').unwrap_or((item, ""));
        let name = name.to_owned();
        match how {
            "r" => spec.reads.push(name),
            "w" => spec.writes.push(name),
            "c" => spec.claims.push(name),
            "skip" => spec.on_conflict = OnConflict::Skip,
            units => spec.pools.push(PoolShare { pool: name, units: units.parse().unwrap(), capacity: 4 }),
        }
    }
    move |job| job.body = Arc::new(Body { footprint: spec, ..(*job.body).clone() })
}

fn message(world: &World, run: RunId) -> String {
    world.record.runs[&run].state.message.as_deref().unwrap_or_default().to_owned()
}

/// Two jobs that write one table; the first hangs, the second waits for it.
fn two() -> (World, RunId, RunId) {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("etl", "", touches("w table:orders"));
    world.put("report", "", touches("r table:orders"));
    world.hangs("etl");
    let (etl, report) = (world.trigger("etl"), world.trigger("report"));
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Running, RunStatus::Waiting));
    (world, etl, report)
}

#[test]
fn who_waits_says_for_what() {
    let (world, etl, report) = two();
    let expected = format!(
        "waiting for read of table:orders held by run {etl} of job etl since 2026-03-02T10:30:30.000Z"
    );
    assert_eq!(message(&world, report), expected);
    let why = world.engine.why(report).unwrap();
    assert_eq!(why.sentence, expected);
    assert_eq!(
        (why.kind, why.key.as_deref(), why.wanted.as_deref()),
        ("key", Some("table:orders"), Some("read"))
    );
    assert_eq!((why.holder, why.holder_job.as_deref()), (Some(etl), Some("etl")));
    assert_eq!(world.engine.why(etl), None);
    let holding = world.engine.holding(etl).unwrap();
    assert_eq!(holding.list, ["write of job:etl", "write of table:orders"]);
}

#[test]
fn every_end_of_a_run_gives_back_what_it_held() {
    let ends: [(&str, fn(&mut World, RunId), RunStatus); 5] = [
        ("success", |world, _| world.finish("etl"), RunStatus::Succeeded),
        ("stop", |world, run| drop(world.stop(run)), RunStatus::Stopped),
        ("failure", |world, _| world.finish("etl"), RunStatus::Failed),
        ("time limit", |world, _| world.run_for(2 * MIN), RunStatus::Failed),
        ("replaced", |world, _| assert!(world.trigger("etl").raw() > 0), RunStatus::Stopped),
    ];
    for (name, end, status) in ends {
        let mut world = World::new("2026-03-02T10:30:30Z");
        world.put("etl", "", |job| {
            touches("w table:orders")(job);
            let mut body = (*job.body).clone();
            body.timeout_ms = (name == "time limit").then_some(MIN);
            job.body = Arc::new(body);
            job.policy.overlap = Overlap::Replace;
        });
        world.put("report", "", touches("r table:orders"));
        world.hangs("etl");
        if name == "failure" {
            world.exits("etl", &[1]);
        }
        let (etl, report) = (world.trigger("etl"), world.trigger("report"));
        world.run_for(SEC);
        assert_eq!(world.status(report), RunStatus::Waiting, "{name}");
        end(&mut world, etl);
        world.run_for(SEC);
        assert_eq!((world.status(etl), world.status(report)), (status, RunStatus::Succeeded), "{name}");
        world.settle();
        world.check();
    }
}

#[test]
fn a_retry_in_between_keeps_what_is_held() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("etl", "", |job| {
        touches("w table:orders")(job);
        retrying(job, 1, 30 * SEC);
    });
    world.put("report", "", touches("r table:orders"));
    world.takes("etl", SEC);
    world.exits("etl", &[1, 0]);
    let (etl, report) = (world.trigger("etl"), world.trigger("report"));
    world.run_for(20 * SEC);
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Running, RunStatus::Waiting));
    world.run_for(20 * SEC);
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Succeeded, RunStatus::Succeeded));
    world.check();
}

#[test]
fn what_is_held_survives_a_crash() {
    let (mut world, etl, report) = two();
    world.run_for(SEC);
    world.restart_after(5 * SEC);
    world.run_for(SEC);
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Running, RunStatus::Waiting));
    assert!(message(&world, report).starts_with("waiting for read of table:orders held by run "));
    world.finish("etl");
    world.run_for(SEC);
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Succeeded, RunStatus::Succeeded));
    world.check();
}

#[test]
fn a_removed_job_holds_until_its_run_ends() {
    let (mut world, etl, report) = two();
    world.remove("etl");
    world.run_for(5 * MIN);
    assert_eq!((world.status(etl), world.status(report)), (RunStatus::Running, RunStatus::Waiting));
    world.finish("etl");
    world.run_for(SEC);
    assert_eq!(world.status(report), RunStatus::Succeeded);
    // One that waits goes with its job, when the time to come back is over.
    let (mut world, etl, _) = two();
    world.put("late", "* * * * *", touches("w table:orders"));
    world.run_for(MIN);
    assert_eq!(world.story("late"), ["10:31 waiting"]);
    world.remove("late");
    world.run_for(3 * MIN);
    assert_eq!(world.story("late"), ["10:31 skipped removed"]);
    world.stop(etl).unwrap();
    world.settle();
    world.check();
}

#[test]
fn on_conflict_skip_is_a_recorded_skip() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("etl", "", touches("w table:orders"));
    world.put("report", "* * * * *", touches("r table:orders, skip"));
    world.hangs("etl");
    let etl = world.trigger("etl");
    world.run_to("2026-03-02T10:31:30Z");
    world.finish("etl");
    world.run_to("2026-03-02T10:32:30Z");
    assert_eq!(world.story("report"), ["10:31 skipped conflict", "10:32 succeeded"]);
    let skipped = world.runs("report")[0];
    let expected =
        format!("read of table:orders held by run {etl} of job etl since 2026-03-02T10:30:30.000Z");
    assert_eq!(message(&world, skipped), expected);
    world.remove("report");
    world.check();
}

#[test]
fn parameters_decide_what_is_touched() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    world.put("load", "", |job| {
        touches("w table:${day}/raw")(job);
        let mut body = (*job.body).clone();
        body.params = vec![Param { name: Some("day".into()), default: "mon".into(), required: false }];
        job.body = Arc::new(body);
        job.policy.overlap = Overlap::Allow;
    });
    world.hangs("load");
    let ask = |world: &mut World, day: Option<&str>| {
        let params = day.map(|day| ("day".into(), day.into())).into_iter().collect();
        world.ask(Command::Trigger {
            job: "load".parse().unwrap(),
            params,
            addresses: Vec::new(),
            parent: None,
            key: None,
        })
    };
    let status = |world: &mut World, day: Option<&str>| {
        let Ok(Reply::Run(run)) = ask(world, day) else { panic!() };
        world.status(run)
    };
    assert_eq!(status(&mut world, None), RunStatus::Running);
    assert_eq!(status(&mut world, Some("tue")), RunStatus::Running);
    assert_eq!(status(&mut world, Some("mon")), RunStatus::Waiting);
    // No value reaches what another one names.
    assert_eq!(status(&mut world, Some("mon/raw")), RunStatus::Running);
    assert_eq!(status(&mut world, Some("/")), RunStatus::Running);
    assert_eq!(status(&mut world, Some("")), RunStatus::Running);
    let long = ask(&mut world, Some(&"x".repeat(257)));
    assert!(matches!(&long, Err(Refusal::Params(why)) if why.contains("at most 256 bytes")), "{long:?}");
}

#[test]
fn a_pool_is_counted_and_may_change_while_runs_hold_it() {
    let mut world = World::new("2026-03-02T10:30:30Z");
    for name in ["a", "b", "c"] {
        world.put(name, "", touches("2 gpu"));
        world.hangs(name);
    }
    let runs = ["a", "b", "c"].map(|name| world.trigger(name));
    let statuses = |world: &World| runs.map(|run| world.status(run));
    use RunStatus::*;
    assert_eq!(statuses(&world), [Running, Running, Waiting]);
    assert!(message(&world, runs[2]).starts_with("waiting for 2 of pool gpu held by run "));
    world.hands.pools.insert("gpu".into(), 6);
    world.put("a", "", |job| {
        touches("2 gpu")(job);
        let mut body = (*job.body).clone();
        body.footprint.pools[0].capacity = 6;
        job.body = Arc::new(body);
    });
    world.hangs("a");
    world.run_for(SEC);
    assert_eq!(statuses(&world), [Running, Running, Running]);
}

#[test]
fn a_crash_at_every_effect_leaves_no_two_that_exclude_one_another() {
    let fleet = || {
        let mut world = World::new("2026-03-02T10:59:40Z");
        for (no, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            world.put(name, "*/20 * * * * *", |job| {
                touches(["w t:x", "r t:x/y, 3 gpu", "w t:x/y, skip", "2 gpu, r t:/"][no])(job);
                job.policy.overlap = [Overlap::Wait, Overlap::Replace, Overlap::Skip, Overlap::Latest][no];
            });
            world.takes(name, [2, 7, 3, 9][no] * SEC);
        }
        world
    };
    let mut calm = fleet();
    calm.run_for(2 * MIN);
    let effects = calm.effects_seen;
    calm.settle();
    calm.check();
    for downtime in [0, 15 * SEC] {
        for after in (0..effects).step_by(3) {
            let mut world = fleet();
            world.crash_after = Some((after, downtime));
            world.run_for(2 * MIN);
            world.settle();
            world.check();
        }
    }
}
