//! What happens in a simulation, drawn from its seed before it begins: a list of acts that can be shortened.

use std::fmt;
use std::sync::Arc;

use cadran_core::{Job, Millis, Zone};
use cadran_spec::ScheduleText;

use crate::dice::Dice;
use crate::fleet::{self, DAY, HOUR, Kind, MIN, SEC};
use crate::job_text::JobFile;
use crate::law::Violation;
use crate::oracle;
use crate::sabotage::Sabotage;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// How long the script lasts, in simulated time.
    pub span_ms: Millis,
    /// How many names of jobs there are.
    pub jobs: u64,
    /// How many acts, beside the jobs that are put first.
    pub acts: u64,
}

impl Scale {
    /// Two and a half hours of five jobs: small enough for a thousand seeds in a few seconds.
    pub const SMALL: Scale = Scale { span_ms: 150 * MIN, jobs: 5, acts: 50 };

    /// So many days of so many jobs, with about two acts an hour beside a stormy first hour.
    pub fn days(days: u64, jobs: u64) -> Scale {
        Scale { span_ms: days as Millis * DAY, jobs, acts: 40 + 48 * days + 2 * jobs }
    }
}

/// One thing that happens.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A job file is written: the number of its definition.
    Put(usize),
    Remove(u64),
    /// A job file gets another name: the number of the definition under the new one.
    Rename(u64, usize),
    Pause(u64),
    Resume(u64),
    Trigger(u64),
    /// One of the newest runs.
    Stop(u64),
    Retry(u64),
    /// The server is killed, and back after so long.
    Crash(Millis),
    /// The server is killed after so many further effects: promises sent, commits, answers, orders, reports.
    CrashAfter(u64, Millis),
    /// The server is asked to end, and back after so long.
    Restart(Millis),
    /// The wall clock is set.
    Clock(Millis),
    /// The wall clock stands still; then it leaps to the true time, or goes on from where it stood.
    Freeze(Millis, bool),
    /// The loop does not turn.
    Stall(Millis),
    /// Nothing can be written.
    StoreDown(Millis),
    /// Every commit takes so long, for a while.
    StoreSlow(Millis, Millis),
    /// Every attempt that is on vanishes; nobody says so when it is silent.
    ExecutorLoss(bool),
    /// Reports are lost, repeated and slow for so long.
    Storm(Millis),
}

/// A whole simulation before it begins.
#[derive(Clone, Debug)]
pub struct Script {
    pub(crate) seed: u64,
    pub(crate) start: Millis,
    pub(crate) span_ms: Millis,
    pub(crate) definitions: Arc<[Job]>,
    /// What is done wrong around the engine, on purpose.
    pub(crate) sabotage: Option<Sabotage>,
    /// The schedules of each definition as they were written.
    pub(crate) schedules: Arc<[Vec<ScheduleText>]>,
    /// The job file that each definition was read from; empty when they were not made as text.
    pub(crate) files: Arc<[JobFile]>,
    /// When, from the start, and what.
    pub(crate) acts: Vec<(Millis, Act)>,
}

/// Makes a definition of job `no` in some zones, for a simulation that begins at an instant, and says its number.
pub(crate) type Define<'d> = dyn FnMut(&mut Dice, u64, &[Zone], Millis) -> usize + 'd;

impl Script {
    /// The script of a seed.
    pub fn new(seed: u64, scale: Scale) -> Script {
        let (mut definitions, mut schedules) = (Vec::new(), Vec::new());
        let mut define = |dice: &mut Dice, no: u64, zones: &[Zone], _: Millis| {
            let (job, texts) = fleet::job(dice, no, zones, Kind::Busy);
            definitions.push(job);
            schedules.push(texts);
            definitions.len() - 1
        };
        let (start, acts) = Script::compose(seed, scale, &mut define);
        let (span_ms, files) = (scale.span_ms, Arc::default());
        let (definitions, schedules) = (definitions.into(), schedules.into());
        Script { seed, start, span_ms, definitions, schedules, files, acts, sabotage: None }
    }

