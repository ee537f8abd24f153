//! What XXL-JOB and its executors say to each other: the shapes, and how to read what comes in odd ones.

use cadran_core::{Block, Dialect, GlueKind, Millis};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The token's header for XXL-JOB.
pub const TOKEN_HEADER: &str = "xxl-job-access-token";
/// The group's header, from 3.5 on.
pub const GROUP_HEADER: &str = "xxl-job-appname";
/// The token's header for Orth.
pub const ORTH_TOKEN_HEADER: &str = "orth-access-token";

/// The code of a success.
pub const OK: i64 = 200;
/// The code of a failure.
pub const FAILED: i64 = 500;
/// The code of a run that passed its time limit on the executor.
pub const TIMED_OUT: i64 = 502;

/// Longest message of a result that is kept.
const MESSAGE_CHARS_MAX: usize = 15_000;

/// Results in one call. Executors batch what is queued, and a long outage queues a lot.
pub const RESULTS_MAX: usize = 100_000;

/// Starts a run. Exactly these twelve members: an executor may refuse any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trigger<'a> {
    pub(crate) job_id: u32,
    pub(crate) executor_handler: &'a str,
    pub(crate) executor_params: &'a str,
    pub(crate) executor_block_strategy: &'static str,
    pub(crate) executor_timeout: u32,
    pub(crate) log_id: u64,
    pub(crate) log_date_time: Millis,
    pub(crate) glue_type: &'static str,
    pub(crate) glue_source: &'a str,
    pub(crate) glue_updatetime: Millis,
    pub(crate) broadcast_index: u32,
    pub(crate) broadcast_total: u32,
    /// Orth's own two.
    pub(crate) orth: Option<OrthTrigger>,
}

/// What Orth's executors take besides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrthTrigger {
    pub(crate) executor_concurrency: u32,
    pub(crate) schedule_time: Option<Millis>,
}

impl Trigger<'_> {
    /// Writes it in JSON, straight to where it leaves from: a burst has thousands of them.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        fn add(out: &mut Vec<u8>, name: &str, value: impl Serialize) {
            out.extend_from_slice(name.as_bytes());
            // Numbers and texts always have a JSON form, and memory takes it.
            let _ = serde_json::to_writer(out, &value);
        }
        add(out, "{\"jobId\":", self.job_id);
        add(out, ",\"executorHandler\":", self.executor_handler);
        add(out, ",\"executorParams\":", self.executor_params);
        add(out, ",\"executorBlockStrategy\":", self.executor_block_strategy);
        add(out, ",\"executorTimeout\":", self.executor_timeout);
        add(out, ",\"logId\":", self.log_id);
        add(out, ",\"logDateTime\":", self.log_date_time);
        add(out, ",\"glueType\":", self.glue_type);
        add(out, ",\"glueSource\":", self.glue_source);
        add(out, ",\"glueUpdatetime\":", self.glue_updatetime);
        add(out, ",\"broadcastIndex\":", self.broadcast_index);
        add(out, ",\"broadcastTotal\":", self.broadcast_total);
        if let Some(OrthTrigger { executor_concurrency, schedule_time }) = self.orth {
            add(out, ",\"executorConcurrency\":", executor_concurrency);
            add(out, ",\"scheduleTime\":", schedule_time);
        }
        out.push(b'}');
    }
}

/// Names a job.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfJob {
    pub(crate) job_id: u32,
}

/// Asks for a part of a log. Both spellings of the date are sent: each reader takes its own.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LogRequest {
    pub(crate) log_id: u64,
    pub(crate) log_date_tim: Millis,
    pub(crate) log_date_time: Millis,
    pub(crate) from_line_num: u64,
}

/// What an executor answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: i64,
    pub(crate) message: String,
    pub(crate) payload: Value,
}

impl Answer {
    pub(crate) fn is_ok(&self) -> bool {
        self.code == OK
    }

    /// Whatever the content type says. A status other than 200, a body that is not JSON, or a value without a numeric
    /// code is no answer.
    pub(crate) fn read(status: u16, body: &[u8]) -> Result<Answer, String> {
        if status != 200 {
            return Err(format!("it answered with HTTP status {status}: {}", excerpt(body)));
        }
        let value: Value =
            serde_json::from_slice(body).map_err(|_| format!("its answer is not JSON: {}", excerpt(body)))?;
        let code = value.get("code").and_then(number);
        let Some(code) = code.filter(|_| value.is_object()) else {
            return Err(format!("its answer has no code: {}", excerpt(body)));
        };
        let message = value.get("msg").and_then(Value::as_str).unwrap_or_default().to_owned();
        let payload = ["content", "data"].iter().find_map(|name| value.get(name).filter(|v| !v.is_null()));
        Ok(Answer { code, message, payload: payload.cloned().unwrap_or(Value::Null) })
    }
}

