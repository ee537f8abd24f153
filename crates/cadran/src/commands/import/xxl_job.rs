//! XXL-JOB's rows as job files.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cadran_core::{GlueKind, JobName};
use cadran_spec::{ReadOptions, read_job};
use serde_json::Value;

use super::dump::{Row, Table};

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
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).take(60).collect()
    };
    let handler = plain(row.get("executor_handler"));
    let handler = handler.trim_start_matches('-');
    let id = plain(row.get("id"));
    let text = if handler.is_empty() { format!("job-{id}") } else { format!("{handler}-{id}") };
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
    let mut text = String::new();
    let mut line = |key: &str, value: &str| put(&mut text, "", key, value);
    let mut remark = |what: String| remarks.push(format!("{name}: {what}"));
    line("description", row.get("job_desc").trim());
    if !row.get("author").trim().is_empty() {
        line("labels", &format!("author={}", row.get("author").trim().replace([',', '='], " ")));
    }
    let stopped = row.get("trigger_status") == "0";
    // Before 2.3 there was a cron expression and nothing else.
    let (kind, conf) = match row.get("job_cron") {
        "" => (row.get("schedule_type"), row.get("schedule_conf").trim()),
        cron => ("CRON", cron.trim()),
    };
    let off = if stopped { "# schedule" } else { "schedule" };
    match kind {
        "CRON" => {
            line(off, conf);
            line("dialect", "quartz");
            line("timezone", zone);
        }
        "FIX_RATE" => line(off, &format!("every {conf}s")),
        "NONE" | "" => {}
        other => remark(format!("its schedule {other} {conf} is not known; it runs by hand only")),
    }
    if stopped && !matches!(kind, "NONE" | "") {
        remark("it was stopped: its schedule is written as a comment".into());
    }
    line("misfire", if row.get("misfire_strategy") == "FIRE_ONCE_NOW" { "once" } else { "skip" });
    // There, what is still on is the executor's business alone.
    line("overlap", "allow");
    line("executor", group);
    if !row.get("executor_route_strategy").is_empty() {
        line("route", &row.get("executor_route_strategy").to_ascii_lowercase());
    }
    if !row.get("executor_block_strategy").is_empty() {
        line("block", row.get("executor_block_strategy"));
    }
    let secs = |column: &str| row.get(column).parse::<u32>().unwrap_or(0);
    if secs("executor_timeout") > 0 {
        line("timeout", &format!("{}s", secs("executor_timeout")));
    }
    if secs("executor_fail_retry_count") > 0 {
        let limit = secs("executor_fail_retry_count").min(1000);
        let _ = writeln!(text, "retry: {{limit: {limit}, interval: 10s}}");
    }
    let mut line = |key: &str, value: &str| put(&mut text, "", key, value);
    let params = row.get("executor_param");
    // As a positional parameter it can be given anew with each trigger; a text that would be taken apart cannot.
    let whole =
        params.contains(['=', '$', '"', '\'', '\\']) || params.trim() != params || params.contains("  ");
    let glue = glue_of(row.get("glue_type"));
    match (glue, whole) {
        (None, false) => {
            line("handler", row.get("executor_handler").trim());
            if !params.is_empty() {
                line("params", params);
            }
        }
        (Some(kind), false) => {
            line("glue", kind.word());
            line("script", row.get("glue_source"));
            if !params.is_empty() {
                line("params", params);
            }
        }
        (glue, true) => {
            let _ = writeln!(text, "steps:\n  - name: main");
            let mut line = |key: &str, value: &str| put(&mut text, "    ", key, value);
            match glue {
                None => line("handler", row.get("executor_handler").trim()),
                Some(kind) => {
                    line("glue", kind.word());
                    line("script", row.get("glue_source"));
                }
            }
            line("params", &params.replace("$", "$$"));
        }
    }
    let children: Vec<Value> = row
        .get("child_jobid")
        .split(',')
        .map(str::trim)
        .filter(|id| !id.is_empty())
        .filter_map(|id| match names.get(id) {
            Some(child) => Some(Value::from(child.as_str())),
            None => {
                remark(format!("its child {id} is not there"));
                None
            }
        })
        .collect();
    if !children.is_empty() {
        let _ = writeln!(text, "children: {}", Value::Array(children));
    }
    if !row.get("alarm_email").trim().is_empty() {
        remark(format!(
            "alarms to {}: send them from `handlers: {{failure: …}}`",
            row.get("alarm_email").trim()
        ));
    }
    if !matches!(row.get("glue_type"), "" | "BEAN") && glue.is_none() {
        remark(format!("its glue type {} is not known", row.get("glue_type")));
    }
    text
}

/// A line of a file. A text in JSON is one in YAML.
fn put(text: &mut String, indent: &str, key: &str, value: &str) {
    let _ = writeln!(text, "{indent}{key}: {}", Value::from(value));
}

fn glue_of(word: &str) -> Option<GlueKind> {
    GlueKind::from_word(&word.strip_prefix("GLUE_")?.to_ascii_lowercase())
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
        assert_eq!((one.body.timeout_ms, step.retry.limit, one.body.params.len()), (Some(300_000), 2, 2));
        assert_eq!(one.body.children.iter().map(JobName::as_str).collect::<Vec<_>>(), ["job-2"]);
        let two = read(1);
        assert!(two.schedules.is_empty(), "it was stopped");
        let target = two.body.steps[0].target.as_deref().expect("a target");
        assert_eq!(target.params.as_deref(), Some("a=b $${X}"));
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
