//! What does each rule of a fleet name within one hour? Computed once per rule, however many jobs follow it.

use cadran_cron::{Millis, Schedule, Stretch};

use super::fleet::{Rule, RuleKind, View};
use super::segment::SPAN_SECS;
use super::sort::dedup;

/// Minutes expanded at a time: as many as a mask has bits for.
pub(super) const STRETCH_MINUTES: usize = 60;

/// The segments one expansion fills, at most.
pub(super) const STRETCH_SEGMENTS: usize = STRETCH_MINUTES * 60 / SPAN_SECS;

/// From this many runs between seconds an hour on, a segment is expanded at a time: such dues are listed one by one,
/// and the lists should stay small beside the index.
const FINE_RUNS_PER_HOUR_MAX: u64 = 1 << 18;

/// The dues of one rule within the hour in hand, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dues {
    /// None.
    Never,
    /// The first second of each minute in the mask: by far the most common.
    Minutes(u64),
    /// Each second of the second mask in each minute of the first.
    Grid(u64, u64),
    /// Whatever no mask expresses: a range of milliseconds in [`Expansions`], rising.
    List(u32, u32),
}

/// The dues of every rule in use, for the hour in hand.
#[derive(Debug, Default)]
pub(super) struct Expansions {
    /// How many jobs follow each rule: first the schedules, then the sets.
    weights: Vec<u32>,
    sets_from: usize,
    dues: Vec<Dues>,
    list: Vec<u32>,
}

impl Expansions {
    /// Counts who follows what; once for a fleet.
    pub(super) fn weigh(&mut self, fleet: View<'_>) {
        let (schedules, sets) = fleet.ends();
        self.sets_from = schedules;
        self.weights.clear();
        self.weights.resize(schedules + sets, 0);
        for (_, rule) in fleet.rules() {
            if let Some(place) = self.place(rule) {
                self.weights[place] += 1;
            }
        }
    }

    /// How many segments to expand at a time.
    pub(super) fn step(&self, fleet: View<'_>) -> usize {
        let in_use = (0..self.weights.len()).filter(|&place| self.weights[place] > 0);
        let fine = in_use.map(|place| {
            let finer = fleet.schedules(self.rule(place)).filter(|schedule| schedule.is_subsecond());
            finer.map(|schedule| schedule.count(0, 3_600_000)).sum::<u64>() * u64::from(self.weights[place])
        });
        if fine.sum::<u64>() < FINE_RUNS_PER_HOUR_MAX { STRETCH_SEGMENTS } else { 1 }
    }

    /// Computes the dues of all rules in use within `[start, end)`, at most an hour, from a whole minute on.
    pub(super) fn expand(&mut self, fleet: View<'_>, start: Millis, end: Millis) {
        self.list.clear();
        self.dues.clear();
        for place in 0..self.weights.len() {
            let dues = if self.weights[place] == 0 {
                Dues::Never
            } else {
                let rule = self.rule(place);
                expand(fleet.schedules(rule), start, end, &mut self.list)
            };
            self.dues.push(dues);
        }
    }

    /// The rules in use with their dues and the number of jobs that follow them.
    pub(super) fn weighted(&self) -> impl Iterator<Item = (Dues, u32)> {
        self.dues.iter().copied().zip(self.weights.iter().copied()).filter(|&(dues, _)| dues != Dues::Never)
    }

    /// The dues of a rule.
    pub(super) fn dues(&self, rule: Rule) -> Dues {
        self.place(rule).map_or(Dues::Never, |place| self.dues[place])
    }

    /// The milliseconds of a list.
    pub(super) fn list(&self, from: u32, to: u32) -> &[u32] {
        &self.list[from as usize..to as usize]
    }

    fn place(&self, rule: Rule) -> Option<usize> {
        match rule.kind() {
            RuleKind::None => None,
            RuleKind::Schedule(number) => Some(number as usize),
            RuleKind::Set(number) => Some(self.sets_from + number as usize),
        }
    }

