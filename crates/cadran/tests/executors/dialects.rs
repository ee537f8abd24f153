//! Executors that speak otherwise, and those whose addresses were typed in.

use std::fs;
use std::net::TcpListener;

use serde_json::{Value, json};

use super::stub::{Speech, Stub, TOKEN, call};
use super::support::Home;
use super::{door, ended, job, run, serve, trigger};

fn members(order: &Value) -> usize {
    order.as_object().map_or(0, |members| members.len())
}

#[test]
fn every_dialect_is_spoken_as_its_executors_expect() {
    for (speech, word, verb) in [
        (Speech::Two, "xxl-job", "run"),
        (Speech::Three, "xxl-job-3.5", "trigger"),
        (Speech::Orth, "orth", "run"),
    ] {
        let home = Home::new();
        let server = serve(&home, "127.0.0.1:0");
        let stub = Stub::speaking(&door(&server), speech);
        stub.register("g");
        let shown = home.json(&["executors", "--json"]);
        assert_eq!(shown["groups"][0]["executors"][0]["dialect"], word, "{shown}");
        home.job("quick", &job("quick", "block: concurrent\nconcurrency: 3\nschedule: every 1s\n"));
        home.job("hold", &job("hold", ""));

        // An order, and its result.
        let order = stub.wait(verb, 1).remove(0);
        assert_eq!((stub.calls("run").is_empty(), stub.calls("trigger").is_empty()).0, verb == "trigger");
        let headers = stub.headers(verb);
        let header = |name: &str| headers.get(name).map(String::as_str);
        match speech {
            Speech::Two | Speech::Three => {
                assert_eq!(
                    (members(&order), &order["executorBlockStrategy"]),
                    (12, &json!("SERIAL_EXECUTION"))
                );
                assert_eq!(header("xxl-job-access-token"), Some(TOKEN));
            }
            Speech::Orth => {
                assert_eq!((members(&order), &order["executorBlockStrategy"]), (14, &json!("CONCURRENT")));
                assert_eq!(order["executorConcurrency"], 3, "{order}");
                let due = order["scheduleTime"].as_i64().expect("the instant it stands for");
                assert_eq!(due % 1000, 0, "{order}");
                assert_eq!(
                    (header("orth-access-token"), header("xxl-job-access-token")),
                    (Some(TOKEN), None)
                );
            }
        }
        assert_eq!(header("xxl-job-appname"), (speech == Speech::Three).then_some("g"));
        let done = server.run_with("quick", "succeeded");

        // Its log, and a stop.
        let log = home.client(&["logs", done["id"].as_str().expect("an id")]);
        assert!(String::from_utf8_lossy(&log.stdout).contains("line 3 of"), "{speech:?}");
        let asked = &stub.calls("log")[0];
        assert_eq!(asked["logDateTime"], asked["logDateTim"], "each reads its own spelling");
        home.remove_job("quick");
        let id = trigger(&server, "hold");
        server.run_is(&id, "running");
        assert!(home.client(&["stop", &id]).status.success());
        assert_eq!(ended(&server, &id)["status"], "stopped", "{speech:?}");
        assert_eq!(stub.wait("kill", 1).len(), 1);
        stub.leave("g");
        assert_eq!(home.json(&["executors", "--json"])["groups"], json!([]), "{speech:?}");
        assert!(server.stop().success());
    }
}

