//! What is wrong with a file: exact line, column, length, field, message and advice.

use std::sync::Arc;

use cadran_spec::{Code, Diagnostic, ReadOptions, Resources, Severity, read_job};

fn errors(text: &str) -> Vec<Diagnostic> {
    match read_job(text.as_bytes(), "job", &ReadOptions::default()) {
        Ok(parsed) => panic!("read without an error: {text}\n{:?}", parsed.warnings),
        Err(errors) => errors,
    }
}

/// One error: `line:column+len path | message | help`.
#[track_caller]
fn check(text: &str, expected: &str) {
    check_all(text, &[expected]);
}

#[track_caller]
fn check_all(text: &str, expected: &[&str]) {
    let found: Vec<String> = errors(text).iter().map(row).collect();
    assert_eq!(found, expected, "\n{text}");
}

fn row(found: &Diagnostic) -> String {
    let Diagnostic { line, column, len, path, message, .. } = found;
    let help = found.help.as_ref().map(|help| format!(" | {help}")).unwrap_or_default();
    format!("{line}:{column}+{len} {path} | {message}{help}")
}

#[test]
fn keys() {
    check("run: x\nschedul: '@daily'\n", "2:1+7 schedul | unknown key `schedul` | did you mean `schedule`?");
    check(
        "run: x\nSchedule: '@daily'\n",
        "2:1+8 Schedule | unknown key `Schedule` | did you mean `schedule`?",
    );
    check(
        "run: x\nhandlers: {sucess: echo}\n",
        "2:12+6 handlers.sucess | unknown key `sucess` | did you mean `success`?",
    );
    check(
        "run: x\nfootprint: {reads: ['a:b'], zzz: b}\n",
        "2:29+3 footprint.zzz | unknown key `zzz` | a footprint has the keys reads, writes, claims, capacity, ordered, on_conflict",
    );
    check("run: x\nrun: y\n", "2:1+3 run | the key `run` is already on line 1 | keep one of the two");
    check(
        "run: x\ncommand: y\n",
        "2:1+7 command | `command` says the same as `run` on line 1 | keep one of the two",
    );
    check(
        "run: x\noverlap: skip\noverlapPolicy: skip\n",
        "3:1+13 overlapPolicy | `overlapPolicy` says the same as `overlap` on line 2 | keep one of the two",
    );
    // A key that is there twice does not hide what else is wrong.
    check_all(
        "run: x\nenv: {A: 1, A: 2}\npriority: high\n",
        &[
            "2:13+1 env.A | the key `A` is already on line 2 | keep one of the two",
            "3:11+4 priority | `priority` takes a whole number from -1000000 to 1000000, not `high`",
        ],
    );
}

#[test]
fn keys_of_other_schedulers() {
    check(
        "run: x\nrepeatPolicy: {limit: 3}\n",
        "2:1+12 repeatPolicy | `repeatPolicy` is not supported by Cadran | use a schedule with `every`",
    );
    check(
        "run: x\nmailOn: {failure: true}\n",
        "2:1+6 mailOn | `mailOn` is not supported by Cadran | send it from a handler: `handlers: {failure: …}`",
    );
    check(
        "steps:\n  - name: a\n    executor: docker\n    run: x\n",
        "3:15+6 steps[0].executor | `executor: docker` is not supported by Cadran | write what the step does as `run` or `script`; `executor` names a group of executors",
    );
    check(
        "type: agent\nrun: x\n",
        "1:7+5 type | `type: agent` is not supported by Cadran | use `graph` or `chain`",
    );
    for key in
        ["mail_on", "smtp", "queue", "max_active_runs", "secrets", "restart_wait_sec", "worker_selector"]
    {
        let found = errors(&format!("run: x\n{key}: 1\n"));
        assert_eq!((found[0].code, found.len()), (Code::Unsupported, 1), "{key}");
        assert!(found[0].help.is_some());
    }
    for key in ["repeat_policy", "parallel", "call", "mail_on_error", "approval", "args", "id"] {
        let found = errors(&format!("steps:\n  - run: x\n    {key}: 1\n"));
        assert_eq!((found[0].code, found.len()), (Code::Unsupported, 1), "{key}");
    }
}

