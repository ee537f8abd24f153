//! Executors of other people: what they are sent, they understand, and what they send is understood.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::stub::TOKEN;
use super::support::{Home, Server, wait_for};
use super::{door, ended, run, serve, trigger};

/// Where `scripts/clients.sh` put them. `None` when they are left out on purpose.
fn installed() -> Option<PathBuf> {
    if std::env::var_os("CADRAN_SKIP_CLIENTS").is_some() {
        return None;
    }
    let dir = std::env::var_os("CADRAN_TEST_CLIENTS").expect(
        "CADRAN_TEST_CLIENTS names the directory of scripts/clients.sh; CADRAN_SKIP_CLIENTS=1 leaves this test out",
    );
    Some(PathBuf::from(dir))
}

/// Which clients, and how many of each; the group of each has its name.
const CLIENTS: &[(&str, usize)] = &[("python", 2), ("node", 1), ("rust", 1)];

struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(home: &Home, dir: &Path, kind: &str, group: &str, door: &str) -> Client {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/clients");
    let mut command = match kind {
        "python" => {
            let mut command = Command::new(dir.join("python/bin/python"));
            command.arg(scripts.join("python.py"));
            command
        }
        "node" => {
            let mut command = Command::new("node");
            command.arg(scripts.join("node.cjs")).env("CLIENT_MODULES", dir.join("node"));
            command
        }
        _ => Command::new(dir.join("rust/debug/cadran-test-client")),
    };
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port").port();
    let place = home.path(&format!("{kind}-{port}"));
    fs::create_dir(&place).expect("a directory");
    let log = fs::File::create(place.join("out")).expect("a log");
    let child = command
        .current_dir(&place)
        .env("CLIENT_DOOR", door)
        .env("CLIENT_GROUP", group)
        .env("CLIENT_TOKEN", TOKEN)
        .env("CLIENT_PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{kind} does not start: {error}"));
    Client(child)
}

fn registered(server: &Server, group: &str) -> usize {
    let (_, page) = server.get("/api/v1/executors");
    let groups = page["groups"].as_array().cloned().unwrap_or_default();
    let found = groups.iter().find(|found| found["name"] == group);
    found.and_then(|group| group["executors"].as_array()).map_or(0, Vec::len)
}

fn said(client: &Client, home: &Home) -> String {
    let _ = client;
    let mut text = home.log();
    for entry in fs::read_dir(home.path("")).expect("the home").flatten() {
        text += &fs::read_to_string(entry.path().join("out")).unwrap_or_default();
    }
    text
}

#[test]
fn clients_from_their_registries_work_unchanged() {
    let Some(dir) = installed() else { return };
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let door = door(&server);
    let several = CLIENTS.iter().flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count));
    let clients: Vec<Client> = several.map(|kind| start(&home, &dir, kind, kind, &door)).collect();
    for &(group, count) in CLIENTS {
        home.job(
            &format!("{group}-echo"),
            &format!("executor: {group}\nhandler: echo\nparams: hello there\n"),
        );
        home.job(&format!("{group}-hold"), &format!("executor: {group}\nhandler: hold\n"));
        home.job(&format!("{group}-none"), &format!("executor: {group}\nhandler: nothing\n"));
        wait_for(&format!("{group} to register: {}", said(&clients[0], &home)), || {
            (registered(&server, group) == count).then_some(())
        });
    }
    home.job("shares", "executor: python\nhandler: echo\nroute: sharding_broadcast\n");
    for &(group, _) in CLIENTS {
        // Triggered.
        let done = run(&server, &format!("{group}-echo"));
        assert_eq!(done["status"], "succeeded", "{group}: {done} {}", said(&clients[0], &home));
        // Its log, read through. The Rust client keeps none.
        if group != "rust" {
            let id = done["id"].as_str().expect("an id");
            let text =
                wait_for("the log", || log(&home, id).filter(|text| text.contains("echo hello there")));
            assert!(text.contains("share 0 of 1"), "{group}: {text}");
        }
        // A handler that nobody has. The Rust client takes the order and stays silent: such runs are given up after a
        // while, which other tests see sooner.
        if group != "rust" {
            let done = run(&server, &format!("{group}-none"));
            assert_eq!(done["status"], "failed", "{group}: {done}");
        }
        // Killed, and fit for the next.
        let id = trigger(&server, &format!("{group}-hold"));
        server.run_is(&id, "running");
        assert!(home.client(&["stop", &id]).status.success(), "{group}");
        assert_eq!(ended(&server, &id)["status"], "stopped", "{group}");
        let done = run(&server, &format!("{group}-echo"));
        assert_eq!(done["status"], "succeeded", "{group} after a kill: {done}");
    }
    // Sharded.
    let done: Value = run(&server, "shares");
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(done["steps"][0]["executors"].as_array().map(Vec::len), Some(2), "{done}");
    let text = wait_for("both logs", || {
        log(&home, done["id"].as_str().expect("an id"))
            .filter(|text| text.contains("share 0 of 2") && text.contains("share 1 of 2"))
    });
    assert!(text.contains("share 1 <=="), "{text}");
    // One share is stopped alone: its client is told to kill, the other goes on.
    home.job("holds", "executor: python\nhandler: hold\nroute: broadcast\n");
    let id = trigger(&server, "holds");
    let is = |share: u32, status: &str| {
        let name = format!("{id}.{share}");
        wait_for(&format!("{name} to be {status}"), || {
            (server.get(&format!("/api/v1/runs/{name}")).1["status"] == status).then_some(())
        });
    };
    is(0, "running");
    is(1, "running");
    assert!(home.client(&["stop", &format!("{id}.1")]).status.success());
    is(1, "stopped");
    is(0, "running");
    assert!(home.client(&["stop", &format!("{id}.0")]).status.success());
    let done = ended(&server, &id);
    assert_eq!(done["status"], "failed", "{done}");
    let words = done["explanation"].as_str().unwrap_or_default();
    assert!(words.contains("2 of 2 shares failed") && words.contains("stopped on request"), "{words}");
    drop(clients);
    assert!(server.stop().success());
}

fn log(home: &Home, id: &str) -> Option<String> {
    let output = home.client(&["logs", id]);
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
