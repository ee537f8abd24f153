//! Waiting: watching one key eagerly, or standing in line for all keys with a ticket; and what a release lets go on.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::counts::Counts;
use super::{Blocked, Cell, EntryId, Key, Owner, PLACE_MAX, Rank, Reservations, State, Use, Why};
use crate::Mode;

/// Tickets passed over at one key while looking for those that may go on. Far behind one that is stopped, whoever could
/// go on waits a little longer: the work of one release stays bounded.
const PASS_MAX: u32 = 1_000;

/// Tickets looked at to find one that is in the way. The first nearly always is; where it is not, naming it is near enough.
const LOOK_MAX: usize = 16;

/// How an owner waits.
#[derive(Clone, Copy, Default)]
pub(super) struct Wait {
    pub(super) rank: Rank,
    /// The number of its arrival.
    pub(super) arrival: u64,
    /// The number of its ticket; 0 without one.
    pub(super) ticket: u64,
    /// Tries it lost.
    pub(super) tries: u32,
}

impl Wait {
    fn urgency(&self) -> Urgency {
        (self.rank, self.arrival)
    }
}

/// Who is tried first: the lowest rank, then the earliest.
type Urgency = (Rank, u64);

/// The waiters of one key.
#[derive(Default)]
pub(super) struct Line {
    /// How those with a ticket will use the key.
    pub(super) counts: Counts,
    /// Those with a ticket, in order.
    tickets: VecDeque<(u64, EntryId)>,
    watchers: Vec<Watchers>,
}

/// Those that watch one key and want the same of it, the most urgent first: what stops one of them stops all.
struct Watchers {
    want: u32,
    queue: VecDeque<(Urgency, EntryId)>,
}

/// Writes and claims are stopped by the same; of a pool, it is the units that differ.
fn want(wanted: Use) -> u32 {
    match wanted.mode {
        Mode::Units => wanted.units,
        Mode::Claim => Mode::Write as u32,
        mode => mode as u32,
    }
}

impl Line {
    fn is_empty(&self) -> bool {
        self.tickets.is_empty() && self.watchers.iter().all(|watchers| watchers.queue.is_empty())
    }

    /// Those that watch for this; made when there are none yet.
    fn watchers_mut(&mut self, want: u32) -> &mut VecDeque<(Urgency, EntryId)> {
        let same = self.watchers.iter().position(|watchers| watchers.want == want);
        let at = same.or_else(|| self.watchers.iter().position(|watchers| watchers.queue.is_empty()));
        let at = at.unwrap_or_else(|| {
            self.watchers.push(Watchers { want, queue: VecDeque::new() });
            self.watchers.len() - 1
        });
        self.watchers[at].want = want;
        &mut self.watchers[at].queue
    }

    fn tickets_before(&self, ticket: u64) -> impl Iterator<Item = EntryId> {
        self.tickets.iter().take_while(move |(number, _)| *number < ticket).map(|&(_, entry)| entry)
    }
}

/// The number of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LineId(u32);

/// The lines of all keys that anybody waits for. They are used again, with their memory.
#[derive(Default)]
pub(super) struct Lines {
    lines: Vec<Line>,
    vacant: Vec<LineId>,
    /// Tickets that have all they stood in line for, while keys are served.
    complete: Vec<(u64, Owner)>,
    /// The most urgent watcher of each key and want that may go on, while keys are served.
    fronts: BinaryHeap<Reverse<(Urgency, Key, u32)>>,
}

impl Lines {
    fn open(&mut self) -> LineId {
        self.vacant.pop().unwrap_or_else(|| {
            self.lines.push(Line::default());
            LineId((self.lines.len() - 1) as u32)
        })
    }

    #[inline]
    pub(super) fn at(&self, line: LineId) -> &Line {
        &self.lines[line.0 as usize]
    }

    fn at_mut(&mut self, line: LineId) -> &mut Line {
        &mut self.lines[line.0 as usize]
    }
}

impl Reservations {
    /// The line of a key, opened when there is none yet.
    fn line_mut(&mut self, key: Key) -> &mut Line {
        let line = *self.cells[key.0 as usize].line.get_or_insert_with(|| self.lines.open());
        self.lines.at_mut(line)
    }

    /// Closes the line of a key when nobody is left in it.
    fn close_empty_line(&mut self, key: Key) {
        let cell = &mut self.cells[key.0 as usize];
        if let Some(line) = cell.line.take_if(|line| self.lines.at(*line).is_empty()) {
            self.lines.vacant.push(line);
        }
    }

