use crate::{Mode, mix};

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
}

/// How the keys of a set are used, in three bits: the class, and whether they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClassUse(u8);

impl ClassUse {
    const fn of(set: Set) -> ClassUse {
        ClassUse(set.class() as u8 | (!matches!(set.mode(), Mode::Read) as u8) << 2)
    }

    /// Of the number of a class, and one when keys are written.
    pub(crate) const fn new(class: u8, writes: u8) -> ClassUse {
        ClassUse(class | writes << 2)
    }

    /// Of its three bits; others are not looked at.
    pub(crate) const fn from_bits(bits: u8) -> ClassUse {
        ClassUse(bits & 7)
    }

    #[inline]
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The number of the class.
    #[inline]
    pub(crate) const fn class(self) -> u8 {
        self.0 & 3
    }
}

/// How the keys of each set are used.
const USES: [ClassUse; 8] = {
    let mut uses = [ClassUse(0); 8];
    let mut at = 0;
    while at < 8 {
        uses[at] = ClassUse::of(Set::ALL[at]);
        at += 1;
    }
    uses
};

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
    /// All sets one after another, in the order of [`Set::ALL`], each sorted.
    keys: Vec<ResourceKey>,
    /// Where each set ends.
    ends: [u32; 8],
    factor_mask: u64,
}

impl Footprint {
    /// With nothing in it: independent of everything.
    pub fn new() -> Footprint {
        Footprint::default()
    }

    /// Adds a key to a set; once is enough.
    pub fn insert(&mut self, set: Set, key: ResourceKey) -> &mut Footprint {
        let range = self.range(set);
        if let Err(at) = self.keys[range.clone()].binary_search(&key) {
            let at = range.start + at;
            self.keys.insert(at, key);
            self.ends[set as usize..].iter_mut().for_each(|end| *end += 1);
            self.factor_mask |= 1 << (hash(set.class(), key) >> 58);
        }
        self
    }

    /// As [`insert`](Footprint::insert), by value.
    pub fn with(mut self, set: Set, key: ResourceKey) -> Footprint {
        self.insert(set, key);
        self
    }

    /// The keys of a set, sorted.
    pub fn set(&self, set: Set) -> &[ResourceKey] {
        &self.keys[self.range(set)]
    }

    /// Sets that hold any keys, with their keys.
    #[inline]
    pub fn sets(&self) -> impl Iterator<Item = (Set, &[ResourceKey])> {
        let mut start = 0;
        Set::ALL.into_iter().zip(self.ends).filter_map(move |(set, end)| {
            let keys = &self.keys[start..end as usize];
            start = end as usize;
            (!keys.is_empty()).then_some((set, keys))
        })
    }

    /// All keys, in the order of [`Set::ALL`].
    pub(crate) fn keys(&self) -> &[ResourceKey] {
        &self.keys
    }

    /// The keys of each set that holds any, and how they are used.
    #[inline]
    pub(crate) fn uses(&self) -> impl Iterator<Item = (ClassUse, &[ResourceKey])> {
        self.sets().map(|(set, keys)| (USES[set as usize], keys))
    }

    /// The set of a key, by its place.
    pub(crate) fn set_at(&self, at: usize) -> Set {
        Set::ALL[self.ends.iter().filter(|&&end| end as usize <= at).count().min(7)]
    }

    /// How many keys it holds.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether it holds no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
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
        for (set, keys) in self.sets() {
            for (theirs, their_keys) in other.sets() {
                if set.class() == theirs.class()
                    && set.mode().excludes(theirs.mode())
                    && let Some(key) = common(keys, their_keys)
                {
                    return Some(Conflict { set, key });
                }
            }
        }
        None
    }

    fn range(&self, set: Set) -> std::ops::Range<usize> {
        let start = (set as usize).checked_sub(1).map_or(0, |before| self.ends[before]);
        start as usize..self.ends[set as usize] as usize
    }
}

/// The first key that two sorted lists share.
fn common(mut left: &[ResourceKey], mut right: &[ResourceKey]) -> Option<ResourceKey> {
    while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
        match a.cmp(b) {
            std::cmp::Ordering::Equal => return Some(*a),
            std::cmp::Ordering::Less => left = left_rest,
            std::cmp::Ordering::Greater => right = right_rest,
        }
    }
    None
}

/// The hash of a key of a class.
#[inline]
pub(crate) const fn hash(class: Class, key: ResourceKey) -> u64 {
    MixedKey::new(class as u8, key).hash()
}

/// A key as it is hashed: its class is mixed in, and one multiplication is left to do. Of one class, different keys stay
/// different.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MixedKey([u64; 2]);

impl MixedKey {
    #[inline]
    pub(crate) const fn new(class: u8, key: ResourceKey) -> MixedKey {
        MixedKey(mix::factors(key.instance ^ (class as u64) << 62, key.local))
    }

    #[inline]
    pub(crate) const fn hash(self) -> u64 {
        mix::fold(self.0[0], self.0[1])
    }
}

/// A key as it is hashed, and how it is to be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MixedUse {
    pub(crate) key: MixedKey,
    pub(crate) used: ClassUse,
}

impl MixedUse {
    #[inline]
    pub(crate) const fn new(used: ClassUse, key: ResourceKey) -> MixedUse {
        MixedUse { key: MixedKey::new(used.class(), key), used }
    }
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
        assert_eq!(footprint.set(Set::NodeReads), [key(1), key(2), key(3)]);
        assert_eq!(footprint.set(Set::PortsIn), [key(11), key(12), key(13)]);
        assert_eq!(footprint.set(Set::NodeWrites), [key(1)]);
        assert_eq!(footprint.set(Set::PortsOut), []);
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
