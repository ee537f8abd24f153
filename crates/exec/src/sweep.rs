use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::getpgrp;
use tokio::sync::Mutex;

use crate::cgroup;
use crate::family::{self, Leader, Origin};
use crate::procfs::{self, Born, Process, Snapshot, Ticks};

/// The variable that marks every process of an attempt, also one that left its group: `<life>/<run>/<step>/<attempt>`.
pub(crate) const MARK: &str = "CADRAN_MARK";

/// Times a family is looked for and killed: each look finds what was forked since the one before, and a fork bomb
/// must not hold us for ever.
const ROUNDS_MAX: u32 = 50;

/// Looks that are taken again only because a process is in the middle of an `exec`: two seconds, for a busy machine.
const EXEC_LOOKS_MAX: u32 = 400;

/// From the third look on: what was killed needs a moment to give back its memory.
const ROUND_PAUSE: Duration = Duration::from_millis(5);

/// All processes, and the marks of those that became our children because their own parent died.
///
/// As the subreaper of everything below us we adopt whatever loses its parent: a process that left the group of its
/// attempt is either below one that did not, or our child.
#[derive(Debug, Default)]
pub(crate) struct View {
    snapshot: Snapshot,
    adopted: BTreeMap<i32, Option<String>>,
}

impl View {
    pub(crate) fn take() -> View {
        let snapshot = Snapshot::take();
        let adopted = snapshot
            .children_of(me())
            .filter(|child| !child.is_zombie && !family::is_leader(child.pid))
            .map(|child| (child.pid, procfs::variable(child.pid, MARK)))
            .collect();
        View { snapshot, adopted }
    }

    /// Everything alive of one attempt: its leader's tree, its process group, its control group as it is now, and
    /// adopted children with its mark.
    pub(crate) fn family(&self, leader: &Leader, mark: &str) -> Vec<Process> {
        let members = leader.members();
        let leader = &leader.born;
        let led = self.snapshot.processes.values().filter(|process| {
            let is_leader = process.pid == leader.pid && leader.at.contains(&process.began);
            is_leader || process.group == leader.pid && process.began >= *leader.at.start()
        });
        let adopted = self.adopted.iter().filter(|(_, its)| its.as_deref() == Some(mark));
        let roots = led.map(|process| process.pid).chain(adopted.map(|(pid, _)| *pid));
        let mut family = self.snapshot.below(roots.chain(members.iter().copied()));
        // Those that were forked since the look.
        let unseen = members.into_iter().filter(|pid| !self.snapshot.processes.contains_key(pid));
        family.extend(unseen.filter_map(procfs::process).filter(|process| !process.is_zombie));
        family
    }
}

/// Looks at the processes of the machine for many attempts at once: to stop a thousand takes as many looks as to stop
/// a few.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    begun: AtomicU64,
    latest: Mutex<(u64, Arc<View>)>,
}

impl Lookout {
    /// A look that began after this call.
    pub(crate) async fn look(&self) -> Arc<View> {
        let begun_before = self.begun.load(Ordering::SeqCst);
        let mut latest = self.latest.lock().await;
        // While we waited for our turn, another look may have begun and ended.
        if latest.0 <= begun_before {
            let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
            let view = tokio::task::spawn_blocking(View::take).await.unwrap_or_default();
            *latest = (number, Arc::new(view));
        }
        Arc::clone(&latest.1)
    }

