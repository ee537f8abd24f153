//! The wall clock jumps, stands still and races, and the law holds: every due has one record, nothing runs twice,
//! nothing that runs is stopped for it.

mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use support::faketime::Clock;
use support::law::{Rule, Verdict, Window, settle};
use support::ledger::Ledger;
use support::{Home, Server, wait_for};

const HOUR: i64 = 3_600_000;

const RULES: &[Rule] = &[
    Rule { job: "beat", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "once", period_ms: 60_000, at_most_once: true, fails: false, steps: 1 },
    Rule { job: "none", period_ms: 60_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "all", period_ms: 300_000, at_most_once: false, fails: false, steps: 1 },
];

/// At an hour a second: few enough to be run at that pace.
const RACE: &[Rule] = &[
    Rule { job: "once", period_ms: 60_000, at_most_once: true, fails: false, steps: 1 },
    Rule { job: "none", period_ms: 60_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "half", period_ms: 1_800_000, at_most_once: false, fails: false, steps: 1 },
];

/// A server under a clock of the test's, with jobs of each misfire policy.
struct World {
    home: Home,
    clock: Clock,
    ledger: Ledger,
    rules: &'static [Rule],
    window: Window,
    server: Server,
}

impl World {
    fn new(name: &str, rules: &'static [Rule], clock_text: &str) -> Option<World> {
        let home = Home::new();
        let clock = Clock::new(&home)?;
        clock.set(clock_text);
        let ledger = Ledger::new(&home, name);
        let job = |name: &str, head: &str, seconds: &str| {
            if name != "hold" && !rules.iter().any(|rule| rule.job == name) {
                return;
            }
            home.job(name, &format!("{head}env: {{LD_PRELOAD: ''}}\nrun: {}\n", ledger.act(seconds, 1)));
        };
        job("beat", "schedule: every 1s\n", "0");
        job("once", "schedule: '* * * * *'\nretry: never\n", "0");
        job("none", "schedule: every 1m\nmisfire: skip\n", "0");
        job("all", "schedule: every 5m\ncatchup_window: 30d\n", "0");
        job("half", "schedule: '*/30 * * * *'\ncatchup_window: 30d\n", "0");
        job("hold", "timeout: 10m\n", "5");
        home.job("hand", "env: {LD_PRELOAD: ''}\nrun: 'true'\n");
        let earliest_ms = wall_ms();
        let server = home.start(clock.rule(home.serve_command(&[])));
        let window = Window { earliest_ms, from_ms: wall_ms(), jumps: true, ..Window::default() };
        Some(World { home, clock, ledger, rules, window, server })
    }

    /// A run that is under way when the clock jumps.
    fn hold(&self) -> String {
        let run = self.server.trigger("hold", "{}");
        wait_for("the start", || self.ledger.entries().iter().any(|entry| entry.run == run).then_some(()));
        run
    }

    /// It went on through the jump, in its first attempt.
    fn held(&self, run: &str) {
        let record = self.server.run_is(run, "succeeded");
        assert_eq!(record["attempt"], 1, "{record}");
    }

    /// The loop has turned a few times.
    fn turns(&self) {
        let turned = || {
            let (_, text) = self.server.get("/metrics");
            let line =
                text.as_str()?.lines().find(|line| line.starts_with("cadran_lateness_seconds_count"))?;
            line.split(' ').nth(1)?.parse::<f64>().ok()
        };
        let before = turned().expect("a metric");
        wait_for("a few dues", || (turned()? >= before + 2.0).then_some(()));
    }

    /// Everything due up to now on the server's clock, `ahead_ms` off the true one, has its one record.
    fn settled(&mut self, ahead_ms: i64) -> Verdict {
        self.window.to_ms = wall_ms() + ahead_ms;
        let verdict = settle(&self.server, &self.ledger, self.rules, &self.window);
        assert!(verdict.is_clean(), "{verdict}\n{}", self.home.log());
        verdict
    }

    fn skipped(&self, job: &str, reason: &str) -> u64 {
        let history = self.server.history(job);
        let stretches = history.iter().filter(|item| item["kind"] == "skip" && item["reason"] == reason);
        stretches.filter_map(|item| item["count"].as_u64()).sum()
    }

    fn caught_up(&self, job: &str) -> Vec<Value> {
        let history = self.server.history(job);
        history.into_iter().filter(|item| item["trigger"] == "catch_up").collect()
    }
}

#[test]
fn an_hour_forward() {
    let Some(mut world) = World::new("forward", RULES, "+0") else { return };
    world.server.run_with("beat", "succeeded");
    let run = world.hold();
    world.clock.set("+3600");
    wait_for("the jump", || (world.skipped("beat", "superseded") > 3_000).then_some(()));
    world.turns();
    let verdict = world.settled(HOUR);
    println!("an hour forward: {verdict}");
    // One run each for what was jumped over, none, or every one, as the job says.
    assert_eq!(world.caught_up("beat").len(), 1);
    assert_eq!(world.caught_up("once").len(), 1);
    assert_eq!(world.caught_up("none").len(), 0);
    assert!((58..=60).contains(&world.skipped("none", "missed")), "{verdict}");
    assert!((11..=12).contains(&world.caught_up("all").len()), "{verdict}");
    world.held(&run);
    assert!(world.server.stop().success());
}

