//! A job as XXL-JOB describes it, as a job file.

use std::fmt::Write as _;

use cadran_core::{GlueKind, JobName};
use cadran_exec::xxl::form::JobForm;
use serde_json::Value;

/// What XXL-JOB knows of a job, in its own words.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobInfo<'a> {
    pub(crate) description: &'a str,
    pub(crate) author: &'a str,
    pub(crate) alarm_email: &'a str,
    /// The kind, and what it says.
    pub(crate) schedule: (&'a str, &'a str),
    /// The zone of the schedule; the server's without one.
    pub(crate) zone: Option<&'a str>,
    /// The schedule rests: it is written as a comment.
    pub(crate) rests: bool,
    pub(crate) misfire: &'a str,
    pub(crate) route: &'a str,
    pub(crate) block: &'a str,
    pub(crate) handler: &'a str,
    pub(crate) param: &'a str,
    pub(crate) timeout_secs: u32,
    pub(crate) retries: u32,
    pub(crate) glue_type: &'a str,
    pub(crate) glue_source: &'a str,
    pub(crate) children: Vec<JobName>,
}

/// The parameter that holds the text for the handler, whatever it contains.
const TEXT: &str = "param";

/// The words of the protocol; the first of each list is what counts when nothing is said.
const SCHEDULES: &[&str] = &["NONE", "CRON", "FIX_RATE"];
const MISFIRES: &[&str] = &["DO_NOTHING", "FIRE_ONCE_NOW"];
const BLOCKS: &[&str] = &["SERIAL_EXECUTION", "DISCARD_LATER", "COVER_EARLY"];
const ROUTES: &[&str] = &[
    "FIRST",
    "LAST",
    "ROUND",
    "RANDOM",
    "CONSISTENT_HASH",
    "LEAST_FREQUENTLY_USED",
    "LEAST_RECENTLY_USED",
    "FAILOVER",
    "BUSYOVER",
    "SHARDING_BROADCAST",
];

/// Repetitions of a failed run, at most: more is a mistake.
const RETRIES_MAX: u32 = 1000;

impl<'a> JobInfo<'a> {
    /// What an executor says of a job. Nothing of it is guessed: a word that is not known is a mistake.
    pub(crate) fn of(form: &'a JobForm) -> Result<JobInfo<'a>, String> {
        if form.name.trim().is_empty() {
            return Err("`name` is empty".to_owned());
        }
        let word = |field: &str, given: &'a str, words: &[&'static str]| match given.trim() {
            "" => Ok(words.first().copied().unwrap_or_default()),
            given => words.iter().copied().find(|word| *word == given).ok_or_else(|| {
                format!(
                    "`{field}` is one of {}, not {:?}",
                    words.join(", "),
                    given.escape_debug().to_string()
                )
            }),
        };
        let glue_type = form.glue_type.trim();
        if !matches!(glue_type, "" | "BEAN") && glue_of(glue_type).is_none() {
            return Err(format!("`glueType` {:?} is not known", glue_type.escape_debug().to_string()));
        }
        let schedule = word("scheduleType", &form.schedule_type, SCHEDULES)?;
        match (schedule, form.schedule_conf.trim()) {
            ("CRON", "") => return Err("`scheduleConf` is empty".to_owned()),
            ("FIX_RATE", secs) if !secs.parse::<u32>().is_ok_and(|secs| secs > 0) => {
                return Err("`scheduleConf` is not a whole number of seconds from 1 on".to_owned());
            }
            _ => {}
        }
        Ok(JobInfo {
            description: &form.name,
            author: &form.author,
            alarm_email: &form.alarm_email,
            schedule: (schedule, form.schedule_conf.trim()),
            misfire: word("misfireStrategy", &form.misfire_strategy, MISFIRES)?,
            route: word("executorRouteStrategy", &form.executor_route_strategy, ROUTES)?,
            block: word("executorBlockStrategy", &form.executor_block_strategy, BLOCKS)?,
            handler: form.executor_handler.trim(),
            param: &form.executor_param,
            timeout_secs: form.executor_timeout,
            retries: form.executor_fail_retry_count,
            glue_type,
            glue_source: &form.glue_source,
            ..JobInfo::default()
        })
    }