    fn rule(&self, place: usize) -> Rule {
        match place.checked_sub(self.sets_from) {
            None => Rule::schedule(place as u32),
            Some(set) => Rule::set(set as u32),
        }
    }
}

/// The union of some schedules' dues within `[start, end)`; lists are appended to `list`.
///
/// Masks are joined as long as the union of the joined ones is again a mask of minutes times a mask of seconds, which
/// holds for nearly everything people write; the rest is spelled out.
pub(super) fn expand<'s>(
    schedules: impl Iterator<Item = &'s Schedule>,
    start: Millis,
    end: Millis,
    list: &mut Vec<u32>,
) -> Dues {
    let from = list.len();
    let mut grid = (0, 0);
    for schedule in schedules {
        schedule.stretches(start, end, &mut |stretch: Stretch| match on_grid(stretch, start)
            .and_then(|next| joined(grid, next))
        {
            Some(union) => grid = union,
            None => stretch.each(&mut |due| list.push((due - start) as u32)),
        });
    }
    match grid {
        (0, _) if list.len() == from => return Dues::Never,
        (minutes, 1) if list.len() == from => return Dues::Minutes(minutes),
        (minutes, seconds) if list.len() == from => return Dues::Grid(minutes, seconds),
        (minutes, seconds) => {
            Stretch { base: 0, minutes, seconds }.each(&mut |due| list.push(due as u32));
        }
    }
    list[from..].sort_unstable();
    let kept = dedup(&mut list[from..]);
    list.truncate(from + kept);
    Dues::List(from as u32, list.len() as u32)
}

/// A stretch as masks counted from `start`, where it can be.
fn on_grid(stretch: Stretch, start: Millis) -> Option<(u64, u64)> {
    let lead = stretch.base - start;
    let (minute, milli) = (lead.div_euclid(60_000), lead.rem_euclid(60_000));
    // Every due lies inside the hour, so no bit is lost by shifting.
    let minutes = match minute {
        0..60 => stretch.minutes << minute,
        -59..0 => stretch.minutes >> -minute,
        _ => return None,
    };
    match milli {
        0 => Some((minutes, stretch.seconds)),
        // A single second may stand anywhere in the minute; a pattern would wrap into the next.
        _ if milli % 1000 == 0 && stretch.seconds == 1 => Some((minutes, 1 << (milli / 1000))),
        _ => None,
    }
}

fn joined(a: (u64, u64), b: (u64, u64)) -> Option<(u64, u64)> {
    match (a, b) {
        ((0, _), _) => Some(b),
        _ if a.1 == b.1 => Some((a.0 | b.0, a.1)),
        _ if a.0 == b.0 => Some((a.0, a.1 | b.1)),
        _ => None,
    }
}

/// All dues of a fleet in `[start, end)`, sorted; computed from the schedules, once for each rule.
pub(super) fn dues_between(fleet: View<'_>, start: Millis, end: Millis, dues: &mut Vec<(Millis, u32)>) {
    let first = dues.len();
    let mut expansions = Expansions::default();
    expansions.weigh(fleet);
    // Where each rule's instants lie.
    let mut instants = Vec::new();
    let ranges: Vec<(usize, usize)> = (0..expansions.weights.len())
        .map(|place| {
            let from = instants.len();
            if expansions.weights[place] > 0 {
                for schedule in fleet.schedules(expansions.rule(place)) {
                    schedule.walk(start, end, &mut |due| instants.push(due));
                }
            }
            (from, instants.len())
        })
        .collect();
    for (job, rule) in fleet.rules() {
        if let Some(place) = expansions.place(rule) {
            let (from, to) = ranges[place];
            dues.extend(instants[from..to].iter().map(|&due| (due, job)));
        }
    }
    dues[first..].sort_unstable();
    // Several schedules of one job may name the same instant.
    let kept = dedup(&mut dues[first..]);
    dues.truncate(first + kept);
}