#[test]
fn schedules() {
    check(
        "run: x\nschedule: \"0 25 * * *\"\n",
        "2:14+2 schedule | hour: `25` is out of range, allowed are 0–23",
    );
    check("run: x\nschedule: 0 25 * * *\n", "2:13+2 schedule | hour: `25` is out of range, allowed are 0–23");
    // Impossible dates.
    check(
        "run: x\nschedule: '0 0 30 2 *'\n",
        "2:16+6 schedule | day-of-month: `0 0 30 2 *` names no date that exists in the years 1970–2199",
    );
    check(
        "run: x\nschedule: {at: 2026-02-30T10:00:00Z}\n",
        "2:16+20 schedule.at | `2026-02-30T10:00:00Z` is no timestamp, allowed are RFC 3339 dates and times | write for example `2026-11-15T10:00:00Z` or `2026-11-15T10:00`",
    );
    check_all(
        "run: x\nschedule:\n  - cron: '61 * * * *'\n  - every: 5s\n    kind: cron\n",
        &[
            "3:12+2 schedule[0].cron | minute: `61` is out of range, allowed are 0–59",
            "5:11+4 schedule[1].kind | `kind` is cron, but the schedule is given by `every` | remove `kind`; it is not needed",
        ],
    );
    check(
        "run: x\nschedule: {cron: '0 9 * * *', every: 10s}\n",
        "2:31+5 schedule.every | `cron` and `every` are two schedules | make them two items of a list",
    );
    check(
        "run: x\nschedule: {every: 10}\n",
        "2:19+2 schedule.every | `10` has no unit, allowed are whole numbers with w, d, h, m, s or ms, largest unit first | write `10s` for seconds",
    );
    check(
        "run: x\nschedule: {timezone: UTC}\n",
        "2:11+15 schedule | this schedule does not say when | add `cron`, `every` or `at`, as in `every: 10s`",
    );
    check(
        "run: x\nschedule: {every: 1m, from: noon}\n",
        "2:29+4 schedule.from | `from`: `noon` is no timestamp, allowed are RFC 3339 dates and times | write for example `2026-11-15T10:00:00Z` or `2026-11-15T10:00`",
    );
    check(
        "run: x\nschedule: {start: '0 9 * * *', stp: '0 10 * * *'}\n",
        "2:32+3 schedule.stp | unknown key `stp` | did you mean `stop`?",
    );
    check(
        "run: x\nschedule: {strat: '0 9 * * *'}\n",
        "2:12+5 schedule.strat | unknown key `strat` | did you mean `start`?",
    );
}

#[test]
fn zones() {
    check(
        "run: x\ntimezone: Europe/Pariss\n",
        "2:11+13 timezone | there is no time zone `Europe/Pariss` | did you mean `Europe/Paris`?",
    );
    let found = errors("run: x\nschedule: 'CRON_TZ=Mars/Base 0 9 * * *'\n");
    assert_eq!((found[0].line, found[0].column, found[0].len), (2, 20, 9));
}

#[test]
fn values() {
    check(
        "run: x\ntimeout: 30\n",
        "2:10+2 timeout | `timeout`: `30` has no unit, allowed are whole numbers with w, d, h, m, s or ms, largest unit first | write `30s` for seconds",
    );
    check("run: x\ntimeout: [1]\n", "2:10+3 timeout | `timeout` takes a duration, not a list");
    check(
        "run: x\ntimeoutSec: 1h\n",
        "2:13+2 timeoutSec | `timeoutSec` takes a whole number from 0 to 3153600000, not `1h`",
    );
    check(
        "run: x\npriority: 9999999\n",
        "2:11+7 priority | `priority` is 9999999; allowed are -1000000 to 1000000",
    );
    check(
        "run: x\nskip_if_successful: yes\n",
        "2:21+3 skip_if_successful | `skip_if_successful` takes true or false, not `yes` | write `true`",
    );
    check(
        "run: x\noverlapPolicy: skp\n",
        "2:16+3 overlapPolicy | `overlapPolicy` cannot be `skp` | did you mean `skip`?",
    );
    check(
        "run: x\nmisfire: xyzzy\n",
        "2:10+5 misfire | `misfire` cannot be `xyzzy` | allowed are skip, once, all, DO_NOTHING, FIRE_ONCE_NOW",
    );
    check(
        "run: x\nmisfire: all\n",
        "2:10+3 misfire | `misfire: all` does not say how far back | add a window, as in `catchup_window: 24h`",
    );
    check("run: x\nretry: nevr\n", "2:8+4 retry | `retry` cannot be `nevr` | did you mean `never`?");
    check(
        "run: x\nmax_active_steps: 5000\n",
        "2:19+4 max_active_steps | `max_active_steps` is 5000; allowed are 0 to 1000",
    );
    check(
        "run: x\nhistory: {days: 3, count: 4}\n",
        "2:20+5 history.count | `days` and `count` are two lengths of one history | keep one of the two",
    );
    check("run: \"\"\n", "1:6+2 run | `run` is empty");
    check("run: {a: 1}\n", "1:6+6 run | `run` takes text, not a map");
}

