//! What was missed while the server was away is caught up: in order, behind whatever is on, and by the job files as they
//! are now.

mod support;

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use support::faketime::Clock;
use support::{Home, Server, wait_for};

const HOUR_SECS: i64 = 3_600;

/// A server under a clock of the test's.
struct World {
    home: Home,
    clock: Clock,
}

impl World {
    fn new() -> Option<World> {
        let home = Home::new();
        let clock = Clock::new(&home)?;
        Some(World { home, clock })
    }

    /// The server's clock is so far ahead of the true one.
    fn set_ahead(&self, secs: i64) {
        self.clock.set(&format!("+{secs}"));
    }

    fn serve(&self) -> Server {
        self.home.start(self.clock.rule(self.home.serve_command(&[])))
    }

    /// A job that is due every hour. Its runs write down when they were due, and go on while the file `hold` is there.
    fn hourly(&self, more: &str) {
        let (seen, hold) = (self.home.path("seen"), self.home.path("hold"));
        let (seen, hold) = (seen.display(), hold.display());
        self.home.job(
            "hourly",
            &format!(
                "schedule: every 1h\nenv: {{LD_PRELOAD: ''}}\n{more}run: |\n  echo \"$CADRAN_TRIGGER $CADRAN_DUE\" >> \
                 {seen}\n  while [ -e {hold} ]; do sleep 0.05; done\n"
            ),
        );
    }

    fn hold(&self) {
        fs::write(self.home.path("hold"), "").expect("a file");
    }

    fn let_go(&self) {
        fs::remove_file(self.home.path("hold")).expect("a file");
    }

    /// The runs that were caught up, in the order in which they started.
    fn caught_up(&self) -> Vec<String> {
        let lines = self.home.lines("seen");
        lines.into_iter().filter(|line| line.starts_with("catch_up")).collect()
    }

    /// Four missed dues wait for what is on, and are then replayed oldest first.
    fn replays_behind(&self, server: &Server, active: &str) {
        let waiting = server.run_with("hourly", "waiting");
        assert_eq!(waiting["trigger"], "catch_up", "{waiting}");
        assert_eq!(self.caught_up(), [""; 0], "nothing starts beside {active}");
        server.run_is(active, "running");
        self.let_go();
        server.run_is(active, "succeeded");
        let done = wait_for("the backlog", || Some(self.caught_up()).filter(|done| done.len() >= 4));
        let mut in_order = done.clone();
        in_order.sort_unstable();
        assert_eq!(done, in_order, "oldest first");
        wait_for("the end of the backlog", || (server.runs("hourly", "succeeded").len() == 5).then_some(()));
        let history = server.history("hourly");
        assert!(
            history.iter().all(|item| item["kind"] == "run" && item["skip_reason"].is_null()),
            "{history:#?}"
        );
    }
}

/// How far ahead a clock must be to show an instant so many seconds before the next full hour.
#[allow(clippy::disallowed_methods)] // the server under test is told how far its clock is from the real one
fn ahead_of_hour(secs_before: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs() as i64;
    (now / HOUR_SECS + 2) * HOUR_SECS - secs_before - now
}

fn cut_off_and_caught_up(end: impl FnOnce(&Home, Server)) {
    let Some(world) = World::new() else { return };
    let ahead = ahead_of_hour(HOUR_SECS / 2);
    world.set_ahead(ahead);
    world.hourly("catchup_window: 1d\n");
    world.hold();
    let server = world.serve();
    let active = server.trigger("hourly", "{}");
    wait_for("the start", || (!world.home.lines("seen").is_empty()).then_some(()));
    end(&world.home, server);
    world.set_ahead(ahead + 4 * HOUR_SECS);
    let server = world.serve();
    wait_for("the second attempt", || (world.home.lines("seen").len() == 2).then_some(()));
    world.replays_behind(&server, &active);
}

#[test]
fn a_backlog_waits_for_a_run_that_a_clean_stop_cut_off() {
    cut_off_and_caught_up(|_, server| assert!(server.stop().success()));
}

#[test]
fn a_backlog_waits_for_a_run_that_a_kill_cut_off() {
    cut_off_and_caught_up(|home, server| {
        server.kill();
        home.kill_executor();
    });
}

#[test]
fn a_backlog_waits_for_a_run_by_hand() {
    let Some(world) = World::new() else { return };
    let ahead = ahead_of_hour(HOUR_SECS / 2);
    world.set_ahead(ahead);
    world.hourly("catchup_window: 1d\n");
    world.hold();
    let server = world.serve();
    let active = server.trigger("hourly", "{}");
    wait_for("the start", || (!world.home.lines("seen").is_empty()).then_some(()));
    world.set_ahead(ahead + 4 * HOUR_SECS);
    world.replays_behind(&server, &active);
}

/// A run is promised, the server is killed before its instant, the file changes, and the server is back hours later.
fn promised_then_away(change: impl FnOnce(&World)) -> Option<(World, Server, String)> {
    let world = World::new()?;
    let ahead = ahead_of_hour(8);
    world.set_ahead(ahead);
    world.hourly("");
    let server = world.serve();
    let promised = server.run_with("hourly", "promised");
    server.kill();
    assert_eq!(world.home.lines("seen"), [""; 0], "it did not start yet");
    change(&world);
    world.set_ahead(ahead + 2 * HOUR_SECS + HOUR_SECS / 2);
    let server = world.serve();
    let run = promised["id"].as_str().expect("an id").to_owned();
    Some((world, server, run))
}

#[test]
fn an_edit_while_the_server_is_away_leaves_the_due_that_misfire_once_promises() {
    let edited = |world: &World| {
        let seen = world.home.path("seen");
        // No due of the new schedule is missed: nothing supersedes the run that was promised.
        world.home.job(
            "hourly",
            &format!(
                "schedule: '0 0 1 1 *'\nenv: {{LD_PRELOAD: ''}}\nrun: echo $CADRAN_TRIGGER >> {}\n",
                seen.display()
            ),
        );
    };
    let Some((_world, server, run)) = promised_then_away(edited) else { return };
    server.run_is(&run, "succeeded");
    assert_eq!(server.history("hourly").len(), 1, "{:#?}", server.history("hourly"));
}

#[test]
fn a_promise_of_a_job_that_was_deleted_while_the_server_was_away_says_so() {
    let Some((world, server, run)) = promised_then_away(|world| world.home.remove_job("hourly")) else {
        return;
    };
    let skipped = server.run_is(&run, "skipped");
    assert_eq!(skipped["skip_reason"], "removed", "{skipped}");
    assert_eq!(world.home.lines("seen"), [""; 0]);
}
