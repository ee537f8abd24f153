//! Control groups of the kernel: a list of processes that a process cannot leave by a new session, a new parent or an
//! empty environment, only by moving itself to another group, which takes the right to write there.
//!
//! Below the group this process was started in, it makes `cadran-<pid>.<began>` and moves itself to `server` inside it.
//! Whatever it starts is born there, so that nothing is ever outside. An attempt is moved to a group of its own, `a<n>`,
//! right behind its start; groups are used again, since to make one costs more than to move a process. The kernel takes
//! some milliseconds for a move, and what is forked meanwhile is moved behind it. Who has lost its parent by then is
//! known by the moment of its birth, see `family::origin`. The keeper sits in `keeper`, so that it can end all the others.
//!
//! Works with version 2 and, in one of its hierarchies, version 1. No controller is switched on and no limit is set.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::procfs::{self, Ticks};

const PREFIX: &str = "cadran-";
const SERVER: &str = "server";
const KEEPER: &str = "keeper";

/// Looks at groups that are to be emptied; each ends what was forked since the one before.
const ROUNDS_MAX: u32 = 200;

/// Groups looked at below one: a step may make groups of its own, as a container program does.
const GROUPS_MAX: usize = 4_096;

/// Version 1 hierarchies, in the order in which they are tried. To sit in a group of these limits nothing.
const HIERARCHIES: [&str; 3] = ["freezer", "pids", "name=systemd"];

/// The groups of this process. They belong to it and not to one executor, for the same reason as in `family`.
static GROUPS: Mutex<Groups> = Mutex::new(Groups { users: 0, tree: None });

struct Groups {
    /// Executors that are open.
    users: usize,
    tree: Option<Arc<Tree>>,
}

#[derive(Debug)]
struct Tree {
    /// Where this process was started.
    home: PathBuf,
    root: PathBuf,
    made: AtomicU64,
    free: Mutex<Vec<PathBuf>>,
    /// Groups whose attempt is over and that were not empty then.
    lingering: Mutex<Vec<PathBuf>>,
}

/// The group of one attempt.
#[derive(Debug)]
pub(crate) struct Group {
    tree: Arc<Tree>,
    path: PathBuf,
}

/// Keeps the groups of this process open.
pub(crate) struct Opened(());

impl Drop for Opened {
    fn drop(&mut self) {
        let mut groups = groups();
        groups.users -= 1;
        if groups.users == 0
            && let Some(tree) = groups.tree.take()
        {
            tree.close();
        }
    }
}

/// Makes the groups of this process, unless they are there; says where they are, or why there are none.
pub(crate) fn open() -> (Opened, Result<PathBuf, String>) {
    let mut groups = groups();
    groups.users += 1;
    if let Some(tree) = &groups.tree {
        return (Opened(()), Ok(tree.root.clone()));
    }
    let mut why = "no hierarchy of control groups is mounted".to_owned();
    for home in own_groups() {
        clear_left_in(&home);
        match Tree::make(&home) {
            Ok(tree) => {
                let root = tree.root.clone();
                groups.tree = Some(Arc::new(tree));
                return (Opened(()), Ok(root));
            }
            Err(error) => why = format!("no group can be made below {}: {error}", home.display()),
        }
    }
    (Opened(()), Err(why))
}

/// Puts a process that was just started into a group of its own, with what it has started meanwhile. `is_other` knows
/// processes that were started by ourselves.
pub(crate) fn enclose(pid: i32, is_other: impl Fn(i32) -> bool) -> Option<Group> {
    let tree = groups().tree.clone()?;
    let path = tree.take()?;
    let group = Group { tree, path };
    // It may be over already.
    let _ = add(&group.path, pid);
    for _ in 0..GATHER_ROUNDS_MAX {
        let newborn = members(&group.tree.root.join(SERVER));
        let family = newborn.into_iter().filter(|other| !is_other(*other) && descends_from(*other, pid));
        if family.filter(|other| add(&group.path, *other).is_ok()).count() == 0 {
            break;
        }
    }
    Some(group)
}

/// Times that children of a process which is being moved are looked for; each finds those of the ones before.
const GATHER_ROUNDS_MAX: u32 = 100;

/// Longest line of parents that is followed upwards.
const ANCESTORS_MAX: u32 = 64;

fn descends_from(pid: i32, ancestor: i32) -> bool {
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        match procfs::process(at).map(|process| process.parent) {
            Some(parent) if parent == ancestor => return true,
            Some(parent) if parent > 1 && parent != me() => at = parent,
            _ => return false,
        }
    }
    false
}

/// Puts the keeper where it is not ended with the others, and says what it has to end.
pub(crate) fn enclose_keeper(pid: i32) -> Option<PathBuf> {
    let tree = groups().tree.clone()?;
    add(&tree.root.join(KEEPER), pid).ok()?;
    Some(tree.root.clone())
}

