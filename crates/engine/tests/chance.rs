//! Random fleets and random faults for some hours each. `CADRAN_SEEDS` says how many,
//! `CADRAN_SEED_FROM` from which on, `CADRAN_SEED` picks one.

mod world;

use cadran_core::{Command, Job, Misfire, Overlap, RunId};
use world::*;

/// xorshift: small, and the same everywhere.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.roll(items.len() as u64) as usize]
    }
}

const SCHEDULES: [&str; 12] = [
    "* * * * *",
    "*/5 * * * *",
    "0 * * * *",
    "*/20 * * * * *",
    "7 */2 * * * *",
    "every 7s",
    "every 1m30s",
    "* * * * * | */7 * * * *",
    "*/10 * * * * | 5-50/3 * * * * | every 4m",
    "*/3 * * * * | stop: 30 */7 * * * *",
    "*/4 * * * * | restart: 0 */9 * * * *",
    "30 2 * * *",
];

fn shape(dice: &mut Dice) -> impl FnOnce(&mut Job) {
    let misfire = dice.pick(&[Misfire::Skip, Misfire::Once, Misfire::All, Misfire::All]);
    let window = dice.pick(&[0, 5 * MIN, HOUR, DAY]);
    let overlap =
        dice.pick(&[Overlap::Allow, Overlap::Skip, Overlap::Wait, Overlap::Latest, Overlap::Replace]);
    let (once, successful) = (dice.roll(5) == 0, dice.roll(5) == 0);
    let retries = dice.roll(3) as u32;
    let priority = dice.roll(3) as i32;
    let limit = (dice.roll(4) == 0).then_some(90 * SEC);
    move |job| {
        job.policy.misfire = misfire;
        job.policy.catchup_window_ms = window;
        job.policy.overlap = overlap;
        job.policy.at_most_once = once;
        job.policy.skip_if_successful = successful;
        job.policy.priority = priority;
        retrying(job, retries, 2 * SEC);
        let mut body = (*job.body).clone();
        body.timeout_ms = limit;
        job.body = body.into();
    }
}

fn name(dice: &mut Dice) -> &'static str {
    dice.pick(&["a", "b", "c", "d", "e"])
}

fn any_run(world: &World, dice: &mut Dice) -> Option<RunId> {
    let newest: Vec<RunId> = world.record.runs.keys().rev().take(20).copied().collect();
    (!newest.is_empty()).then(|| dice.pick(&newest))
}

fn act(world: &mut World, dice: &mut Dice) -> String {
    let job = name(dice);
    let known: cadran_core::JobName = job.parse().unwrap();
    match dice.roll(18) {
        0..=2 => {
            let schedule = dice.pick(&SCHEDULES);
            world.put(job, schedule, shape(dice));
            format!("put {job} {schedule}")
        }
        3 => {
            world.remove(job);
            format!("remove {job}")
        }
        4 => {
            world.command(Command::Pause { job: known });
            format!("pause {job}")
        }
        5 | 6 => {
            world.command(Command::Resume { job: known });
            format!("resume {job}")
        }
        7 => {
            world.command(Command::Trigger {
                job: known,
                params: vec![],
                addresses: Vec::new(),
                parent: None,
                key: None,
            });
            format!("trigger {job}")
        }
        8 => {
            let Some(run) = any_run(world, dice) else { return String::new() };
            world.command(Command::Stop { run });
            format!("stop {run}")
        }
        9 => {
            let Some(run) = any_run(world, dice) else { return String::new() };
            world.command(Command::Retry { run });
            format!("retry {run}")
        }
        10 | 11 => {
            let downtime = dice.pick(&[0, 2 * SEC, 8 * SEC, 40 * SEC, 10 * MIN, 3 * HOUR]);
            world.restart_after(downtime);
            format!("crash, down for {downtime}")
        }
        12 => {
            let after = dice.roll(12);
            let downtime = dice.pick(&[0, 3 * SEC, 5 * MIN]);
            world.crash_after = Some((after, downtime));
            format!("crash after {after} effects, down for {downtime}")
        }
        13 => {
            let by = dice.pick(&[-HOUR, -5 * SEC, -90 * SEC, 7 * SEC, 90 * SEC, HOUR]);
            world.step_clock(by);
            format!("clock {by}")
        }
        14 => {
            let up = !world.store_is_up || dice.roll(2) == 0;
            world.store(up);
            format!("store up: {up}")
        }
        15 => {
            let by = dice.pick(&[3 * SEC, 12 * SEC, 45 * SEC]);
            world.stall(by);
            format!("stall {by}")
        }
        16 => {
            world.finish(job);
            format!("finish {job}")
        }
        _ => {
            match dice.roll(5) {
                0 => world.hangs(job),
                1 => world.exits(job, &[1, 0, 1, 1]),
                roll => world.takes(job, [0, 500, 20 * SEC][roll as usize % 3]),
            }
            format!("manner of {job}")
        }
    }
}

fn live(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut world = World::new("2026-03-28T22:13:20Z");
    let loud = std::env::var_os("CADRAN_SEED").is_some();
    for _ in 0..40 {
        let before = world.clock(world.now.wall);
        let said = act(&mut world, &mut dice);
        if loud {
            eprintln!("{before}: {said}");
        }
        if !world.store_is_up && dice.roll(3) > 0 {
            world.store(true);
        }
        let span = dice.pick(&[0, SEC, 4 * SEC, 30 * SEC, 2 * MIN, 11 * MIN]);
        world.run_for(span);
    }
    world.check();
}

#[test]
fn random_faults_break_no_law() {
    if let Some(seed) = std::env::var("CADRAN_SEED").ok().and_then(|text| text.parse().ok()) {
        return live(seed);
    }
    let seeds = std::env::var("CADRAN_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(30);
    let first = std::env::var("CADRAN_SEED_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        if let Err(panic) = std::panic::catch_unwind(|| live(seed)) {
            eprintln!("seed {seed} (CADRAN_SEED={seed} repeats it)");
            std::panic::resume_unwind(panic);
        }
    }
}