#[test]
fn names() {
    check(
        "name: a b\nrun: x\n",
        "1:7+3 name | a job name is made of letters, digits, '_', '.' and '-'; ' ' is not allowed",
    );
    let found = read_job(b"run: x\n", "my job", &ReadOptions::default()).unwrap_err();
    assert_eq!(
        row(&found[0]),
        "1:1+0  | the file's own name is no job name: a job name is made of letters, digits, '_', '.' and '-'; ' ' is not allowed | rename the file, or add a `name`"
    );
    check_all(
        "run: x\nenv:\n  - 1X: 2\n  - CADRAN_RUN_ID: 3\n  - JUSTNAME\n",
        &[
            "3:5+2 env[0].1X | `1X` in `env` is no name for a variable | use letters, digits and `_`, and begin with a letter or `_`",
            "4:5+13 env[1].CADRAN_RUN_ID | `CADRAN_RUN_ID` is a name that Cadran sets itself | names that begin with `CADRAN_` are taken; choose another",
            "5:5+8 env[2] | `JUSTNAME` in `env` has no value | write `NAME=value` or `NAME: value`",
        ],
    );
    check("run: x\nparams: [A=1, A=2]\n", "2:1+6 params | the parameter `A` is there twice");
}

#[test]
fn steps() {
    check(
        "steps:\n  - name: a\n    run: x\n    depends: b\n  - name: b\n    run: x\n    depends: a\n",
        "7:14+1 steps[1].depends | these steps wait for one another: a → b → a | remove one `depends` of the circle",
    );
    check_all(
        "steps:\n  - name: download\n    run: x\n  - name: b\n    run: x\n    depends: [downlaod, b]\n",
        &[
            "6:15+8 steps[1].depends[0] | there is no step `downlaod` | did you mean `download`?",
            "6:25+1 steps[1].depends[1] | the step `b` depends on itself",
        ],
    );
    check(
        "steps:\n  - name: a\n    run: x\n  - name: a\n    run: y\n",
        "4:11+1 steps[1].name | the step name `a` is already taken on line 2 | give each step a name of its own",
    );
    check(
        "steps:\n  - name: a\n",
        "2:5+7 steps[0] | a step needs `run` or `script` | add `run: echo hello`, or a `script`",
    );
    check_all(
        "steps:\n  - name: a\n    run: x\n    signal_on_stop: SIGTREM\n    retry: {limit: -1}\n    continue_on: fail\n    timeut: 3s\n",
        &[
            "4:21+7 steps[0].signal_on_stop | `SIGTREM` is no signal that asks a process to end | did you mean `SIGTERM`?",
            "5:20+2 steps[0].retry.limit | `limit` is -1; allowed are 0 to 1000",
            "6:18+4 steps[0].continue_on | `continue_on` cannot be `fail` | did you mean `failed`?",
            "7:5+6 steps[0].timeut | unknown key `timeut` | did you mean `timeout`?",
        ],
    );
    check_all(
        "steps:\n  - name: on_exit\n    run: x\n  - name: a/b\n    run: x\n",
        &[
            "2:11+7 steps[0].name | `on_exit` is the name of a handler | choose another name for the step",
            "4:11+3 steps[1].name | a step name cannot hold '/'",
        ],
    );
    check(
        "type: chain\nsteps:\n  - run: x\n  - run: y\n    depends: step_1\n",
        "5:5+7 steps[1].depends | in a chain the steps run in the order of the file; `depends` is for `type: graph` | remove `depends`, or `type: chain`",
    );
    check(
        "retry: never\nsteps:\n  - run: x\n    retry: 3\n",
        "4:5+5 steps[0].retry | the job says `retry: never`, so none of its steps is tried again | remove one of the two",
    );
    check(
        "run: x\nsteps: [echo]\n",
        "1:1+3 run | `run` is for a job of one step, but there are `steps` | make it a step",
    );
    check("steps: []\n", "1:1+5 steps | `steps` is empty; a job has at least one step");
    check(
        "description: x\n",
        "1:1+0  | the job has nothing to run | the smallest job is one line: `run: echo hello`",
    );
}

