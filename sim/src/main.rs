//! `cargo xtask sim`: plays seeds, shows how far it is, and says how to play a failure again.
#![forbid(unsafe_code)]

mod options;
mod show;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use cadran_sim::{Long, Sabotage, Scale, Script, Tally, Violation, play, shrink, shrink_drawn};
use nix::sys::signal::{SigSet, Signal};

use options::{Options, Work};
use show::{Show, Watch};

/// Scripts that are played to make a failing one shorter: a minute or so.
const TRIES_MAX: u32 = 600;

/// Days of a long simulation between two comparisons: a few hundred thousand dues are kept at a time.
const CHECK_DAYS: i64 = 20;

/// Set by Ctrl-C: what is on is left, and what was done is told.
static STOP: AtomicBool = AtomicBool::new(false);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("sim: {why}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    heed_signals();
    match options.work {
        Work::Help => {
            print!("{}", options::HELP);
            ExitCode::SUCCESS
        }
        Work::Bugs => hunt_sabotage(),
        Work::Hunt { from, to } => hunt(from, to),
        Work::Long { .. } => long(&options),
        Work::Seeds { .. } => seeds(&options),
    }
}

fn heed_signals() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    if signals.thread_block().is_ok() {
        let wait = move || {
            let _ = signals.wait();
            STOP.store(true, Ordering::Relaxed);
        };
        // It waits until the program ends.
        let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
    }
}

/// Plays every seed of a range on every core. The first failure ends it.
fn seeds(options: &Options) -> ExitCode {
    let Work::Seeds { from, to } = options.work else { return ExitCode::SUCCESS };
    let next = AtomicU64::new(from);
    let files = AtomicU64::new(0);
    let failed: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let show = Show::new(options.json, to - from);
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to || files.load(Ordering::Relaxed) >= options.files_max {
                        return;
                    }
                    let script = options.script(seed);
                    files.fetch_add(script.definitions(), Ordering::Relaxed);
                    match play(&script) {
                        Ok(tally) => show.done(&tally),
                        Err(violation) => {
                            let mut failed = lock(&failed);
                            if options.keep_going {
                                println!("seed {seed} breaks a law: {}", violation.law);
                            }
                            if failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                                *failed = Some((seed, violation));
                            }
                            if !options.keep_going {
                                next.store(to, Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    show.end(STOP.load(Ordering::Relaxed), failed.as_ref().map(|(seed, violation)| (*seed, violation)));
    let played = files.into_inner();
    if options.drawn && !options.json {
        println!("{played} drawn job files");
    }
    match failed {
        None => ExitCode::SUCCESS,
        Some((seed, violation)) => {
            tell(options, seed, violation);
            ExitCode::FAILURE
        }
    }
}

/// Says what failed, the shortest way to it, and how to play it again.
fn tell(options: &Options, seed: u64, violation: Violation) {
    let script = options.script(seed);
    println!("\nseed {seed} breaks a law: {violation}");
    println!("\nmaking its {} acts fewer…", script.len());
    let shrink = if options.drawn { shrink_drawn } else { shrink };
    let (short, violation) = shrink(&script, violation, TRIES_MAX);
    println!("\n{} acts still break it: {violation}\n", short.len());
    for line in short.lines() {
        println!("{line}");
    }
    println!("\nTo play it again:\n  {}", options.replay(seed));
}

/// A fleet over years, its jobs shared out among the cores.
fn long(options: &Options) -> ExitCode {
    let Work::Long { seed, jobs, days } = options.work else { return ExitCode::SUCCESS };
    let share = jobs.div_ceil(options.threads as u64);
    let show = Show::new(options.json, 0);
    let failed: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for part in 0..options.threads as u64 {
            let (show, failed) = (&show, &failed);
            scope.spawn(move || {
                let own = seed + part;
                if let Err(violation) = long_part(own, share, days, show) {
                    lock(failed).get_or_insert((own, violation));
                    STOP.store(true, Ordering::Relaxed);
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    show.end(STOP.load(Ordering::Relaxed), failed.as_ref().map(|(seed, violation)| (*seed, violation)));
    match failed {
        None => ExitCode::SUCCESS,
        Some((own, violation)) => {
            println!("\nseed {own} breaks a law: {violation}");
            println!(
                "\nTo play it again:\n  cargo xtask sim --long --replay {own} --jobs {share} --days {days} --threads 1"
            );
            ExitCode::FAILURE
        }
    }
}

fn long_part(seed: u64, jobs: u64, days: u64, show: &Show) -> Result<(), Violation> {
    let script = Script::long(seed, jobs, days);
    let mut long = Long::new(&script);
    let mut told = Tally::default();
    let mut goes_on = true;
    while goes_on && !STOP.load(Ordering::Relaxed) {
        goes_on = long.pass(CHECK_DAYS)?;
        let watch = Watch::start();
        if goes_on { long.check() } else { long.settle() }?;
        if goes_on {
            show.checked(long.tally().dues - told.dues, watch.secs());
        }
        show.add(&long.tally().since(&told));
        told = long.tally();
    }
    show.done(&Tally::default());
    Ok(())
}

/// Plays seeds, jobs drawn as values and as text, until one breaks a law, and says which.
fn hunt(from: u64, to: u64) -> ExitCode {
    let broken = (from..to).take_while(|_| !STOP.load(Ordering::Relaxed)).find_map(|seed| {
        let scripts = [Script::new(seed, Scale::SMALL), Script::drawn(seed, Scale::SMALL)];
        scripts.iter().find_map(|script| Some((seed, play(script).err()?)))
    });
    match broken {
        Some((seed, violation)) => {
            println!("seed {seed:4}  {}", violation.law);
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// Looks for every mistake around the engine, and tells at which seed it was found.
fn hunt_sabotage() -> ExitCode {
    let mut found = Vec::new();
    for (sabotage, name) in Sabotage::ALL {
        let seed = (1..=1_000).take_while(|_| !STOP.load(Ordering::Relaxed)).find_map(|seed| {
            let script = Script::drawn(seed, Scale::SMALL).sabotaged(*sabotage);
            Some((seed, play(&script).err()?))
        });
        match seed {
            Some((seed, violation)) => {
                println!("{name:32} seed {seed:4}  {}", violation.law);
                found.push(seed);
            }
            None => println!("{name:32} not found"),
        }
    }
    found.sort_unstable();
    let median = found.get(found.len() / 2).copied().unwrap_or_default();
    println!("{} of {} found, median seed {median}", found.len(), Sabotage::ALL.len());
    if found.len() == Sabotage::ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