/// A part of a log, as far as the executor told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogPart {
    pub(crate) text: String,
    /// The last line in `text`; smaller than what was asked for when there is nothing new.
    pub(crate) to_line: u64,
    pub(crate) is_end: bool,
}

impl LogPart {
    pub(crate) fn read(answer: &Answer) -> LogPart {
        let payload = &answer.payload;
        LogPart {
            text: payload.get("logContent").and_then(Value::as_str).unwrap_or_default().to_owned(),
            to_line: payload.get("toLineNum").and_then(number).unwrap_or(0).max(0) as u64,
            is_end: payload.get("isEnd").and_then(Value::as_bool).unwrap_or(false),
        }
    }
}

/// The result of one run, as an executor reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunResult {
    /// The run's log number.
    pub log: u64,
    /// 200 is a success; everything else is none.
    pub code: i64,
    /// What the executor says about it.
    pub message: String,
}

impl RunResult {
    /// The results in a body: an array, or an object with a list. Entries that make no sense are left out and counted.
    pub fn read_all(body: &Value) -> Option<(Vec<RunResult>, usize)> {
        let list = body.as_array().or_else(|| body.get("callbackList")?.as_array())?;
        let results: Vec<RunResult> = list.iter().take(RESULTS_MAX).filter_map(RunResult::read).collect();
        let odd = list.len() - results.len();
        Some((results, odd))
    }

    fn read(value: &Value) -> Option<RunResult> {
        let log = u64::try_from(number(value.get("logId")?)?).ok()?;
        let inner = value.get("executeResult");
        let code = value.get("handleCode").and_then(number).filter(|code| *code != 0);
        let code = code.or_else(|| inner?.get("code").and_then(number));
        let text = value.get("handleMsg").filter(|text| !text.is_null());
        let text = text.or_else(|| inner?.get("msg"));
        let message = match text {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.chars().take(MESSAGE_CHARS_MAX).collect(),
            Some(other) => other.to_string().chars().take(MESSAGE_CHARS_MAX).collect(),
        };
        Some(RunResult { log, code: code.unwrap_or(FAILED), message })
    }
}

/// What an executor says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Registration {
    /// Always `EXECUTOR`.
    pub registry_group: String,
    /// The name of its group.
    pub registry_key: String,
    /// Where it listens.
    pub registry_value: String,
}

/// A number, also one that was written as text or with a fraction of zero.
fn number(value: &Value) -> Option<i64> {
    value
        .as_i64()
        .or_else(|| value.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15).map(|n| n as i64))
        .or_else(|| value.as_str()?.trim().parse().ok())
}

/// The beginning of what somebody sent, fit for a message.
fn excerpt(body: &[u8]) -> String {
    const SHOWN: usize = 120;
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    let clean = text.chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c });
    let text = clean.collect::<String>().trim().to_owned();
    if text.is_empty() { "nothing".to_owned() } else { text }
}

/// The verb that starts a run.
pub(crate) fn start_verb(dialect: Dialect) -> &'static str {
    match dialect {
        // Ours are never called.
        Dialect::Two | Dialect::Orth | Dialect::Worker => "run",
        Dialect::Three => "trigger",
    }
}

/// The word for a block strategy. Only Orth knows the fourth: for the others it is the nearest they have.
pub(crate) fn block_word(block: Block, dialect: Dialect) -> &'static str {
    match block {
        Block::Serial => "SERIAL_EXECUTION",
        Block::Discard => "DISCARD_LATER",
        Block::Cover => "COVER_EARLY",
        Block::Concurrent if dialect == Dialect::Orth => "CONCURRENT",
        Block::Concurrent => "SERIAL_EXECUTION",
    }
}

