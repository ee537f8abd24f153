//! Server and executor are killed at random moments, again and again, and nothing is lost or done twice. What ran goes on
//! when the server is killed, and what had ended is not repeated; only what a killed executor had on starts again.
//!
//! `CADRAN_KILLS`, `CADRAN_KILLS_STORE` and `CADRAN_KILLS_SEED` choose how often, where and in which order;
//! `cargo xtask kills` sets them.

mod support;

use std::process::Child;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use support::chance::Chance;
use support::law::{Rule, Verdict, Window, judge_dues, judge_starts, settle};
use support::ledger::{Entry, Ledger, Process, marked};
use support::postgres::Schema;
use support::{Home, Server, wait_for};

/// Kills in a usual run of the tests, on each store.
const KILLS: u64 = 30;

/// How long a server may live before it is killed.
const LIFE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(1_500));

/// Long enough for dues that nobody had promised (five seconds ahead) to be missed (more than ten seconds late).
const ABSENCE: Duration = Duration::from_secs(18);

/// One absence in so many kills.
const ABSENCE_EVERY: u64 = 30;

const RULES: &[Rule] = &[
    Rule { job: "quick", period_ms: 500, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "once", period_ms: 1_000, at_most_once: true, fails: false, steps: 1 },
    Rule { job: "long", period_ms: 2_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "line", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "latest", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "replace", period_ms: 2_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "all", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "none", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "flow", period_ms: 2_000, at_most_once: false, fails: true, steps: 3 },
    Rule { job: "stray", period_ms: 3_000, at_most_once: false, fails: false, steps: 1 },
];

fn write_jobs(home: &Home, ledger: &Ledger) {
    let act = |seconds: &str| ledger.act(seconds, 1);
    let marker = &ledger.marker;
    home.job("quick", &format!("schedule: every 500ms\noverlap: allow\nrun: {}\n", act("0")));
    home.job("once", &format!("schedule: every 1s\nretry: never\nrun: {}\n", act("0.2")));
    home.job("long", &format!("schedule: every 2s\nrun: {}\n", act("1.5")));
    home.job("line", &format!("schedule: '* * * * * *'\noverlap: wait\nrun: {}\n", act("0.1")));
    home.job("latest", &format!("schedule: every 1s\noverlap: latest\nrun: {}\n", act("1.2")));
    home.job("replace", &format!("schedule: '*/2 * * * * *'\noverlap: replace\nrun: {}\n", act("1.8")));
    home.job("all", &format!("schedule: every 1s\ncatchup_window: 1h\nrun: {}\n", act("0")));
    home.job("none", &format!("schedule: every 1s\nmisfire: skip\nrun: {}\n", act("0.3")));
    home.job(
        "flow",
        &format!(
            "schedule: every 2s\nsteps:\n  - {{name: a, run: {0}}}\n  - {{name: b, run: {1}, depends: a, retry: \
             {{limit: 3, interval: 50ms}}}}\n  - {{name: c, run: {0}, depends: b}}\n",
            act("0.1"),
            ledger.act("0", 2),
        ),
    );
    // What it leaves in the background goes with it.
    home.job(
        "stray",
        &format!(
            "schedule: every 3s\nrun: |\n  (setsid sh -c 'sleep 300; : {marker}' &)\n  {}\n",
            act("0.5")
        ),
    );
}

#[test]
fn nothing_is_lost_or_doubled_on_sqlite() {
    if chosen("sqlite") {
        kill_again_and_again("sqlite", None);
    }
}

#[test]
fn nothing_is_lost_or_doubled_on_postgres() {
    if chosen("postgres")
        && let Some(schema) = Schema::new()
    {
        kill_again_and_again("postgres", Some(schema.url()));
    }
}

