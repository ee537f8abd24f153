//! Keys of steps on executors, options of workers, and what is counted about both.

use std::fs;
use std::net::TcpListener;
use std::process::Stdio;

use serde_json::{Value, json};

use super::stub::{Speech, Stub, TOKEN, call};
use super::support::{Home, Server, cadran, wait_for};
use super::workers::Rig;
use super::{door, job, run, serve, trigger};

// covers: key job.{executor,handler,glue,glue_type,route,route_strategy,block,block_strategy,concurrency}
// covers: key step.{executor,handler,glue,glue_type,route,route_strategy,block,block_strategy,concurrency,params}
// covers: option serve --{executor-token,executor-listen}
#[test]
fn what_a_job_or_a_step_says_about_executors_is_in_the_order() {
    let home = Home::new();
    let server = home.serve_with(&["--executor-token", TOKEN, "--executor-listen", "127.0.0.1:0"]);
    let mut stubs: Vec<Stub> = (0..2).map(|_| Stub::speaking(&door(&server), Speech::Orth)).collect();
    stubs.sort_by(|a, b| a.address.cmp(&b.address));
    stubs.iter().for_each(|stub| stub.register("g"));
    let order = |name: &str, text: &str| {
        home.job(name, text);
        let done = run(&server, name);
        assert_eq!(done["status"], "succeeded", "{name}: {done}");
        let address = done["steps"][0]["executors"][0]["address"].as_str().expect("an address").to_owned();
        let at = stubs.iter().position(|stub| stub.address == address).expect("one of ours");
        (at, stubs[at].calls("run").pop().expect("an order"))
    };
    let both = [
        ("route: last\nblock: concurrent\nconcurrency: 4", 1, "CONCURRENT", 4),
        ("route_strategy: first\nblock_strategy: DISCARD_LATER", 0, "DISCARD_LATER", 1),
        ("route: first\nblock: cover", 0, "COVER_EARLY", 1),
    ];
    for (no, (more, at, block, concurrency)) in both.into_iter().enumerate() {
        let of_job = format!("executor: g\nhandler: quick\nparams: a b\n{more}\n");
        let step = more.replace('\n', "\n    ");
        let of_step = format!(
            "params: {{day: monday}}\nsteps:\n  - name: only\n    executor: g\n    handler: quick\n    params: 'a ${{day}}'\n    {step}\n"
        );
        for (name, text, params) in
            [(format!("job{no}"), of_job, "a b"), (format!("step{no}"), of_step, "a monday")]
        {
            let (went, order) = order(&name, &text);
            assert_eq!(went, at, "{text}");
            assert_eq!(
                (&order["executorBlockStrategy"], &order["executorHandler"]),
                (&json!(block), &json!("quick")),
                "{text}"
            );
            assert_eq!(
                (&order["executorParams"], &order["executorConcurrency"]),
                (&json!(params), &json!(concurrency)),
                "{text}"
            );
        }
    }
    for (no, (glue, kind)) in
        [("glue: python", "GLUE_PYTHON"), ("glue_type: GLUE_PHP", "GLUE_PHP")].into_iter().enumerate()
    {
        let (_, of_job) = order(&format!("glue{no}"), &format!("executor: g\n{glue}\nscript: print(1)\n"));
        let (_, of_step) = order(
            &format!("script{no}"),
            &format!("steps: [{{name: a, executor: g, {glue}, script: print(1)}}]\n"),
        );
        for order in [of_job, of_step] {
            assert_eq!(
                (&order["glueType"], &order["glueSource"]),
                (&json!(kind), &json!("print(1)")),
                "{order}"
            );
        }
    }
    assert!(server.stop().success());
}

/// One metric, 0 when it is not there.
fn metric(server: &Server, name: &str) -> u64 {
    let (_, text) = server.get("/metrics");
    let text = text.as_str().expect("a text").to_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn wait_metric(server: &Server, name: &str, holds: impl Fn(u64) -> bool) {
    wait_for(name, || holds(metric(server, name)).then_some(()));
}

// covers: metric cadran_executor_{calls_total,orders_accepted_total,orders_refused_total,results_stray_total}
// covers: metric cadran_executor_{shares_open,shares_lost_total}
#[test]
fn what_becomes_of_orders_is_counted() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    for name in ["quick", "refuse"] {
        home.job(name, &job(name, ""));
        run(&server, name);
    }
    wait_metric(&server, "cadran_executor_orders_accepted_total", |count| count >= 1);
    wait_metric(&server, "cadran_executor_orders_refused_total", |count| count >= 1);
    wait_metric(&server, "cadran_executor_calls_total{what=\"registration\"}", |count| count >= 1);
    wait_metric(&server, "cadran_executor_calls_total{what=\"result\"}", |count| count >= 1);
    call(&door(&server), "registry", &json!({}), &[("XXL-JOB-ACCESS-TOKEN", "wrong")]);
    wait_metric(&server, "cadran_executor_calls_total{what=\"bad_token\"}", |count| count == 1);
    stub.report(&json!(12345), 200, "whose?");
    wait_metric(&server, "cadran_executor_results_stray_total", |count| count >= 1);
    home.job("hold", &job("hold", "retry: never\n"));
    let id = trigger(&server, "hold");
    wait_metric(&server, "cadran_executor_shares_open", |count| count == 1);
    stub.wait("idleBeat", 2);
    stub.say_busy(Some(false));
    server.run_is(&id, "lost");
    wait_metric(&server, "cadran_executor_shares_lost_total", |count| count == 1);
    wait_metric(&server, "cadran_executor_shares_open", |count| count == 0);
}

