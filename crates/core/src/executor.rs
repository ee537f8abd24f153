use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::policy::words;

/// Which executors a step runs on, and how one of them is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The group of executors.
    pub group: GroupName,
    /// How one of them is chosen.
    pub route: Route,
    /// What an executor does when the job is still on there.
    pub block: Block,
    /// How many the executor may run at once under [`Block::Concurrent`].
    pub concurrency: u32,
    /// The text a handler gets. Without one, the parameters of the job make it.
    pub params: Option<String>,
    /// What the executor must say of itself, (name, value), sorted by name.
    pub labels: Vec<(String, String)>,
}

impl Target {
    /// A group and nothing else said.
    pub fn new(group: GroupName) -> Target {
        Target {
            group,
            route: Route::default(),
            block: Block::default(),
            concurrency: 1,
            params: None,
            labels: Vec::new(),
        }
    }
}

/// The name of a group of executors: 1 to 64 of `A–Z a–z 0–9 _ . -`, starting with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(Arc<str>);

impl GroupName {
    /// The longest name, in bytes.
    pub const LEN_MAX: usize = 64;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not the name of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupNameError;

impl FromStr for GroupName {
    type Err = GroupNameError;

    fn from_str(text: &str) -> Result<GroupName, GroupNameError> {
        let good = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.len() <= GroupName::LEN_MAX
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        if good { Ok(GroupName(text.into())) } else { Err(GroupNameError) }
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for GroupNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the name of a group has 1 to {} letters, digits, '_', '.' and '-', and starts with a letter or a digit",
            GroupName::LEN_MAX
        )
    }
}

impl std::error::Error for GroupNameError {}

/// Where an executor listens: `http://host[:port][/path]`, kept as it was given, since routes sort and hash the text. One
/// that dials out and listens nowhere has `worker:ID` instead, which nobody can call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(Arc<str>);

/// Why a text is not the address of an executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressError(&'static str);

impl Address {
    /// The longest address, in bytes.
    pub const LEN_MAX: usize = 255;

    /// The address as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of an executor that dials out.
    pub fn worker(&self) -> Option<&str> {
        self.0.strip_prefix(WORKER)
    }

    /// What follows the scheme; nothing where nobody listens.
    fn rest(&self) -> &str {
        self.0.strip_prefix("http://").unwrap_or_default()
    }

    /// Host and port, as in a `Host` header.
    pub fn authority(&self) -> &str {
        let rest = self.rest();
        &rest[..rest.find('/').unwrap_or(rest.len())]
    }

    /// Host and port to connect to.
    pub fn host_and_port(&self) -> (&str, u16) {
        let authority = self.authority();
        match split_port(authority) {
            Some((host, port)) => (host, port.parse().unwrap_or(80)),
            None => (authority, 80),
        }
    }

    /// Whether both lead to the same place, however they are written.
    pub fn is_at(&self, other: &Address) -> bool {
        (self.worker(), self.authority(), self.path()) == (other.worker(), other.authority(), other.path())
    }

    /// The path in front of every verb, without a slash at its end.
    pub fn path(&self) -> &str {
        let rest = self.rest();
        rest[rest.find('/').unwrap_or(rest.len())..].trim_end_matches('/')
    }
}

/// What the address of an executor that dials out begins with.
const WORKER: &str = "worker:";

/// The id of such an executor: letters, digits, '_', '.' and '-'.
const WORKER_ID_LEN_MAX: usize = 80;

fn worker_id(id: &str) -> bool {
    id.starts_with(|c: char| c.is_ascii_alphanumeric())
        && id.len() <= WORKER_ID_LEN_MAX
        && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

/// The port behind the last colon, unless that colon is inside of an IPv6 address.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'))
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Address, AddressError> {
        let fail = |why| Err(AddressError(why));
        if text.len() > Address::LEN_MAX {
            return fail("it is longer than 255 bytes");
        }
        if let Some(id) = text.strip_prefix(WORKER) {
            let why = "behind `worker:` stand 1 to 80 letters, digits, '_', '.' and '-'";
            return if worker_id(id) { Ok(Address(text.into())) } else { fail(why) };
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return fail("it does not begin with http://");
        };
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return fail("it holds a blank or a character that is not ASCII");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return fail("it holds a user name");
        }
        if path.contains(['?', '#', '\\', '%']) || path.split('/').any(|part| part == "..") {
            return fail("its path holds more than plain names");
        }
        let (host, port) = match split_port(authority) {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let six = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let good_host = match six {
            Some(six) => six.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(named),
        };
        if !good_host {
            return fail("it names no host");
        }
        if port.is_some_and(|port| port.parse::<u16>().map_or(true, |port| port == 0)) {
            return fail("its port is not 1 to 65535");
        }
        Ok(Address(text.into()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the address of an executor: {}; one looks like http://10.0.0.1:9999", self.0)
    }
}

impl std::error::Error for AddressError {}

/// An executor and how it speaks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Executor {
    /// Where it listens.
    pub address: Address,
    /// How it speaks.
    pub dialect: Dialect,
}

/// How an executor speaks. The differences are small; see `cadran-exec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// XXL-JOB 2.2 to 3.4.
    #[default]
    Two,
    /// XXL-JOB 3.5.
    Three,
    /// Orth, a relative of 3.3.
    Orth,
    /// Our own: `cadran worker`, which dials out and runs commands.
    Worker,
}

