//! `cadran logs`: what the steps of a run printed.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use cadran_core::RunName;
use serde_json::json;

use crate::client::exit::after_help;
use crate::client::{
    Api, ClientOptions, Exit, Failure, Log, LogPage, Run, escaped, is_terminal, out, out_bytes, out_json,
    run_name, talk,
};

/// Show what the steps of a run printed.
///
/// A log that is piped on comes byte for byte. On a terminal control characters are escaped, so that nothing a step
/// prints can move the cursor or hide a line; --raw lets them through.
#[derive(Debug, clap::Args)]
#[command(after_help = after_help(
    "  cadran logs 01kx3v9a2m000\n  cadran logs -f 01kx3v9a2m000 --step build\n  cadran logs -n 20 01kx3v9a2m000\n  cadran \
     logs 01kx3v9a2m000 --step build --attempt 1 > build.log\n  cadran logs -f 01kx3v9a2m000.2"
))]
pub struct Args {
    /// The run's id; with a dot and a number behind it, one share of a broadcast.
    pub run: String,
    /// Go on until the run has ended.
    #[arg(short, long)]
    pub follow: bool,
    /// Only this step.
    #[arg(long)]
    pub step: Option<String>,
    /// Only this attempt; the latest of each step unless given.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only the last so many lines of each log.
    #[arg(short = 'n', long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub tail: Option<u32>,
    /// Let control characters through to the terminal.
    #[arg(long)]
    pub raw: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "a doc comment here would replace the help text of the command")]
    pub client: ClientOptions,
}

/// How often a followed run is looked at: below what a person notices.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// A server that restarts is back within this.
const AWAY_LOOKS_MAX: u32 = 200;

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let run = run_name(&args.run)?;
    let api = Api::new(&args.client)?;
    let mut reader = Reader { api, run, screen: Screen::new(&args), args, read: BTreeMap::new() };
    let mut away = 0;
    loop {
        let ended = match reader.look().await {
            Ok(ended) => ended,
            Err(failure)
                if reader.args.follow && failure.exit == Exit::Unreachable && away < AWAY_LOOKS_MAX =>
            {
                away += 1;
                if away == 1 && !reader.read.is_empty() {
                    talk("the server does not answer; asking again");
                } else if reader.read.is_empty() {
                    return Err(failure);
                }
                false
            }
            Err(failure) => return Err(failure),
        };
        if ended || !reader.args.follow {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Interrupted.into()),
        }
    }
    reader.finish()
}

/// Which log: step, share and attempt.
type LogKey = (u16, Option<u32>, u32);

fn key(log: &Log) -> LogKey {
    (log.step_no, log.share, log.attempt)
}

struct Reader {
    api: Api,
    run: RunName,
    args: Args,
    screen: Screen,
    /// How far each log was read.
    read: BTreeMap<LogKey, u64>,
}

impl Reader {
    /// Reads what is new. True when the run has ended, and this was all of it.
    async fn look(&mut self) -> Result<bool, Failure> {
        // The list says whether the run has ended before it says how long each log is: after an end they are final.
        let name = self.run.to_string();
        let (page, _): (LogPage, _) = self.api.get_as(&["runs", &name, "logs"], &[]).await?;
        let wanted: Vec<Log> = page.logs.iter().filter(|log| self.wants(log, &page.logs)).cloned().collect();
        self.screen.several |= wanted.len() > 1;
        if self.args.follow && self.args.step.is_none() && self.read.is_empty() && !wanted.is_empty() {
            // More logs will come when there are more steps: then the first one gets its head too.
            let (run, _): (Run, _) = self.api.get_as(&["runs", &name], &[]).await?;
            self.screen.several |= run.steps.len() > 1;
        }
        for log in wanted {
            let key = key(&log);
            let first = !self.read.contains_key(&key);
            let mut at = self.read.get(&key).copied().unwrap_or(0);
            if first && let Some(lines) = self.args.tail {
                let bytes = self.bytes(&log, ("tail", lines.to_string())).await?;
                self.screen.show(&log, &bytes)?;
                at = log.bytes.max(at);
            }
            while at < log.bytes {
                let bytes = self.bytes(&log, ("from", at.to_string())).await?;
                if bytes.is_empty() {
                    break;
                }
                at += bytes.len() as u64;
                self.screen.show(&log, &bytes)?;
                self.read.insert(key, at);
            }
            self.read.insert(key, at);
        }
        Ok(page.ended)
    }