/// A checker that finds nothing proves nothing: each of these mistakes must be found.
#[test]
fn the_checker_finds_what_is_planted() {
    const RULE: Rule = Rule { job: "j", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 };
    const ONCE: Rule = Rule { at_most_once: true, ..RULE };
    let run = |id: &str, due: i64, status: &str| {
        let due_text = format!("due{due}");
        serde_json::json!({"kind": "run", "id": id, "due_ms": due, "due": due_text, "status": status, "trigger": "schedule",
            "ended": status != "running", "ended_at_ms": due + 100})
    };
    let skip = |first: i64, last: i64, count: i64| serde_json::json!({"kind": "skip", "id": "s", "first_due_ms": first, "last_due_ms": last, "count": count, "reason": "missed"});
    let entry = |start: bool, run: &str, due: i64, attempt: u32, at_ms: i64| Entry {
        start,
        job: "j".into(),
        step: "main".into(),
        due: format!("due{due}"),
        run: run.into(),
        attempt,
        at_ms,
        both: false,
    };
    let (start, end) =
        (|run, due| entry(true, run, due, 1, due), |run, due| entry(false, run, due, 1, due + 50));
    let again = |attempt| entry(true, "a", 2_000, attempt, 2_040);
    let good = || vec![run("a", 2_000, "succeeded"), skip(3_000, 4_000, 2)];
    let ran = || vec![start("a", 2_000), end("a", 2_000)];
    let both = Entry { both: true, ..start("a", 2_000) };
    let kill = (2_010, 2_030);
    let check = |what: &str,
                 rule: Rule,
                 history: Vec<Value>,
                 ledger: Vec<Entry>,
                 kills: Vec<(i64, i64)>,
                 found: [u64; 3]| {
        let window =
            Window { earliest_ms: 1_000, from_ms: 1_000, to_ms: 4_500, kills_ms: kills, jumps: false };
        let mut verdict = Verdict::default();
        judge_dues(&rule, &history, &window, &mut verdict);
        judge_starts(&rule, &history, &ledger.iter().collect::<Vec<_>>(), &window, &mut verdict);
        let seen = [verdict.lost, verdict.doubled, verdict.findings.len() as u64];
        assert_eq!(seen, found, "{what}: {verdict}");
    };
    check("all well", RULE, good(), ran(), vec![], [0, 0, 0]);
    check(
        "a due without a record",
        RULE,
        vec![run("a", 2_000, "succeeded"), skip(3_000, 3_000, 1)],
        ran(),
        vec![],
        [1, 0, 1],
    );
    check(
        "a due with two records",
        RULE,
        [good(), vec![run("b", 3_000, "failed")]].concat(),
        ran(),
        vec![],
        [0, 1, 1],
    );
    check(
        "a skip that counts wrongly",
        RULE,
        vec![run("a", 2_000, "succeeded"), skip(3_000, 4_000, 1)],
        ran(),
        vec![],
        [0, 0, 1],
    );
    check(
        "a due that is none",
        RULE,
        [good(), vec![run("b", 4_400, "failed")]].concat(),
        ran(),
        vec![],
        [0, 0, 1],
    );
    check("a success that nobody saw", RULE, good(), vec![start("a", 2_000)], vec![], [1, 0, 1]);
    check(
        "a start that is not on record",
        RULE,
        good(),
        [ran(), vec![start("b", 3_000)]].concat(),
        vec![],
        [0, 0, 1],
    );
    check(
        "a skipped run that ran",
        RULE,
        vec![run("a", 2_000, "skipped"), skip(3_000, 4_000, 2)],
        ran(),
        vec![],
        [0, 0, 1],
    );
    check(
        "a start after the end",
        RULE,
        good(),
        vec![entry(true, "a", 2_000, 1, 2_200), end("a", 2_000)],
        vec![],
        [0, 0, 1],
    );
    check("the same attempt twice", RULE, good(), [ran(), vec![again(1)]].concat(), vec![kill], [0, 1, 1]);
    check(
        "a second attempt after a kill",
        RULE,
        good(),
        [ran(), vec![again(2)]].concat(),
        vec![kill],
        [0, 0, 0],
    );
    check(
        "a second attempt without a kill",
        RULE,
        good(),
        [ran(), vec![again(2)]].concat(),
        vec![],
        [0, 1, 1],
    );
    check(
        "a second start of what starts once",
        ONCE,
        good(),
        [ran(), vec![again(2)]].concat(),
        vec![kill],
        [0, 1, 1],
    );
    check("two attempts alive", RULE, good(), vec![both, end("a", 2_000)], vec![], [0, 1, 1]);
    let two = [good(), vec![run("b", 2_000, "succeeded")]].concat();
    check(
        "a due under two ids",
        RULE,
        two,
        [ran(), vec![start("b", 2_000), end("b", 2_000)]].concat(),
        vec![],
        [0, 2, 2],
    );
}

