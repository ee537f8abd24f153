//! Who is there: executors by group, as they register, are typed in, leave or fall silent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use cadran_core::{Address, Dialect, Executor, GroupName, Millis};

/// How long an executor that says nothing is believed to be there by default: three of the beats that most clients send.
pub const SILENT_MS_MAX: Millis = 90_000;

/// Groups at once. Each is a service somebody runs; a thousand is a large company.
pub const GROUPS_MAX: usize = 1_000;

/// Executors of one group at once.
pub const MEMBERS_MAX: usize = 1_000;

/// The executors that are alive.
#[derive(Debug, Default)]
pub struct Roster {
    groups: BTreeMap<GroupName, Group>,
}

#[derive(Debug, Default)]
struct Group {
    typed: Option<Vec<Executor>>,
    members: BTreeMap<Address, Member>,
    /// What routes choose from: the typed order, or the registered ones sorted as text.
    list: Vec<Executor>,
}

#[derive(Debug)]
struct Member {
    dialect: Dialect,
    /// What it says of itself, (name, value).
    labels: Vec<(String, String)>,
    /// When it first registered, by the wall clock.
    since: Millis,
    /// When it last did, by the monotonic clock.
    seen: Millis,
}

/// No room for another executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RosterFull;

/// A group, to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// Its name.
    pub name: GroupName,
    /// Whether its addresses were typed in.
    pub typed: bool,
    /// Its executors in the order that routes see.
    pub executors: Vec<ExecutorView>,
}

/// An executor, to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutorView {
    /// Who.
    pub executor: Executor,
    /// When it first registered; `None` when it was typed in.
    pub since: Option<Millis>,
    /// How long ago it last did.
    pub silent_ms: Option<Millis>,
    /// What it says of itself, (name, value).
    pub labels: Vec<(String, String)>,
}

/// What a step asks of its executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs<'a> {
    /// A function it knows, or a script in a language of its own: an XXL-JOB executor.
    Handler,
    /// A command: one of our own with these labels, or else, when it asks for none, an XXL-JOB executor that takes it as
    /// a script.
    Command(&'a [(String, String)]),
}

impl Roster {
    /// Gives a group addresses that are used in this order, whoever registers.
    pub fn type_in(&mut self, group: GroupName, executors: Vec<Executor>) {
        let group = self.groups.entry(group).or_default();
        group.typed = (!executors.is_empty()).then_some(executors);
        group.refresh();
    }

    /// An executor says that it is there. True when it was not known.
    pub fn seen(
        &mut self,
        group: &GroupName,
        executor: Executor,
        now_wall: Millis,
        now_mono: Millis,
    ) -> Result<bool, RosterFull> {
        if !self.groups.contains_key(group) && self.groups.len() >= GROUPS_MAX {
            return Err(RosterFull);
        }
        let group = self.groups.entry(group.clone()).or_default();
        let Executor { address, dialect } = executor;
        if let Some(member) = group.members.get_mut(&address) {
            member.seen = now_mono;
            if member.dialect != dialect {
                member.dialect = dialect;
                group.refresh();
            }
            return Ok(false);
        }
        if group.members.len() >= MEMBERS_MAX {
            return Err(RosterFull);
        }
        let labels = Vec::new();
        group.members.insert(address, Member { dialect, labels, since: now_wall, seen: now_mono });
        group.refresh();
        Ok(true)
    }

    /// What an executor that is there says of itself.
    pub fn label(&mut self, group: &GroupName, address: &Address, labels: Vec<(String, String)>) {
        let members = self.groups.get_mut(group).map(|group| &mut group.members);
        if let Some(member) = members.and_then(|members| members.get_mut(address)) {
            member.labels = labels;
        }
    }

    /// An executor says that it leaves. True when it was known.
    pub fn gone(&mut self, group: &GroupName, address: &Address) -> bool {
        let Some(found) = self.groups.get_mut(group) else { return false };
        let known = found.members.remove(address).is_some();
        found.refresh();
        if found.is_forgettable() {
            self.groups.remove(group);
        }
        known
    }

