//! The commands that talk to a server, with each of their options.

use super::support::{Home, Server, cadran, run, wait_for};
use super::{client, said, stdout, touch, until};

/// A server with a run of each kind: one that failed twice, one that is on, and one that waits for it.
struct Scene {
    home: Home,
    server: Server,
    failed: String,
    long: String,
    waiting: String,
}

fn scene() -> Scene {
    let home = Home::new();
    home.job(
        "flaky",
        "steps:\n  - name: first\n    run: printf 'one\\ntwo\\n\\033[31mred\\n'\n  - name: second\n    depends: first\n    \
         run: echo attempt $CADRAN_ATTEMPT; exit 3\n    retry: {limit: 1, interval: 10ms}\n",
    );
    home.job("long", &format!("overlap: wait\nrun: echo begun; {}\n", until(&home, "go")));
    home.job("beat", "schedule: every 1h\nparams: {who: world}\nrun: echo hello $who\n");
    let server = home.serve();
    let failed = server.trigger("flaky", "{}");
    server.run_is(&failed, "failed");
    let long = server.trigger("long", "{}");
    server.run_is(&long, "running");
    let waiting = server.trigger("long", "{}");
    server.run_is(&waiting, "waiting");
    Scene { home, server, failed, long, waiting }
}

// covers: command {jobs,ps,show,why,history,logs,trigger,pause,resume,stop,retry,executors}
// covers: option {jobs,ps,show,why,history,logs,trigger,pause,resume,stop,retry,executors,status} --{server,token,data,insecure,json}
#[test]
fn every_client_command_finds_its_server_and_answers_in_json() {
    let Scene { home, server, failed, long, waiting } = scene();
    let data = home.data().display().to_string();
    let url = format!("http://{}", server.address);
    for (command, argument) in [
        ("jobs", ""),
        ("ps", ""),
        ("show", failed.as_str()),
        ("why", &waiting),
        ("history", ""),
        ("logs", &failed),
        ("trigger", "beat"),
        ("pause", "beat"),
        ("resume", "beat"),
        ("executors", ""),
        ("status", ""),
        ("stop", &long),
        ("retry", &failed),
    ] {
        let words: Vec<&str> = [command, argument].into_iter().filter(|word| !word.is_empty()).collect();
        let with = |more: &[&str]| cadran().args(&words).args(more).output().expect("it starts");
        let json = with(&["--data", &data, "--json"]);
        let text = said(&json);
        assert!(json.status.success(), "{words:?}: {text}");
        for line in stdout(&json).lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|_| panic!("{words:?}: {text}"));
        }
        // By its address and token alone: nothing is read from the data directory.
        let named = with(&["--server", &url, "--token", &server.token, "--data", "/nonexistent"]);
        let wrong = with(&["--server", &url, "--token", "0000000000000000000000000000000000000000000"]);
        assert_eq!(wrong.status.code(), Some(5), "{words:?}: {}", said(&wrong));
        // What was stopped or repeated a moment ago may be refused, for another reason than its token.
        let served =
            named.status.success() || (named.status.code() == Some(5) && said(&named) != said(&wrong));
        assert!(served, "{words:?}: {}", said(&named));
        // Plain http to another machine is refused before anything is sent, and tried when that is asked for.
        let away = ["--server", "http://cadran.invalid:1", "--token", "x"];
        let closed = with(&away);
        assert_eq!(closed.status.code(), Some(2), "{words:?}: {}", said(&closed));
        assert!(said(&closed).contains("--insecure"), "{words:?}: {}", said(&closed));
        let open = with(&[&away[..], &["--insecure"]].concat());
        assert_eq!(open.status.code(), Some(3), "{words:?}: {}", said(&open));
        let nobody = with(&["--data", "/nonexistent"]);
        assert_eq!(nobody.status.code(), Some(3), "{words:?}: {}", said(&nobody));
    }
}