/// How one executor of a group is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Route {
    /// The first of the list.
    #[default]
    First,
    /// The last of the list.
    Last,
    /// One after another.
    Round,
    /// Any.
    Random,
    /// Always the same for a job, as far as the list allows.
    ConsistentHash,
    /// The one the job used least often.
    LeastFrequentlyUsed,
    /// The one the job has not used for the longest time.
    LeastRecentlyUsed,
    /// The first that answers.
    Failover,
    /// The first on which the job is idle.
    Busyover,
    /// Every one of them, each with its share.
    ShardingBroadcast,
}

/// What an executor does when an order arrives and the job is still on there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Block {
    /// Queue behind.
    #[default]
    Serial,
    /// Refuse.
    Discard,
    /// End what is on, then start.
    Cover,
    /// Run beside it.
    Concurrent,
}

/// The language of a script that travels with its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GlueKind {
    /// A class for the executor's own machine.
    Groovy,
    /// bash
    Shell,
    /// python, python3 from 3.2 on
    Python,
    /// python2
    Python2,
    /// node
    Nodejs,
    /// powershell
    Powershell,
    /// php
    Php,
}

words!(Dialect { Two = "xxl-job", Three = "xxl-job-3.5", Orth = "orth", Worker = "worker" });
words!(Route {
    First = "first",
    Last = "last",
    Round = "round",
    Random = "random",
    ConsistentHash = "consistent_hash",
    LeastFrequentlyUsed = "least_frequently_used",
    LeastRecentlyUsed = "least_recently_used",
    Failover = "failover",
    Busyover = "busyover",
    ShardingBroadcast = "sharding_broadcast",
});
words!(Block { Serial = "serial", Discard = "discard", Cover = "cover", Concurrent = "concurrent" });
words!(GlueKind {
    Groovy = "groovy",
    Shell = "shell",
    Python = "python",
    Python2 = "python2",
    Nodejs = "nodejs",
    Powershell = "powershell",
    Php = "php",
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_strict() {
        let good = |text: &str, authority: &str, host: &str, port: u16, path: &str| {
            let address: Address = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((address.authority(), address.host_and_port()), (authority, (host, port)), "{text}");
            assert_eq!(address.path(), path, "{text}");
        };
        good("http://10.0.0.1:9999/", "10.0.0.1:9999", "10.0.0.1", 9999, "");
        good("http://h:8081/job", "h:8081", "h", 8081, "/job");
        good("http://h:8081/job//", "h:8081", "h", 8081, "/job");
        good("http://worker", "worker", "worker", 80, "");
        good("http://[::1]:9999/x", "[::1]:9999", "[::1]", 9999, "/x");
        good("http://[::1]", "[::1]", "[::1]", 80, "");
        good("worker:build-7.x", "", "", 80, "");
        let id = |text: &str| text.parse::<Address>().ok()?.worker().map(str::to_owned);
        assert_eq!((id("worker:build-7.x"), id("http://h")), (Some("build-7.x".into()), None));
        let long = format!("http://{}", "h".repeat(256));
        for text in [
            "",
            "http://",
            "https://h",
            "ftp://h",
            "h:9999",
            "http:///x",
            "http://:80",
            "http://a b",
            "http://h\n",
            "http://u:p@h",
            "http://h:0",
            "http://h:99999",
            "http://h:",
            "http://h/?q",
            "http://h/../x",
            "http://h/%2e",
            "http://[::1",
            "http://[zz]:1",
            "http://é",
            "worker:",
            "worker:-a",
            "worker:a/b",
            "worker:a b",
            long.as_str(),
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn group_names_are_strict() {
        let check = |text: &str, good: bool| assert_eq!(text.parse::<GroupName>().is_ok(), good, "{text:?}");
        check("xxl-job-executor-sample", true);
        check("a", true);
        check("3.billing_x", true);
        check("", false);
        check("-a", false);
        check("a b", false);
        check("a/b", false);
        check(&"x".repeat(64), true);
        check(&"x".repeat(65), false);
    }
}
