//! XXL-JOB's rows as job files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use cadran_core::JobName;
use cadran_spec::{ReadOptions, read_job};
use serde_json::Value;

use super::dump::{Row, Table};
use crate::xxl_job::{JobInfo, plain_name};

/// What became of a dump.
#[derive(Debug, Default)]
pub(super) struct Converted {
    /// Names and texts of files.
    pub(super) files: Vec<(String, String)>,
    /// Jobs that become no file: their name, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// What was not carried over of the others, one sentence each.
    pub(super) remarks: Vec<String>,
}

/// Columns that a job is made of. What stands there has to be in the dump, not computed by the database.
const READ: [&str; 19] = [
    "id",
    "job_group",
    "job_desc",
    "name",
    "author",
    "alarm_email",
    "job_cron",
    "schedule_type",
    "schedule_conf",
    "misfire_strategy",
    "executor_route_strategy",
    "executor_handler",
    "executor_param",
    "executor_block_strategy",
    "executor_timeout",
    "executor_fail_retry_count",
    "glue_type",
    "glue_source",
    "child_jobid",
];

/// Job files of the tables of a dump. `zone` is the one the scheduler ran in.
pub(super) fn convert(tables: &BTreeMap<String, Table>, zone: &str) -> Result<Converted, String> {
    let Some(jobs) = tables.get("xxl_job_info") else { return Err(no_jobs(tables)) };
    if jobs.rows().next().is_some_and(|row| !row.has("executor_handler")) {
        return Err(
            "the columns of xxl_job_info are not known; dump with the table definitions, or with -c".into()
        );
    }
    let mut out = Converted::default();
    let groups: BTreeMap<&str, Row<'_>> = tables
        .get("xxl_job_group")
        .into_iter()
        .flat_map(Table::rows)
        .map(|row| (row.get("id"), row))
        .collect();
    let mut names: BTreeMap<&str, JobName> = BTreeMap::new();
    let mut twice = BTreeSet::new();
    for row in jobs.rows() {
        if names.insert(row.get("id"), name_of(&row)).is_some() {
            twice.insert(row.get("id"));
        }
    }
    for row in jobs.rows() {
        let name = name_of(&row);
        let group = groups.get(row.get("job_group")).map_or("", |group| group.get("app_name").trim());
        let why = if !row.is_whole() {
            Some("its row has another number of values than columns".to_owned())
        } else if let Some((column, text)) = READ.iter().find_map(|at| Some((at, row.expression(at)?))) {
            Some(format!("its {column} is {text}, which only the database can compute"))
        } else if twice.contains(row.get("id")) {
            Some(format!("several jobs have the id {}", row.get("id")))
        } else if group.is_empty() {
            Some(format!("its group {} is not there", row.get("job_group")))
        } else {
            None
        };
        if let Some(why) = why {
            out.left_out.push((name.to_string(), why));
            continue;
        }
        let remarks_before = out.remarks.len();
        let made = job_text(&row, group, zone, &names, &name, &mut out.remarks).and_then(|text| {
            let read = read_job(text.as_bytes(), name.as_str(), &ReadOptions::default());
            let why = |found: &cadran_spec::Diagnostic| format!("it cannot be said here: {}", found.message);
            read.map_err(|found| found.first().map(why).unwrap_or_default()).map(|_| text)
        });
        match made {
            Ok(text) => out.files.push((format!("{name}.yaml"), text)),
            Err(why) => {
                out.remarks.truncate(remarks_before);
                out.left_out.push((name.to_string(), why));
            }
        }
    }
    groups_file(groups.values(), &mut out);
    Ok(out)
}

/// What to say about a dump without the table of jobs.
fn no_jobs(tables: &BTreeMap<String, Table>) -> String {
    let old = tables.keys().find(|name| name.to_ascii_lowercase().starts_with("xxl_job_qrtz_"));
    match old {
        Some(name) => format!(
            "there is no table xxl_job_info; {name} is of XXL-JOB before 2.1, whose tables are called otherwise: bring them to \
             2.1 or later with XXL-JOB's own scripts, then import"
        ),
        None => "there is no table xxl_job_info".to_owned(),
    }
}

/// The groups with typed-in addresses or a token of their own, as the server's file has them.
fn groups_file<'g>(groups: impl Iterator<Item = &'g Row<'g>>, out: &mut Converted) {
    let mut text = String::new();
    for group in groups {
        let name = group.get("app_name").trim();
        let list = group.get("address_list").split(',').map(str::trim).filter(|address| !address.is_empty());
        let addresses: Vec<Value> = list.map(Value::from).collect();
        let token = group.get("access_token").trim();
        let mut entry = Vec::new();
        if token == "default_token" {
            out.remarks.push(format!(
                "group {name}: its token is the one that XXL-JOB ships with, which everybody knows; choose another"
            ));
        } else if !token.is_empty() {
            entry.push(format!("token: {}", Value::from(token)));
        }
        if group.get("address_type") == "1" && !addresses.is_empty() {
            entry.push(format!("addresses: {}", Value::Array(addresses)));
        }
        if !entry.is_empty() {
            let _ = writeln!(text, "  {}: {{{}}}", Value::from(name), entry.join(", "));
        }
    }
    if text.is_empty() {
        out.remarks.push(
            "the token for executors is not in the database; set one with `serve --executor-token`".into(),
        );
        return;
    }
    let text = format!("groups:\n{text}");
    if let Err(found) = cadran_spec::read_executors(text.as_bytes()) {
        let why = found.first().map(|found| found.message.clone()).unwrap_or_default();
        out.remarks.push(format!("executors.yaml.new: it needs a hand before the server takes it: {why}"));
    }
    out.files.push(("executors.yaml.new".into(), text));
    out.remarks.push(
        "executors.yaml.new: tokens and typed-in addresses of groups; rename it to executors.yaml and move it into the \
         server's data directory, readable by its user alone"
            .into(),
    );
}

