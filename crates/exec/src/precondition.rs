use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use cadran_core::{Body, Precondition, Step};
use nix::sys::signal::Signal;
use tokio::io::AsyncReadExt;
use tokio::sync::watch;

use crate::attempt::Halt;
use crate::command;
use crate::environment::Environment;
use crate::family;
use crate::sweep::Lookout;

/// Where preconditions are judged: the same place the step would run in.
pub(crate) struct Place<'a> {
    pub(crate) body: &'a Body,
    pub(crate) step: &'a Step,
    pub(crate) env: &'a Environment,
    pub(crate) dir: &'a Path,
    pub(crate) mark: &'a str,
    pub(crate) timeout: Duration,
    pub(crate) lookout: &'a Lookout,
}

/// Why the step does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unmet {
    /// It was judged, and does not hold.
    No(String),
    /// It cannot be judged.
    Broken(String),
    /// Someone stopped the attempt meanwhile.
    Stopped,
}

/// Longest output of a condition: it is compared with a text a person wrote.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// Largest compiled form of a regular expression.
const REGEX_BYTES_MAX: usize = 1 << 20;

impl Place<'_> {
    /// All must hold, judged in order up to the first that does not.
    pub(crate) async fn judge_all(
        &self,
        preconditions: &[Precondition],
        halt: &mut watch::Receiver<Halt>,
    ) -> Result<(), Unmet> {
        for precondition in preconditions {
            self.judge(precondition, halt).await?;
        }
        Ok(())
    }

    async fn judge(
        &self,
        precondition: &Precondition,
        halt: &mut watch::Receiver<Halt>,
    ) -> Result<(), Unmet> {
        let condition = precondition.condition.trim();
        let (holds, seen) = match &precondition.expected {
            None => {
                let code = self.run(condition, false, halt).await?.0;
                (
                    code == Some(0),
                    code.map_or("was ended by a signal".into(), |code| format!("exited with {code}")),
                )
            }
            Some(expected) => {
                let text = match substituted(condition) {
                    Some(inner) => self.run(inner, true, halt).await?.1,
                    None => self.env.try_expand(condition).map_err(Unmet::Broken)?,
                };
                (matches(expected, text.trim())?, format!("is {:?}, expected {expected:?}", text.trim()))
            }
        };
        match (holds, precondition.negate) {
            (true, false) | (false, true) => Ok(()),
            (false, false) => Err(Unmet::No(format!("`{condition}` {seen}"))),
            (true, true) => Err(Unmet::No(format!("`{condition}` {seen}, and must not hold"))),
        }
    }

    /// Runs a command; its exit code (`None` for a signal) and what it printed.
    async fn run(
        &self,
        text: &str,
        is_read: bool,
        halt: &mut watch::Receiver<Halt>,
    ) -> Result<(Option<i32>, String), Unmet> {
        let mut command =
            command::of_shell(self.body, self.step, text, self.env, self.dir).map_err(Unmet::Broken)?;
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(if is_read { Stdio::piped() } else { Stdio::null() });
        let mut command = tokio::process::Command::from(command);
        let (mut child, leader) = family::spawn(&mut command)
            .map_err(|error| Unmet::Broken(command::spawn_failure(command.as_std(), &error)))?;
        let stdout = child.stdout.take();
        let all = async {
            let mut bytes = Vec::new();
            if let Some(stdout) = stdout {
                // A command with more to say than the bound is killed below, with its group.
                let _ = stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).await;
            }
            (bytes.len() as u64 == OUTPUT_BYTES_MAX, child.wait().await, bytes)
        };
        let answer = tokio::select! {
            answer = tokio::time::timeout(self.timeout, all) => answer.map_err(|_| {
                Unmet::No(format!("`{text}` did not answer within {} s", self.timeout.as_secs()))
            }),
            _ = halt.wait_for(|halt| *halt != Halt::No) => Err(Unmet::Stopped),
        };
        leader.signal_group(Signal::SIGKILL);
        if answer.is_err() || !leader.members().is_empty() {
            self.lookout.kill(&leader, self.mark).await;
            // A no-op when the exit was seen already.
            let _ = child.wait().await;
        }
        let (is_over, status, bytes) = answer?;
        if is_over {
            return Err(Unmet::Broken(format!("`{text}` printed more than {OUTPUT_BYTES_MAX} bytes")));
        }
        let status =
            status.map_err(|error| Unmet::Broken(format!("`{text}` cannot be waited for: {error}")))?;
        Ok((status.code(), String::from_utf8_lossy(&bytes).into_owned()))
    }
}

/// The command inside backticks or `$( )` when the whole text is one.
fn substituted(text: &str) -> Option<&str> {
    let ticks = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    ticks.or_else(|| text.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')))
}

fn matches(expected: &str, text: &str) -> Result<bool, Unmet> {
    match expected.strip_prefix("re:") {
        None => Ok(expected.trim() == text),
        Some(pattern) => regex::RegexBuilder::new(pattern)
            .size_limit(REGEX_BYTES_MAX)
            .build()
            .map(|regex| regex.is_match(text))
            .map_err(|error| {
                Unmet::Broken(format!("the regular expression {pattern:?} cannot be used: {error}"))
            }),
    }
}
