//! The README's commands are run, so that they stay true.
//!
//! A fenced block whose first line is ` ```sh ci ` is given to `sh -e` at the root of the repository and must succeed.
//! A program that would run on is marked with the text to wait for, ` ```sh ci until="ready" `: when its output holds
//! that text it is interrupted as by Ctrl-C, and must then end with success.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::CommandError;
use crate::guard::Guard;
use crate::program::Watch;
use crate::test::INSIDE_README;

/// A block that takes longer is stuck: the longest builds the binary from nothing.
const BLOCK_SECS_MAX: u64 = 900;

/// A program that was interrupted has this long to end.
const END_SECS_MAX: u64 = 30;

#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Where it begins, for people.
    line: usize,
    script: String,
    until: Option<String>,
}

/// `cargo xtask readme`.
pub(crate) fn run() -> Result<(), CommandError> {
    let Ok(readme) = fs::read_to_string("README.md") else {
        return Err(CommandError::Failed("README.md is missing".into()));
    };
    let blocks = blocks(&readme).map_err(|problems| CommandError::Failed(problems.join("; ")))?;
    for block in &blocks {
        println!("README.md:{}:\n{}", block.line, block.script.trim_end());
        run_block(block).map_err(|why| CommandError::Failed(format!("README.md:{}: {why}", block.line)))?;
    }
    println!("{} of the README's blocks ran", blocks.len());
    Ok(())
}

/// Whether the marks can be understood.
pub(crate) fn check(readme: &str) -> Vec<String> {
    blocks(readme).err().unwrap_or_default()
}

fn blocks(readme: &str) -> Result<Vec<Block>, Vec<String>> {
    let mut blocks = Vec::new();
    let mut problems = Vec::new();
    let mut lines = readme.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some(mark) = line.trim_start().strip_prefix("```") else {
            continue;
        };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let Some(rest) = mark.trim().strip_prefix("sh ci") else {
            continue;
        };
        let until = match rest.trim() {
            "" => None,
            rest => match rest.strip_prefix("until=\"").and_then(|text| text.strip_suffix('"')) {
                Some(text) if !text.is_empty() => Some(text.to_string()),
                _ => {
                    problems.push(format!("README.md:{}: what is {rest:?}? Known is until=\"TEXT\"", at + 1));
                    continue;
                }
            },
        };
        let script = body.iter().map(|line| format!("{line}\n")).collect();
        blocks.push(Block { line: at + 1, script, until });
    }
    if problems.is_empty() { Ok(blocks) } else { Err(problems) }
}

fn run_block(block: &Block) -> Result<(), String> {
    // A shell that is interrupted ends by the signal, however well its program took it: a plain command is run in the
    // shell's place.
    let plain = |c: char| c.is_ascii_alphanumeric() || " ./_=-".contains(c);
    let alone = block.until.is_some() && block.script.trim().chars().all(plain);
    let script = if alone { format!("exec {}", block.script.trim()) } else { block.script.clone() };
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &script]).env(INSIDE_README, "1").stdin(Stdio::null());
    // A group of its own, so that an interrupt reaches whatever the shell started, as from a terminal.
    shell.process_group(0).stdout(Stdio::piped());
    let mut child = shell.spawn().map_err(|error| format!("cannot start sh: {error}"))?;
    let group = format!("-{}", child.id());
    let guard = Guard::post("kill -s KILL -- \"$1\"", &[OsStr::new(&group)])?;
    let played = see_through(block, &mut child);
    guard.dismiss();
    played
}

fn see_through(block: &Block, child: &mut Child) -> Result<(), String> {
    let lines = follow(child)?;
    let watch = Watch::start();
    let limit = Duration::from_secs(BLOCK_SECS_MAX);
    let mut awaited = block.until.as_deref();
    let mut limit_at = limit;
    loop {
        match lines.recv_timeout(limit_at.saturating_sub(watch.elapsed())) {
            Ok(line) => {
                println!("  {line}");
                if awaited.is_some_and(|text| line.contains(text)) {
                    awaited = None;
                    limit_at = watch.elapsed() + Duration::from_secs(END_SECS_MAX);
                    signal(child, "INT");
                }
            }
            // The output is closed: the block has ended, or is about to.
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                signal(child, "KILL");
                let _ = child.wait();
                let waited = watch.elapsed().as_secs();
                return Err(match (&block.until, awaited) {
                    (Some(text), Some(_)) => format!("no line with {text:?} after {waited} s"),
                    (Some(_), None) => format!("still running {END_SECS_MAX} s after an interrupt"),
                    (None, _) => format!("still running after {waited} s"),
                });
            }
        }
    }
    let status = child.wait().map_err(|error| format!("cannot wait for sh: {error}"))?;
    judge(status, awaited)
}

fn judge(status: ExitStatus, awaited: Option<&str>) -> Result<(), String> {
    match awaited {
        _ if !status.success() => Err(format!("ended with {status}")),
        Some(text) => Err(format!("ended without a line with {text:?}")),
        None => Ok(()),
    }
}

fn follow(child: &mut Child) -> Result<Receiver<String>, String> {
    let output = child.stdout.take().ok_or("no output to follow")?;
    let (sender, lines) = channel();
    let follow = move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("follow".into()).spawn(follow);
    thread.map(|_| lines).map_err(|error| format!("cannot follow the output: {error}"))
}

/// Signals the whole group of the block, by the id of the shell that we started as its leader.
fn signal(child: &Child, name: &str) {
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-s", name, "--", &group]).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_by_their_mark() {
        let readme = "\
# Title
```sh
not this
```
```sh ci
one
two
```
  ```sh ci until=\"is ready\"
  serve
  ```
```yaml
```sh ci
```
";
        let found = blocks(readme).unwrap();
        let block = |line, script: &str, until: Option<&str>| Block {
            line,
            script: script.into(),
            until: until.map(Into::into),
        };
        assert_eq!(found, [block(5, "one\ntwo\n", None), block(9, "  serve\n", Some("is ready"))]);
        assert_eq!(
            check("```sh ci twice\nx\n```"),
            ["README.md:1: what is \"twice\"? Known is until=\"TEXT\""]
        );
        assert_eq!(check("```sh ci until=\"\"\nx\n```").len(), 1);
        assert!(check("no blocks").is_empty());
    }

    #[test]
    fn blocks_are_played() {
        let check = |script: &str, until: Option<&str>, well: bool| {
            let played = run_block(&Block { line: 1, script: script.into(), until: until.map(Into::into) });
            assert_eq!(played.is_ok(), well, "{script}: {played:?}");
        };
        check("echo hello", None, true);
        check("false\necho hello", None, false);
        check("trap 'exit 0' INT; echo it is ready; while :; do sleep 1; done", Some("ready"), true);
        check("trap 'exit 3' INT; echo it is ready; while :; do sleep 1; done", Some("ready"), false);
        check("echo something else", Some("ready"), false);
    }
}
