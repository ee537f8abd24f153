use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;

use crate::Mode;

/// One resource: an instance of a graph and an id that is local to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// The instance.
    pub instance: u64,
    /// The id within it.
    pub local: u64,
}

/// A node.
pub type NodeKey = ResourceKey;
/// An edge.
pub type EdgeKey = ResourceKey;
/// An attachment.
pub type AttachmentKey = ResourceKey;
/// A boundary port.
pub type PortKey = ResourceKey;

impl ResourceKey {
    /// A key of an instance and a local id.
    pub const fn new(instance: u64, local: u64) -> ResourceKey {
        ResourceKey { instance, local }
    }
}

/// What kind of thing a key names. Equal keys of different classes are different resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Nodes.
    Node,
    /// Edges.
    Edge,
    /// Attachments.
    Attachment,
    /// Boundary ports.
    Port,
}

impl Class {
    /// How many classes there are.
    pub const COUNT: usize = 4;
}

/// One of the eight sets of a footprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Set {
    /// `n_write`: nodes written.
    NodeWrites,
    /// `e_write`: edges written.
    EdgeWrites,
    /// `a_write`: attachments written.
    AttachmentWrites,
    /// `b_in`: ports claimed, inwards. In and out are claimed together: direction does not matter for conflicts.
    PortsIn,
    /// `b_out`: ports claimed, outwards.
    PortsOut,
    /// `n_read`: nodes read.
    NodeReads,
    /// `e_read`: edges read.
    EdgeReads,
    /// `a_read`: attachments read.
    AttachmentReads,
}

impl Set {
    /// All sets, in the order in which they are checked: what excludes most comes first.
    pub const ALL: [Set; 8] = [
        Set::NodeWrites,
        Set::EdgeWrites,
        Set::AttachmentWrites,
        Set::PortsIn,
        Set::PortsOut,
        Set::NodeReads,
        Set::EdgeReads,
        Set::AttachmentReads,
    ];

    /// What its keys name.
    pub const fn class(self) -> Class {
        match self {
            Set::NodeWrites | Set::NodeReads => Class::Node,
            Set::EdgeWrites | Set::EdgeReads => Class::Edge,
            Set::AttachmentWrites | Set::AttachmentReads => Class::Attachment,
            Set::PortsIn | Set::PortsOut => Class::Port,
        }
    }

    /// How its keys are used.
    pub const fn mode(self) -> Mode {
        match self {
            Set::NodeReads | Set::EdgeReads | Set::AttachmentReads => Mode::Read,
            Set::NodeWrites | Set::EdgeWrites | Set::AttachmentWrites => Mode::Write,
            Set::PortsIn | Set::PortsOut => Mode::Claim,
        }
    }

    /// Whether a key in this set and the same key in the other may not be used together.
    pub fn excludes(self, other: Set) -> bool {
        self.class() == other.class() && self.mode().excludes(other.mode())
    }
}

/// Why a footprint was refused: the first key at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The set of the refused footprint that it stands in.
    pub set: Set,
    /// The key.
    pub key: ResourceKey,
}

/// What a rewrite reads, writes and claims: eight ordered sets without duplicates.
///
/// It must say at least as much as the rewrite does: what is not declared is not protected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Sorted, in the order of [`Set::ALL`].
    uses: Vec<(Set, ResourceKey)>,
    factor_mask: u64,
}

impl Footprint {
    /// With nothing in it: independent of everything.
    pub fn new() -> Footprint {
        Footprint::default()
    }

    /// Adds a key to a set; once is enough.
    pub fn insert(&mut self, set: Set, key: ResourceKey) -> &mut Footprint {
        if let Err(at) = self.uses.binary_search(&(set, key)) {
            self.uses.insert(at, (set, key));
            self.factor_mask |= factor(set.class(), key);
        }
        self
    }

    /// As [`insert`](Footprint::insert), by value.
    pub fn with(mut self, set: Set, key: ResourceKey) -> Footprint {
        self.insert(set, key);
        self
    }

    /// The keys of a set, sorted.
    pub fn set(&self, set: Set) -> impl Iterator<Item = ResourceKey> {
        self.uses.iter().filter(move |(of, _)| *of == set).map(|(_, key)| *key)
    }

    /// All keys with their sets, sorted.
    #[inline]
    pub fn uses(&self) -> &[(Set, ResourceKey)] {
        &self.uses
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.uses.len()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
    }

    /// A bit for each key, out of 64: footprints without a common bit have no common key. It is computed from the keys,
    /// so it only saves work and never changes an answer.
    pub fn factor_mask(&self) -> u64 {
        self.factor_mask
    }

    /// The first key because of which both may not be admitted; none when they are independent.
    pub fn conflict(&self, other: &Footprint) -> Option<Conflict> {
        if self.factor_mask & other.factor_mask == 0 {
            return None;
        }
        let excluded = |&&(set, key): &&(Set, ResourceKey)| {
            let mut rivals = Set::ALL.into_iter().filter(|rival| set.excludes(*rival));
            rivals.any(|rival| other.uses.binary_search(&(rival, key)).is_ok())
        };
        self.uses.iter().find(excluded).map(|&(set, key)| Conflict { set, key })
    }
}

/// The bit of a key in a factor mask.
fn factor(class: Class, key: ResourceKey) -> u64 {
    1 << (FxBuildHasher.hash_one((class, key)) >> 58)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_sorted_and_without_duplicates() {
        let key = |local| ResourceKey::new(1, local);
        let mut footprint = Footprint::new();
        for local in [3, 1, 2, 3, 1] {
            footprint.insert(Set::NodeReads, key(local)).insert(Set::PortsIn, key(local + 10));
        }
        footprint.insert(Set::NodeWrites, key(1));
        assert!(footprint.set(Set::NodeReads).eq([key(1), key(2), key(3)]));
        assert!(footprint.set(Set::PortsIn).eq([key(11), key(12), key(13)]));
        assert!(footprint.set(Set::NodeWrites).eq([key(1)]));
        assert!(footprint.set(Set::PortsOut).eq([]));
        assert_eq!(footprint.len(), 7);
    }

    #[test]
    fn each_conflict_class() {
        use Set::*;
        let rows = [
            (NodeReads, NodeReads, false),
            (NodeReads, NodeWrites, true),
            (NodeWrites, NodeWrites, true),
            (EdgeReads, EdgeReads, false),
            (EdgeReads, EdgeWrites, true),
            (EdgeWrites, EdgeWrites, true),
            (AttachmentReads, AttachmentReads, false),
            (AttachmentReads, AttachmentWrites, true),
            (AttachmentWrites, AttachmentWrites, true),
            (PortsIn, PortsIn, true),
            (PortsIn, PortsOut, true),
            (PortsOut, PortsOut, true),
            // The same number in another class is another resource.
            (NodeWrites, EdgeWrites, false),
            (NodeWrites, AttachmentReads, false),
            (EdgeWrites, PortsIn, false),
        ];
        let (key, other) = (ResourceKey::new(7, 7), ResourceKey::new(8, 7));
        for (one, two, conflicts) in rows {
            let (a, b) = (Footprint::new().with(one, key), Footprint::new().with(two, key));
            assert_eq!(a.conflict(&b), conflicts.then_some(Conflict { set: one, key }), "{one:?} {two:?}");
            assert_eq!(b.conflict(&a).is_some(), conflicts, "{one:?} {two:?}");
            // The same local id in another instance is another resource.
            assert_eq!(a.conflict(&Footprint::new().with(two, other)), None);
        }
    }
}