    fn wants(&self, log: &Log, all: &[Log]) -> bool {
        let step =
            self.args.step.as_ref().is_none_or(|step| *step == log.step || *step == log.step_no.to_string());
        let attempt = match self.args.attempt {
            Some(attempt) => log.attempt == attempt,
            // The latest; and whatever is being read already is read to its end.
            None => {
                let same = |other: &&Log| (other.step_no, other.share) == (log.step_no, log.share);
                let latest = all.iter().filter(same).map(|other| other.attempt).max();
                Some(log.attempt) == latest || self.read.contains_key(&key(log))
            }
        };
        step && attempt
    }

    async fn bytes(&self, log: &Log, part: (&str, String)) -> Result<Vec<u8>, Failure> {
        let mut query = vec![("attempt", log.attempt.to_string()), part];
        query.extend(log.share.map(|share| ("share", share.to_string())));
        // By number: two names may be alike, numbers are not.
        self.api.bytes(&["runs", &self.run.to_string(), "logs", &log.step_no.to_string()], &query).await
    }

    fn finish(mut self) -> Result<ExitCode, Failure> {
        self.screen.end()?;
        if self.read.is_empty() {
            if let Some(step) = &self.args.step {
                return Err(Failure::new(
                    Exit::NotFound,
                    "no_such_log",
                    format!("run {} has no log of step {step:?}", self.run),
                )
                .help(format!("`cadran logs {}` without --step shows all there is", self.run)));
            }
            talk("nothing was printed");
        }
        Ok(Exit::Ok.into())
    }
}

/// Where logs are shown.
struct Screen {
    json: bool,
    safe: bool,
    /// More than one log: each piece stands under its step's name.
    several: bool,
    last: Option<LogKey>,
    at_line_start: bool,
    /// The first bytes of a character whose rest has not come yet.
    rest: Vec<u8>,
}

impl Screen {
    fn new(args: &Args) -> Screen {
        let safe = is_terminal() && !args.raw;
        Screen {
            json: args.client.json,
            safe,
            several: false,
            last: None,
            at_line_start: true,
            rest: Vec::new(),
        }
    }

    fn show(&mut self, log: &Log, bytes: &[u8]) -> Result<(), Failure> {
        if bytes.is_empty() {
            return Ok(());
        }
        let key = key(log);
        let other = self.last != Some(key);
        if other {
            self.end()?;
        }
        self.last = Some(key);
        if !self.json && !self.safe {
            self.head(log, other)?;
            self.at_line_start = bytes.ends_with(b"\n");
            return out_bytes(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let whole = whole_characters(&self.rest);
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        self.rest.drain(..whole);
        if text.is_empty() {
            return Ok(());
        }
        if self.json {
            let mut line = json!({ "step": log.step, "attempt": log.attempt, "text": text });
            if let Some(share) = log.share {
                line["share"] = share.into();
            }
            return out_json(&line);
        }
        self.head(log, other)?;
        self.at_line_start = text.ends_with('\n');
        out(&escaped(&text))
    }

    fn head(&mut self, log: &Log, other: bool) -> Result<(), Failure> {
        if other && (self.several || log.attempt > 1) {
            let attempt = if log.attempt > 1 { format!(" (attempt {})", log.attempt) } else { String::new() };
            let share = log.share.map(|share| format!(", share {share}")).unwrap_or_default();
            out(&format!("==> {}{share}{attempt} <==\n", escaped(&log.step)))?;
        }
        Ok(())
    }

    /// The end of one log: what is left of it, and the line closed before another one starts.
    fn end(&mut self) -> Result<(), Failure> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() && !self.json {
            out(&escaped(&String::from_utf8_lossy(&rest)))?;
            self.at_line_start = false;
        }
        if !self.at_line_start && (self.safe || self.several) {
            out("\n")?;
        }
        self.at_line_start = true;
        Ok(())
    }
}

/// How many of the bytes are not the beginning of a character that is still to come.
fn whole_characters(bytes: &[u8]) -> usize {
    let start = bytes.len().saturating_sub(3);
    for at in (start..bytes.len()).rev() {
        let len = match bytes[at] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            0x80..=0xbf => continue,
            _ => return bytes.len(),
        };
        return if at + len > bytes.len() { at } else { bytes.len() };
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_cut() {
        let check = |bytes: &[u8], whole: usize| assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        check(b"", 0);
        check(b"abc", 3);
        check("é".as_bytes(), 2);
        check(&"é".as_bytes()[..1], 0);
        check(&"a日".as_bytes()[..3], 1);
        check("a日".as_bytes(), 4);
        check(&"🙂".as_bytes()[..3], 0);
        check("🙂".as_bytes(), 4);
        // Not text at all: passed on, not held back.
        check(&[0x80; 9], 9);
        check(&[0xff, 0xff], 2);
    }
}
