//! Jobs that executors of XXL-JOB 3.5 add, change, start, stop, trigger and remove.

use std::fs;

use serde_json::{Value, json};

use super::stub::{Speech, Stub, TOKEN, call};
use super::support::{Home, Server, wait_for};
use super::{door, ended, job, run, serve, trigger};

/// Calls about jobs, by a member of a group.
struct Member {
    door: String,
    group: &'static str,
}

impl Member {
    fn of(server: &Server, group: &'static str) -> Member {
        Member { door: door(server), group }
    }

    fn ask(&self, verb: &str, body: Value) -> Value {
        let headers = [("XXL-JOB-ACCESS-TOKEN", TOKEN), ("XXL-JOB-APPNAME", self.group)];
        call(&self.door, verb, &body, &headers)
    }

    /// The call is carried out.
    #[track_caller]
    fn does(&self, verb: &str, body: Value) -> Value {
        let answer = self.ask(verb, body);
        assert_eq!(answer["code"], 200, "{verb}: {answer}");
        assert_eq!(answer["content"], answer["data"], "every client finds it");
        answer["data"].clone()
    }

    /// The call is refused, and the answer says why.
    #[track_caller]
    fn fails(&self, verb: &str, body: Value, says: &str) {
        let answer = self.ask(verb, body.clone());
        assert_eq!(answer["code"], 500, "{verb} {body}: {answer}");
        assert!(answer["msg"].as_str().is_some_and(|text| text.contains(says)), "{verb} {body}: {answer}");
    }

    /// Adds a job, and says its number.
    #[track_caller]
    fn add(&self, name: &str, more: Value) -> u64 {
        let number = self.does("addJob", form(name, more));
        number.as_str().and_then(|number| number.parse().ok()).expect("a number as a text")
    }
}

/// A whole form, as the client of the protocol sends it, with some members changed.
fn form(name: &str, more: Value) -> Value {
    let mut form = json!({
        "jobGroup": 1, "name": name, "author": "ann", "alarmEmail": "", "scheduleType": "NONE",
        "scheduleConf": "", "misfireStrategy": "DO_NOTHING", "executorRouteStrategy": "FIRST",
        "executorHandler": "quick", "executorParam": "", "executorBlockStrategy": "SERIAL_EXECUTION",
        "executorTimeout": 0, "executorFailRetryCount": 0, "glueType": "BEAN", "glueSource": "",
        "glueRemark": "",
    });
    let members = more.as_object().expect("members").clone();
    form.as_object_mut().expect("members").extend(members);
    form
}

fn state(home: &Home, name: &str) -> Value {
    home.json(&["jobs", "--json"])["jobs"]
        .as_array()
        .and_then(|jobs| jobs.iter().find(|job| job["name"] == name).cloned())
        .map_or(Value::Null, |job| job["state"].clone())
}