// covers: option jobs TEXT
// covers: option jobs --{removed,limit}
// covers: option ps --{job,parent,all,limit}
// covers: option history JOB
// covers: option history --{limit,before}
// covers: option {show,why} RUN
#[test]
fn lists_show_what_was_asked_for() {
    let Scene { home, server, failed, long, waiting } = scene();
    let rows = |args: &[&str]| client(&home, args).lines().count() - 1;
    assert_eq!((rows(&["jobs"]), rows(&["jobs", "bea"]), rows(&["jobs", "--limit", "2"])), (3, 1, 2));
    home.job("gone", "run: x\n");
    wait_for("the job", || (rows(&["jobs"]) == 4).then_some(()));
    home.remove_job("gone");
    wait_for("the job to go", || (rows(&["jobs"]) == 3).then_some(()));
    assert!(client(&home, &["jobs", "--removed"]).contains("gone"));

    assert_eq!((rows(&["ps"]), rows(&["ps", "--job", "long"]), rows(&["ps", "--limit", "1"])), (2, 2, 1));
    assert!(client(&home, &["ps", "--job", "flaky"]).is_empty());
    home.job("soon", "schedule: every 3s\nrun: 'true'\n");
    wait_for("a promise", || client(&home, &["ps", "--all"]).contains("promised").then_some(()));
    home.job(
        "parent",
        &format!(
            "run: CADRAN_DATA={} {} trigger beat\n",
            home.data().display(),
            env!("CARGO_BIN_EXE_cadran")
        ),
    );
    wait_for("the job", || (server.get("/api/v1/jobs/parent").0 == 200).then_some(()));
    let parent = server.trigger("parent", "{}");
    server.run_is(&parent, "succeeded");
    let child = wait_for("the child", || server.runs("beat", "succeeded").into_iter().next());
    assert_eq!(child["parent"], parent.as_str(), "{child}");
    assert!(client(&home, &["show", &parent]).contains(child["id"].as_str().expect("an id")));
    assert_eq!(client(&home, &["ps", "--parent", &parent]), "");

    assert_eq!((rows(&["history", "flaky"]), rows(&["history", "--limit", "1"])), (1, 1));
    let long_runs = rows(&["history", "long"]);
    assert_eq!((long_runs, rows(&["history", "long", "--before", &waiting])), (2, 1));
    let shown = client(&home, &["show", &failed]);
    assert!(
        shown.contains("is failed") && shown.contains("second") && shown.contains("exited with 3"),
        "{shown}"
    );
    assert!(client(&home, &["why", &waiting]).contains(&long));
    for (words, code) in [
        (&["show", "0000000000000"][..], 4),
        (&["show", "nonsense"], 2),
        (&["history", "--limit", "0"], 2),
        (&["jobs", "--limt", "3"], 2),
    ] {
        assert_eq!(home.client(words).status.code(), Some(code), "{words:?}: {}", said(&home.client(words)));
    }
    assert!(server.stop().success());
}

// covers: option logs RUN
// covers: option logs --{follow,step,attempt,tail,raw}
#[test]
fn logs_show_steps_attempts_and_tails_and_follow_to_the_end() {
    let Scene { home, server, failed, long, .. } = scene();
    let logs = |more: &[&str]| client(&home, &[&["logs", &failed], more].concat());
    let all = logs(&[]);
    assert!(all.contains("two") && all.contains("attempt 2") && !all.contains("attempt 1"), "{all}");
    assert_eq!(logs(&["--step", "second", "--attempt", "1"]), "attempt 1\n");
    assert_eq!(logs(&["--step", "second"]), "==> second (attempt 2) <==\nattempt 2\n");
    assert!(!logs(&["--step", "first", "--tail", "1"]).contains("two"));
    assert_eq!(logs(&["--step", "first", "--raw"]).as_bytes(), b"one\ntwo\n\x1b[31mred\n");
    let mut follower = cadran();
    let out = std::fs::File::create(home.path("followed")).expect("a file");
    let mut follower = follower
        .env("CADRAN_DATA", home.data())
        .args(["logs", "--follow", &long])
        .stdout(out)
        .spawn()
        .expect("it starts");
    wait_for("the first line", || (home.lines("followed") == ["begun"]).then_some(()));
    assert!(follower.try_wait().expect("it is ours").is_none(), "the run is still on");
    touch(&home, "go");
    wait_for("the end", || follower.try_wait().expect("it is ours"));
    assert_eq!(home.client(&["logs", &failed, "--step", "nobody"]).status.code(), Some(4));
    assert_eq!(home.client(&["logs", &failed, "--attempt", "0"]).status.code(), Some(2));
    assert!(server.stop().success());
}