#[test]
fn not_a_job_file_at_all() {
    let empty = "1:1+0  | the file is empty | the smallest job is one line: `run: echo hello`";
    for text in ["", "\n\n", "# only a comment\n", "---\n", "~\n", "\u{feff}"] {
        check(text, empty);
    }
    check(
        "- a\n",
        "1:1+3  | a job file is a map of keys and values, not a list | begin with a key, as in `run: echo hello`",
    );
    check(
        "text\n",
        "1:1+4  | a job file is a map of keys and values, not text | begin with a key, as in `run: echo hello`",
    );
    check(
        "run: x\n---\nrun: y\n",
        "2:1+3  | a second document begins here | one file holds one job: give each document (after `---`) a file of its own",
    );
}

#[test]
fn not_yaml() {
    let quotes = "put the value in quotes: in YAML its first character has a meaning of its own";
    check(
        "run: x\nschedule: * * * * *\n",
        &format!(
            "2:11+1  | this is not YAML: while scanning an anchor or alias, did not find expected alphabetic or numeric character | {quotes}"
        ),
    );
    check(
        "run: x\nschedule: @daily\n",
        &format!("2:11+1  | this is not YAML: unexpected character: `@' | {quotes}"),
    );
    check("run: !custom x\n", "1:6+7  | the tag `!custom` is not used in job files | remove it");
    check("run: !!binary aGVsbG8=\n", "1:6+8  | the tag `!!binary` is not used in job files | remove it");
    check(
        "run: a: b\n",
        "1:7+1  | this is not YAML: mapping values are not allowed in this context | put a value that contains `: ` in quotes, and indent the keys of one map alike",
    );
    check(
        "run: 'x\n",
        "2:1+1  | this is not YAML: invalid indentation in multiline quoted scalar | close the quote, or double it (`''`) if it is part of the text",
    );
    check("[a]: b\nrun: x\n", "1:1+3  | a key is a word, not a list or a map");
    check("run: \"a\\0b\"\n", "1:6+6  | a NUL character cannot stand in a job file");
}