/// The handler's name as far as it is fit, and the number, which is unique.
fn name_of(row: &Row<'_>) -> JobName {
    let id = plain_name([row.get("id")]).unwrap_or_default();
    let text = match plain_name([row.get("executor_handler")]) {
        Some(handler) => format!("{handler}-{id}"),
        None => format!("job-{id}"),
    };
    text.parse().unwrap_or_else(|_| "job".parse().unwrap_or_else(|_| unreachable!("a plain name")))
}

fn job_text(
    row: &Row<'_>,
    group: &str,
    zone: &str,
    names: &BTreeMap<&str, JobName>,
    name: &JobName,
    remarks: &mut Vec<String>,
) -> Result<String, String> {
    let mut remark = |what: String| remarks.push(format!("{name}: {what}"));
    // Before 2.3 there was a cron expression and nothing else.
    let schedule = match row.get("job_cron") {
        "" => (row.get("schedule_type"), row.get("schedule_conf").trim()),
        cron => ("CRON", cron.trim()),
    };
    let children = row.get("child_jobid").split(',').map(str::trim).filter(|id| !id.is_empty());
    let children = children.filter_map(|id| {
        let child = names.get(id).cloned();
        if child.is_none() {
            remark(format!("its child {id} is not there"));
        }
        child
    });
    let children: Vec<JobName> = children.collect();
    let number = |column: &str| match row.get(column) {
        "" => Ok(0),
        text => {
            text.parse::<u32>().map_err(|_| format!("its {column} is {text:?}, not a whole number from 0 on"))
        }
    };
    let info = JobInfo {
        // From 3.5 on it is called `name`.
        description: row.first(&["job_desc", "name"]),
        author: row.get("author"),
        alarm_email: row.get("alarm_email"),
        schedule,
        zone: Some(zone),
        // A table without the column, or a row without a value, has the default: stopped.
        rests: row.get("trigger_status") != "1",
        misfire: row.get("misfire_strategy"),
        route: row.get("executor_route_strategy"),
        block: row.get("executor_block_strategy"),
        handler: row.get("executor_handler").trim(),
        param: row.get("executor_param"),
        timeout_secs: number("executor_timeout")?,
        retries: number("executor_fail_retry_count")?,
        glue_type: row.get("glue_type"),
        glue_source: row.get("glue_source"),
        children,
    };
    info.known_work()?;
    if info.rests && info.has_schedule() {
        remark("it was stopped: its schedule is written as a comment".into());
    }
    Ok(info.text(group, remark))
}

#[cfg(test)]
mod tests {
    use super::super::dump;
    use super::*;

    const DUMP: &str = "
INSERT INTO `xxl_job_group` (`id`, `app_name`, `title`, `address_type`, `address_list`) VALUES
 (1,'billing','x',0,NULL),(2,'reports','y',1,'http://10.0.0.5:9999,http://10.0.0.6:9999/');
INSERT INTO `xxl_job_info` (`id`,`job_group`,`job_desc`,`author`,`alarm_email`,`schedule_type`,`schedule_conf`,
 `misfire_strategy`,`executor_route_strategy`,`executor_handler`,`executor_param`,`executor_block_strategy`,
 `executor_timeout`,`executor_fail_retry_count`,`glue_type`,`glue_source`,`child_jobid`,`trigger_status`) VALUES
 (1,1,'Settle: \\'all\\'','ann','a@b.c','CRON','0 0 2 * * ? *','DO_NOTHING','ROUND','settle','2026 full','SERIAL_EXECUTION',300,2,'BEAN','','2,99',1),
 (2,2,'报表','','','FIX_RATE','30','FIRE_ONCE_NOW','SHARDING_BROADCAST','','a=b ${X}','COVER_EARLY',0,0,'GLUE_SHELL','#!/bin/bash\\necho $1\\n','',0),
 (3,1,'odd','','','FIX_DELAY','5','DO_NOTHING','FIRST','later','','DISCARD_LATER',0,0,'BEAN','','',1),
 (4,9,'lost','','','NONE','','DO_NOTHING','FIRST','x','','SERIAL_EXECUTION',0,0,'BEAN','','',1),
 (5,1,'bad','','','CRON','never','DO_NOTHING','FIRST','y','','SERIAL_EXECUTION',0,0,'BEAN','','',1);
";

