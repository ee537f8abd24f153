use nix::sys::signal::Signal;
use nix::unistd::getpgrp;

use crate::family;
use crate::procfs::{self, Born, Process, Snapshot, Ticks};

/// The variable that marks every process of an attempt, also one that left its group: `<life>/<run>/<step>/<attempt>`.
pub(crate) const MARK: &str = "CADRAN_MARK";

/// Times a family is looked for and killed: each look finds what was forked since the one before, and a fork bomb
/// must not hold us for ever.
const ROUNDS_MAX: usize = 50;

/// What a sweep saw.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swept {
    /// Strays that were killed.
    pub(crate) killed: usize,
    /// It was not the moment: a start was going on.
    pub(crate) is_undone: bool,
}

/// Everything alive of one attempt: its leader's tree, its group, and adopted children with its mark.
///
/// As the subreaper of everything below us, we become the parent of what lost its own: a process that left the group
/// is either below one that did not, or our child.
pub(crate) fn family_of(leader: &Born, mark: &str) -> Vec<Process> {
    let snapshot = Snapshot::take();
    let me = std::process::id() as i32;
    let mut roots = Vec::new();
    for process in snapshot.processes.values() {
        let is_leader = process.pid == leader.pid && leader.at.contains(&process.began);
        let is_in_group = process.group == leader.pid && process.began >= *leader.at.start();
        let is_adopted = process.parent == me && !process.is_zombie && !family::is_leader(process.pid);
        if is_leader
            || is_in_group
            || is_adopted && procfs::variable(process.pid, MARK).as_deref() == Some(mark)
        {
            roots.push(process.pid);
        }
    }
    snapshot.below(roots)
}

/// Kills everything alive of one attempt, until a look finds nothing.
pub(crate) fn kill_family(leader: &Born, mark: &str) {
    for _ in 0..ROUNDS_MAX {
        let family = family_of(leader, mark);
        if family.is_empty() {
            return;
        }
        family.iter().for_each(|process| procfs::signal(process, Signal::SIGKILL));
    }
}

/// Kills adopted children whose attempt is over, and reaps the dead among them. `opened` is when the executor began.
pub(crate) fn sweep(life: &str, opened: Ticks, is_live: impl Fn(&str) -> bool) -> Swept {
    let snapshot = Snapshot::take();
    let me = std::process::id() as i32;
    let my_group = getpgrp().as_raw();
    let mut strays = Vec::new();
    let mut zombies = Vec::new();
    for child in
        snapshot.processes.values().filter(|child| child.parent == me && !family::is_leader(child.pid))
    {
        // Children in our own group were started by other parts of this program, which wait for them.
        if child.is_zombie {
            if child.group != my_group {
                zombies.push(*child);
            }
            continue;
        }
        let is_stray = match procfs::variable(child.pid, MARK) {
            Some(mark) => {
                mark.strip_prefix(life).is_some_and(|rest| rest.starts_with('/') && !is_live(&mark))
            }
            // It cleared its environment: it may go when no attempt is left that can have started it. What came
            // with us from before an `exec` is not ours, nor is all that the first process of a container adopts.
            None => {
                let is_ours = me != 1 && child.began > opened && child.group != my_group;
                is_ours && !family::has_leader_since(child.began)
            }
        };
        if is_stray {
            strays.push(child.pid);
        }
    }
    if strays.is_empty() && zombies.is_empty() {
        return Swept::default();
    }
    // Some of them may be our own that were just being started during the look.
    let Some(_quiet) = family::quiet() else { return Swept { killed: 0, is_undone: true } };
    strays.retain(|pid| !family::is_leader(*pid));
    zombies.retain(|zombie| !family::is_leader(zombie.pid));
    let strays = snapshot.below(strays);
    strays.iter().for_each(|process| procfs::signal(process, Signal::SIGKILL));
    zombies.iter().for_each(family::reap);
    Swept { killed: strays.len(), is_undone: false }
}

/// Kills what a server that is gone has left: the trees and groups of its leaders, and every process whose mark is of
/// a life that `is_gone` knows. Returns how many were found.
pub(crate) fn kill_left(leaders: &[Born], is_gone: impl Fn(&str) -> bool) -> usize {
    let mut total = 0;
    for _ in 0..ROUNDS_MAX {
        let snapshot = Snapshot::take();
        let mut roots = Vec::new();
        for process in snapshot.processes.values() {
            let is_led = leaders.iter().any(|leader| {
                // A group whose leader is gone is only ours for sure by its mark.
                leader.pid == process.group && snapshot.is_alive(leader)
            });
            let life_is_gone = || procfs::variable(process.pid, MARK).is_some_and(|mark| is_gone(&mark));
            if is_led || life_is_gone() {
                roots.push(process.pid);
            }
        }
        let mut left = snapshot.below(roots);
        // A server that a step of its previous life has started must not end itself.
        left.retain(|process| process.pid != std::process::id() as i32);
        if left.is_empty() {
            break;
        }
        total += left.len();
        left.iter().for_each(|process| procfs::signal(process, Signal::SIGKILL));
    }
    total
}
