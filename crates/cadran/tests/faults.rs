//! Faults of the world around the server: a full disk, a database that goes away, a process that is held up, a folder
//! that vanishes. The server says so, carries on, and the law holds when it is over.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;

use support::law::{Rule, Verdict, Window, settle};
use support::ledger::Ledger;
use support::postgres::Schema;
use support::{Home, Server, wait_for};

const RULES: &[Rule] = &[
    Rule { job: "beat", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "all", period_ms: 1_000, at_most_once: false, fails: false, steps: 1 },
    Rule { job: "none", period_ms: 1_000, at_most_once: true, fails: false, steps: 1 },
    Rule { job: "long", period_ms: 3_000, at_most_once: false, fails: false, steps: 1 },
];

/// Long enough for dues that nobody had promised (five seconds ahead) to be missed (more than ten seconds late).
const ABSENCE: Duration = Duration::from_secs(18);

struct World {
    home: Home,
    ledger: Ledger,
    window: Window,
    server: Server,
}

impl World {
    fn new(name: &str, args: &[&str]) -> World {
        let home = Home::new();
        World::in_home(home, name, args)
    }

    fn in_home(home: Home, name: &str, args: &[&str]) -> World {
        let ledger = Ledger::new(&home, name);
        let act = |seconds: &str| ledger.act(seconds, 1);
        home.job("beat", &format!("schedule: every 1s\nrun: {}\n", act("0")));
        home.job("all", &format!("schedule: every 1s\ncatchup_window: 1h\nrun: {}\n", act("0")));
        home.job("none", &format!("schedule: every 1s\nmisfire: skip\nretry: never\nrun: {}\n", act("0")));
        home.job("long", &format!("schedule: every 3s\nrun: {}\n", act("2")));
        let earliest_ms = wall_ms();
        let server = home.serve_with(args);
        let window = Window { earliest_ms, from_ms: wall_ms(), ..Window::default() };
        let world = World { home, ledger, window, server };
        world.more_runs();
        world
    }

    fn health(&self) -> (u16, String) {
        let (code, body) = self.server.get("/health");
        (code, body["status"].as_str().unwrap_or_default().to_owned())
    }

    /// Jobs go on: new lines in the ledger.
    fn more_runs(&self) {
        let ended = || self.ledger.entries().iter().filter(|entry| !entry.start).count();
        let before = ended();
        wait_for("more runs", || (ended() > before + 2).then_some(()));
    }

    fn settled(&mut self) -> Verdict {
        self.window.to_ms = wall_ms();
        let verdict = settle(&self.server, &self.ledger, RULES, &self.window);
        assert!(verdict.is_clean(), "{verdict}\n{}", self.home.log());
        verdict
    }
}

#[test]
fn a_server_that_is_held_up() {
    let mut world = World::new("held", &[]);
    world.server.signal(Signal::SIGSTOP);
    pass(ABSENCE);
    world.server.signal(Signal::SIGCONT);
    world.more_runs();
    let verdict = world.settled();
    println!("held up for {} s: {verdict}", ABSENCE.as_secs());
    assert!(verdict.skips.contains_key("missed") && verdict.skips.contains_key("superseded"), "{verdict}");
    assert!(world.server.stop().success());
}

#[test]
fn a_jobs_folder_that_vanishes_and_returns() {
    let mut world = World::new("folder", &[]);
    let (there, away) = (world.home.path("jobs"), world.home.path("away"));
    fs::rename(&there, &away).expect("a folder can be renamed");
    // A folder that cannot be read is not a folder without jobs: an unmounted disk must not remove every job.
    wait_for("the server to say so", || {
        let (_, body) = world.server.get("/api/v1/problems");
        body.to_string().contains("the jobs directory cannot be read").then_some(())
    });
    world.more_runs();
    assert_eq!(world.health(), (200, "ok".into()));
    fs::rename(&away, &there).expect("a folder can be renamed");
    world.more_runs();
    wait_for("the problem to go", || {
        let (_, body) = world.server.get("/api/v1/problems");
        body["problems"].as_array()?.is_empty().then_some(())
    });
    // It is watched again.
    world.home.job("late", "schedule: every 1s\nrun: 'true'\n");
    world.server.run_with("late", "succeeded");
    let verdict = world.settled();
    println!("a folder that vanished: {verdict}");
    assert!(verdict.skips.keys().all(|reason| reason == "overlap"), "{verdict}");
    for rule in RULES {
        let (_, job) = world.server.get(&format!("/api/v1/jobs/{}", rule.job));
        assert_eq!(job["revision"], 1, "{job}");
    }
    assert!(world.server.stop().success());
}

/// A PostgreSQL of its own, which may be stopped as by a power cut.
struct Database {
    dir: PathBuf,
    url: String,
}