#[test]
fn footprints() {
    let options = ReadOptions {
        resources: Arc::new(Resources::read(b"resources: {gpu: 4}\nkinds: [table, s3]\n").unwrap()),
        ..ReadOptions::default()
    };
    let check = |footprint: &str, expected: &str| {
        let text = format!("run: x\nparams: {{day: mon}}\nfootprint: {footprint}\n");
        let found = read_job(text.as_bytes(), "job", &options).expect_err(&text);
        assert_eq!(found.iter().map(row).collect::<Vec<_>>(), [expected], "{text}");
    };
    check(
        "{reads: [orders]}",
        "3:21+6 footprint.reads[0] | the key `orders` has no kind | write `kind:name`, as in `table:orders`",
    );
    check(
        "{reads: 'table:'}",
        "3:20+8 footprint.reads | the key `table:` has an empty name | write `kind:name`, as in `table:orders`",
    );
    check("{writes: ['']}", "3:22+2 footprint.writes[0] | `writes` is empty");
    check(
        "{writes: [tabel:x]}",
        "3:22+7 footprint.writes[0] | the key `tabel:x` has the unknown kind `tabel` | did you mean `table:`?",
    );
    check(
        "{writes: [disk:x]}",
        "3:22+6 footprint.writes[0] | the key `disk:x` has the unknown kind `disk` | add it to `kinds` in resources.yaml",
    );
    check(
        "{writes: [job:x]}",
        "3:22+5 footprint.writes[0] | the key `job:x` has a kind that Cadran uses itself | choose another; jobs that must not run together name one and the same key",
    );
    check(
        "{writes: [Table:x]}",
        "3:22+7 footprint.writes[0] | the key `Table:x` begins with something that is no kind | a kind is a lower-case word, as in `table:orders`",
    );
    check(
        "{claims: s3://a/../b}",
        "3:21+11 footprint.claims | the key `s3://a/../b` holds `.` or `..` as a name | write the path without them",
    );
    check(
        "{reads: ['table:${dya}']}",
        "3:21+14 footprint.reads[0] | the key `table:${dya}` uses the parameter `dya`, which the job does not have | did you mean `${day}`?",
    );
    check(
        "{reads: ['table:${day']}",
        "3:21+13 footprint.reads[0] | the key `table:${day` holds a `${` that does not name a parameter | write `${name}` with the name of a parameter",
    );
    check("{reads: [[a]]}", "3:21+3 footprint.reads[0] | `reads` takes text, not a list");
    check(
        "{capacity: {gpu: 5}}",
        "3:29+1 footprint.capacity.gpu | it can never be met: 5 of `gpu` are needed, and there are 4 | need less, or raise the capacity in resources.yaml",
    );
    check(
        "{capacity: {gpu: 2 of 8}}",
        "3:29+6 footprint.capacity.gpu | the file counts on 8 of `gpu`, and resources.yaml says 4",
    );
    check(
        "{capacity: {gpu: 0}}",
        "3:29+1 footprint.capacity.gpu | `gpu` takes at least one unit | remove the pool if nothing of it is needed",
    );
    for bad in ["-1", "many", "1.5", "2 from 4", "2 of", "9999999"] {
        check(
            &format!("{{capacity: {{gpu: {bad}}}}}"),
            &format!(
                "3:29+{} footprint.capacity.gpu | `gpu` takes a number of units up to 1000000, as in `2` or `2 of 4`, not `{bad}`",
                bad.len()
            ),
        );
    }
    check(
        "{capacity: {gpus: 1}}",
        "3:24+4 footprint.capacity.gpus | there is no pool `gpus` | did you mean `gpu`?",
    );
    check(
        "{capacity: {licence: 1}}",
        "3:24+7 footprint.capacity.licence | there is no pool `licence` | add `resources: {licence: 4}` to resources.yaml in the jobs folder",
    );
    check(
        "{capacity: 2}",
        "3:23+1 footprint.capacity | `capacity` is a map of pools and units, not a number | write it as in `{gpu: 2}`",
    );
    check(
        "{reads: 'table:x', on_conflict: wiat}",
        "3:44+4 footprint.on_conflict | `on_conflict` cannot be `wiat` | did you mean `wait`?",
    );
    check(
        "{reads: 'table:x', ordered: yes}",
        "3:40+3 footprint.ordered | `ordered` takes true or false, not `yes` | write `true`",
    );
    check("table:orders", "3:12+12 footprint | a footprint is a map of keys and values, not text");
    let many = |count: usize| {
        let keys: Vec<String> = (0..count).map(|no| format!("table:t{no}")).collect();
        format!("{{writes: [{}]}}", keys.join(", "))
    };
    check(
        &many(1000),
        "3:1+9 footprint | the footprint has 1000 keys and pools; allowed are 256 | name what lies above them: a key stands for everything below it",
    );
    let long = format!("table:{}", "x".repeat(300));
    check(&format!("{{reads: {long}}}"), "3:20+306 footprint.reads | `reads` has 306 bytes; allowed are 256");
    let parsed = read_job(format!("run: x\nfootprint: {}\n", many(256)).as_bytes(), "job", &options).unwrap();
    assert_eq!(parsed.job.body.footprint.writes.len(), 256);
}

