//! The command line.

use cadran_sim::{Sabotage, Scale, Script};

pub(crate) const HELP: &str = "\
Usage: cargo xtask sim [OPTIONS]

  --seeds A..B     Play these seeds (default 1..201); --seeds N is 1..N+1
  --replay SEED    Play one seed
  --days N         Simulated days of a seed (default: two and a half hours of five jobs)
  --jobs N         Names of jobs in a seed (default 5, with --days 12)
  --drawn          Jobs are drawn as text, every key of the reader, and read by the real reader
  --files N        With --drawn: end after so many job files
  --keep-going     Do not end at the first broken law: list every seed that breaks one
  --bug NAME       With a planted bug, or a mistake around the engine; its seeds are expected to fail
  --bugs           Look for every one of them and tell the seed at which it was found
  --hunt           Play seeds, drawn ones too, until one breaks a law, and say only which
  --long           Ten years of 1000 jobs, or as --days and --jobs say
  --threads N      How many at once (default: one for each core)
  --json           One line of JSON at the end

Exit codes: 0 no law broken, 1 a law broken, 2 the command line was not understood.
";

pub(crate) enum Work {
    Help,
    Seeds { from: u64, to: u64 },
    Long { seed: u64, jobs: u64, days: u64 },
    Bugs,
    Hunt { from: u64, to: u64 },
}

pub(crate) struct Options {
    pub(crate) work: Work,
    pub(crate) scale: Scale,
    /// A mistake around the engine.
    sabotage: Option<Sabotage>,
    /// Jobs are drawn as text.
    pub(crate) drawn: bool,
    /// Drawn job files after which it ends.
    pub(crate) files_max: u64,
    pub(crate) threads: usize,
    pub(crate) json: bool,
    /// Whether the seeds behind a broken law are played too.
    pub(crate) keep_going: bool,
    /// What to say beside the seed to play it again.
    again: String,
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
        let (mut seeds, mut days, mut jobs, mut bug) = ((1, 201), None, None, None);
        let (mut long, mut bugs, mut hunt, mut help, mut json) = (false, false, false, false, false);
        let (mut drawn, mut files_max) = (false, u64::MAX);
        let mut keep_going = false;
        let mut threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let mut value = || rest.next().cloned().ok_or_else(|| format!("{word} wants a value behind it"));
            match word.as_str() {
                "--seeds" => seeds = range(&value()?)?,
                "--replay" => {
                    let seed = number(&value()?)?;
                    seeds = (seed, seed + 1);
                }
                "--days" => days = Some(number(&value()?)?),
                "--jobs" => jobs = Some(number(&value()?)?.max(1)),
                "--bug" => bug = Some(value()?),
                "--threads" => threads = (number(&value()?)? as usize).clamp(1, 64),
                "--drawn" => drawn = true,
                "--files" => files_max = number(&value()?)?,
                "--bugs" => bugs = true,
                "--hunt" => hunt = true,
                "--long" => long = true,
                "--json" => json = true,
                "--keep-going" => keep_going = true,
                "--help" | "-h" => help = true,
                other => return Err(format!("what is {other} for?")),
            }
        }
        let named =
            |name: &String| Sabotage::ALL.iter().find(|(_, known)| known == name).map(|(bug, _)| *bug);
        let sabotage = bug.as_ref().and_then(named);
        drawn |= sabotage.is_some();
        if let Some(name) = bug.as_ref().filter(|_| sabotage.is_none()) {
            let known: Vec<&str> = Sabotage::ALL.iter().map(|(_, known)| *known).collect();
            return Err(format!(
                "there is no mistake {name} around the engine; there are: {}",
                known.join(", ")
            ));
        }
        let scale = match (days, jobs) {
            (None, None) => Scale::SMALL,
            (None, Some(jobs)) => Scale { jobs, ..Scale::SMALL },
            (Some(days), jobs) => Scale::days(days.max(1), jobs.unwrap_or(12)),
        };
        let mut again = String::new();
        for (flag, value) in [("--days", days), ("--jobs", jobs)] {
            again += &value.map(|value| format!(" {flag} {value}")).unwrap_or_default();
        }
        if drawn {
            again += " --drawn";
        }
        // A planted bug is switched on by the environment, which `cargo xtask sim` sets.
        let bug = bug.or_else(|| std::env::var("CADRAN_PLANTED").ok());
        again += &bug.map(|name| format!(" --bug {name}")).unwrap_or_default();
        let work = match () {
            () if help => Work::Help,
            () if bugs => Work::Bugs,
            () if hunt => Work::Hunt { from: seeds.0, to: seeds.1 },
            () if long => {
                Work::Long { seed: seeds.0, jobs: jobs.unwrap_or(1_000), days: days.unwrap_or(3_653) }
            }
            () => Work::Seeds { from: seeds.0, to: seeds.1 },
        };
        Ok(Options { work, scale, sabotage, drawn, files_max, threads, json, keep_going, again })
    }

    /// The script of a seed.
    pub(crate) fn script(&self, seed: u64) -> Script {
        let script = if self.drawn { Script::drawn(seed, self.scale) } else { Script::new(seed, self.scale) };
        match self.sabotage {
            Some(sabotage) => script.sabotaged(sabotage),
            None => script,
        }
    }

    /// The command that plays a seed again.
    pub(crate) fn replay(&self, seed: u64) -> String {
        format!("cargo xtask sim --replay {seed}{}", self.again)
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = match text.split_once("..") {
        Some((from, to)) => (number(from)?, number(to)?),
        None => (1, number(text)? + 1),
    };
    if from < to { Ok((from, to)) } else { Err(format!("{text} holds no seed")) }
}
