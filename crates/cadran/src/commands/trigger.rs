//! `cadran trigger`: run a job now.

use std::process::ExitCode;
use std::time::Duration;

use cadran_core::{JobName, RunId};
use serde_json::{Map, Value, json};

use crate::client::exit::after_help;
use crate::client::{Api, ClientOptions, Exit, Failure, out, out_json, talk, wait_for};

/// Run a job now.
///
/// The run is recorded when the command returns; its id goes to standard output. It joins the same queue as scheduled
/// runs, under the job's own overlap rule. Inside a run the new one becomes its child.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help(
    "  cadran trigger backup\n  cadran trigger report -p month=2026-10 --wait\n  cadran logs -f $(cadran trigger backup)"
))]
pub struct Args {
    /// The job's name.
    pub job: String,
    /// A parameter, NAME=VALUE; or a value for the next positional one.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE")]
    pub params: Vec<String>,
    /// Let it go to these executors alone, in this order: addresses that `cadran executors` shows.
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub executors: Vec<String>,
    /// A key that names this trigger: given again within a day, it makes no second run [default: a random one].
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Wait until the run has ended; the exit code says how it went.
    #[arg(short, long)]
    pub wait: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let job: JobName = args.job.parse().map_err(|error| Failure::usage(format!("{error}")))?;
    let mut body = json!({ "params": params(&args.params)? });
    if !args.executors.is_empty() {
        body["addresses"] = json!(args.executors);
    }
    // Inside a run: it becomes the parent, so that a job that triggers itself is bounded.
    if let Some(parent) = std::env::var("CADRAN_RUN_ID").ok().and_then(|id| id.parse::<RunId>().ok()) {
        body["parent"] = json!(parent.to_string());
    }
    let key = match &args.idempotency_key {
        Some(key) => key.clone(),
        None => random_key()?,
    };
    let api = Api::new(&args.client)?;
    let made = ask(&args.client, &api, job.as_str(), &body, &key).await?;
    let run = made["run"].as_str().unwrap_or_default().to_owned();
    if args.wait {
        if !args.client.json {
            out(&format!("{run}\n"))?;
        }
        return Ok(wait_for(&api, &run, args.client.json).await?.into());
    }
    if args.client.json {
        out_json(&made)?;
    } else {
        out(&format!("{run}\n"))?;
        talk(&format!("{job} was triggered; follow it with `cadran logs -f {run}`"));
    }
    Ok(Exit::Ok.into())
}

/// A server that restarts, or whose store is away for a moment, is back within this.
const ASK_TIME_MAX: Duration = Duration::from_secs(60);

/// Between two questions.
const ASK_PAUSE: Duration = Duration::from_millis(500);

/// Triggers, and asks again with the same key while it is not known whether the run was made.
async fn ask(
    client: &ClientOptions,
    api: &Api,
    job: &str,
    body: &Value,
    key: &str,
) -> Result<Value, Failure> {
    let path = ["jobs", job, "trigger"];
    let mut asked = api.post_with_key(&path, body, key).await;
    // A server that was never there, or that said no, has made no run.
    if !matches!(&asked, Err(failure) if is_doubtful(failure)) {
        return asked;
    }
    talk(&format!("the server did not say whether the run was made; asking again with the key {key}"));
    let again = async {
        while matches!(&asked, Err(failure) if failure.exit == Exit::Unreachable) {
            tokio::time::sleep(ASK_PAUSE).await;
            // It may have come back at another address.
            asked = match Api::new(client) {
                Ok(api) => api.post_with_key(&path, body, key).await,
                Err(failure) => Err(failure),
            };
        }
    };
    let _ = tokio::time::timeout(ASK_TIME_MAX, again).await;
    asked.map_err(|failure| match failure.exit {
        Exit::Unreachable => failure.help(format!(
            "whether the run was made is not known; ask again with `cadran trigger {job} --idempotency-key {key}` \
             and the same parameters, which makes no second one"
        )),
        _ => failure,
    })
}

/// Whether the request may have reached a server that made the run without saying so.
fn is_doubtful(failure: &Failure) -> bool {
    matches!(failure.code.as_str(), "no_answer" | "unknown" | "too_slow")
}

fn random_key() -> Result<String, Failure> {
    let mut chance = [0; 16];
    getrandom::fill(&mut chance).map_err(|_| Failure::here("no random numbers to be had"))?;
    Ok(format!("{:032x}", u128::from_le_bytes(chance)))
}

/// `NAME=VALUE`, or a value for the next position.
fn params(given: &[String]) -> Result<Map<String, Value>, Failure> {
    let mut params = Map::new();
    let mut position = 0;
    for text in given {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => (name.to_owned(), value),
            _ => {
                position += 1;
                (position.to_string(), text.as_str())
            }
        };
        if params.insert(name.clone(), json!(value)).is_some() {
            return Err(Failure::usage(format!("the parameter {name} is given twice")));
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_by_name_and_position() {
        let check = |given: &[&str], expected: Option<Value>| {
            let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(params(&given).ok().map(Value::Object), expected, "{given:?}");
        };
        check(&[], Some(json!({})));
        check(&["a=1", "b=x=y", "c="], Some(json!({ "a": "1", "b": "x=y", "c": "" })));
        check(
            &["first", "a=1", "second", "=odd"],
            Some(json!({ "1": "first", "a": "1", "2": "second", "3": "=odd" })),
        );
        check(&["a=$(reboot)"], Some(json!({ "a": "$(reboot)" })));
        check(&["a=1", "a=2"], None);
        check(&["x", "1=y"], None);
    }
}
