//! XXL-JOB's rows as job files.

use std::collections::BTreeMap;
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
    /// What was not carried over, one sentence each.
    pub(super) remarks: Vec<String>,
}

/// Job files of the tables of a dump. `zone` is the one the scheduler ran in.
pub(super) fn convert(tables: &BTreeMap<String, Table>, zone: &str) -> Result<Converted, String> {
    let jobs = tables.get("xxl_job_info").ok_or("there is no table xxl_job_info")?;
    if !jobs.has("executor_handler") {
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
    for row in jobs.rows() {
        names.insert(row.get("id"), name_of(&row));
    }
    for row in jobs.rows() {
        let Some(name) = names.get(row.get("id")) else { continue };
        let group = groups.get(row.get("job_group")).map_or("", |group| group.get("app_name").trim());
        if group.is_empty() {
            out.remarks.push(format!("{name}: its group {} is not there; left out", row.get("job_group")));
            continue;
        }
        let text = job_text(&row, group, zone, &names, name, &mut out.remarks);
        if let Err(found) = read_job(text.as_bytes(), name.as_str(), &ReadOptions::default()) {
            let why = found.first().map(|found| found.message.clone()).unwrap_or_default();
            out.remarks.push(format!("{name}: left out, it cannot be said here: {why}"));
            continue;
        }
        out.files.push((format!("{name}.yaml"), text));
    }
    let mut typed = String::new();
    for group in groups.values() {
        let addresses: Vec<Value> = group
            .get("address_list")
            .split(',')
            .map(|address| Value::from(address.trim()))
            .filter(|address| address != "")
            .collect();
        if group.get("address_type") == "1" && !addresses.is_empty() {
            let list = Value::Array(addresses);
            let _ = writeln!(typed, "  {}: {{addresses: {list}}}", Value::from(group.get("app_name")));
        }
    }
    if !typed.is_empty() {
        out.files.push(("executors.yaml.new".into(), format!("groups:\n{typed}")));
        out.remarks.push(
            "executors.yaml.new: groups with typed-in addresses; rename it to executors.yaml and move it into the \
             server's data directory"
                .into(),
        );
    }
    out.remarks
        .push("the token for executors is not in the database; set one with `serve --executor-token`".into());
    Ok(out)
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
) -> String {
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
    let number = |column: &str| row.get(column).parse::<u32>().unwrap_or(0);
    let info = JobInfo {
        description: row.get("job_desc"),
        author: row.get("author"),
        alarm_email: row.get("alarm_email"),
        schedule,
        zone: Some(zone),
        rests: row.get("trigger_status") == "0",
        misfire: row.get("misfire_strategy"),
        route: row.get("executor_route_strategy"),
        block: row.get("executor_block_strategy"),
        handler: row.get("executor_handler").trim(),
        param: row.get("executor_param"),
        timeout_secs: number("executor_timeout"),
        retries: number("executor_fail_retry_count"),
        glue_type: row.get("glue_type"),
        glue_source: row.get("glue_source"),
        children: children.collect(),
    };
    if info.rests && info.has_schedule() {
        remark("it was stopped: its schedule is written as a comment".into());
    }
    info.text(group, remark)
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
        for says in [
            "child 99",
            "a@b.c",
            "job-2: it was stopped",
            "FIX_DELAY",
            "x-4: its group 9",
            "y-5: left out",
            "token",
        ] {
            assert!(all.contains(says), "{says}: {all}");
        }
    }
}
