//! `cadran next`: when does it run?

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use cadran_core::{Millis, Schedule, ScheduleAction, Zone};
use cadran_cron::Dialect;
use cadran_spec::read_job;
use serde::{Deserialize, Serialize};

use super::time;
use crate::server::clock;

/// The most dues one question answers.
const COUNT_MAX: usize = 10_000;

/// The longest line `--stdin` reads.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// Show the next dues of an expression or a job file.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  cadran next '*/15 9-17 * * MON-FRI' --timezone Europe/Paris\n  \
cadran next 'every 90s' -n 3 --from 2026-01-01T00:00:00Z\n  cadran next jobs/backup.yaml\n  \
echo '{\"expr\":\"@daily\",\"timezone\":\"Asia/Tokyo\",\"count\":2}' | cadran next --stdin")]
pub struct Args {
    /// A cron expression, `every 90s`, `at 2026-01-01T00:00:00Z`, or the path of a job file.
    #[arg(required_unless_present = "stdin")]
    what: Option<String>,
    /// How many dues.
    #[arg(short = 'n', long = "count", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    count: u16,
    /// Strictly after this instant (RFC 3339, or a civil time in the zone).
    #[arg(long, default_value = "now")]
    from: String,
    /// IANA zone of an expression without one of its own.
    #[arg(long, default_value = "UTC")]
    timezone: String,
    /// How the expression is read: cadran, vixie, seconds, quartz or dagu.
    #[arg(long, default_value = "cadran")]
    dialect: String,
    /// JSON instead of text.
    #[arg(long)]
    json: bool,
    /// Read questions as JSON lines {"expr","timezone","from","count"}, answer each with {"times":[…]} or
    /// {"error":"…"}.
    #[arg(long, conflicts_with = "what")]
    stdin: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.stdin {
        return answer_lines(args);
    }
    let zone = zone(&args.timezone)?;
    let from = time::parse(&args.from, &zone, clock::wall()).map_err(anyhow::Error::msg)?;
    let what = args.what.as_deref().unwrap_or_default();
    let schedules =
        if is_file(what) { of_file(what, &zone)? } else { vec![parse(what, &zone, &args.dialect)?] };
    let dues = next(&schedules, from, usize::from(args.count));
    let mut out = std::io::stdout().lock();
    if args.json {
        let times: Vec<String> = dues.iter().map(|&due| time::utc(due)).collect();
        serde_json::to_writer(&mut out, &Answer::Times { times })?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    for schedule in &schedules {
        let (words, zone) = (schedule.describe().to_string(), schedule.zone().name());
        // A zone other than UTC stands in the description already.
        let rest = if words.contains(zone) { String::new() } else { format!(", {zone}") };
        writeln!(out, "{words}{rest}")?;
    }
    if dues.is_empty() {
        writeln!(out, "no due after {}", time::utc(from))?;
    }
    for &due in &dues {
        let zone = schedules.first().map_or(&zone, |schedule| schedule.zone());
        writeln!(out, "  {}   {}", time::utc(due), time::local(due, zone))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn zone(name: &str) -> anyhow::Result<Zone> {
    Zone::get(name).map_err(|error| anyhow::anyhow!("{error}"))
}

fn is_file(what: &str) -> bool {
    let yaml = what.ends_with(".yaml") || what.ends_with(".yml");
    yaml || (what.contains(std::path::MAIN_SEPARATOR) && Path::new(what).is_file())
}

fn parse(text: &str, zone: &Zone, dialect: &str) -> anyhow::Result<Schedule> {
    let Some(dialect) = Dialect::from_name(dialect) else {
        bail!("there is no dialect {dialect:?}; there are cadran, vixie, seconds, quartz and dagu");
    };
    Schedule::parse(text, zone, dialect).map_err(|error| {
        let mut message = format!("{error}\n  {text}\n  ");
        message.push_str(&" ".repeat(error.column().saturating_sub(1)));
        message.push_str(&"^".repeat(error.len().max(1)));
        if let Some(help) = error.help() {
            message.push_str(&format!("\nhelp: {help}"));
        }
        anyhow::Error::msg(message)
    })
}

fn of_file(path: &str, zone: &Zone) -> anyhow::Result<Vec<Schedule>> {
    let text = super::files::read(path.as_ref())?;
    let stem = Path::new(path).file_stem().and_then(|stem| stem.to_str()).unwrap_or("job");
    let options = super::files::options(zone.clone());
    let options = super::files::beside(path.as_ref(), &options)?;
    let parsed = read_job(&text, stem, &options).map_err(|problems| {
        let text = String::from_utf8_lossy(&text);
        let rendered: Vec<String> =
            problems.iter().map(|problem| problem.render(path, &text, false)).collect();
        anyhow::Error::msg(rendered.join("\n"))
    })?;
    let starts = parsed.job.schedules.iter().filter(|entry| entry.action == ScheduleAction::Start);
    Ok(starts.map(|entry| (*entry.schedule).clone()).collect())
}

/// The dues of all schedules together, each instant once.
fn next(schedules: &[Schedule], from: Millis, count: usize) -> Vec<Millis> {
    let mut dues = Vec::new();
    let mut after = from;
    while dues.len() < count {
        let Some(due) = schedules.iter().filter_map(|schedule| schedule.next(after)).min() else { break };
        dues.push(due);
        after = due;
    }
    dues
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    expr: String,
    timezone: Option<String>,
    from: Option<String>,
    count: Option<usize>,
    dialect: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Times { times: Vec<String> },
    Error { error: String },
}

fn answer_lines(args: &Args) -> anyhow::Result<ExitCode> {
    let mut input = std::io::stdin().lock();
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        let bounded = &mut std::io::Read::take(&mut input, LINE_BYTES_MAX as u64);
        if bounded.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let whole = line.ends_with(b"\n");
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = if !whole && line.len() == LINE_BYTES_MAX {
            skip_line(&mut input)?;
            Err(format!("a line has at most {LINE_BYTES_MAX} bytes"))
        } else {
            answer(&line, args)
        };
        let answer = answer.map_or_else(|error| Answer::Error { error }, |times| Answer::Times { times });
        serde_json::to_writer(&mut out, &answer)?;
        // One answer per question, at once: the other side may be waiting for it.
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads past the rest of an overlong line without keeping it.
fn skip_line(input: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let chunk = input.fill_buf()?;
        if chunk.is_empty() {
            return Ok(());
        }
        match chunk.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                input.consume(end + 1);
                return Ok(());
            }
            None => {
                let len = chunk.len();
                input.consume(len);
            }
        }
    }
}

fn answer(line: &[u8], args: &Args) -> Result<Vec<String>, String> {
    let question: Question = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let zone = Zone::get(question.timezone.as_deref().unwrap_or(&args.timezone))
        .map_err(|error| error.to_string())?;
    let from = question.from.as_deref().unwrap_or(&args.from);
    let from = time::parse(from, &zone, clock::wall())?;
    let count = question.count.unwrap_or(usize::from(args.count));
    if count > COUNT_MAX {
        return Err(format!("count is at most {COUNT_MAX}; {count} was asked for"));
    }
    let dialect = question.dialect.as_deref().unwrap_or(&args.dialect);
    let dialect = Dialect::from_name(dialect).ok_or_else(|| format!("there is no dialect {dialect:?}"))?;
    let schedule = Schedule::parse(&question.expr, &zone, dialect)
        .map_err(|error| format!("{error} (column {})", error.column()))?;
    Ok(next(&[schedule], from, count).into_iter().map(time::utc).collect())
}