// covers: metric cadran_executor_{orders_waiting,orders_unanswered_total}
#[test]
fn orders_for_one_that_never_answers_wait_and_are_counted() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    let dense: Vec<String> =
        (0..10).map(|no| format!("{{every: 10ms, from: '2026-01-01T00:00:00.00{no}Z'}}")).collect();
    let more = format!("retry: never\noverlap: allow\nschedule: [{}]\n", dense.join(", "));
    home.job("mute", &job("mute", &more));
    wait_metric(&server, "cadran_executor_orders_waiting", |count| count > 0);
    home.remove_job("mute");
    wait_metric(&server, "cadran_executor_orders_unanswered_total", |count| count > 0);
}

// covers: metric cadran_executor_{workers,worker_shares_open,worker_shares_lost_total}
#[test]
fn workers_and_what_they_have_are_counted() {
    let rig = Rig::new();
    let server = rig.serve();
    let worker = rig.worker("w", &[]);
    wait_metric(&server, "cadran_executor_workers", |count| count == 1);
    rig.home.job("hold", "executor: g\nretry: never\nrun: sleep 300\n");
    let id = trigger(&server, "hold");
    server.run_is(&id, "running");
    wait_metric(&server, "cadran_executor_worker_shares_open", |count| count == 1);
    worker.kill();
    server.run_is(&id, "lost");
    wait_metric(&server, "cadran_executor_worker_shares_lost_total", |count| count == 1);
    wait_metric(&server, "cadran_executor_workers", |count| count == 0);
}