// covers: option trigger JOB
// covers: option trigger --{param,wait}
// covers: option retry RUN
// covers: option retry --wait
// covers: option {pause,resume} JOB
// covers: option stop RUN
// covers: key step.signal_on_stop
// covers: key handlers.{stop,abort,cancel}
#[test]
fn runs_are_asked_for_stopped_and_repeated_and_jobs_rest() {
    let Scene { home, server, failed, .. } = scene();
    let waited = home.client(&["trigger", "beat", "--wait", "--param", "who=you and me"]);
    assert!(waited.status.success(), "{}", said(&waited));
    let run_id = stdout(&waited).trim().to_owned();
    assert_eq!(client(&home, &["logs", &run_id]), "hello you and me\n");
    assert_eq!(home.client(&["trigger", "flaky", "--wait"]).status.code(), Some(1));
    assert_eq!(home.client(&["retry", &failed, "--wait"]).status.code(), Some(1));
    assert!(client(&home, &["logs", &failed, "--step", "second"]).ends_with("attempt 4\n"));
    for (words, code) in [
        (&["trigger", "nobody"][..], 4),
        (&["trigger", "beat", "--param", "whom=x"], 5),
        (&["retry", &run_id], 5),
        (&["stop", &run_id], 5),
        (&["pause", "nobody"], 4),
    ] {
        assert_eq!(home.client(words).status.code(), Some(code), "{words:?}: {}", said(&home.client(words)));
    }
    client(&home, &["pause", "beat"]);
    assert!(client(&home, &["jobs", "beat"]).contains("paused"));
    client(&home, &["resume", "beat"]);
    assert!(!client(&home, &["jobs", "beat"]).contains("paused"));
    // A stop is the signal that the step asks for, and then the handler, under each of its names.
    for name in ["stop", "abort", "cancel"] {
        let out = home.path(name).display().to_string();
        home.job(name, &format!(
            "steps:\n  - name: a\n    signal_on_stop: USR1\n    run: trap 'echo USR1 >> {out}; exit 1' USR1; echo begun >> {out}; while :; do sleep 0.05; done\n\
             handlers: {{{name}: echo handled >> {out}}}\n"
        ));
        wait_for("the job", || (server.get(&format!("/api/v1/jobs/{name}")).0 == 200).then_some(()));
        let run_id = server.trigger(name, "{}");
        wait_for("the first line", || (home.lines(name) == ["begun"]).then_some(()));
        client(&home, &["stop", &run_id]);
        server.run_is(&run_id, "stopped");
        assert_eq!(home.lines(name), ["begun", "USR1", "handled"]);
    }
    assert!(server.stop().success());
}

// covers: option --help
// covers: option --version
#[test]
fn help_and_version_are_there_for_every_command() {
    assert!(stdout(&run(&["--version"])).starts_with("cadran 0."));
    let help = stdout(&run(&["--help"]));
    let names =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Longer descriptions go on in lines that stand further in.
    let names = names.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    let names: Vec<&str> = names.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"trigger") && names.contains(&"fuzz"), "{help}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let output = run(&[name, "--help"]);
        assert!(output.status.success() && stdout(&output).contains("Usage: cadran"), "{name}");
        assert_eq!(run(&[name, "--no-such-option"]).status.code(), Some(2), "{name}");
    }
    assert_eq!(run(&["no-such-command"]).status.code(), Some(2));
}