fn chosen(store: &str) -> bool {
    std::env::var("CADRAN_KILLS_STORE").map_or(true, |wanted| wanted.is_empty() || wanted == store)
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn kill_again_and_again(store: &str, url: Option<String>) {
    let seed = number("CADRAN_KILLS_SEED").unwrap_or(1);
    let kills = number("CADRAN_KILLS").unwrap_or(KILLS);
    println!("{store}: {kills} kills, CADRAN_KILLS_SEED={seed}");
    let mut chance = Chance::new(seed);
    let home = Home::new();
    let ledger = Ledger::new(&home, store);
    write_jobs(&home, &ledger);
    let args: Vec<&str> = url.iter().flat_map(|url| ["--store", url.as_str()]).collect();

    let mut window = Window { earliest_ms: wall_ms(), ..Window::default() };
    let mut server = Some(home.serve_with(&args));
    window.from_ms = wall_ms();
    // What killed executors have left: it goes when the next one is there.
    let mut left: Vec<Process> = Vec::new();
    for no in 1..=kills {
        // One in four is killed while it starts.
        let alive = match server.take() {
            Some(server) => Alive::Ready(server),
            None if chance.percent(25) => {
                Alive::Starting(home.serve_command(&args).spawn().expect("a server"))
            }
            None => Alive::Ready(home.serve_with(&args)),
        };
        if matches!(alive, Alive::Ready(_)) {
            close(&mut window);
            wait_for("what a killed executor left to go", || {
                left.iter().all(|process| !process.is_alive()).then_some(())
            });
            left.clear();
        }
        match &alive {
            Alive::Ready(_) => pass(chance.between(LIFE.0, LIFE.1)),
            Alive::Starting(_) => pass(chance.between(Duration::ZERO, Duration::from_millis(400))),
        }
        // One in three takes the executor with it, or the executor goes alone, in either order.
        let (executor_first, executor_last) = (chance.percent(20), chance.percent(15));
        if executor_first {
            window.kills_ms.push((wall_ms(), i64::MAX));
            home.kill_executor();
            left.extend(marked(&ledger.marker));
            if chance.percent(50)
                && let Alive::Ready(alive) = alive
            {
                // The server starts another one by itself.
                wait_for("the next executor", || home.executor());
                close(&mut window);
                server = Some(alive);
                continue;
            }
        }
        alive.kill();
        if executor_last {
            window.kills_ms.push((wall_ms(), i64::MAX));
            home.kill_executor();
            left.extend(marked(&ledger.marker));
        }
        if no % ABSENCE_EVERY == ABSENCE_EVERY / 2 {
            pass(ABSENCE);
        }
        if kills > KILLS && no % 10 == 0 {
            println!("{store}: {no} of {kills} kills, {} lines in the ledger", ledger.entries().len());
        }
    }
    let server = server.unwrap_or_else(|| home.serve_with(&args));
    close(&mut window);
    wait_for("strays to go", || left.iter().all(|process| !process.is_alive()).then_some(()));
    window.to_ms = wall_ms();
    let verdict = settle(&server, &ledger, RULES, &window);
    println!("{store}: {kills} kills survived; {verdict}");
    assert!(verdict.is_clean(), "{store}, seed {seed}: {verdict}\n{}", tail(&home.log()));
    assert!(verdict.second_starts > 0 || kills < 10, "no kill hit a run: this proves nothing");
    // What was recorded as over was really over: nothing runs when the server is stopped.
    assert!(server.stop().success());
    wait_for("every process to go", || marked(&ledger.marker).is_empty().then_some(()));
}

/// A server has an executor again: what killed ones left is gone.
fn close(window: &mut Window) {
    let now = wall_ms();
    window.kills_ms.iter_mut().for_each(|(_, to)| *to = now.min(*to));
}

enum Alive {
    Ready(Server),
    Starting(Child),
}

impl Alive {
    fn kill(self) {
        match self {
            Alive::Ready(server) => server.kill(),
            Alive::Starting(mut child) => {
                child.kill().expect("the server is ours");
                child.wait().expect("it ends");
            }
        }
    }
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

/// Time passes: there is no moment to wait for.
#[allow(clippy::disallowed_methods)]
fn pass(time: Duration) {
    std::thread::sleep(time);
}

#[allow(clippy::disallowed_methods)]
fn wall_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis() as i64
}
