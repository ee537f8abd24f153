//! Jobs of an XXL-JOB database, from a running MariaDB and from a dump that its own tool wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use super::support::{Home, cadran};

/// The server of `scripts/mariadb.sh`. `None` when it is left out on purpose.
fn server() -> Option<String> {
    match std::env::var("CADRAN_TEST_MYSQL") {
        Ok(url) if !url.is_empty() => Some(url),
        _ if std::env::var_os("CADRAN_SKIP_MYSQL").is_some() => {
            eprintln!("passed over: CADRAN_SKIP_MYSQL");
            None
        }
        _ => panic!(
            "CADRAN_TEST_MYSQL is not set, so there is no MariaDB to read from: run `cargo xtask test`, which starts \
             one, or set CADRAN_SKIP_MYSQL=1 to leave it out"
        ),
    }
}

/// Tables with the columns that XXL-JOB's have had since 2.3, and one that nobody knows.
const TABLES: &str = "
create table xxl_job_group (id int not null auto_increment primary key, app_name varchar(64) not null,
  title varchar(12) not null, address_type tinyint not null default 0, address_list text, update_time datetime);
create table xxl_job_info (id int not null auto_increment primary key, job_group int not null,
  job_desc varchar(255) not null, add_time datetime, update_time datetime, author varchar(64), alarm_email varchar(255),
  schedule_type varchar(50) not null default 'NONE', schedule_conf varchar(128),
  misfire_strategy varchar(50) not null default 'DO_NOTHING', executor_route_strategy varchar(50),
  executor_handler varchar(255), executor_param varchar(512), executor_block_strategy varchar(50),
  executor_timeout int not null default 0, executor_fail_retry_count int not null default 0,
  glue_type varchar(50) not null, glue_source mediumtext, glue_remark varchar(128), glue_updatetime datetime,
  child_jobid varchar(255), trigger_status tinyint not null default 0, trigger_last_time bigint not null default 0,
  trigger_next_time bigint not null default 0, `odd ``name` blob);
insert into xxl_job_group values (1, 'billing', 'x', 0, null, now()),
  (2, 'reports', 'y', 1, 'http://10.0.0.5:9999,http://10.0.0.6:9999/', now());
insert into xxl_job_info (id, job_group, job_desc, author, alarm_email, schedule_type, schedule_conf,
  executor_route_strategy, executor_handler, executor_param, executor_block_strategy, executor_timeout,
  executor_fail_retry_count, glue_type, glue_source, child_jobid, trigger_status) values
  (1, 1, 'Settle: ''all''', 'ann', 'a@b.c', 'CRON', '0 0 2 * * ? *', 'ROUND', 'settle', '2026 full', 'SERIAL_EXECUTION',
   300, 2, 'BEAN', '', '7,99', 1),
  (7, 2, '报表 🙂', '', '', 'FIX_RATE', '30', 'SHARDING_BROADCAST', '', 'a=b ${X}', 'COVER_EARLY', 0, 0, 'GLUE_SHELL',
   '#!/bin/bash\\necho \"$1\" ''it'' \\\\ \\t;\\n', '', 1),
  (8, 1, 'stopped', null, null, 'FIX_RATE', '5', 'FIRST', 'later', null, 'DISCARD_LATER', 0, 0, 'BEAN', null, null, 0);
";

/// A script as XXL-JOB 3.5 fills its tables with: times are computed, and every job rests.
const SCRIPT: &str = "
## ------ jobs ------
CREATE TABLE `xxl_job_info` (
  `id` int NOT NULL AUTO_INCREMENT,
  `name` varchar(255) NOT NULL COMMENT 'x;y',
  PRIMARY KEY (`id`)
);
START TRANSACTION;
INSERT INTO `xxl_job_group`(`id`, `app_name`, `name`, `address_type`, `address_list`, `access_token`, `update_time`)
    VALUES (1, 'plain', 'p', 0, NULL, 'default_token', now()), (2, 'clever', 'c', 0, NULL, 'a-token-of-its-own', now());
INSERT INTO `xxl_job_info`(`id`, `job_group`, `name`, `add_time`, `author`, `schedule_type`, `schedule_conf`,
  `misfire_strategy`, `executor_route_strategy`, `executor_handler`, `executor_param`, `executor_block_strategy`,
  `executor_timeout`, `executor_fail_retry_count`, `glue_type`, `glue_updatetime`)
VALUES (1, 1, 'nightly', now(), 'X', 'CRON', '0 0 0 * * ? *', 'DO_NOTHING', 'FIRST', 'demo', '', 'SERIAL_EXECUTION', 0, 0, 'BEAN', now()),
  (2, 2, 'chat', now(), 'X', 'NONE', '', 'DO_NOTHING', 'FIRST', 'chat', '{\\n  \\\"model\\\": 1\\n}', 'SERIAL_EXECUTION', 0, 0, 'BEAN', now()),
  (3, 2, 'flow', now(), 'X', 'NONE', '', 'DO_NOTHING', 'FIRST', 'flow', 'a', 'SERIAL_EXECUTION', 0, 2, 'BEAN', now()),
  (4, 1, 'third', now(), 'X', 'FIX_RATE', '30', 'DO_NOTHING', 'FIRST', 'rate', '', 'COVER_EARLY', 5, 0, 'BEAN', now());
COMMIT;
";