    /// When it begins and what happens in it. `define` makes a definition of a job and says its number.
    pub(crate) fn compose(seed: u64, scale: Scale, define: &mut Define<'_>) -> (Millis, Vec<(Millis, Act)>) {
        let mut dice = Dice::of(&[seed]);
        let zones: Vec<Zone> = (0..3).map(|_| fleet::zone(dice.draw())).collect();
        let start = start(&mut dice, &zones[0], scale.span_ms);
        let mut acts = Vec::new();
        for no in 0..scale.jobs {
            if no < 2 || dice.percent(80) {
                let put = Act::Put(define(&mut dice, no, &zones, start));
                acts.push((dice.between(0, 20 * SEC), put));
            }
        }
        for _ in 0..scale.acts {
            // Half of them close behind another: faults on top of faults find more.
            let at = match acts.last() {
                Some((last, _)) if dice.percent(50) => {
                    last + dice.pick(&[0, 5, 700, 4 * SEC, 30 * SEC, 2 * MIN])
                }
                _ => dice.between(0, scale.span_ms),
            };
            let act = act(&mut dice, scale.jobs, &mut |dice, no| define(dice, no, &zones, start));
            acts.push((at.min(scale.span_ms), act));
        }
        acts.sort_by_key(|(at, _)| *at);
        (start, acts)
    }

    /// The definitions that its acts use.
    pub(crate) fn used_definitions(&self) -> Vec<usize> {
        let puts = self.acts.iter().filter_map(|(_, act)| match act {
            Act::Put(no) | Act::Rename(_, no) => Some(*no),
            _ => None,
        });
        puts.collect()
    }

    /// The same script with a mistake around the engine.
    pub fn sabotaged(self, sabotage: Sabotage) -> Script {
        Script { sabotage: Some(sabotage), ..self }
    }

    /// A definition as the engine is given it.
    pub(crate) fn definition(&self, no: usize) -> Job {
        let job = &self.definitions[no];
        self.sabotage.map_or_else(|| job.clone(), |sabotage| sabotage.job(job))
    }

    /// Every schedule names what a plain reading of its text names, over all the time that the script can touch.
    pub(crate) fn check_schedules(&self) -> Result<(), Violation> {
        let jumps: Millis =
            self.acts.iter().map(|(_, act)| if let Act::Clock(by) = act { by.abs() } else { 0 }).sum();
        let (from, to) = (self.start - jumps.min(HOUR), self.start + self.span_ms + jumps + HOUR);
        for no in self.used_definitions() {
            oracle::agree(&self.definition(no).schedules, &self.schedules[no], from, to)?;
        }
        Ok(())
    }

    /// How many acts it has.
    pub fn len(&self) -> usize {
        self.acts.len()
    }

    /// Whether nothing happens in it.
    pub fn is_empty(&self) -> bool {
        self.acts.is_empty()
    }

    /// The acts, one on a line, with their times from the start.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.acts.iter().map(|(at, act)| {
            let clock = format!(
                "{:>3}d {:02}:{:02}:{:02}.{:03}",
                at / DAY,
                at % DAY / HOUR,
                at % HOUR / MIN,
                at % MIN / SEC,
                at % SEC
            );
            match act {
                Act::Put(no) | Act::Rename(_, no) if !self.files.is_empty() => {
                    let file = &self.files[*no];
                    format!("{clock}  {act} {}:\n{}", file.name, file.value.file())
                }
                Act::Put(no) | Act::Rename(_, no) => {
                    let job = &self.definitions[*no];
                    let rules: Vec<String> = job
                        .schedules
                        .iter()
                        .map(|entry| {
                            let zone = entry.schedule.zone().name();
                            format!(
                                "{:?} {:?} dst {} in {zone}",
                                entry.action,
                                entry.schedule.describe(),
                                entry.schedule.dst().name()
                            )
                        })
                        .collect();
                    let policy = &job.policy;
                    format!(
                        "{clock}  {act} {}: {}; misfire {} window {} s overlap {}{}{}",
                        job.name,
                        rules.join(" | "),
                        policy.misfire.word(),
                        policy.catchup_window_ms / SEC,
                        policy.overlap.word(),
                        if policy.at_most_once { " at most once" } else { "" },
                        if policy.skip_if_successful { " skip if successful" } else { "" },
                    )
                }
                _ => format!("{clock}  {act}"),
            }
        })
    }
}