    /// Kills everything alive of one attempt, until a look finds nothing.
    pub(crate) async fn kill(&self, leader: &Leader, mark: &str) {
        for round in 0..ROUNDS_MAX {
            let family = self.look().await.family(leader, mark);
            if family.is_empty() {
                return;
            }
            leader.kill_members();
            family.iter().for_each(|process| procfs::signal(process, Signal::SIGKILL));
            if round > 1 {
                tokio::time::sleep(ROUND_PAUSE).await;
            }
        }
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swept {
    /// Strays that were killed.
    pub(crate) killed: usize,
    /// Children of unknown origin that may belong to an attempt that is still on.
    pub(crate) suspects: usize,
    /// It was not the moment: a start was going on.
    pub(crate) is_undone: bool,
}

/// Kills adopted children whose attempt is over, and reaps the dead among them. `opened` is when the executor began.
pub(crate) fn sweep(life: &str, opened: Ticks, is_live: impl Fn(&str) -> bool) -> Swept {
    let lingering = cgroup::end_lingering();
    let View { snapshot, adopted } = View::take();
    let my_group = getpgrp().as_raw();
    // What came with us from before an `exec` is not ours, nor is all that the first process of a container adopts.
    let is_unknown = |child: &Process| me() != 1 && child.began > opened && child.group != my_group;
    let (mut strays, mut found, mut suspects) = (Vec::new(), Vec::new(), 0);
    for (pid, mark) in &adopted {
        let Some(child) = snapshot.processes.get(pid) else { continue };
        if let Some(mark) = mark.as_deref().filter(|mark| is_of(mark, life)) {
            if !is_live(mark) {
                strays.push(*pid);
            }
        } else if is_unknown(child) && !cgroup::is_of_attempt(*pid) {
            // It cleared its environment, or comes from a server inside one of our attempts: it may go when no
            // attempt is left that can have started it.
            match family::origin(child.began) {
                Origin::Ended => strays.push(*pid),
                Origin::Live(group) => found.push((*pid, group)),
                Origin::Unknown => suspects += 1,
            }
        }
    }
    // Children in our own group were started by other parts of this program, which wait for them.
    let is_orphan = |child: &&Process| child.is_zombie && child.group != my_group;
    let mut zombies: Vec<&Process> = snapshot.children_of(me()).filter(is_orphan).collect();
    zombies.retain(|zombie| !family::is_leader(zombie.pid));
    if strays.is_empty() && zombies.is_empty() && found.is_empty() {
        return Swept { killed: lingering, suspects, is_undone: false };
    }
    // Some of them may be our own that were just being started during the look.
    let Some(_quiet) = family::quiet() else { return Swept { killed: lingering, suspects, is_undone: true } };
    strays.retain(|pid| !family::is_leader(*pid));
    zombies.retain(|zombie| !family::is_leader(zombie.pid));
    for (pid, group) in found.into_iter().filter(|(pid, _)| !family::is_leader(*pid)) {
        // One that is gone by now needs no group.
        let _ = cgroup::add(&group, pid);
    }
    let strays = snapshot.below(strays);
    strays.iter().for_each(|process| procfs::signal(process, Signal::SIGKILL));
    zombies.into_iter().for_each(family::reap);
    Swept { killed: lingering + strays.len(), suspects, is_undone: false }
}

/// Kills what a server that is gone has left: the trees and groups of its leaders, and every process whose mark is of
/// a life that `is_gone` knows. Returns how many were found.
pub(crate) fn kill_left(leaders: &[Born], is_gone: impl Fn(&str) -> bool) -> usize {
    let leaders: BTreeMap<i32, &Born> = leaders.iter().map(|leader| (leader.pid, leader)).collect();
    let mut found = BTreeMap::new();
    let (mut rounds, mut exec_looks) = (0, 0);
    while rounds < ROUNDS_MAX && exec_looks < EXEC_LOOKS_MAX {
        let snapshot = Snapshot::take();
        let mut is_unsure = false;
        let mut is_left = |process: &&Process| {
            // A group whose leader is gone is only for sure its own by the mark.
            if leaders.get(&process.group).is_some_and(|leader| snapshot.is_alive(leader)) {
                return true;
            }
            let mark = procfs::variable_for_sure(process.pid, MARK);
            is_unsure |= mark.is_err();
            mark.is_ok_and(|mark| mark.is_some_and(|mark| is_gone(&mark)))
        };
        let roots: Vec<i32> =
            snapshot.processes.values().filter(&mut is_left).map(|process| process.pid).collect();
        let mut left = snapshot.below(roots);
        // A server that a step of its previous life has started must not end itself.
        left.retain(|process| process.pid != me());
        if left.is_empty() {
            if !is_unsure {
                break;
            }
            exec_looks += 1;
            pause();
            continue;
        }
        rounds += 1;
        for process in left {
            procfs::signal(&process, Signal::SIGKILL);
            found.insert(process.pid, process.began);
        }
    }
    found.len()
}

fn is_of(mark: &str, life: &str) -> bool {
    mark.strip_prefix(life).is_some_and(|rest| rest.starts_with('/'))
}

/// There is no moment to wait for: nothing tells when an `exec` of another process ends.
#[allow(clippy::disallowed_methods)]
pub(crate) fn pause() {
    std::thread::sleep(ROUND_PAUSE);
}

fn me() -> i32 {
    std::process::id() as i32
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that is in the middle of an `exec` half of its life: without a second look one in some is missed.
    #[test]
    fn a_process_that_always_changes_its_program_is_found_by_its_mark() {
        let life = format!("test-{}", me());
        for no in 0..30 {
            let mark = format!("{life}/{no}");
            let mut command = Command::new("sh");
            command.args(["-c", r#"echo; exec sh -c "$AGAIN""#]).process_group(0);
            command.env("AGAIN", r#"exec sh -c "$AGAIN""#).env(MARK, &mark).stdout(Stdio::piped());
            let mut child = command.spawn().expect("a shell");
            let mut begun = [0];
            std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut begun).expect("a line");
            let found = kill_left(&[], |its| its == mark);
            // Whatever the test says: it must not go on for ever.
            child.kill().expect("it is ours");
            child.wait().expect("it ends");
            assert!(found > 0, "{no} was not found");
        }
    }
}
