use super::Error;
use super::request::KEYS_MAX;
use crate::chains::{Chains, NONE};
use crate::mix;

/// Segments in one path: deeper ones are a mistake, and each costs a mark on every acquisition.
pub const DEPTH_MAX: usize = 32;

/// A path, as a small number. Good until it is forgotten, see [`Reservations::forget_unused`].
///
/// [`Reservations::forget_unused`]: super::Reservations::forget_unused
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(crate) u32);

impl Key {
    /// The number: small, and used again when the key is forgotten.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// Splits a name into the segments of its path: `table:orders` is one, `s3://bucket/path/` is `s3://bucket` and `path`.
pub fn segments(name: &str) -> impl Iterator<Item = &str> {
    let kind_end = name.find(':').map_or(0, |colon| colon + 1);
    let skipped = name[kind_end..].bytes().take_while(|&byte| byte == b'/').count();
    let first_end =
        name[kind_end + skipped..].find('/').map_or(name.len(), |slash| kind_end + skipped + slash);
    let (first, rest) = name.split_at(first_end);
    std::iter::once(first).chain(rest.split('/')).filter(|segment| !segment.is_empty())
}

/// What is known of one key.
pub(crate) struct Node {
    pub(crate) parent: Option<Key>,
    segment: Box<str>,
    /// Keys right below it.
    pub(crate) children: u32,
    /// Of a pool.
    pub(crate) capacity: Option<u32>,
}

/// Paths and their numbers.
#[derive(Default)]
pub(crate) struct Keys {
    nodes: Vec<Option<Node>>,
    vacant: Vec<Key>,
    chains: Chains<(Option<Key>, Box<str>)>,
    /// One bit for each key, beside the nodes: it is asked for whenever somebody must wait.
    ordered: Vec<u64>,
}

impl Keys {
    /// The key of a path; it and those above it are made when they are new, and `made` is told.
    pub(crate) fn intern<'a>(
        &mut self,
        path: impl IntoIterator<Item = &'a str>,
        mut made: impl FnMut(Key),
    ) -> Result<Key, Error> {
        let mut at = None;
        for (depth, segment) in path.into_iter().enumerate() {
            if segment.is_empty() {
                return Err(Error::EmptySegment);
            }
            if depth == DEPTH_MAX {
                return Err(Error::TooDeep);
            }
            at = Some(self.child(at, segment, &mut made)?);
        }
        at.ok_or(Error::EmptySegment)
    }

    fn child(
        &mut self,
        parent: Option<Key>,
        segment: &str,
        made: &mut impl FnMut(Key),
    ) -> Result<Key, Error> {
        let hash = hash(parent, segment);
        let is = |slot: u32| {
            let node = self.nodes[slot as usize].as_ref();
            node.is_some_and(|node| node.parent == parent && *node.segment == *segment)
        };
        if let Some(slot) = self.chains.find(hash, is, || (parent, segment.into())) {
            return Ok(Key(slot));
        }
        if parent.is_some_and(|parent| self.node(parent).is_some_and(|node| node.capacity.is_some())) {
            return Err(Error::Pool);
        }
        let node = Node { parent, segment: segment.into(), children: 0, capacity: None };
        let key = match self.vacant.pop() {
            Some(key) => key,
            None if self.nodes.len() == KEYS_MAX => return Err(Error::Full),
            None => {
                self.nodes.push(None);
                Key((self.nodes.len() - 1) as u32)
            }
        };
        self.nodes[key.0 as usize] = Some(node);
        let nodes = &self.nodes;
        let hash_of = |slot: u32| {
            let node = nodes[slot as usize].as_ref();
            node.map_or(0, |node| self::hash(node.parent, &node.segment))
        };
        self.chains.insert(hash, key.0, || (parent, segment.into()), hash_of);
        if let Some(parent) = parent.and_then(|parent| self.node_mut(parent)) {
            parent.children += 1;
        }
        made(key);
        Ok(key)
    }

    pub(crate) fn node(&self, key: Key) -> Option<&Node> {
        self.nodes.get(key.0 as usize)?.as_ref()
    }

    pub(crate) fn node_mut(&mut self, key: Key) -> Option<&mut Node> {
        self.nodes.get_mut(key.0 as usize)?.as_mut()
    }