/// Near a change of the clocks, as often as not.
fn start(dice: &mut Dice, zone: &Zone, span_ms: Millis) -> Millis {
    // 2024-01-01 to 2036-01-01.
    let any = dice.between(1_704_067_200_000 / SEC, 2_082_758_400_000 / SEC) * SEC + dice.between(0, 999);
    if dice.percent(50) {
        return any;
    }
    let changed = |at: &Millis| zone.offset_at(*at) != zone.offset_at(*at + HOUR);
    let hour = (0..366 * 24).map(|hour| any + hour * HOUR).find(changed);
    hour.map_or(any, |at| at - dice.between(0, (span_ms / 2).min(12 * HOUR)))
}

fn act(dice: &mut Dice, jobs: u64, define: &mut dyn FnMut(&mut Dice, u64) -> usize) -> Act {
    let job = dice.roll(jobs);
    match dice.roll(34) {
        0..=4 => Act::Put(define(dice, job)),
        5 | 6 => Act::Remove(job),
        7 => {
            let to = dice.roll(jobs);
            Act::Rename(job, define(dice, to))
        }
        8 | 9 => Act::Pause(job),
        10..=12 => Act::Resume(job),
        13 | 14 => Act::Trigger(job),
        15 => Act::Stop(dice.draw()),
        16 | 17 => Act::Retry(dice.draw()),
        18 | 19 => Act::Crash(dice.pick(&[0, 2 * SEC, 8 * SEC, 40 * SEC, 10 * MIN, 3 * HOUR])),
        20..=22 => Act::CrashAfter(dice.roll(14), dice.pick(&[0, 3 * SEC, 15 * SEC, 5 * MIN])),
        23 => Act::Restart(dice.pick(&[0, 4 * SEC, 2 * MIN])),
        24 | 25 => Act::Clock(dice.pick(&[-HOUR, -5 * SEC, -90 * SEC, 7 * SEC, 90 * SEC, HOUR, DAY])),
        26 => Act::Freeze(dice.pick(&[3 * SEC, MIN, 10 * MIN]), dice.percent(50)),
        27 => Act::Stall(dice.pick(&[3 * SEC, 7 * SEC, 12 * SEC, 45 * SEC, 20 * MIN])),
        28 | 29 => Act::StoreDown(dice.pick(&[SEC, 6 * SEC, 14 * SEC, 3 * MIN])),
        30 => Act::StoreSlow(dice.pick(&[300, 2 * SEC]), dice.pick(&[10 * SEC, 5 * MIN])),
        31 => Act::ExecutorLoss(dice.percent(30)),
        _ => Act::Storm(dice.pick(&[MIN, 10 * MIN, HOUR])),
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = |millis: &Millis| format!("{}.{:03} s", millis / SEC, millis.abs() % SEC);
        match self {
            Act::Put(_) => write!(f, "put"),
            Act::Remove(job) => write!(f, "remove j{job}"),
            Act::Rename(job, _) => write!(f, "rename j{job} to"),
            Act::Pause(job) => write!(f, "pause j{job}"),
            Act::Resume(job) => write!(f, "resume j{job}"),
            Act::Trigger(job) => write!(f, "trigger j{job}"),
            Act::Stop(_) => write!(f, "stop one of the newest runs"),
            Act::Retry(_) => write!(f, "retry one of the newest runs"),
            Act::Crash(down) => write!(f, "kill the server, back after {}", secs(down)),
            Act::CrashAfter(effects, down) => {
                write!(f, "kill the server after {effects} more effects, back after {}", secs(down))
            }
            Act::Restart(down) => write!(f, "end the server in good order, back after {}", secs(down)),
            Act::Clock(by) => write!(f, "set the clock by {}", secs(by)),
            Act::Freeze(long, true) => write!(f, "the clock stands still for {}, then leaps", secs(long)),
            Act::Freeze(long, false) => write!(f, "the clock stands still for {}, then goes on", secs(long)),
            Act::Stall(long) => write!(f, "the loop stalls for {}", secs(long)),
            Act::StoreDown(long) => write!(f, "the store is away for {}", secs(long)),
            Act::StoreSlow(each, long) => write!(f, "commits take {} for {}", secs(each), secs(long)),
            Act::ExecutorLoss(false) => write!(f, "every attempt is lost"),
            Act::ExecutorLoss(true) => write!(f, "every attempt is lost, and nobody says so"),
            Act::Storm(long) => write!(f, "reports are lost, repeated and slow for {}", secs(long)),
        }
    }
}