#[test]
fn a_job_is_added_started_changed_stopped_and_removed() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::speaking(&door(&server), Speech::Three);
    stub.register("g");
    let member = Member::of(&server, "g");
    let odd = "a=b ${HOME} 'c' \"d\"";
    let schedule = json!({"scheduleType": "FIX_RATE", "scheduleConf": "1", "executorParam": odd,
        "alarmEmail": "a@b.c\nrun: touch /tmp/never", "glueRemark": "first"});
    let number = member.add("Settle: 'all'", schedule.clone());

    // It is a file like any other, and its schedule rests until it is started.
    let file = home.path("jobs/xxl-job/g/Settle-all.yaml");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(
        text.contains("# alarms to a@b.c run: touch") && text.contains("\nschedule: \"every 1s\""),
        "{text}"
    );
    assert_eq!(state(&home, "Settle-all"), "paused");
    let (_, shown) = server.get("/api/v1/jobs/Settle-all");
    assert_eq!(shown["description"], "Settle: 'all'", "{shown}");

    // By hand, with its own text and with another.
    member.does("triggerJob", json!({"id": number}));
    let order = stub.wait("trigger", 1).remove(0);
    assert_eq!((&order["jobId"], &order["executorParams"]), (&json!(number), &json!(odd)), "{order}");
    member.does("triggerJob", json!({"id": number, "executorParam": "x=y z", "addressList": ""}));
    assert_eq!(stub.wait("trigger", 2)[1]["executorParams"], "x=y z");
    let rows = server.history("Settle-all");
    assert!(
        rows.iter().all(|row| row["trigger"] == "manual" || row["kind"] == "skip"),
        "no due ran: {rows:?}"
    );

    // By the clock.
    member.does("startJob", json!({"id": number}));
    assert_ne!(state(&home, "Settle-all"), "paused");
    assert_eq!(stub.wait("trigger", 4)[3]["executorParams"], odd);
    let due = server.history("Settle-all").into_iter().any(|row| row["trigger"] == "schedule");
    assert!(due, "a due ran");

    // Changed while it is on: what it does, not whether it rests.
    let mut changed = form("Settle: 'all'", schedule);
    changed["id"] = json!(number);
    changed["executorParam"] = json!("changed");
    changed.as_object_mut().expect("members").remove("jobGroup");
    member.does("updateJob", changed.clone());
    member.does("updateJob", changed);
    wait_for("an order of the changed job", || {
        stub.calls("trigger").iter().any(|order| order["executorParams"] == "changed").then_some(())
    });
    member.does("stopJob", json!({"id": number}));
    assert_eq!(state(&home, "Settle-all"), "paused");

    // A restart changes nothing of it.
    assert!(server.stop().success());
    let server = serve(&home, "127.0.0.1:0");
    let member = Member::of(&server, "g");
    assert_eq!(state(&home, "Settle-all"), "paused");
    member.does("removeJob", json!({"id": number}));
    assert!(!file.exists());
    assert_eq!(state(&home, "Settle-all"), Value::Null);
    for verb in ["triggerJob", "startJob", "stopJob", "removeJob"] {
        member.fails(verb, json!({"id": number}), &format!("group g has no job {number}"));
    }
    let metrics = server.get("/metrics").1;
    let metrics = metrics.as_str().unwrap_or_default();
    assert!(metrics.contains("calls_total{what=\"job\"} 1\n"), "{metrics}");
    assert!(metrics.contains("calls_total{what=\"job_refused\"} 4\n"), "{metrics}");
}

#[test]
fn a_script_travels_and_every_kind_of_job_can_be_said() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::speaking(&door(&server), Speech::Three);
    stub.register("g");
    let member = Member::of(&server, "g");
    let number = member.add(
        "报表",
        json!({"scheduleType": "CRON", "scheduleConf": "0 0 2 ? * MON-FRI", "misfireStrategy": "FIRE_ONCE_NOW",
            "executorRouteStrategy": "SHARDING_BROADCAST", "executorHandler": "", "glueType": "GLUE_SHELL",
            "executorBlockStrategy": "COVER_EARLY", "executorTimeout": 90, "executorFailRetryCount": 2,
            "glueSource": "#!/bin/bash\necho \"$1\" # ${x}: 'y'\n", "executorParam": "p"}),
    );
    member.does("triggerJob", json!({"id": number, "executorParam": null}));
    let order = stub.wait("trigger", 1).remove(0);
    for (member, value) in [
        ("glueType", json!("GLUE_SHELL")),
        ("glueSource", json!("#!/bin/bash\necho \"$1\" # ${x}: 'y'\n")),
        ("executorParams", json!("p")),
        ("executorBlockStrategy", json!("COVER_EARLY")),
        ("executorTimeout", json!(90)),
        ("broadcastTotal", json!(1)),
    ] {
        assert_eq!(order[member], value, "{order}");
    }
    // Nothing in the name is fit for a file: it has a name of ours.
    assert!(home.path("jobs/xxl-job/g/job.yaml").exists());
    let names: Vec<u64> =
        ["../../etc/x", "../../etc/x", "a b", "job"].map(|name| member.add(name, json!({}))).into();
    assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
    for name in ["etc-x", "etc-x-2", "a-b", "job-2"] {
        assert!(home.path(&format!("jobs/xxl-job/g/{name}.yaml")).exists(), "{name}");
    }
}