    /// Lets go of executors that were silent for too long, and names them.
    pub fn expire(&mut self, now_mono: Millis, silent_ms_max: Millis) -> Vec<(GroupName, Address)> {
        let mut gone = Vec::new();
        for (name, group) in &mut self.groups {
            let before = group.members.len();
            group.members.retain(|address, member| {
                let stays = now_mono.saturating_sub(member.seen) <= silent_ms_max;
                if !stays {
                    gone.push((name.clone(), address.clone()));
                }
                stays
            });
            if group.members.len() != before {
                group.refresh();
            }
        }
        if !gone.is_empty() {
            self.groups.retain(|_, group| !group.is_forgettable());
        }
        gone
    }

    /// The executors of a group, in the order that routes choose from.
    pub fn list(&self, group: &GroupName) -> &[Executor] {
        self.groups.get(group).map_or(&[], |group| &group.list)
    }

    /// The executors of a group that can do what is wanted, in the order that routes choose from.
    pub fn fit(&self, group: &GroupName, wanted: Needs<'_>) -> Cow<'_, [Executor]> {
        let Some(group) = self.groups.get(group) else { return Cow::default() };
        let is_own = |executor: &&Executor| executor.dialect == Dialect::Worker;
        let foreign = || match group.list.iter().any(|executor| is_own(&executor)) {
            // The usual case, for every order.
            false => Cow::Borrowed(&group.list[..]),
            true => group.list.iter().filter(|executor| !is_own(executor)).cloned().collect(),
        };
        let labels = match wanted {
            Needs::Handler => return foreign(),
            Needs::Command(labels) => labels,
        };
        let has_labels = |executor: &&Executor| {
            let said = group.members.get(&executor.address).map_or(&[][..], |member| &member.labels);
            labels.iter().all(|label| said.contains(label))
        };
        let own: Vec<Executor> = group.list.iter().filter(is_own).filter(has_labels).cloned().collect();
        if own.is_empty() && labels.is_empty() { foreign() } else { own.into() }
    }

    /// Whether this address registered or was typed in: nobody else is ever spoken to.
    pub fn knows(&self, address: &Address) -> bool {
        self.groups.values().any(|group| group.list.iter().any(|executor| executor.address == *address))
    }

    /// Everything, by name.
    pub fn view(&self, now_mono: Millis) -> Vec<GroupView> {
        let view = |(name, group): (&GroupName, &Group)| GroupView {
            name: name.clone(),
            typed: group.typed.is_some(),
            executors: group.list.iter().map(|executor| group.view(executor, now_mono)).collect(),
        };
        self.groups.iter().map(view).collect()
    }
}

impl Group {
    fn refresh(&mut self) {
        self.list = self.typed.clone().unwrap_or_default();
        // Nobody can type in the address of one that dials out.
        let joins = |member: &Member| self.typed.is_none() || member.dialect == Dialect::Worker;
        let members = self.members.iter().filter(|(_, member)| joins(member));
        let members =
            members.map(|(address, member)| Executor { address: address.clone(), dialect: member.dialect });
        self.list.extend(members);
    }

    fn is_forgettable(&self) -> bool {
        self.typed.is_none() && self.members.is_empty()
    }