#[test]
fn resources() {
    let check = |text: &str, expected: &str| {
        let found = Resources::read(text.as_bytes()).expect_err(text);
        assert_eq!(found.iter().map(row).collect::<Vec<_>>(), [expected], "{text}");
    };
    check("resource: {gpu: 4}\n", "1:1+8 resource | unknown key `resource` | did you mean `resources`?");
    check(
        "run: x\n",
        "1:1+3 run | `run` is not supported by Cadran | this file is no job; give a job's file another name",
    );
    check(
        "resources: [gpu]\n",
        "1:12+5 resources | `resources` is a map of names and what they are, not a list | write it as in `resources: {gpu: 4}`",
    );
    check("resources: {gpu: 0}\n", "1:18+1 resources.gpu | `capacity` is 0; allowed are 1 to 1000000");
    check(
        "resources: {gpu: {ordered: true}}\n",
        "1:13+3 resources.gpu | the pool `gpu` has no capacity | write it as in `gpu: 4`",
    );
    check(
        "resources: {'table:x': 4}\n",
        "1:13+9 resources.table:x | `table:x` is a key, and only a pool has a capacity | give the pool a name without `:`; jobs take of it with `capacity`",
    );
    check(
        "resources: {'g p u': 4}\n",
        "1:13+7 resources.g p u | `g p u` is no name for a pool | use letters, digits, `_`, `.` and `-`, and begin with a letter",
    );
    check(
        "resources: {'table:': {ordered: true}}\n",
        "1:13+8 resources.table: | the key `table:` has an empty name",
    );
    check(
        "kinds: [Table]\n",
        "1:9+5 kinds[0] | `Table` begins with something that is no kind | a kind is a lower-case word, as in `table`",
    );
}

#[test]
fn not_text() {
    let check = |bytes: &[u8], expected: &str| {
        let found = read_job(bytes, "job", &ReadOptions::default()).unwrap_err();
        assert_eq!(row(&found[0]), expected, "{bytes:?}");
    };
    check(b"run: x\nq: \xff", "2:4+1  | byte 0xff is not UTF-8 text | save the file as UTF-8");
    check(b"run: x\n\xc3\xa9\xc3", "2:2+1  | byte 0xc3 is not UTF-8 text | save the file as UTF-8");
    check(
        b"\xff\xfer\0",
        "1:1+1  | byte 0xff is not UTF-8 text | this looks like UTF-16; save the file as UTF-8",
    );
    check(b"run: x\nab\0", "2:3+1  | a NUL character cannot stand in a job file | is this a text file?");
    check(
        b"run: x\r\na\rb\r\n",
        "2:2+1  | a carriage return without a line feed cannot stand in a job file | save the file with LF or CRLF line ends",
    );
    check(
        b"\r!\r\x01\x7f~",
        "1:1+1  | a carriage return without a line feed cannot stand in a job file | save the file with LF or CRLF line ends",
    );
    // A byte order mark is no part of the first column.
    check(b"\xef\xbb\xbfruns: x", "1:1+4 runs | unknown key `runs` | did you mean `run`?");
}

#[test]
fn columns_count_characters_and_escapes_do_not_mislead() {
    check(
        "run: é\nétage: 1\nname: x\n",
        "2:1+5 étage | unknown key `étage` | a job has the keys name, description, labels, tags, schedule, timezone, dialect, dst, enabled, not_before, not_after, misfire, catchup_window, overlap, skip_if_successful, priority, footprint, timeout, retry, env, params, shell, dir, create_dir, dotenv, preconditions, type, steps, run, script, http, container, handlers, executor, handler, glue, route, block, concurrency, children, max_active_steps, partial_success, history, hist_retention_days, hist_retention_runs",
    );
    // The place inside of an escaped text is not known: the whole of it is underlined.
    check(
        "run: x\nschedule: \"0\\t25 * * *\"\n",
        "2:11+13 schedule | hour: `25` is out of range, allowed are 0–23",
    );
    check(
        "run: x\nschedule: '  0 25 * * *  '\n",
        "2:16+2 schedule | hour: `25` is out of range, allowed are 0–23",
    );
    // What an alias stands for is wrong where it is used.
    check(
        "env: {A: &a 12}\nrun: x\ntimeout: *a\n",
        "3:10+2 timeout | `timeout`: `12` has no unit, allowed are whole numbers with w, d, h, m, s or ms, largest unit first | write `12s` for seconds",
    );
}