#[test]
fn a_group_has_no_say_in_the_jobs_of_others() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stub = Stub::speaking(&door(&server), Speech::Three);
    stub.register("g");
    let (member, other) = (Member::of(&server, "g"), Member::of(&server, "h"));
    home.job("here", "params: x\nrun: echo \"$1\"\n");
    home.job("both", "steps:\n  - {name: a, executor: g, handler: quick}\n  - {name: b, run: echo}\n");
    home.job("plain", &job("quick", "params: none\n"));
    home.job("two", &job("quick", "params: a b\n"));
    assert_eq!(run(&server, "plain")["status"], "succeeded");
    let plain = stub.calls("trigger")[0]["jobId"].as_u64().expect("a number");
    run(&server, "two");
    let two = stub.calls("trigger")[1]["jobId"].as_u64().expect("a number");
    trigger(&server, "here");
    trigger(&server, "both");
    let own = member.add("own", json!({}));

    for number in 0..own + 2 {
        for (verb, body) in [
            ("triggerJob", json!({"id": number})),
            ("startJob", json!({"id": number})),
            ("stopJob", json!({"id": number})),
            ("removeJob", json!({"id": number})),
            ("updateJob", json!({"id": number, "name": "x", "executorHandler": "quick"})),
        ] {
            other.fails(verb, body.clone(), &format!("group h has no job {number}"));
            // Those that run here, in whole or in part, are nobody's.
            if ![plain, two, own].contains(&number) {
                member.fails(verb, body, &format!("group g has no job {number}"));
            }
        }
    }
    // What people wrote is triggered, started and stopped, and not written over.
    member.does("triggerJob", json!({"id": plain, "executorParam": "by number"}));
    wait_for("the order", || {
        stub.calls("trigger").iter().any(|order| order["executorParams"] == "by number").then_some(())
    });
    member.fails("triggerJob", json!({"id": two, "executorParam": "x"}), "takes no text");
    member.does("stopJob", json!({"id": plain}));
    assert_eq!(state(&home, "plain"), "paused");
    member.does("startJob", json!({"id": plain}));
    member.fails("removeJob", json!({"id": plain}), "was not written by executors of group g");
    member.fails("updateJob", form("x", json!({"id": plain})), "was not written by executors of group g");
    assert_eq!(run(&server, "plain")["status"], "succeeded", "the job is as it was");
}

// covers: option serve --no-executor-jobs
#[test]
fn what_cannot_be_is_refused_and_leaves_nothing_behind() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let member = Member::of(&server, "g");
    for (more, says) in [
        (json!({"name": " "}), "`name` is empty"),
        (json!({"name": 7}), "`name` is not a text"),
        (json!({"executorHandler": ""}), "handler"),
        (
            json!({"scheduleType": "FIX_DELAY", "scheduleConf": "5"}),
            "`scheduleType` is one of NONE, CRON, FIX_RATE",
        ),
        (json!({"scheduleType": "CRON", "scheduleConf": "0 0 2 * *"}), "such a job cannot be"),
        (json!({"scheduleType": "CRON", "scheduleConf": "0 0 2 30 2 ?"}), "such a job cannot be"),
        (json!({"scheduleType": "CRON", "scheduleConf": ""}), "`scheduleConf` is empty"),
        (json!({"scheduleType": "FIX_RATE", "scheduleConf": "0"}), "`scheduleConf` is not a whole number"),
        (
            json!({"scheduleType": "FIX_RATE", "scheduleConf": "5\nrun: reboot"}),
            "`scheduleConf` is not a whole number",
        ),
        (json!({"executorRouteStrategy": "NEAREST"}), "`executorRouteStrategy` is one of FIRST, LAST"),
        (json!({"executorBlockStrategy": "WAIT"}), "`executorBlockStrategy` is one of SERIAL_EXECUTION"),
        (json!({"misfireStrategy": "ALL"}), "`misfireStrategy` is one of DO_NOTHING, FIRE_ONCE_NOW"),
        (json!({"glueType": "GLUE_COBOL"}), "`glueType`"),
        (json!({"glueType": "GLUE_SHELL"}), "such a job cannot be"),
        (json!({"executorTimeout": -1}), "`executorTimeout` is not a whole number"),
        (json!({"executorFailRetryCount": "2"}), "`executorFailRetryCount` is not a whole number"),
        (json!({"executorParam": "x".repeat(2 << 20)}), "such a job cannot be"),
        (json!({"run": "reboot"}), "`run` is no field of a job"),
        (json!({"footprint": {}}), "`footprint` is no field of a job"),
    ] {
        member.fails("addJob", form("a", more), says);
    }
    member.fails("addJob", json!([]), "an object");
    member.fails("updateJob", form("a", json!({})), "`id` is not the number of a job");
    member.fails("triggerJob", json!({"id": "1"}), "`id` is not the number of a job");
    assert!(!home.path("jobs/xxl-job").exists(), "nothing was written");
    // The name of a group may be a word that means something else in a file.
    let called = |group| Member { group, ..Member::of(&server, "g") };
    called("local").fails("addJob", form("a", json!({})), "`local` is the server itself");
    called("docker").add("a", json!({}));
    let text = fs::read_to_string(home.path("jobs/xxl-job/docker/a.yaml")).expect("a file");
    assert!(text.contains("executor: {group: \"docker\"}"), "{text}");
    // A file that is there and not in force is not written over.
    fs::create_dir_all(home.path("jobs/xxl-job/g")).expect("a directory");
    fs::write(home.path("jobs/xxl-job/g/b.yaml"), "no: job\n").expect("written");
    member.add("b", json!({}));
    assert_eq!(fs::read_to_string(home.path("jobs/xxl-job/g/b.yaml")).expect("a file"), "no: job\n");
    assert!(home.path("jobs/xxl-job/g/b-2.yaml").exists());

    // Who calls too often has to wait, and nobody else.
    let answers: Vec<Value> =
        (0..101).map(|_| member.ask("stopJob", json!({"id": 99}))["code"].clone()).collect();
    assert_eq!(answers.last(), Some(&json!(502)), "{answers:?}");
    Member::of(&server, "h").fails("stopJob", json!({"id": 99}), "group h has no job 99");

    assert!(server.stop().success());
    let args = ["--executor-token", TOKEN, "--executor-listen", "127.0.0.1:0", "--no-executor-jobs"];
    let server = home.serve_with(&args);
    let member = Member::of(&server, "g");
    member.fails("addJob", form("b", json!({})), "lets executors write no jobs");
}