#[test]
fn a_command_for_a_group_without_workers_travels_as_a_shell_script() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::new(&door(&server));
    stub.register("g");
    home.job("plain", "executor: g\nparams: a b\nrun: echo \"$1\"\n");
    home.job("env", "executor: g\nenv: {A: b}\nrun: echo $A\n");
    home.job("program", "executor: g\nrun: [echo, a]\n");
    assert_eq!(run(&server, "plain")["status"], "succeeded");
    let order = stub.calls("run").remove(0);
    assert_eq!(
        (&order["glueType"], &order["glueSource"], &order["executorParams"]),
        (&json!("GLUE_SHELL"), &json!("echo \"$1\""), &json!("a b")),
        "{order}"
    );
    for (name, says) in
        [("env", "without `env`, `dir` and `shell`"), ("program", "write the command as a text")]
    {
        let done = run(&server, name);
        assert!(done["steps"][0]["message"].as_str().is_some_and(|text| text.contains(says)), "{done}");
    }
    // Where the file of executors says who is there, so does a check.
    let file = home.path("executors.yaml");
    fs::write(&file, format!("token: x\ngroups:\n  g: {{addresses: \"{}\"}}\n", stub.address))
        .expect("written");
    home.job("elsewhere", "executor: other\nrun: echo a\n");
    home.job("handler", &job("quick", ""));
    let check = |more: &[&str]| {
        let checked = super::support::cadran()
            .arg("check")
            .args(more)
            .arg("--executors")
            .arg(&file)
            .arg(home.path("jobs"))
            .output()
            .expect("it starts");
        assert!(checked.status.success(), "{checked:?}");
        String::from_utf8_lossy(&checked.stdout).into_owned()
    };
    let said = check(&[]);
    assert_eq!(said.matches("note: ").count(), 3, "{said}");
    for words in ["of job plain on group g: without a worker", "of job env on group g: it needs a worker"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let lines: Vec<Value> =
        check(&["--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let notes: Vec<&Value> = lines.iter().filter(|line| line["note"].is_string()).collect();
    assert_eq!((notes.len(), &notes[0]["group"]), (3, &json!("g")), "{notes:?}");
}

// covers: key executors_file.{token,groups}
// covers: option serve --executors
// covers: key executors_group.{token,addresses,dialect}
#[test]
fn typed_in_addresses_are_used_in_their_order_with_their_own_token() {
    let home = Home::new();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|port| port.local_addr()).expect("a port");
    let door = port.to_string();
    let mut stubs: Vec<Stub> = (0..3).map(|_| Stub::new(&door)).collect();
    stubs.sort_by(|a, b| b.address.cmp(&a.address));
    let [one, two, three] = &stubs[..] else { panic!("three") };
    fs::create_dir_all(home.data()).expect("a directory");
    let text = format!(
        "token: {TOKEN}\ngroups:\n  g: {{token: its-own-token, addresses: [\"{}\", \"{}/\"]}}\n  new: \
         {{dialect: xxl-job-3.5, addresses: \"{}\"}}\n",
        one.address, two.address, three.address
    );
    // Where the server looks by itself, and where it is told to look.
    fs::write(home.data().join("executors.yaml"), &text).expect("written");
    let server = home.serve_with(&["--executor-listen", &door]);
    assert_eq!(home.json(&["executors", "--json"])["groups"].as_array().map(Vec::len), Some(2));
    assert!(server.stop().success());
    fs::rename(home.data().join("executors.yaml"), home.path("elsewhere.yaml")).expect("moved");
    let file = home.path("elsewhere.yaml").display().to_string();
    let server = home.serve_with(&["--executor-listen", &door, "--executors", &file]);
    home.job("first", &job("quick", "route: first\n"));
    home.job("last", &job("quick", "route: last\n"));
    home.job("all", &job("quick", "route: broadcast\n"));
    home.job("new", "executor: new\nhandler: quick\n");
    for (name, shares) in [("first", 1), ("last", 1), ("all", 2), ("new", 1)] {
        let done = run(&server, name);
        assert_eq!(done["status"], "succeeded", "{name}: {done}");
        assert_eq!(done["steps"][0]["executors"].as_array().map(Vec::len), Some(shares), "{done}");
    }
    let counts = |verb| stubs.iter().map(|stub| stub.calls(verb).len()).collect::<Vec<_>>();
    assert_eq!((counts("run"), counts("trigger")), (vec![2, 2, 0], vec![0, 0, 1]));
    assert_eq!(one.headers("run").get("xxl-job-access-token").map(String::as_str), Some("its-own-token"));
    assert_eq!(three.headers("trigger").get("xxl-job-appname").map(String::as_str), Some("new"));
    // Who registers in such a group is not asked for more, and with the wrong token not even heard.
    let body = json!({"registryGroup": "EXECUTOR", "registryKey": "g", "registryValue": three.address});
    assert_eq!(call(&door, "registry", &body, &[("XXL-JOB-ACCESS-TOKEN", TOKEN)])["code"], 500);
    assert_eq!(call(&door, "registry", &body, &[("XXL-JOB-ACCESS-TOKEN", "its-own-token")])["code"], 200);
    assert_eq!(run(&server, "all")["steps"][0]["executors"].as_array().map(Vec::len), Some(2));
    let shown = home.json(&["executors", "--json"]);
    assert_eq!((&shown["groups"][0]["name"], &shown["groups"][0]["typed"]), (&json!("g"), &json!(true)));
}
