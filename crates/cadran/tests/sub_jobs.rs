//! Steps that call other jobs, once or for each of several items, through the built binary.

mod support;

use serde_json::Value;
use support::{Home, Server, cadran, wait_for};

fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn step<'v>(run: &'v Value, name: &str) -> &'v Value {
    let steps = run["steps"].as_array().expect("steps");
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step {name}: {run}"))
}

/// The runs that a step has called, by item.
fn calls(run: &Value, name: &str) -> Vec<(String, String)> {
    let text = |call: &Value, key: &str| call[key].as_str().unwrap_or_default().to_owned();
    let calls = step(run, name)["calls"].as_array().cloned().unwrap_or_default();
    calls.iter().map(|call| (text(call, "run"), text(call, "status"))).collect()
}

fn message(run: &Value, name: &str) -> String {
    step(run, name)["message"].as_str().unwrap_or_default().to_owned()
}

/// The home's own directory in the text of a job.
fn job(home: &Home, name: &str, text: &str) {
    home.job(name, &text.replace("HOME_DIR", &home.path("").display().to_string()));
}

// covers: key step.{job,params}
#[test]
fn a_step_takes_the_outputs_of_the_run_it_calls_and_fails_with_it() {
    let home = Home::new();
    job(
        &home,
        "child",
        "params: {who: nobody, code: '0'}\nsteps:\n  - {name: say, run: 'echo \"to $who\"; exit $code', output: SAID}\n",
    );
    job(
        &home,
        "parent",
        "params: {who: you}\nenv: {NAME: 'dear ${who}'}\nsteps:\n  - {name: first, run: echo 'a \"b\"', output: FIRST}\n  - name: call\n    \
         depends: first\n    job: child\n    params: {who: '${NAME}, ${FIRST}; $(id)'}\n    output: RESULT\n  - {name: use, depends: call, run: [echo, '${RESULT}'], stdout: HOME_DIR/used}\n",
    );
    job(
        &home,
        "failing",
        "retry: 1\nsteps:\n  - name: call\n    job: child\n    params: {code: 3}\n  - {name: never, depends: call, run: 'true'}\n",
    );
    job(&home, "wrong", "steps: [{name: call, job: child, params: {unknown: x}}]\n");
    let server = home.serve();
    let parent = server.run_is(&server.trigger("parent", r#"{"params": {"who": "all"}}"#), "succeeded");
    let called = calls(&parent, "call");
    assert_eq!(called.len(), 1, "{parent}");
    let child = server.run_is(&called[0].0, "succeeded");
    assert_eq!((&child["parent"], &child["trigger"]), (&parent["id"], &"child".into()));
    let result: Value = serde_json::from_str(home.lines("used")[0].as_str()).expect("an object");
    assert_eq!(result["SAID"], r#"to dear all, a "b"; $(id)"#);
    let shown = said(&home.client(&["show", parent["id"].as_str().expect("an id")]));
    assert!(shown.contains(&called[0].0), "{shown}");

    let failed = server.run_is(&server.trigger("failing", "{}"), "failed");
    assert_eq!(
        (&step(&failed, "call")["attempt"], &step(&failed, "never")["status"]),
        (&2.into(), &"skipped".into())
    );
    assert!(message(&failed, "call").contains("exited with 3"), "{failed}");
    let wrong = server.run_is(&server.trigger("wrong", "{}"), "failed");
    assert!(message(&wrong, "call").contains("no parameter"), "{wrong}");
    assert!(server.stop().success());
    // In the foreground the jobs beside the file are there too.
    let output = cadran().arg("run").arg(home.path("jobs/parent.yaml")).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
}

// covers: key step.{for_each,foreach}
// covers: key for_each.{items,in,range,max_parallel,max_concurrent}
#[test]
fn each_item_is_a_run_of_its_own_and_a_retry_repeats_what_failed() {
    let home = Home::new();
    job(
        &home,
        "one",
        "overlap: allow\nparams: {item: '', index: ''}\nsteps:\n  - {name: do, run: 'echo \"$index $item\" >> HOME_DIR/done; test ! -e \"HOME_DIR/bad-$item\"; echo \"<$item>\"', shell: /bin/sh -e, output: OUT}\n",
    );
    let each = |name: &str, key: &str, each: &str, more: &str| {
        let text = format!(
            "steps:\n  - {{name: list, run: \"printf 'x y\\\\n\\\\n z '\", output: LIST}}\n  - name: all\n    depends: list\n    job: one\n    params: {{item: '${{ITEM}}', index: '${{ITEM_INDEX}}'}}\n    {key}: {each}\n    output: ALL\n{more}"
        );
        job(&home, name, &text);
    };
    each("lines", "for_each", "${LIST}", "");
    each("json", "foreach", "{in: '[1, \"a b\", {\"k\": 2}]', max_concurrent: 1}", "");
    each("range", "for_each", "{range: 2-8/3, max_parallel: 2}", "");
    each("none", "for_each", "{items: []}", "");
    each("bad-json", "for_each", "'[1, 2'", "");
    each("many", "for_each", "{items: '${LIST}'}", "    retry: 0\n");
    let server = home.serve();
    let run = |job: &str, status: &str| server.run_is(&server.trigger(job, "{}"), status);
    let outputs = |run: &Value| -> Vec<String> {
        let text = step(run, "all")["output"].as_str().unwrap_or("[]").to_owned();
        let list: Vec<Value> = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
        list.iter().map(|item| item["OUT"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(outputs(&run("lines", "succeeded")), ["<x y>", "<z>"]);
    assert_eq!(outputs(&run("json", "succeeded")), ["<1>", "<a b>", "<{\"k\": 2}>"]);
    assert_eq!(outputs(&run("range", "succeeded")), ["<2>", "<5>", "<8>"]);
    assert_eq!(outputs(&run("none", "succeeded")), Vec::<String>::new());
    assert!(message(&run("bad-json", "failed"), "all").contains("no list in JSON"));

    // One of two fails; a retry by hand runs that one alone.
    std::fs::write(home.path("bad-z"), "").expect("a file");
    std::fs::write(home.path("done"), "").expect("a file");
    let failed = run("lines", "failed");
    assert!(message(&failed, "all").contains("1 of 2 items failed"), "{failed}");
    let before = calls(&failed, "all");
    std::fs::remove_file(home.path("bad-z")).expect("it is there");
    let id = failed["id"].as_str().expect("an id");
    assert!(home.client(&["retry", id]).status.success());
    let done = server.run_is(id, "succeeded");
    assert_eq!(outputs(&done), ["<x y>", "<z>"]);
    let after = calls(&done, "all");
    assert_eq!(after[0].0, before[0].0, "{after:?} {before:?}");
    assert_ne!(after[1].0, before[1].0, "{after:?} {before:?}");
    let mut lines = home.lines("done");
    lines.sort();
    assert_eq!(lines, ["", "0 x y", "1 z", "1 z"].map(str::to_owned)[1..].to_vec());
    assert!(server.stop().success());
}

// covers: key for_each.fail_fast
#[test]
fn a_failure_under_fail_fast_and_a_stop_end_the_other_items() {
    let home = Home::new();
    job(
        &home,
        "one",
        "overlap: allow\nparams: {item: ''}\nrun: 'test \"$item\" = bad || { touch \"HOME_DIR/on-$item\"; exec sleep 300; }; until [ -e HOME_DIR/on-a ]; do sleep 0.05; done; exit 4'\n",
    );
    let step_text = |items: &str, more: &str| {
        format!(
            "steps: [{{name: all, job: one, params: {{item: '${{ITEM}}'}}, for_each: {{items: {items}, max_parallel: 2, fail_fast: true}}{more}}}]\n"
        )
    };
    job(&home, "fast", &step_text("[a, bad, c]", ""));
    job(&home, "slow", &step_text("[b, d]", ""));
    job(&home, "late", &step_text("[e]", ", timeout: 500ms"));
    let server = home.serve();
    let failed = server.run_is(&server.trigger("fast", "{}"), "failed");
    let called = calls(&failed, "all");
    let ends: Vec<&str> = called.iter().map(|(_, status)| status.as_str()).collect();
    assert_eq!(ends, ["stopped", "failed"], "the third was not started: {failed}");
    server.run_is(&called[0].0, "stopped");
    let run = server.trigger("slow", "{}");
    wait_for("both items", || (home.path("on-b").exists() && home.path("on-d").exists()).then_some(()));
    assert!(home.client(&["stop", &run]).status.success());
    let stopped = server.run_is(&run, "stopped");
    assert!(calls(&stopped, "all").iter().all(|(_, status)| status == "stopped"), "{stopped}");
    let late = server.run_is(&server.trigger("late", "{}"), "failed");
    assert!(message(&late, "all").contains("time limit"), "{late}");
    assert!(server.stop().success());
}

fn stop_in_the_middle(end: fn(Server)) {
    let home = Home::new();
    job(
        &home,
        "one",
        "overlap: allow\nparams: {item: ''}\nsteps: [{name: do, run: 'touch \"HOME_DIR/on-$item\"; until [ -e HOME_DIR/go ]; do sleep 0.05; done; echo \"$item\"', output: OUT}]\n",
    );
    job(
        &home,
        "parent",
        "steps:\n  - {name: all, job: one, params: {item: '${ITEM}'}, for_each: {range: 1-3, max_parallel: 2}, output: ALL}\n  - {name: use, depends: all, run: [echo, '${ALL}'], stdout: HOME_DIR/used}\n",
    );
    let server = home.serve();
    let run = server.trigger("parent", "{}");
    wait_for("two items", || (home.path("on-1").exists() && home.path("on-2").exists()).then_some(()));
    let before: Vec<String> =
        calls(&server.run_is(&run, "running"), "all").into_iter().map(|(run, _)| run).collect();
    end(server);
    std::fs::write(home.path("go"), "").expect("a file");
    let server = home.serve();
    let done = server.run_is(&run, "succeeded");
    let after: Vec<String> = calls(&done, "all").into_iter().map(|(run, _)| run).collect();
    assert_eq!(after[..2], before[..], "the same runs went on: {done}");
    assert_eq!(step(&done, "all")["attempt"], 1, "{done}");
    assert_eq!(home.lines("used"), [r#"[{"OUT":"1"},{"OUT":"2"},{"OUT":"3"}]"#]);
    assert!(server.stop().success());
}

#[test]
fn calls_go_on_after_a_crash() {
    stop_in_the_middle(Server::kill);
}

#[test]
fn calls_go_on_after_a_stop_of_the_server() {
    stop_in_the_middle(|server| assert!(server.stop().success()));
}

#[test]
fn runs_that_wait_for_one_another_hold_no_slot_and_no_footprint() {
    let home = Home::new();
    job(&home, "leaf", "run: 'true'\n");
    job(&home, "middle", "steps: [{name: call, job: leaf}]\n");
    job(&home, "top", "overlap: allow\nsteps: [{name: call, job: middle}]\n");
    job(&home, "holder", "footprint: {writes: table:orders}\nsteps: [{name: call, job: outer}]\n");
    job(&home, "outer", "steps: [{name: call, job: wants}]\n");
    job(&home, "wants", "footprint: {writes: table:orders}\nrun: 'true'\n");
    // One slot for all of them.
    let server = home.serve_with(&["--slots", "1"]);
    let runs: Vec<String> = (0..3).map(|_| server.trigger("top", "{}")).collect();
    for run in &runs {
        server.run_is(run, "succeeded");
    }
    let holder = server.run_is(&server.trigger("holder", "{}"), "failed");
    assert!(message(&holder, "call").contains("has a footprint too"), "{holder}");
    server.run_is(&server.trigger("outer", "{}"), "succeeded");
    assert!(server.stop().success());
}

#[test]
fn mistakes_in_calls_are_found_when_the_files_are_read() {
    let home = Home::new();
    let check = |names: &[&str]| {
        let paths = names.iter().map(|name| home.path(&format!("jobs/{name}")));
        let output = cadran().arg("check").args(paths).output().expect("it starts");
        (output.status.code(), said(&output))
    };
    for (text, says) in [
        ("steps: [{job: job}]", "cannot call itself"),
        ("steps: [{job: 'a b'}]", "job.yaml:1:15"),
        ("steps: [{job: other, run: x}]", "stands beside `job`"),
        ("steps: [{job: other, dir: x}]", "stands beside `job`"),
        ("steps: [{run: x, for_each: [a]}]", "is for steps with `job`"),
        ("steps: [{job: other, for_each: {range: 1-1000000}}]", "allowed are 1000"),
        ("steps: [{job: other, for_each: {range: 5-1}}]", "as in `1-10`"),
        ("steps: [{job: other, for_each: {}}]", "has no items"),
        ("steps: [{job: other, for_each: {items: [a], range: 1-2}}]", "keep one of the two"),
        ("steps: [{job: other, for_each: {items: [a], max_parallel: 0}}]", "allowed are 1 to 1000"),
        ("preconditions: 'true'\nsteps: [{job: other}]", "preconditions are checked before"),
    ] {
        job(&home, "job", &format!("{text}\n"));
        let (code, shown) = check(&["job.yaml"]);
        assert!(code == Some(1) && shown.contains(says), "{text}: {shown}");
    }
    let items: Vec<String> = (0..1001).map(|at| at.to_string()).collect();
    job(&home, "job", &format!("steps: [{{job: other, for_each: [{}]}}]\n", items.join(", ")));
    assert!(check(&["job.yaml"]).1.contains("1001 items"));

    job(&home, "job", "steps: [{name: s, job: middle}]\n");
    job(&home, "middle", "steps: [{name: s, job: job}]\n");
    job(&home, "lost", "steps: [{name: s, job: midle}]\n");
    for names in [&["."][..], &["job.yaml", "middle.yaml"]] {
        let (code, shown) = check(names);
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("these jobs call one another: job → middle → job"), "{shown}");
    }
    let shown = check(&["."]).1;
    assert!(
        shown.contains("the job midle, which does not exist") && shown.contains("did you mean `middle`"),
        "{shown}"
    );
    // The server shows it, and such a run fails with the reason.
    let server = home.serve();
    let (_, problems) = server.get("/api/v1/problems");
    assert!(problems.to_string().contains("job → middle → job"), "{problems}");
    let run = server.run_is(&server.trigger("job", "{}"), "failed");
    let middle = &calls(&run, "s")[0].0;
    assert!(message(&server.run_is(middle, "failed"), "s").contains("these jobs call one another"), "{run}");
    let lost = server.run_is(&server.trigger("lost", "{}"), "failed");
    assert!(message(&lost, "s").contains("no job named midle"), "{lost}");
    assert!(server.stop().success());
}