impl Database {
    /// `None` when PostgreSQL is left out on purpose.
    fn start() -> Option<Database> {
        if std::env::var("CADRAN_SKIP_POSTGRES").is_ok_and(|skip| skip == "1") {
            eprintln!("passed over: CADRAN_SKIP_POSTGRES=1");
            return None;
        }
        let dir = std::env::temp_dir().join(format!("cadran-test-faults-{}", std::process::id()));
        fs::create_dir(&dir).expect("a directory");
        let url = Database::script("start", &dir);
        Some(Database { dir, url })
    }

    fn script(what: &str, dir: &Path) -> String {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/postgres.sh");
        let mut command = Command::new(script);
        // Written through to the disk: a stop like a power cut must not cost what was acknowledged.
        command.arg(what).arg(dir).env_remove("CADRAN_TEST_POSTGRES").env("CADRAN_POSTGRES_FSYNC", "on");
        if let Ok(url) = fs::read_to_string(dir.join("url")) {
            let port =
                url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port").to_owned();
            command.env("CADRAN_POSTGRES_PORT", port);
        }
        let output = command.output().expect("the script runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "scripts/postgres.sh {what}: {said}; see `cargo xtask test`");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Every process of it ends at once, without a goodbye.
    fn cut(&self) {
        let text = fs::read_to_string(self.dir.join("pg/postmaster.pid")).expect("it runs");
        let pid = text.lines().next().and_then(|line| line.trim().parse().ok()).expect("a number");
        // SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, recovery at the next start.
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGQUIT).expect("it is ours");
        wait_for("the database to end", || (!self.dir.join("pg/postmaster.pid").exists()).then_some(()));
    }

    fn again(&self) {
        assert_eq!(Database::script("start", &self.dir), self.url);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = std::panic::catch_unwind(|| Database::script("stop", &self.dir));
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[test]
fn a_database_that_goes_away_and_comes_back() {
    let Some(database) = Database::start() else { return };
    let schema = Schema::on(&database.url);
    let mut world = World::new("database", &["--store", &schema.url()]);
    for _ in 0..2 {
        database.cut();
        wait_for("the server to notice", || (world.health() == (503, "store_down".into())).then_some(()));
        pass(Duration::from_secs(4));
        database.again();
        wait_for("the server to find it again", || (world.health() == (200, "ok".into())).then_some(()));
        world.more_runs();
    }
    // Away for long enough that dues are missed.
    database.cut();
    pass(ABSENCE);
    database.again();
    wait_for("the server to find it again", || (world.health() == (200, "ok".into())).then_some(()));
    world.more_runs();
    let verdict = world.settled();
    println!("a database that went away three times: {verdict}");
    assert!(verdict.skips.contains_key("missed"), "{verdict}");
    assert!(world.home.log().contains("the store is back"));
    assert!(world.server.stop().success());
}

/// A small disk.
struct Disk(PathBuf);

impl Disk {
    /// `None`, with the reason said, when mounting is not allowed here.
    fn mount(path: PathBuf, size: &str) -> Option<Disk> {
        fs::create_dir(&path).expect("a directory");
        let options = format!("size={size},mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Disk(path)),
            Ok(output) => {
                eprintln!("passed over: cannot mount: {}", String::from_utf8_lossy(&output.stderr).trim());
                None
            }
            Err(error) => {
                eprintln!("passed over: cannot mount: {error}");
                None
            }
        }
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        use std::io::Write;
        let mut file = fs::File::create(self.0.join("ballast")).expect("a file");
        for size in [1 << 16, 1 << 12, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    fn relieve(&self) {
        fs::remove_file(self.0.join("ballast")).expect("it is there");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: the server may still hold files when a test has failed.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_disk_that_is_full() {
    let home = Home::new();
    let Some(disk) = Disk::mount(home.data(), "24m") else { return };
    let mut world = World::in_home(home, "disk", &[]);
    let flood = "run: |\n  head -c 40000000 /dev/zero | tr '\\0' 'x' | fold -w 99\n";
    world.home.job("flood", flood);
    wait_for("the job", || (world.server.get("/api/v1/jobs/flood").0 == 200).then_some(()));
    disk.fill();
    wait_for("the server to say so", || (world.health() == (503, "store_down".into())).then_some(()));
    // It answers and stays up for longer than any single retry takes.
    pass(Duration::from_secs(5));
    assert_eq!(world.health(), (503, "store_down".into()));
    disk.relieve();
    wait_for("the server to recover", || (world.health() == (200, "ok".into())).then_some(()));
    world.more_runs();
    // Logs are cut with a marker, and cost nobody else anything.
    let run = world.server.trigger("flood", "{}");
    let ended = wait_for("the flood to end", || {
        let (_, body) = world.server.get(&format!("/api/v1/runs/{run}"));
        (body["ended"] == true).then_some(body)
    });
    assert_eq!(ended["status"], "succeeded", "{ended}");
    let (_, log) = world.server.get(&format!("/api/v1/runs/{run}/logs/main?tail=2000"));
    assert!(log.as_str().is_some_and(|log| log.contains("bytes left out …")), "no marker in {log}");
    let verdict = world.settled();
    println!("a full disk: {verdict}");
    assert!(world.server.stop().success());
    drop(disk);
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