// covers: option import xxl-job --dry-run
#[test]
fn a_script_of_a_newer_version_is_imported_whole_and_twice_is_once() {
    let home = Home::new();
    let dump = home.path("tables.sql");
    fs::write(&dump, SCRIPT).expect("written");
    let to = home.path("imported");
    let import = |more: &[&str]| {
        let output = cadran()
            .args(["import", "xxl-job"])
            .arg(&dump)
            .arg("--to")
            .arg(&to)
            .args(more)
            .output()
            .expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, said) = import(&["--dry-run"]);
    assert!(code == Some(0) && said.contains("5 files would be written"), "{said}");
    assert!(!to.exists(), "a dry run writes nothing");
    let (code, said) = import(&["--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, report["left_out"].as_array().map(Vec::len)), (Some(0), Some(0)), "{said}");
    let found = files(&to);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["chat-2.yaml", "demo-1.yaml", "executors.yaml.new", "flow-3.yaml", "rate-4.yaml"]);
    assert!(
        found["demo-1.yaml"].contains("# schedule:") && found["demo-1.yaml"].contains("retry: \"never\"")
    );
    assert!(found["executors.yaml.new"].contains("a-token-of-its-own"));
    let check = cadran().arg("check").arg(&to).output().expect("it starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));

    // The second time nothing changes. A file that somebody edited is left alone, and said so.
    let (code, said) = import(&[]);
    assert!(code == Some(0) && said.contains("5 are there already, unchanged"), "{said}");
    fs::write(to.join("flow-3.yaml"), "run: 'true'\n").expect("written");
    let (code, said) = import(&[]);
    assert!(code == Some(1) && said.contains("flow-3: flow-3.yaml is there already and differs"), "{said}");
    assert_eq!(files(&to)["flow-3.yaml"], "run: 'true'\n");
    let hidden = fs::read_dir(home.path("")).expect("the home").flatten();
    let hidden: Vec<_> = hidden
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().starts_with('.'))
        .collect();
    assert!(hidden.is_empty(), "nothing half done is left: {hidden:?}");

    // A job that cannot be is named, the others are written, and the exit code says it.
    fs::write(&dump, SCRIPT.replace("'0 0 0 * * ? *'", "'whenever'").replace("2, 'BEAN'", "now(), 'BEAN'"))
        .expect("written");
    fs::remove_dir_all(&to).expect("removed");
    let (code, said) = import(&["--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(code, Some(1), "{said}");
    let left: Vec<&str> =
        report["left_out"].as_array().into_iter().flatten().filter_map(|left| left["job"].as_str()).collect();
    assert_eq!(left, ["flow-3"], "{said}");
    // Truncated: nothing is written at all.
    fs::write(&dump, &SCRIPT[..SCRIPT.len() - 60]).expect("written");
    fs::remove_dir_all(&to).expect("removed");
    let output =
        cadran().args(["import", "xxl-job"]).arg(&dump).arg("--to").arg(&to).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("a row of xxl_job_info breaks off"), "{said}");
    assert!(!to.exists());
}

fn files(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).expect("a folder").flatten();
    let file = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path()).expect("text"))
    };
    entries.map(file).collect()
}

fn execute(url: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut database = MySqlConnection::connect(url).await.expect("the database");
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut database).await.expect("statements");
    });
}

#[test]
fn tables_and_dump_of_a_real_database_become_the_same_files() {
    let Some(server) = server() else { return };
    let home = Home::new();
    let name = format!("xxl_job_{}", std::process::id());
    let (base, _) = server.rsplit_once('/').expect("a database in the address");
    let url = format!("{base}/{name}");
    execute(
        &server,
        &format!("drop database if exists {name}; create database {name} character set utf8mb4"),
    );
    execute(&url, TABLES);

    let live = home.path("live");
    let import = |source: &str, to: &Path| {
        let output = cadran()
            .args(["import", "xxl-job", source, "--timezone", "Asia/Shanghai", "--json", "--to"])
            .arg(to)
            .output()
            .expect("it starts");
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &talk)
    };
    let (well, said) = import(&url, &live);
    assert!(well, "{said}");
    for says in ["child 99", "a@b.c", "later-8: it was stopped"] {
        assert!(said.contains(says), "{says}: {said}");
    }
    let found = files(&live);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["executors.yaml.new", "job-7.yaml", "later-8.yaml", "settle-1.yaml"]);
    assert!(found["job-7.yaml"].contains("报表 🙂"), "{}", found["job-7.yaml"]);
    let check = cadran().arg("check").arg(&live).output().expect("it starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));

    // The dump of the same tables, by the database's own tool, says the same.
    let (login, host) = base.trim_start_matches("mysql://").rsplit_once('@').expect("a user");
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let (host, port) = host.split_once(':').unwrap_or((host, "3306"));
    let dump = Command::new("mariadb-dump")
        .args(["--no-defaults", "--host", host, "--port", port, "--user", user, &name])
        .args(["xxl_job_info", "xxl_job_group"])
        .env("MYSQL_PWD", password)
        .output()
        .expect("mariadb-dump is there");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let file = home.path("dump.sql");
    fs::write(&file, &dump.stdout).expect("written");
    let dumped = home.path("dumped");
    let (well, said) = import(file.to_str().expect("a path"), &dumped);
    assert!(well, "{said}");
    assert_eq!(files(&dumped), found);

    // Mistakes are named, and no password is shown.
    let wrong = url.replacen(&format!(":{password}@"), ":not-the-password@", 1);
    for (source, says) in [
        (wrong.as_str(), "cannot connect"),
        (base, "names no database"),
        ("mysql://cadran:secret@127.0.0.1:1/x", "cannot connect"),
        (&format!("{base}/cadran"), "no table xxl_job_info"),
    ] {
        let (well, said) = import(source, &home.path("nothing"));
        assert!(!well && said.contains(says), "{source}: {said}");
        assert!(!said.contains("not-the-password") && !said.contains("secret"), "{said}");
    }
    execute(&server, &format!("drop database {name}"));
}