// covers: option trigger --executors
#[test]
fn a_trigger_names_its_executors_among_those_that_are_there() {
    let home = Home::new();
    let server = serve(&home, "127.0.0.1:0");
    let stubs: Vec<Stub> = (0..4).map(|_| Stub::speaking(&door(&server), Speech::Three)).collect();
    let [one, two, three, stranger] = &stubs[..] else { panic!("four") };
    [one, two, three].iter().for_each(|stub| stub.register("g"));
    let member = Member::of(&server, "g");
    let number = member.add("all", json!({"executorRouteStrategy": "SHARDING_BROADCAST"}));
    let counts = || stubs.iter().map(|stub| stub.calls("trigger").len()).collect::<Vec<_>>();

    // However the end of an address is written, in the order given, each once.
    let list = format!("{}/, {},{}", three.address, one.address, one.address);
    let id = member.does("triggerJob", json!({"id": number, "addressList": list}));
    let done = ended(&server, id.as_str().expect("a run"));
    assert_eq!(done["status"], "succeeded", "{done}");
    assert_eq!(counts(), [1, 0, 1, 0]);
    assert_eq!(three.calls("trigger")[0]["broadcastIndex"], 0);
    assert_eq!(one.calls("trigger")[0]["broadcastIndex"], 1);
    assert_eq!(done["addresses"].as_array().map(Vec::len), Some(3), "{done}");

    // Nobody else gets to see the token.
    for list in [stranger.address.clone(), format!("{},{}", one.address, stranger.address)] {
        member.fails("triggerJob", json!({"id": number, "addressList": list}), "is no executor of a group");
    }
    member.fails("triggerJob", json!({"id": number, "addressList": "nowhere"}), "`addressList`");
    member.fails("triggerJob", json!({"id": number, "addressList": 7}), "`addressList` is not a text");
    home.job("here", "run: echo\n");
    trigger(&server, "here");

    // The same for people; what was named is remembered, also across a restart while the run waits.
    home.job("first", &job("hold", "route: first\noverlap: wait\n"));
    let before = trigger(&server, "first");
    server.run_is(&before, "running");
    let told = home.client(&["trigger", "first", "--executors", &two.address]);
    let id = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    assert_eq!(server.run_is(&id, "waiting")["addresses"], json!([two.address]));
    for (name, address, says) in [
        ("here", &two.address, "runs on the server itself"),
        ("first", &stranger.address, "is no executor of a group"),
        ("first", &"x".to_owned(), "addresses"),
    ] {
        let told = home.client(&["trigger", name, "--executors", address]);
        let said = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(!told.status.success() && said.contains(says), "{said}");
    }
    server.kill();
    let server = serve(&home, "127.0.0.1:0");
    assert!(home.client(&["stop", &before]).status.success());
    ended(&server, &before);
    assert_eq!(two.wait("trigger", 1)[0]["executorHandler"], "hold");
    assert!(home.client(&["stop", &id]).status.success());
    ended(&server, &id);
    assert!(stranger.calls("trigger").is_empty(), "it never heard of us");
}
