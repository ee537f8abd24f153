//! Where everything of one target lies in the store.

use crate::TargetName;

/// Which names the state files have. Both are in use by the original tools, the second by their later versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `state.json`, `build-queue.json` with `queue`, `built` and `failed`, `fuzzing-schedule.json`.
    #[default]
    V1,
    /// `statev2.json`, `build-queue-v2.json` with `queue` only, `fuzzing-schedulev2.json`, binaries below `builds/v2/`.
    /// What is built or failed stands in an object of its own.
    V2,
}

impl Layout {
    /// As in `fuzz.yaml`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Layout::V1 => "v1",
            Layout::V2 => "v2",
        }
    }
}

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// `state.json`
    State,
    /// `build-queue.json`
    BuildQueue,
    /// `fuzzing-schedule.json`
    Schedule,
}

impl FileName {
    /// Its name in the store.
    pub const fn in_layout(self, layout: Layout) -> &'static str {
        match (self, layout) {
            (FileName::State, Layout::V1) => "state.json",
            (FileName::State, Layout::V2) => "statev2.json",
            (FileName::BuildQueue, Layout::V1) => "build-queue.json",
            (FileName::BuildQueue, Layout::V2) => "build-queue-v2.json",
            (FileName::Schedule, Layout::V1) => "fuzzing-schedule.json",
            (FileName::Schedule, Layout::V2) => "fuzzing-schedulev2.json",
        }
    }
}

/// A state file is one object, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The file itself.
    File,
    /// What a layout has no place for in it.
    Beside,
}

/// The two binaries of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryKind {
    /// What is fuzzed.
    Production,
    /// What says which code a test reaches.
    Coverage,
}

impl BinaryKind {
    /// Both.
    pub const ALL: [BinaryKind; 2] = [BinaryKind::Production, BinaryKind::Coverage];

    /// Its folder.
    pub const fn as_str(self) -> &'static str {
        match self {
            BinaryKind::Production => "production",
            BinaryKind::Coverage => "coverage",
        }
    }
}

/// Where everything of one target lies in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    base: String,
    layout: Layout,
}

impl Keys {
    /// Below `solvers/{target}/`.
    pub fn new(target: &TargetName, layout: Layout) -> Keys {
        Keys { base: format!("solvers/{target}/"), layout }
    }

    /// The names in use.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// One of the three files.
    pub fn file(&self, name: FileName) -> String {
        format!("{}fuzzing-state/{}", self.base, name.in_layout(self.layout))
    }

    /// The objects of one of the three files; the file itself comes first.
    pub(crate) fn parts(&self, name: FileName) -> Vec<(Part, String)> {
        let mut parts = vec![(Part::File, self.file(name))];
        if name == FileName::BuildQueue && self.layout == Layout::V2 {
            parts.push((Part::Beside, self.own("builds.json")));
        }
        parts
    }

    /// The archive of one binary.
    pub fn binary(&self, kind: BinaryKind, hash: &str) -> String {
        format!("{}{hash}.tar.gz", self.binaries(kind))
    }

    /// The folder of all archives of one kind.
    pub fn binaries(&self, kind: BinaryKind) -> String {
        let version = match self.layout {
            Layout::V1 => "",
            Layout::V2 => "v2/",
        };
        format!("{}builds/{version}{}/", self.base, kind.as_str())
    }

    /// The commit that an archive in this folder belongs to.
    pub(crate) fn hash_of<'a>(folder: &str, key: &'a str) -> Option<&'a str> {
        key.strip_prefix(folder)?.strip_suffix(".tar.gz")
    }

    /// Something else of this target: `below` is a path such as `corpus/…`.
    pub fn other(&self, below: &str) -> String {
        format!("{}{below}", self.base)
    }

    /// The folder of claims.
    pub fn claims(&self) -> String {
        self.own("claims/")
    }

    /// The folder of the event log.
    pub fn events(&self) -> String {
        self.own("events/")
    }

    /// What the manager remembers between passes.
    pub fn ledger(&self) -> String {
        self.own("ledger.json")
    }

    /// Where a file that could not be read is kept.
    pub fn broken(&self, name: &str, at: i64) -> String {
        format!("{}{at}-{name}", self.broken_folder())
    }

    pub(crate) fn broken_folder(&self) -> String {
        self.own("broken/")
    }

    /// What the original tools do not know. Each layout has its own: what is recorded of one says nothing of the other.
    fn own(&self, below: &str) -> String {
        let version = match self.layout {
            Layout::V1 => "",
            Layout::V2 => "v2/",
        };
        format!("{}fuzzing-state/{version}{below}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_01_keys_are_the_documented_ones() {
        let check = |layout, state, queue, schedule, builds| {
            let keys = Keys::new(&TargetName::new("cvc5").unwrap(), layout);
            for (name, expected) in
                [(FileName::State, state), (FileName::BuildQueue, queue), (FileName::Schedule, schedule)]
            {
                assert_eq!(keys.file(name), format!("solvers/cvc5/fuzzing-state/{expected}"));
            }
            for kind in BinaryKind::ALL {
                let expected = format!("solvers/cvc5/{builds}/{}/abc.tar.gz", kind.as_str());
                assert_eq!(keys.binary(kind, "abc"), expected);
            }
        };
        check(Layout::V1, "state.json", "build-queue.json", "fuzzing-schedule.json", "builds");
        check(Layout::V2, "statev2.json", "build-queue-v2.json", "fuzzing-schedulev2.json", "builds/v2");
    }

    #[test]
    fn layouts_share_nothing_that_could_be_mistaken() {
        let name = TargetName::new("cvc5").unwrap();
        let [one, two] = [Layout::V1, Layout::V2].map(|layout| Keys::new(&name, layout));
        for place in [Keys::claims, Keys::events, Keys::ledger, Keys::broken_folder] {
            let (one, two) = (place(&one), place(&two));
            assert!(!one.starts_with(&two) && !two.starts_with(&one), "{one} {two}");
        }
        assert_eq!(one.other("corpus/"), two.other("corpus/"), "inputs are good for both");
    }
}