    /// Whether there is a handler or a script of a kind that is known.
    pub(crate) fn known_work(&self) -> Result<(), String> {
        match self.glue_type {
            "" | "BEAN" if self.handler.is_empty() => Err("it names no handler".to_owned()),
            "" | "BEAN" => Ok(()),
            word if glue_of(word).is_none() => Err(format!("its glue type {word} is not known")),
            _ => Ok(()),
        }
    }

    /// Whether it runs by a schedule.
    pub(crate) fn has_schedule(&self) -> bool {
        !matches!(self.schedule.0, "NONE" | "")
    }

    /// The job file. `remark` hears what is not carried over, one sentence each.
    pub(crate) fn text(&self, group: &str, mut remark: impl FnMut(String)) -> String {
        let mut text = String::new();
        let mut line = |key: &str, value: &str| put(&mut text, "", key, value);
        line("description", self.description.trim());
        if !self.author.trim().is_empty() {
            line("labels", &format!("author={}", self.author.trim().replace([',', '='], " ")));
        }
        let (kind, conf) = self.schedule;
        let key = if self.rests { "# schedule" } else { "schedule" };
        match kind {
            "CRON" => {
                line(key, conf);
                line("dialect", "quartz");
                if let Some(zone) = self.zone {
                    line("timezone", zone);
                }
            }
            "FIX_RATE" => line(key, &format!("every {conf}s")),
            "NONE" | "" => {}
            other => remark(format!("its schedule {other} {conf} is not known; it runs by hand only")),
        }
        line("misfire", if self.misfire == "FIRE_ONCE_NOW" { "once" } else { "skip" });
        // There, what is still on is the executor's business alone.
        line("overlap", "allow");
        // In full: a name alone may mean something else, such as the server itself.
        let _ = writeln!(text, "executor: {{group: {}}}", Value::from(group));
        let mut line = |key: &str, value: &str| put(&mut text, "", key, value);
        if !self.route.is_empty() {
            line("route", &self.route.to_ascii_lowercase());
        }
        if !self.block.is_empty() {
            line("block", self.block);
        }
        if self.timeout_secs > 0 {
            line("timeout", &format!("{}s", self.timeout_secs));
        }
        if self.retries > 0 {
            let _ = writeln!(text, "retry: {{limit: {}, interval: 10s}}", self.retries.min(RETRIES_MAX));
        } else {
            // There, what was lost is not ordered a second time either.
            line("retry", "never");
        }
        self.put_work(&mut text);
        if !self.children.is_empty() {
            let children = self.children.iter().map(|child| Value::from(child.as_str())).collect();
            let _ = writeln!(text, "children: {}", Value::Array(children));
        }
        if !self.alarm_email.trim().is_empty() {
            remark(format!(
                "alarms to {}: send them from `handlers: {{failure: …}}`",
                self.alarm_email.trim()
            ));
        }
        text
    }

    /// What it does. The text for the handler is one parameter, so that a trigger can give another, whatever is in it.
    fn put_work(&self, text: &mut String) {
        let _ = writeln!(text, "params: {{{TEXT}: {}}}", Value::from(self.param));
        let _ = writeln!(text, "steps:\n  - name: main");
        let mut line = |key: &str, value: &str| put(text, "    ", key, value);
        match glue_of(self.glue_type) {
            None => line("handler", self.handler),
            Some(kind) => {
                line("glue", kind.word());
                line("script", self.glue_source);
            }
        }
        line("params", &format!("${{{TEXT}}}"));
    }
}

/// A line of a file. A text in JSON is one in YAML.
fn put(text: &mut String, indent: &str, key: &str, value: &str) {
    let _ = writeln!(text, "{indent}{key}: {}", Value::from(value));
}