// covers: command worker
// covers: option worker --{server,group,slots,labels,token-file,data,drain-timeout,insecure,json}
#[test]
fn a_worker_is_what_its_options_say() {
    let rig = Rig::new();
    let server = rig.serve();
    let address = door(&server);
    let mut child = cadran()
        .args(["worker", "--server", &format!("http://{address}"), "--group", "own", "--slots", "2"])
        .args(["--labels", "zone=eu", "--drain-timeout", "1", "--json", "--insecure"])
        .arg("--token-file")
        .arg(rig.home.path("token"))
        .arg("--data")
        .arg(rig.home.path("own"))
        .stdout(fs::File::create(rig.home.path("events")).expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    wait_for("the worker", || {
        let shown = rig.home.json(&["executors", "--json"]);
        let group = shown["groups"].as_array()?.iter().find(|group| group["name"] == "own")?;
        (group["executors"][0]["labels"]["zone"] == "eu").then_some(())
    });
    assert!(
        rig.home.path("own").join("id").exists()
            || fs::read_dir(rig.home.path("own")).expect("a directory").count() > 0
    );
    // Two at once, and no third.
    let out = rig.home.path("out").display().to_string();
    rig.home.job("hold", &format!("executor: own\noverlap: allow\nretry: never\nblock: concurrent\nconcurrency: 9\nrun: echo on >> {out}; exec sleep 300\n"));
    for _ in 0..3 {
        trigger(&server, "hold");
    }
    let ordered = || rig.home.lines("events").iter().filter(|line| line.contains("\"ordered\"")).count();
    wait_for("two starts", || (rig.home.lines("out").len() == 2).then_some(()));
    wait_for("three orders", || (ordered() == 3).then_some(()));
    assert_eq!(rig.home.lines("out").len(), 2, "two slots");
    for line in rig.home.lines("events") {
        serde_json::from_str::<Value>(&line).expect("an event in JSON");
    }
    // Asked to go, it waits for a second and ends what is on.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), nix::sys::signal::Signal::SIGTERM)
        .expect("it is ours");
    wait_for("its end", || child.try_wait().expect("it is ours"));
    // Plain http to another machine has to be meant.
    let away = |more: &[&str]| {
        let mut command = cadran();
        command
            .args(["worker", "--server", "http://cadran.invalid:1", "--group", "own", "--json"])
            .args(more);
        command.arg("--token-file").arg(rig.home.path("token")).arg("--data").arg(rig.home.path("own"));
        command
            .stdout(fs::File::create(rig.home.path("events")).expect("a file"))
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts")
    };
    let mut refused = away(&[]);
    assert_eq!(refused.wait().expect("it ends").code(), Some(2));
    let mut meant = away(&["--insecure"]);
    wait_for("a try", || {
        rig.home.lines("events").iter().any(|line| line.contains("unreachable")).then_some(())
    });
    meant.kill().expect("it is ours");
    meant.wait().expect("it ends");
}

// covers: metric cadran_executor_{lane_orders,lane_orders_max,lane_queued,orders_delayed_total,results_total}
#[test]
fn lanes_that_are_full_are_seen_and_delay_and_lose_nothing() {
    let home = Home::new();
    let args = ["--executor-token", TOKEN, "--executor-listen", "127.0.0.1:0", "--executor-lane-len", "1"];
    let server = home.serve_with(&args);
    let lane = |name: &str, lane: &str| metric(&server, &format!("{name}{{lane=\"{lane}\"}}"));
    assert_eq!(
        (lane("cadran_executor_lane_orders_max", "fast"), lane("cadran_executor_lane_orders_max", "slow")),
        (1, 1)
    );
    // They take connections and never answer: each order waits for the end of the one before.
    let mute: Vec<TcpListener> =
        (0..2).map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback")).collect();
    for (at, listener) in mute.iter().enumerate() {
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let group = format!("g{at}");
        let body = json!({"registryGroup": "EXECUTOR", "registryKey": group, "registryValue": address});
        call(&door(&server), "registry", &body, &[("XXL-JOB-ACCESS-TOKEN", TOKEN)]);
        home.job(&group, &format!("executor: {group}\nhandler: x\noverlap: allow\nretry: never\n"));
        for _ in 0..3 {
            trigger(&server, &group);
        }
    }
    wait_for("a full lane", || {
        let busy =
            lane("cadran_executor_lane_orders", "fast") + lane("cadran_executor_lane_orders", "slow") > 0;
        let queued =
            lane("cadran_executor_lane_queued", "fast") + lane("cadran_executor_lane_queued", "slow") > 0;
        (busy && queued).then_some(())
    });
    wait_metric(&server, "cadran_executor_orders_delayed_total", |count| count > 0);
    for group in ["g0", "g1"] {
        home.remove_job(group);
    }
    drop(mute);
    // Nobody is in the way any more, and the next result is counted.
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("quick", &job("quick", ""));
    assert_eq!(run(&server, "quick")["status"], "succeeded");
    wait_metric(&server, "cadran_executor_results_total", |count| count == 1);
    wait_for("empty lanes", || {
        (lane("cadran_executor_lane_queued", "fast") + lane("cadran_executor_lane_queued", "slow") == 0)
            .then_some(())
    });
}

#[test]
fn a_hangup_reads_the_file_of_executors_again() {
    let home = Home::new();
    fs::create_dir_all(home.data()).expect("a directory");
    let file = home.data().join("executors.yaml");
    // Nothing is reported to the server here.
    let stubs: Vec<Stub> = (0..2).map(|_| Stub::new("127.0.0.1:1")).collect();
    let say = |token: &str, stub: &Stub| {
        fs::write(&file, format!("groups:\n  g: {{token: {token}, addresses: [\"{}\"]}}\n", stub.address))
            .expect("a file");
    };
    say("the-first-one", &stubs[0]);
    home.job("first", &job("hold", ""));
    let server = home.serve_with(&["--executor-listen", "127.0.0.1:0"]);
    trigger(&server, "first");
    stubs[0].wait("run", 1);
    let token = |stub: &Stub| stub.headers("run").get("xxl-job-access-token").cloned().unwrap_or_default();
    assert_eq!(token(&stubs[0]), "the-first-one");
    // A mistake leaves everything as it was.
    fs::write(&file, "grups: {}\n").expect("a file");
    server.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the mistake", || home.log().contains("stay as they were").then_some(()));
    say("the-second-one", &stubs[1]);
    server.signal(nix::sys::signal::Signal::SIGHUP);
    wait_for("the file", || home.log().contains("the file of executors was read again").then_some(()));
    home.job("again", &job("hold", ""));
    trigger(&server, "again");
    stubs[1].wait("run", 1);
    assert_eq!((token(&stubs[1]).as_str(), stubs[0].calls("run").len()), ("the-second-one", 1));
    assert!(server.stop().success());
}