    #[test]
    fn jobs_become_files_and_the_rest_is_said() {
        let tables = dump::read(DUMP).expect("a dump");
        let out = convert(&tables, "Asia/Shanghai").expect("jobs");
        let names: Vec<&str> = out.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["settle-1.yaml", "job-2.yaml", "later-3.yaml", "executors.yaml.new"]);
        let read = |at: usize| {
            let (name, text) = &out.files[at];
            read_job(text.as_bytes(), name, &ReadOptions::default())
                .unwrap_or_else(|e| panic!("{text}\n{e:?}"))
                .job
        };
        let one = read(0);
        let step = &one.body.steps[0];
        assert_eq!(step.work, cadran_core::Work::Handler("settle".into()));
        let target = step.target.as_deref().expect("a target");
        assert_eq!(
            (target.group.as_str(), target.route.word(), target.block.word()),
            ("billing", "round", "serial")
        );
        assert_eq!((one.body.timeout_ms, step.retry.limit, one.body.params.len()), (Some(300_000), 2, 1));
        assert_eq!(one.body.params[0].default, "2026 full");
        assert_eq!(one.body.children.iter().map(JobName::as_str).collect::<Vec<_>>(), ["job-2"]);
        let two = read(1);
        assert!(two.schedules.is_empty(), "it was stopped");
        assert_eq!(two.body.params[0].default, "a=b ${X}");
        assert_eq!(two.body.description, "报表");
        let all = out.remarks.join("\n");
        for says in ["child 99", "a@b.c", "job-2: it was stopped", "FIX_DELAY", "server's data directory"] {
            assert!(all.contains(says), "{says}: {all}");
        }
        let left: Vec<String> = out.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(left.len(), 2, "{left:?}");
        assert_eq!(left[0], "x-4: its group 9 is not there");
        assert!(left[1].starts_with("y-5: it cannot be said here: "), "{left:?}");
    }

    /// The tables as XXL-JOB 3.5 has them, filled as its own script fills them: times are computed, jobs rest.
    const NEWER: &str = "
INSERT INTO `xxl_job_group`(`id`, `app_name`, `name`, `address_type`, `address_list`, `access_token`, `update_time`)
    VALUES (1, 'alpha', 'A', 0,  NULL, 'default_token', now()), (2, 'beta', 'B', 0, NULL, 'secret-of-beta', now());
INSERT INTO `xxl_job_info`(`id`, `job_group`, `name`, `add_time`, `update_time`, `schedule_type`, `schedule_conf`,
    `executor_handler`, `executor_param`, `executor_timeout`, `glue_type`, `glue_updatetime`)
VALUES (1, 1, 'first', now(), now(), 'CRON', '0 0 0 * * ? *', 'one', 'a', 0, 'BEAN', now()),
       (2, 2, 'second', now(), now(), 'NONE', '', 'two', '{\n  \"a\": 1\n}', 0, 'BEAN', now());
INSERT INTO `xxl_job_info`(`id`, `job_group`, `name`, `executor_handler`, `executor_param`, `executor_timeout`, `glue_type`)
VALUES (3, 1, 'third', 'three', concat('x', 1), 0, 'BEAN'), (4, 1, 'fourth', 'four', '', 'soon', 'BEAN'),
       (5, 1, 'fifth', 'five', '', 0, 'GLUE_COBOL'), (6, 1, 'sixth', 'six', ''), (7, 1, 'a', 'x', '', 0, 'BEAN'),
       (7, 1, 'b', 'x', '', 0, 'BEAN');
";

    #[test]
    fn every_job_of_a_newer_database_is_written_or_named_with_its_reason() {
        let tables = dump::read(NEWER).expect("a dump");
        let out = convert(&tables, "UTC").expect("jobs");
        let names: Vec<&str> = out.files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["one-1.yaml", "two-2.yaml", "executors.yaml.new"]);
        assert!(out.files[0].1.contains("description: \"first\"") && out.files[0].1.contains("# schedule:"));
        assert_eq!(out.files[2].1, "groups:\n  \"beta\": {token: \"secret-of-beta\"}\n");
        assert!(
            out.remarks.iter().any(|remark| remark.contains("alpha: its token is the one")),
            "{:?}",
            out.remarks
        );
        let left: Vec<String> = out.left_out.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        let expected = [
            "three-3: its executor_param is concat('x', 1), which only the database can compute",
            "four-4: its executor_timeout is \"soon\", not a whole number from 0 on",
            "five-5: its glue type GLUE_COBOL is not known",
            "six-6: its row has another number of values than columns",
            "x-7: several jobs have the id 7",
            "x-7: several jobs have the id 7",
        ];
        assert_eq!(left, expected);
    }

    #[test]
    fn tables_of_old_versions_are_named() {
        let tables = dump::read("INSERT INTO XXL_JOB_QRTZ_TRIGGER_INFO (id) VALUES (1);").expect("a dump");
        let why = convert(&tables, "UTC").expect_err("no jobs");
        assert!(why.contains("XXL_JOB_QRTZ_TRIGGER_INFO is of XXL-JOB before 2.1"), "{why}");
    }
}