#[test]
fn executors() {
    check(
        "handler: h\n",
        "1:1+7 handler | `handler` is for a step on an executor, and none is named | add `executor: GROUP`, the name its executors register under",
    );
    check(
        "executor: g\nhandler: h\nrun: x\n",
        "3:1+3 run | `run` stands beside `handler`, which says what is run already | keep one of the two",
    );
    check(
        "executor: g\nglue: shell\n",
        "2:1+4 glue | `glue` names the language of a script, and there is no `script` | add `script: |` and the lines below it",
    );
    check(
        "executor: g\nhandler: h\nroute: robin\n",
        "3:8+5 route | `route` cannot be `robin` | allowed are first, last, round, random, consistent_hash, least_frequently_used, least_recently_used, failover, busyover, sharding_broadcast, lfu, lru, broadcast",
    );
    check(
        "executor: g\nhandler: h\nblock: discrad\n",
        "3:8+7 block | `block` cannot be `discrad` | did you mean `discard`?",
    );
    check(
        "executor: 'a b'\nhandler: h\n",
        "1:11+5 executor | `executor` cannot be `a b`: the name of a group has 1 to 64 letters, digits, '_', '.' and '-', and starts with a letter or a digit",
    );
    check(
        "route: first\nsteps: [x]\n",
        "1:1+5 route | `route` of the job is for jobs on executors, and none is named | add `executor: GROUP` to the job",
    );
    check(
        "steps:\n  - {executor: g, handler: h, env: {A: 1}}\n",
        "2:31+3 steps[0].env | `env` is for commands; what this step runs is known to its executor alone | remove one of the two",
    );
    check(
        "executor: {group: g, labels: {gpu: a100}}\nhandler: h\n",
        "2:1+7 handler | `labels` choose among workers, which run commands; this step asks for a handler or a script | remove one of the two",
    );
    check(
        "executor: {group: g, labels: [gpu]}\nrun: x\n",
        "1:30+5 executor.labels | `labels` is a map of names and values, not a list",
    );
    check(
        "executor: g\nhandler: h\npreconditions: test -e /x\n",
        "3:1+13 preconditions | preconditions are checked by the server before it starts a process, and a step of this job runs on an executor | check it in a job of its own, or in the handler",
    );
}

#[test]
fn many_errors_are_shown_in_order_and_bounded() {
    let mut text = String::from("run: x\n");
    for at in 0..100 {
        text.push_str(&format!("zz{at}: 1\n"));
    }
    let found = errors(&text);
    assert_eq!(found.len(), 20);
    assert!(found.windows(2).all(|two| two[0].line <= two[1].line));
    assert_eq!(found[19].message, "81 more problems are not shown");
    assert!(found.iter().all(|found| found.severity == Severity::Error));
}

#[test]
fn warnings() {
    let warnings = |text: &str| {
        let parsed = read_job(text.as_bytes(), "job", &ReadOptions::default()).unwrap();
        parsed.warnings.iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(
        warnings("run: x\nmisfire: once\ncatchup_window: 1h\n"),
        [
            "3:1+14 catchup_window | `catchup_window` has no effect with `misfire: once` | remove one of the two"
        ]
    );
    assert_eq!(
        warnings("executor: g\nhandler: h\nblock: concurrent\n"),
        [
            "3:1+5 block | XXL-JOB's executors know no `block: concurrent` and get `serial` instead; only those of Orth run side by side | use `run` with workers of our own, or `block: serial`"
        ]
    );
    assert_eq!(warnings("executor: g\nrun: x\nblock: concurrent\n"), [""; 0], "workers know it");
    assert_eq!(
        warnings("run: x\nschedule: ['0 9 * * *', '00 9 * * *']\n"),
        [
            "2:25+12 schedule[1] | this schedule names the same instants as the one on line 2 | remove one of the two; an instant is never run twice"
        ]
    );
}