/// The word for the language of a script.
pub(crate) fn glue_word(kind: GlueKind) -> &'static str {
    match kind {
        GlueKind::Groovy => "GLUE_GROOVY",
        GlueKind::Shell => "GLUE_SHELL",
        GlueKind::Python => "GLUE_PYTHON",
        GlueKind::Python2 => "GLUE_PYTHON2",
        GlueKind::Nodejs => "GLUE_NODEJS",
        GlueKind::Powershell => "GLUE_POWERSHELL",
        GlueKind::Php => "GLUE_PHP",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_trigger_has_exactly_twelve_members() {
        let plain = Trigger {
            job_id: 7,
            executor_handler: "h",
            executor_params: "a \"b\"\n",
            executor_block_strategy: block_word(Block::Serial, Dialect::Two),
            executor_timeout: 3,
            log_id: (1 << 53) - 1,
            log_date_time: 1_700_000_000_000,
            glue_type: "BEAN",
            glue_source: "",
            glue_updatetime: 5,
            broadcast_index: 0,
            broadcast_total: 1,
            orth: None,
        };
        let written = |trigger: &Trigger<'_>| {
            let mut out = Vec::new();
            trigger.write(&mut out);
            serde_json::from_slice::<Value>(&out).expect("JSON")
        };
        assert_eq!(
            written(&plain),
            json!({
                "jobId": 7, "executorHandler": "h", "executorParams": "a \"b\"\n",
                "executorBlockStrategy": "SERIAL_EXECUTION", "executorTimeout": 3, "logId": 9007199254740991u64,
                "logDateTime": 1700000000000i64, "glueType": "BEAN", "glueSource": "", "glueUpdatetime": 5,
                "broadcastIndex": 0, "broadcastTotal": 1
            })
        );
        let orth = OrthTrigger { executor_concurrency: 3, schedule_time: Some(9) };
        let orth = written(&Trigger { orth: Some(orth), ..plain });
        assert_eq!((&orth["executorConcurrency"], &orth["scheduleTime"]), (&json!(3), &json!(9)));
    }

    #[test]
    fn answers_are_read_tolerantly() {
        let read = |status: u16, body: &str| Answer::read(status, body.as_bytes());
        let ok = |body: &str, code: i64, message: &str, payload: Value| {
            assert_eq!(read(200, body), Ok(Answer { code, message: message.into(), payload }), "{body}");
        };
        ok(r#"{"code":200}"#, 200, "", Value::Null);
        ok(r#"{"code":200,"msg":null,"content":null,"data":"x"}"#, 200, "", json!("x"));
        ok(r#"{"code":200,"content":{"toLineNum":3},"data":null}"#, 200, "", json!({"toLineNum": 3}));
        ok(r#"{"code":500,"msg":"no handler","odd":1}"#, 500, "no handler", Value::Null);
        ok(r#"{"code":"200"}"#, 200, "", Value::Null);
        for (status, body, says) in [
            (404, "{\"code\":200}", "HTTP status 404"),
            (200, "", "not JSON: nothing"),
            (200, "<html>", "not JSON: <html>"),
            (200, "[{\"code\":200}]", "no code"),
            (200, "{\"code\":null}", "no code"),
            (200, "{\"code\":true}", "no code"),
            (200, "\"200\"", "no code"),
        ] {
            let error = read(status, body).expect_err(body);
            assert!(error.contains(says), "{body}: {error}");
        }
    }

    #[test]
    fn results_are_read_in_both_dialects() {
        let read = |body: Value| {
            let (results, odd) = RunResult::read_all(&body)?;
            let shown = results.iter().map(|r| format!("{} {} {}", r.log, r.code, r.message));
            Some((shown.collect::<Vec<_>>().join(", "), odd))
        };
        let check = |body: Value, expected: Option<(&str, usize)>| {
            assert_eq!(read(body.clone()), expected.map(|(text, odd)| (text.to_owned(), odd)), "{body}");
        };
        check(
            json!([{"logId": 1, "logDateTim": 5, "handleCode": 200, "handleMsg": "ok"}]),
            Some(("1 200 ok", 0)),
        );
        check(
            json!({"callbackList": [{"logId": 2, "logDateTime": 5, "handleCode": 502}]}),
            Some(("2 502 ", 0)),
        );
        check(json!([{"logId": 3, "executeResult": {"code": 200, "msg": "old"}}]), Some(("3 200 old", 0)));
        let both = json!([{"logId": 3, "handleCode": 0, "executeResult": {"code": 500, "msg": "bad"}}]);
        check(both, Some(("3 500 bad", 0)));
        check(json!([{"logId": 4, "handleCode": 200, "handleMsg": {"a": 1}}]), Some(("4 200 {\"a\":1}", 0)));
        check(json!([{"logId": "5", "handleCode": 1}]), Some(("5 1 ", 0)));
        check(json!([{"logId": 6}]), Some(("6 500 ", 0)));
        check(json!([{"logId": -1}, {"x": 1}, 7, null]), Some(("", 4)));
        check(json!([]), Some(("", 0)));
        for odd in [json!({}), json!("x"), json!(null), json!({"callbackList": 1})] {
            check(odd, None);
        }
    }

    #[test]
    fn logs_are_read_from_either_member() {
        let part = |body: &str| LogPart::read(&Answer::read(200, body.as_bytes()).expect("an answer"));
        let full =
            r#"{"code":200,"data":{"fromLineNum":1,"toLineNum":2,"logContent":"a\nb\n","isEnd":true}}"#;
        assert_eq!(part(full), LogPart { text: "a\nb\n".into(), to_line: 2, is_end: true });
        assert_eq!(part(r#"{"code":200,"content":null}"#), LogPart::default());
        assert_eq!(part(r#"{"code":200,"content":"text"}"#), LogPart::default());
    }
}