/// Whether a process is in the group of an attempt of ours, which looks after it.
pub(crate) fn is_of_attempt(pid: i32) -> bool {
    let Some(tree) = groups().tree.clone() else { return false };
    let Some(name) = tree.root.file_name().and_then(|name| name.to_str()) else { return false };
    let of_attempt = format!("/{name}/a");
    fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(&of_attempt))
}

/// Ends what is left in groups whose attempt is over. Returns how many processes were found.
pub(crate) fn end_lingering() -> usize {
    let Some(tree) = groups().tree.clone() else { return 0 };
    let mut lingering = lock(&tree.lingering);
    let mut found = 0;
    lingering.retain(|path| {
        let members = members(path).len();
        found += members;
        if members > 0 {
            kill_members(path);
        } else {
            lock(&tree.free).push(path.clone());
        }
        members > 0
    });
    found
}

/// Ends all attempts below a root, for the keeper and for an executor that is dropped in the middle of its work.
pub(crate) fn end_attempts(root: &Path) {
    end_all(root, &[SERVER, KEEPER]);
}

/// Ends all attempts of this process, unless other executors in it may have some.
pub(crate) fn end_own_attempts() {
    let root = {
        let groups = groups();
        groups.tree.as_ref().filter(|_| groups.users == 1).map(|tree| tree.root.clone())
    };
    if let Some(root) = root {
        end_attempts(&root);
    }
}

/// The last deed of a keeper: ends everything of a server that is gone, and removes its groups.
pub(crate) fn clear_as_keeper(root: &Path) {
    end_all(root, &[KEEPER]);
    if let Some(home) = root.parent() {
        let _ = add(home, me());
    }
    remove(root);
}

/// Ends what the owner of a root has left, when it is gone. Returns how many processes were found.
pub(crate) fn clear_left(root: &Path) -> usize {
    let Some((pid, began)) = owner(root) else { return 0 };
    // One that nobody has waited for yet is gone all the same.
    let is_alive = procfs::process(pid).is_some_and(|owner| owner.began == began && !owner.is_zombie);
    if is_alive || !root.join("cgroup.procs").exists() {
        return 0;
    }
    // A pid of 0 is a process of another pid namespace, whose owner may well be alive there.
    if members(root).contains(&0) {
        return 0;
    }
    // A keeper of the one that is gone ends by itself.
    let found = end_all(root, &[KEEPER]);
    remove(root);
    found
}

impl Group {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The processes that are in it now, or below it.
    pub(crate) fn members(&self) -> BTreeSet<i32> {
        members(&self.path)
    }

    /// Ends all that are in it now.
    pub(crate) fn kill(&self) {
        kill_members(&self.path);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let list = if self.members().is_empty() { &self.tree.free } else { &self.tree.lingering };
        lock(list).push(std::mem::take(&mut self.path));
    }
}

impl Tree {
    fn make(home: &Path) -> io::Result<Tree> {
        let began = procfs::began(me()).ok_or(io::ErrorKind::NotFound)?;
        let root = home.join(format!("{PREFIX}{}.{began}", me()));
        let made = [&root, &root.join(SERVER), &root.join(KEEPER)]
            .into_iter()
            .try_for_each(fs::create_dir)
            .and_then(|()| add(&root.join(SERVER), me()));
        if let Err(error) = made {
            remove(&root);
            return Err(error);
        }
        Ok(Tree {
            home: home.to_owned(),
            root,
            made: AtomicU64::new(0),
            free: Mutex::default(),
            lingering: Mutex::default(),
        })
    }

    fn take(&self) -> Option<PathBuf> {
        if let Some(path) = lock(&self.free).pop() {
            return Some(path);
        }
        let path = self.root.join(format!("a{}", self.made.fetch_add(1, Ordering::Relaxed)));
        match fs::create_dir(&path) {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a control group could not be made");
                None
            }
        }
    }

    /// Leaves nothing behind, and this process where it was found.
    fn close(&self) {
        end_all(&self.root, &[KEEPER]);
        if let Err(error) = add(&self.home, me()) {
            tracing::warn!(home = %self.home.display(), %error, "could not go back to the control group of the start");
        }
        remove(&self.root);
    }
}