    /// Lets an owner watch the key of the entry at a place.
    pub(super) fn watch(&mut self, slot: u32, at: u32) {
        let entry = EntryId { slot, at };
        self.slots.at_mut(slot).state = State::Watches(at);
        let (urgency, wanted) = (self.slots.at(slot).wait.urgency(), self.slots.entry(entry).wanted);
        let queue = self.line_mut(wanted.key).watchers_mut(want(wanted));
        // Mostly whoever comes later is less urgent.
        let behind = queue.iter().rev().take_while(|(other, _)| *other > urgency).count();
        queue.insert(queue.len() - behind, (urgency, entry));
    }

    /// Lets an entry watch no more.
    pub(super) fn stop_watching(&mut self, entry: EntryId) {
        let (urgency, wanted) = (self.slots.at(entry.slot).wait.urgency(), self.slots.entry(entry).wanted);
        let queue = self.line_mut(wanted.key).watchers_mut(want(wanted));
        if let Ok(at) = queue.binary_search_by_key(&urgency, |(urgency, _)| *urgency) {
            queue.remove(at);
        }
        self.close_empty_line(wanted.key);
    }

    /// Puts a waiter in line for all its keys at once. What is free is its own from now on.
    pub(super) fn take_ticket(&mut self, slot: u32) {
        self.numbers += 1;
        let ticket = self.numbers;
        self.slots.at_mut(slot).wait.ticket = ticket;
        let mut in_line = 0;
        for entry in self.slots.entries(slot) {
            let wanted = self.slots.entry(entry).wanted;
            if !self.is_blocked(wanted) {
                self.mark(entry);
                continue;
            }
            in_line += 1;
            self.slots.entry_mut(entry).in_line = true;
            let line = self.line_mut(wanted.key);
            line.counts.add(wanted.mode, wanted.units);
            line.tickets.push_back((ticket, entry));
        }
        self.slots.at_mut(slot).state = State::InLine(in_line);
    }