#[test]
fn an_hour_back_and_forth() {
    let Some(mut world) = World::new("back", RULES, "+0") else { return };
    world.server.run_with("beat", "succeeded");
    let run = world.hold();
    world.clock.set("-3600");
    // What is due within the hour was decided already: the server is up and nothing of it happens again.
    let manual = world.server.trigger("hand", "{}");
    world.server.run_is(&manual, "succeeded");
    let dues = |server: &Server| {
        server.history("beat").iter().filter_map(|item| item["due_ms"].as_i64()).collect::<Vec<_>>()
    };
    let before = dues(&world.server);
    world.held(&run);
    let after = dues(&world.server);
    assert_eq!(before, after, "nothing new while the clock repeats itself");
    world.clock.set("+0");
    world.turns();
    let verdict = world.settled(0);
    println!("an hour back and forth: {verdict}");
    assert!(world.server.stop().success());
}

#[test]
fn a_day_forward_stays_within_the_limit() {
    let Some(mut world) = World::new("day", RULES, "+0") else { return };
    let many = "schedule: every 1m\ncatchup_window: 30d\nenv: {LD_PRELOAD: ''}\nrun: 'true'\n";
    world.home.job("many", many);
    wait_for("the job", || (world.server.get("/api/v1/jobs/many").0 == 200).then_some(()));
    world.server.run_with("beat", "succeeded");
    let run = world.hold();
    world.clock.set("+86400");
    let limited = wait_for("the limit", || Some(world.skipped("many", "backlog_limit")).filter(|n| *n > 0));
    // 1440 minutes: the newest thousand are kept, and no more than one of them is open at a time.
    assert!((430..=440).contains(&limited), "{limited}");
    for _ in 0..5 {
        assert!(
            world.server.runs("many", "promised,waiting,running").len() <= 6,
            "a backlog runs one by one"
        );
    }
    let replayed =
        wait_for("a part of the backlog", || Some(world.caught_up("many")).filter(|r| r.len() > 50));
    let first = replayed.iter().filter_map(|run| run["due_ms"].as_i64()).min().expect("runs");
    let stretch = world.server.history("many").into_iter().find(|item| item["reason"] == "backlog_limit");
    let last_skipped = stretch.and_then(|stretch| stretch["last_due_ms"].as_i64()).expect("a stretch");
    assert_eq!(first, last_skipped + 60_000, "the backlog begins where the skipped dues end");
    world.held(&run);
    let verdict = world.settled(24 * HOUR);
    println!("a day forward: {verdict}");
    assert_eq!(world.caught_up("beat").len(), 1);
    assert!((285..=289).contains(&world.caught_up("all").len()), "{verdict}");
    assert!(world.server.stop().success());
}

#[test]
fn a_clock_that_stands_still() {
    let Some(mut world) = World::new("freeze", RULES, "+0") else { return };
    world.server.run_with("beat", "succeeded");
    let run = world.hold();
    let frozen = jiff::Timestamp::from_second(wall_ms() / 1_000).expect("an instant");
    world.clock.set(&frozen.strftime("%Y-%m-%d %H:%M:%S").to_string());
    // No due comes, and runs by hand and those under way are not held up.
    for _ in 0..3 {
        let manual = world.server.trigger("hand", "{}");
        world.server.run_is(&manual, "succeeded");
    }
    world.held(&run);
    world.clock.set("+0");
    world.turns();
    let verdict = world.settled(0);
    println!("a frozen clock: {verdict}");
    assert!(world.server.stop().success());
}

#[test]
fn a_clock_that_races() {
    // An hour a second from the start.
    let Some(mut world) = World::new("race", RACE, "+0 x3600") else { return };
    let edge = |history: &[Value], pick: fn(i64, i64) -> i64| {
        let names = ["due_ms", "first_due_ms", "last_due_ms"];
        let dues = history.iter().flat_map(|item| names.iter().filter_map(|name| item[*name].as_i64()));
        dues.reduce(pick)
    };
    let history = wait_for("half a day", || {
        let history = world.server.history("none");
        let gone = edge(&history, i64::max)? - edge(&history, i64::min)?;
        (gone > 12 * HOUR).then_some(history)
    });
    // From a few hours later on it goes at the usual pace: what is open ends.
    let ahead_ms = edge(&history, i64::max).expect("records") - wall_ms() + 6 * HOUR;
    world.clock.set(&format!("+{} x1", ahead_ms / 1_000));
    // Which due was the first depends on how far the clock was when the jobs were seen.
    let half = RACE[2].period_ms;
    world.window.from_ms = (edge(&history, i64::min).expect("records") / half + 1) * half;
    let verdict = world.settled(ahead_ms - 5_000);
    println!("a racing clock: {verdict}");
    assert!(world.server.stop().success());
}

#[allow(clippy::disallowed_methods)]
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64
}