/// The group of this process in each hierarchy that can be used, the best first.
fn own_groups() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let rank = match controllers {
            "" => 0,
            _ => match HIERARCHIES.iter().position(|name| controllers.split(',').any(|known| known == *name))
            {
                Some(at) => at + 1,
                None => continue,
            },
        };
        found.extend(mounted_at(&mounts, controllers, path).map(|path| (rank, path)));
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The directory of a group in the hierarchy with these controllers; the one without any is version 2.
fn mounted_at(mounts: &str, controllers: &str, group: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (top, point) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let is_it = match (name, controllers) {
            ("cgroup2", "") => true,
            ("cgroup", "") | ("cgroup2", _) => false,
            ("cgroup", _) => controllers.split(',').all(|wanted| options.split(',').any(|has| has == wanted)),
            _ => false,
        };
        let below = group.strip_prefix(top)?;
        let is_plain = !point.contains('\\') && !group.split('/').any(|part| part == "..");
        (is_it && is_plain).then(|| Path::new(point).join(below.trim_start_matches('/')))
    })
}

/// Clears what owners that are gone have left in one group.
fn clear_left_in(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten().take(GROUPS_MAX) {
        let found = clear_left(&entry.path());
        if found > 0 {
            tracing::warn!(found, group = %entry.path().display(), "processes of a program that is gone were ended");
        }
    }
}

/// Whose root it is: pid and start of the process, from the name.
fn owner(root: &Path) -> Option<(i32, Ticks)> {
    let (pid, began) = root.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('.')?;
    Some((pid.parse().ok()?, began.parse().ok()?))
}

/// Ends everything below a root but what is in the groups to spare, and this process. Returns how many were found.
fn end_all(root: &Path, spared: &[&str]) -> usize {
    let mut found = BTreeSet::new();
    for _ in 0..ROUNDS_MAX {
        let groups: Vec<PathBuf> =
            below(root).filter(|path| !spared.iter().any(|name| path.ends_with(name))).collect();
        let mut alive: BTreeSet<i32> = groups.iter().flat_map(|path| members(path)).collect();
        alive.remove(&me());
        if alive.is_empty() {
            break;
        }
        groups.iter().for_each(|path| kill_members(path));
        found.extend(alive);
        crate::sweep::pause();
    }
    found.len()
}

/// The processes in a group and below it.
fn members(path: &Path) -> BTreeSet<i32> {
    let mut pids = BTreeSet::new();
    let mut open = vec![path.to_owned()];
    let mut looked = 0;
    while let Some(path) = open.pop().filter(|_| looked < GROUPS_MAX) {
        looked += 1;
        if let Ok(text) = fs::read_to_string(path.join("cgroup.procs")) {
            pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        open.extend(below(&path));
    }
    pids
}

fn kill_members(path: &Path) {
    let members = members(path);
    // One write ends all at once, also what is being forked; kernels before 5.14 and version 1 do not have it.
    if !members.contains(&me()) && fs::write(path.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in members.into_iter().filter(|pid| *pid > 1 && *pid != me()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Removes a group and those below it; what is in use stays.
fn remove(path: &Path) {
    below(path).for_each(|path| remove(&path));
    let _ = fs::remove_dir(path);
}

fn below(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let groups = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    groups.map(|entry| entry.path())
}

/// Moves a process with all its threads.
pub(crate) fn add(path: &Path, pid: i32) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path.join("cgroup.procs"))
        .and_then(|mut file| io::Write::write_all(&mut file, pid.to_string().as_bytes()))
}

fn groups() -> MutexGuard<'static, Groups> {
    lock(&GROUPS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn me() -> i32 {
    std::process::id() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_group_is_found_by_its_mount() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755\n\
                      31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n\
                      32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n\
                      34 30 0:30 /docker/abc /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
                      35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        let check = |controllers: &str, group: &str, expected: Option<&str>| {
            let found = mounted_at(mounts, controllers, group);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{controllers} {group}");
        };
        check("", "/", Some("/sys/fs/cgroup/unified/"));
        check("", "/system.slice/a.service", Some("/sys/fs/cgroup/unified/system.slice/a.service"));
        check("name=systemd", "/user.slice", Some("/sys/fs/cgroup/systemd/user.slice"));
        check("freezer", "/docker/abc/x", Some("/sys/fs/cgroup/freezer/x"));
        check("freezer", "/docker/abc", Some("/sys/fs/cgroup/freezer/"));
        check("cpu,cpuacct", "/a", Some("/sys/fs/cgroup/cpu,cpuacct/a"));
        // Another container's, one above our own root, and a hierarchy that is not mounted.
        check("freezer", "/docker/other", None);
        check("", "/../other", None);
        check("pids", "/", None);
        assert_eq!(mounted_at("", "", "/"), None);
    }

    #[test]
    fn a_root_names_its_owner() {
        assert_eq!(owner(Path::new("/x/cadran-12.345")), Some((12, 345)));
        for name in ["cadran-12", "cadran-x.1", "cadran-1.2.3", "other-1.2", "cadran-", "/"] {
            assert_eq!(owner(Path::new(name)), None, "{name}");
        }
    }
}