    pub(crate) fn set_ordered(&mut self, key: Key, ordered: bool) -> Result<(), Error> {
        self.node(key).ok_or(Error::Forgotten(key))?;
        let (word, bit) = (key.0 as usize / 64, 1 << (key.0 % 64));
        if self.ordered.len() <= word {
            self.ordered.resize(word + 1, 0);
        }
        self.ordered[word] = if ordered { self.ordered[word] | bit } else { self.ordered[word] & !bit };
        Ok(())
    }

    #[inline]
    pub(crate) fn is_ordered(&self, key: Key) -> bool {
        self.ordered.get(key.0 as usize / 64).is_some_and(|word| word >> (key.0 % 64) & 1 == 1)
    }

    /// The segments of its path, first to last.
    pub(crate) fn path(&self, key: Key) -> Vec<&str> {
        let mut path: Vec<&str> = Vec::new();
        let mut at = self.node(key);
        while let Some(node) = at {
            path.push(&node.segment);
            at = node.parent.and_then(|parent| self.node(parent));
        }
        path.reverse();
        path
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Forgets what is not used, then what only lay above that. `gone` is told.
    pub(crate) fn forget(&mut self, used: impl Fn(Key) -> bool, mut gone: impl FnMut(Key)) -> usize {
        let before = self.len();
        for index in 0..self.nodes.len() {
            let mut at = Some(Key(index as u32));
            while let Some(key) = at {
                let kept = |node: &Node| node.children > 0 || node.capacity.is_some();
                if self.node(key).is_none_or(kept) || self.is_ordered(key) || used(key) {
                    break;
                }
                let Some(node) = self.nodes[key.0 as usize].take() else { break };
                let hash = hash(node.parent, &node.segment);
                self.chains.remove(hash, key.0, || (node.parent, node.segment));
                self.vacant.push(key);
                gone(key);
                if let Some(above) = node.parent.and_then(|parent| self.node_mut(parent)) {
                    above.children -= 1;
                }
                at = node.parent;
            }
        }
        before - self.len()
    }
}

fn hash(parent: Option<Key>, segment: &str) -> u64 {
    mix::text(u64::from(parent.map_or(NONE, |parent| parent.0)), segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_split_at_slashes_after_the_first_word() {
        let check = |name: &str, expected: &[&str]| {
            assert_eq!(segments(name).collect::<Vec<_>>(), expected, "{name}")
        };
        check("table:orders", &["table:orders"]);
        check("s3://bucket/path/", &["s3://bucket", "path"]);
        check("s3://bucket/path//deep/file.csv", &["s3://bucket", "path", "deep", "file.csv"]);
        check("file:/data/x", &["file:/data", "x"]);
        check("data/x/", &["data", "x"]);
        check("/data/x", &["/data", "x"]);
        check("gpu", &["gpu"]);
        check("", &[]);
    }

    #[test]
    fn unused_keys_are_forgotten_and_their_numbers_used_again() {
        let mut keys = Keys::default();
        let ab = keys.intern(["a", "b"], |_| ()).unwrap();
        let ac = keys.intern(["a", "c"], |_| ()).unwrap();
        assert_eq!(keys.intern(["a", "b"], |_| panic!("it is known")), Ok(ab));
        assert_eq!((keys.forget(|key| key == ac, |_| ()), keys.len()), (1, 2));
        assert_eq!(keys.path(ac), ["a", "c"]);
        assert_eq!((keys.forget(|_| false, |_| ()), keys.len()), (2, 0));
        keys.intern(["x", "y", "z"], |_| ()).unwrap();
        assert_eq!(keys.nodes.len(), 3);
    }

    #[test]
    fn paths_are_bounded() {
        let mut keys = Keys::default();
        assert_eq!(keys.intern([""], |_| ()), Err(Error::EmptySegment));
        assert_eq!(keys.intern([], |_| ()), Err(Error::EmptySegment));
        assert!(keys.intern(["a"; DEPTH_MAX], |_| ()).is_ok());
        assert_eq!(keys.intern(["a"; DEPTH_MAX + 1], |_| ()), Err(Error::TooDeep));
    }
}