    /// Takes away the marks of an owner with a ticket, and its places in line.
    pub(super) fn leave_lines(&mut self, slot: u32) {
        let ticket = self.slots.at(slot).wait.ticket;
        for id in self.slots.entries(slot) {
            let entry = *self.slots.entry(id);
            if !entry.in_line {
                self.unmark(id);
                continue;
            }
            let line = self.line_mut(entry.wanted.key);
            if let Ok(at) = line.tickets.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
                line.tickets.remove(at);
                line.counts.subtract(entry.wanted.mode, entry.wanted.units);
            }
            self.freed.push(entry.wanted.key);
        }
    }

    /// Lets go on whoever can, now that keys were given back: first those in line, then those that watch.
    pub(super) fn serve(&mut self, granted: &mut Vec<Owner>) {
        if self.freed.is_empty() {
            return;
        }
        let mut freed = std::mem::take(&mut self.freed);
        for &key in &freed {
            self.advance(key);
        }
        self.lines.complete.sort_unstable();
        granted.extend(self.lines.complete.drain(..).map(|(_, owner)| owner));
        self.serve_watchers(&freed, granted);
        for &key in &freed {
            self.close_empty_line(key);
        }
        freed.clear();
        self.freed = freed;
    }

    /// Gives a key to those in line for it that nothing before them stops.
    fn advance(&mut self, key: Key) {
        let cell = &mut self.cells[key.0 as usize];
        let Some(LineId(line)) = cell.line else { return };
        let line = &mut self.lines.lines[line as usize];
        let capacity = self.keys.capacity(key);
        let (mut at, mut before) = (0, Counts::ZERO);
        while let Some(&(ticket, entry)) = line.tickets.get(at) {
            let Use { mode, units, .. } = self.slots.entry(entry).wanted;
            let stopped = match capacity {
                Some(capacity) => cell.held.lacks(units, capacity),
                None => cell.held.and(before).excludes(mode),
            };
            if stopped {
                at += 1;
                before.add(mode, units);
                // Of a pool, the first that lacks units stops all. Of other keys, go on while some in line could.
                let nobody_fits = cell.held.and(before).excludes_all(line.counts);
                if capacity.is_some() || at == PASS_MAX as usize || nobody_fits {
                    return;
                }
                continue;
            }
            line.tickets.remove(at);
            line.counts.subtract(mode, units);
            cell.held.add(mode, units);
            self.slots.entry_mut(entry).in_line = false;
            self.slots.link(&mut cell.first, entry);
            let slot = self.slots.at_mut(entry.slot);
            if let State::InLine(in_line) = &mut slot.state {
                *in_line -= 1;
                if *in_line == 0 {
                    slot.state = State::Holds;
                    self.lines.complete.push((ticket, slot.owner));
                }
            }
        }
    }

    /// Tries those that watch the keys that were given back, the most urgent first.
    fn serve_watchers(&mut self, freed: &[Key], granted: &mut Vec<Owner>) {
        let mut fronts = std::mem::take(&mut self.lines.fronts);
        for &key in freed {
            let line = self.cell(key).line.map(|line| self.lines.at(line));
            for watchers in line.into_iter().flat_map(|line| &line.watchers) {
                fronts.extend(
                    watchers.queue.front().map(|(urgency, _)| Reverse((*urgency, key, watchers.want))),
                );
            }
        }
        while let Some(Reverse((urgency, key, want))) = fronts.pop() {
            let Some(line) = self.cell(key).line else { continue };
            let queue = self.lines.at_mut(line).watchers_mut(want);
            let Some(&(_, entry)) = queue.front().filter(|front| front.0 == urgency) else { continue };
            if self.is_blocked(self.slots.entry(entry).wanted) {
                // What stops it stops all that want the same, and nothing more is given back meanwhile.
                continue;
            }
            let queue = self.lines.at_mut(line).watchers_mut(want);
            queue.pop_front();
            fronts.extend(queue.front().map(|(urgency, _)| Reverse((*urgency, key, want))));
            self.try_again(entry.slot, granted);
        }
        self.lines.fronts = fronts;
    }

    /// Tries one that watched until now.
    fn try_again(&mut self, slot: u32, granted: &mut Vec<Owner>) {
        let entries = &self.slots.at(slot).entries;
        let Some(stopped) = entries.iter().position(|entry| self.is_blocked(entry.wanted)) else {
            self.slots.entries(slot).for_each(|entry| self.mark(entry));
            let slot = self.slots.at_mut(slot);
            slot.state = State::Holds;
            granted.push(slot.owner);
            return;
        };
        let wait = &mut self.slots.at_mut(slot).wait;
        wait.tries += 1;
        if wait.tries >= self.limits.tries_max {
            self.take_ticket(slot);
        } else {
            self.watch(slot, stopped as u32);
        }
    }

    /// Why an owner waits; none when it does not.
    pub fn why(&self, owner: Owner) -> Option<Why> {
        let slot = self.slots.at(*self.slot_of.get(&owner)?);
        let (at, ticket) = match slot.state {
            State::Vacant | State::Holds => return None,
            State::Watches(at) => (at as usize, None),
            State::InLine(_) => {
                (slot.entries.iter().position(|entry| entry.in_line)?, Some(slot.wait.ticket))
            }
        };
        let wanted = slot.entries[at].wanted;
        let line = self.lines.at(self.cell(wanted.key).line?);
        let place = match ticket {
            Some(ticket) => line.tickets_before(ticket).take(PLACE_MAX as usize).count(),
            None => {
                let before = |(urgency, _): &&(Urgency, EntryId)| *urgency < slot.wait.urgency();
                let queues = line.watchers.iter().map(|watchers| &watchers.queue);
                queues.flat_map(|queue| queue.iter().take_while(before)).take(PLACE_MAX as usize).count()
            }
        };
        let blocked = self.blocked_at(wanted, ticket);
        Some(Why { blocked, ticket: ticket.is_some(), place: place as u32, tries: slot.wait.tries })
    }

    /// What stops a use that is stopped. With a ticket, only those before it count.
    pub(super) fn blocked_at(&self, wanted: Use, ticket: Option<u64>) -> Blocked {
        let Cell { held, first, line, .. } = *self.cell(wanted.key);
        let by_holder = held.excludes(wanted.mode) || wanted.mode == Mode::Units;
        let tickets = || {
            let line = line.map(|line| self.lines.at(line));
            line.into_iter().flat_map(|line| line.tickets_before(ticket.unwrap_or(u64::MAX)))
        };
        let at = if by_holder && first != EntryId::NONE {
            first
        } else {
            let excludes = |entry: &EntryId| self.slots.entry(*entry).wanted.mode.excludes(wanted.mode);
            tickets().take(LOOK_MAX).find(excludes).or_else(|| tickets().next()).unwrap_or(first)
        };
        let slot = self.slots.at(at.slot);
        Blocked {
            key: wanted.key,
            wanted: wanted.mode,
            mode: slot.entries[at.at as usize].wanted.mode,
            holder: slot.owner,
            in_line: slot.state != State::Holds,
        }
    }
}