fn glue_of(word: &str) -> Option<GlueKind> {
    GlueKind::from_word(&word.strip_prefix("GLUE_")?.to_ascii_lowercase())
}

/// A name for a job: a text as far as it is fit, or else the next one.
pub(crate) fn plain_name<'t>(texts: impl IntoIterator<Item = &'t str>) -> Option<String> {
    let plain = |text: &str| {
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let words: Vec<&str> = text.split(|c| !fit(c)).filter(|word| !word.is_empty()).collect();
        let name: String = words.join("-").chars().take(60).collect();
        name.trim_matches('-').to_owned()
    };
    texts.into_iter().map(plain).find(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadran_core::Work;
    use cadran_spec::{ReadOptions, read_job};

    fn form() -> JobForm {
        let text = str::to_owned;
        JobForm {
            name: text("Settle: 'all'"),
            schedule_type: text("CRON"),
            schedule_conf: text("0 0 2 * * ?"),
            executor_handler: text("settle"),
            ..JobForm::default()
        }
    }

    #[test]
    fn any_text_reaches_the_handler_whole() {
        for param in ["", "2026", "2026 full", "a=b ${X} $$ 'c' \"d\"\n#\te", "报表", "- [x]: {y}", "null"]
        {
            let form = JobForm { executor_param: param.to_owned(), ..form() };
            let text = JobInfo::of(&form).expect("a job").text("g", |_| {});
            let read = read_job(text.as_bytes(), "x", &ReadOptions::default());
            let body = read.unwrap_or_else(|e| panic!("{text}\n{e:?}")).job.body;
            assert_eq!((body.params.len(), body.params[0].default.as_str()), (1, param), "{text}");
            let target = body.steps[0].target.as_deref().expect("a target");
            assert_eq!(target.params.as_deref(), Some("${param}"));
            assert_eq!(body.steps[0].work, Work::Handler("settle".into()));
        }
    }

    #[test]
    fn no_retries_means_never_a_second_order() {
        for (retries, at_most_once, limit) in [(0, true, 0), (2, false, 2)] {
            let form = JobForm { executor_fail_retry_count: retries, ..form() };
            let text = JobInfo::of(&form).expect("a job").text("g", |_| {});
            let job = read_job(text.as_bytes(), "x", &ReadOptions::default()).expect("a job file").job;
            assert_eq!(
                (job.policy.at_most_once, job.body.steps[0].retry.limit),
                (at_most_once, limit),
                "{text}"
            );
        }
    }

    #[test]
    fn words_that_are_not_known_are_refused_with_those_that_are() {
        let change = |change: fn(&mut JobForm)| {
            let mut form = form();
            change(&mut form);
            JobInfo::of(&form).map(|_| ()).expect_err("a mistake")
        };
        for (why, says) in [
            (change(|form| form.name = " ".into()), "`name` is empty"),
            (
                change(|form| form.schedule_type = "FIX_DELAY".into()),
                "`scheduleType` is one of NONE, CRON, FIX_RATE",
            ),
            (change(|form| form.schedule_conf = " ".into()), "`scheduleConf` is empty"),
            (change(|form| form.misfire_strategy = "X".into()), "`misfireStrategy` is one of"),
            (
                change(|form| form.executor_route_strategy = "NEAR".into()),
                "`executorRouteStrategy` is one of FIRST",
            ),
            (
                change(|form| form.executor_block_strategy = "X".into()),
                "`executorBlockStrategy` is one of SERIAL",
            ),
            (change(|form| form.glue_type = "GLUE_COBOL".into()), "`glueType`"),
        ] {
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn names_are_made_of_what_is_fit() {
        for (texts, expected) in [
            (&["Settle: 'all'", "h"][..], Some("Settle-all")),
            (&["报表", "report.Daily"], Some("report-Daily")),
            (&["../../etc/passwd"], Some("etc-passwd")),
            (&["--a--"], Some("a")),
            (&["", "…"], None),
        ] {
            assert_eq!(plain_name(texts.iter().copied()).as_deref(), expected, "{texts:?}");
        }
    }
}