    fn view(&self, executor: &Executor, now_mono: Millis) -> ExecutorView {
        let member = self.members.get(&executor.address);
        ExecutorView {
            executor: executor.clone(),
            since: member.map(|member| member.since),
            silent_ms: member.map(|member| now_mono.saturating_sub(member.seen)),
            labels: member.map(|member| member.labels.clone()).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executor(address: &str) -> Executor {
        Executor { address: address.parse().expect("an address"), dialect: Dialect::Two }
    }

    fn list(roster: &Roster, group: &GroupName) -> Vec<String> {
        roster.list(group).iter().map(|executor| executor.address.to_string()).collect()
    }

    #[test]
    fn registered_ones_are_sorted_as_text_and_fall_silent() {
        let (mut roster, group) = (Roster::default(), "g".parse::<GroupName>().expect("a name"));
        for (at, address) in [(0, "http://b:2"), (0, "http://b:10"), (50_000, "http://a:1")] {
            assert_eq!(roster.seen(&group, executor(address), 7, at), Ok(true));
        }
        assert_eq!(roster.seen(&group, executor("http://b:2"), 9, 60_000), Ok(false));
        assert_eq!(list(&roster, &group), ["http://a:1", "http://b:10", "http://b:2"]);
        assert_eq!(roster.expire(SILENT_MS_MAX, SILENT_MS_MAX), []);
        let gone = roster.expire(SILENT_MS_MAX + 1, SILENT_MS_MAX);
        assert_eq!(gone.len(), 1);
        assert_eq!(list(&roster, &group), ["http://a:1", "http://b:2"]);
        assert!(!roster.knows(&executor("http://b:10").address));
        assert!(roster.gone(&group, &executor("http://a:1").address));
        assert!(!roster.gone(&group, &executor("http://a:1").address));
        roster.expire(1_000_000, SILENT_MS_MAX);
        assert_eq!(roster.view(0), [], "a group without anybody is forgotten");
    }

    #[test]
    fn typed_in_addresses_keep_their_order_and_never_fall_silent() {
        let (mut roster, group) = (Roster::default(), "g".parse::<GroupName>().expect("a name"));
        roster.type_in(group.clone(), vec![executor("http://z"), executor("http://a")]);
        assert_eq!(roster.seen(&group, executor("http://m"), 0, 0), Ok(true));
        roster.expire(1_000_000, SILENT_MS_MAX);
        assert_eq!(list(&roster, &group), ["http://z", "http://a"]);
        assert!(!roster.knows(&executor("http://m").address), "registering changes nothing here");
    }

    #[test]
    fn commands_go_to_our_own_and_handlers_to_the_others() {
        let (mut roster, group) = (Roster::default(), "g".parse::<GroupName>().expect("a name"));
        let own = |id: &str| Executor {
            address: format!("worker:{id}").parse().expect("an address"),
            dialect: Dialect::Worker,
        };
        let label = |value: &str| ("zone".to_owned(), value.to_owned());
        let check = |roster: &Roster, wanted: Needs<'_>, expected: &[&str]| {
            let fit = roster.fit(&group, wanted);
            let names: Vec<&str> = fit.iter().map(|executor| executor.address.as_str()).collect();
            assert_eq!(names, expected, "{wanted:?}");
        };
        check(&roster, Needs::Handler, &[]);
        let _ = roster.seen(&group, executor("http://h"), 0, 0);
        check(&roster, Needs::Command(&[]), &["http://h"]);
        check(&roster, Needs::Command(&[label("a")]), &[]);
        for (id, zone) in [("one", "a"), ("two", "b")] {
            let _ = roster.seen(&group, own(id), 0, 0);
            roster.label(&group, &own(id).address, vec![label(zone), ("x".into(), "y".into())]);
        }
        check(&roster, Needs::Handler, &["http://h"]);
        check(&roster, Needs::Command(&[]), &["worker:one", "worker:two"]);
        check(&roster, Needs::Command(&[label("b")]), &["worker:two"]);
        check(&roster, Needs::Command(&[label("b"), label("a")]), &[]);
        assert_eq!(roster.view(0)[0].executors[1].labels[0], label("a"));
    }

    #[test]
    fn the_roster_is_bounded() {
        let mut roster = Roster::default();
        let group: GroupName = "g".parse().expect("a name");
        for at in 0..MEMBERS_MAX {
            assert_eq!(roster.seen(&group, executor(&format!("http://h:{}", at + 1)), 0, 0), Ok(true));
        }
        assert_eq!(roster.seen(&group, executor("http://one-more"), 0, 0), Err(RosterFull));
        assert_eq!(roster.seen(&group, executor("http://h:1"), 0, 0), Ok(false));
        for at in 1..GROUPS_MAX {
            let group: GroupName = format!("g{at}").parse().expect("a name");
            assert_eq!(roster.seen(&group, executor("http://h"), 0, 0), Ok(true));
        }
        let more: GroupName = "more".parse().expect("a name");
        assert_eq!(roster.seen(&more, executor("http://h"), 0, 0), Err(RosterFull));
    }
}
