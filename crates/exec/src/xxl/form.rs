//! A job as an executor describes it, from 3.5 on.

use serde_json::Value;

/// What `addJob` and `updateJob` say of a job. What is missing, or null, is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the protocol")]
pub struct JobForm {
    pub name: String,
    pub author: String,
    pub alarm_email: String,
    pub schedule_type: String,
    pub schedule_conf: String,
    pub misfire_strategy: String,
    pub executor_route_strategy: String,
    pub executor_handler: String,
    pub executor_param: String,
    pub executor_block_strategy: String,
    /// In seconds; 0 for none.
    pub executor_timeout: u32,
    pub executor_fail_retry_count: u32,
    pub glue_type: String,
    pub glue_source: String,
    pub glue_remark: String,
}

impl JobForm {
    /// Reads the body of a call. A member that is not known is refused: it would be silently lost.
    pub fn read(body: &Value) -> Result<JobForm, String> {
        let Value::Object(members) = body else {
            return Err("an object with the fields of a job is wanted".to_owned());
        };
        let mut form = JobForm::default();
        for (name, value) in members {
            let text = match name.as_str() {
                // Whose job it is says the header; which one, the call.
                "jobGroup" | "id" => continue,
                "executorTimeout" => {
                    form.executor_timeout = number(name, value)?;
                    continue;
                }
                "executorFailRetryCount" => {
                    form.executor_fail_retry_count = number(name, value)?;
                    continue;
                }
                "name" => &mut form.name,
                "author" => &mut form.author,
                "alarmEmail" => &mut form.alarm_email,
                "scheduleType" => &mut form.schedule_type,
                "scheduleConf" => &mut form.schedule_conf,
                "misfireStrategy" => &mut form.misfire_strategy,
                "executorRouteStrategy" => &mut form.executor_route_strategy,
                "executorHandler" => &mut form.executor_handler,
                "executorParam" => &mut form.executor_param,
                "executorBlockStrategy" => &mut form.executor_block_strategy,
                "glueType" => &mut form.glue_type,
                "glueSource" => &mut form.glue_source,
                "glueRemark" => &mut form.glue_remark,
                other => return Err(format!("`{}` is no field of a job", other.escape_debug())),
            };
            *text = match value {
                Value::Null => String::new(),
                Value::String(given) => given.clone(),
                _ => return Err(format!("`{name}` is not a text")),
            };
        }
        Ok(form)
    }
}

fn number(name: &str, value: &Value) -> Result<u32, String> {
    let number = if value.is_null() { Some(0) } else { value.as_u64() };
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("`{name}` is not a whole number from 0 on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn forms_are_read_and_mistakes_are_named() {
        let form = JobForm::read(&json!({"id": 7, "name": "x", "executorTimeout": 3, "author": null}));
        let expected = JobForm { name: "x".to_owned(), executor_timeout: 3, ..JobForm::default() };
        assert_eq!(form, Ok(expected));
        for (body, says) in [
            (json!([]), "an object"),
            (json!({"childJobId": "1"}), "`childJobId` is no field"),
            (json!({"name": 7}), "`name` is not a text"),
            (json!({"executorTimeout": -1}), "`executorTimeout` is not a whole number"),
            (json!({"executorTimeout": "1"}), "`executorTimeout` is not a whole number"),
            (json!({"executorFailRetryCount": 1u64 << 32}), "`executorFailRetryCount` is not"),
        ] {
            let why = JobForm::read(&body).expect_err("a mistake");
            assert!(why.contains(says), "{body}: {why}");
        }
    }
}
