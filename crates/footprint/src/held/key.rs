use std::collections::BTreeMap;
use std::sync::Arc;

use super::Error;

/// Segments in one path: deeper ones are a mistake, and each costs a mark on every acquisition.
pub const DEPTH_MAX: usize = 32;

/// Keys known at once.
pub const KEYS_MAX: usize = 1 << 28;

/// A path, as a small number. Good until it is forgotten, see [`Reservations::forget_unused`].
///
/// [`Reservations::forget_unused`]: super::Reservations::forget_unused
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub(super) u32);

impl Key {
    /// The number: small, and used again when the key is forgotten.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// Splits a name into the segments of its path: `table:orders` is one, `s3://bucket/path/` is `s3://bucket` and `path`.
pub fn segments(name: &str) -> impl Iterator<Item = &str> {
    let kind_end = name.find(':').map_or(0, |colon| colon + 1);
    let slashes = name[kind_end..].bytes().take_while(|&byte| byte == b'/').count();
    let first_end =
        name[kind_end + slashes..].find('/').map_or(name.len(), |slash| kind_end + slashes + slash);
    let (first, rest) = name.split_at(first_end);
    std::iter::once(first).chain(rest.split('/')).filter(|segment| !segment.is_empty())
}

/// What is known of one key.
#[derive(Default)]
pub(super) struct Node {
    pub(super) parent: Option<Key>,
    segment: Arc<str>,
    children: BTreeMap<Arc<str>, Key>,
    /// Of a pool.
    pub(super) capacity: Option<u32>,
    /// It is not forgotten, so that it stays ordered.
    pub(super) ordered: bool,
}

/// The tree of all paths, and their numbers.
#[derive(Default)]
pub(super) struct Keys {
    roots: BTreeMap<Arc<str>, Key>,
    nodes: Vec<Option<Node>>,
    vacant: Vec<Key>,
}

impl Keys {
    /// The key of a path; it and those above it are made when they are new.
    pub(super) fn intern<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
        let mut at = None;
        for (depth, segment) in path.into_iter().enumerate() {
            if segment.is_empty() {
                return Err(Error::EmptySegment);
            }
            if depth == DEPTH_MAX {
                return Err(Error::TooDeep);
            }
            at = Some(self.child(at, segment)?);
        }
        at.ok_or(Error::EmptySegment)
    }

    fn child(&mut self, parent: Option<Key>, segment: &str) -> Result<Key, Error> {
        if let Some(&known) = self.children(parent).get(segment) {
            return Ok(known);
        }
        if parent.and_then(|parent| self.node(parent)).is_some_and(|node| node.capacity.is_some()) {
            return Err(Error::Pool);
        }
        let key = match self.vacant.pop() {
            Some(key) => key,
            None if self.nodes.len() == KEYS_MAX => return Err(Error::Full),
            None => {
                self.nodes.push(None);
                Key((self.nodes.len() - 1) as u32)
            }
        };
        let segment: Arc<str> = segment.into();
        self.children(parent).insert(segment.clone(), key);
        self.nodes[key.0 as usize] = Some(Node { parent, segment, ..Node::default() });
        Ok(key)
    }

    /// The keys right below one, or those with nothing above.
    fn children(&mut self, parent: Option<Key>) -> &mut BTreeMap<Arc<str>, Key> {
        match parent.and_then(|parent| self.nodes[parent.0 as usize].as_mut()) {
            Some(node) => &mut node.children,
            None => &mut self.roots,
        }
    }

    pub(super) fn node(&self, key: Key) -> Option<&Node> {
        self.nodes.get(key.0 as usize)?.as_ref()
    }

    pub(super) fn node_mut(&mut self, key: Key) -> Option<&mut Node> {
        self.nodes.get_mut(key.0 as usize)?.as_mut()
    }

    /// The units of a pool.
    pub(super) fn capacity(&self, key: Key) -> Option<u32> {
        self.node(key)?.capacity
    }

    pub(super) fn has_children(&self, key: Key) -> bool {
        self.node(key).is_some_and(|node| !node.children.is_empty())
    }

    /// The segments of its path, first to last.
    pub(super) fn path(&self, key: Key) -> Vec<&str> {
        let mut path: Vec<&str> = Vec::new();
        let mut at = self.node(key);
        while let Some(node) = at {
            path.push(&node.segment);
            at = node.parent.and_then(|parent| self.node(parent));
        }
        path.reverse();
        path
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Numbers of keys are below this.
    pub(super) fn numbers_end(&self) -> usize {
        self.nodes.len()
    }

    /// Forgets what is not used, then what only lay above that. Pools and ordered keys stay.
    pub(super) fn forget(&mut self, used: impl Fn(Key) -> bool) -> usize {
        let before = self.len();
        for index in 0..self.nodes.len() {
            let mut at = Some(Key(index as u32));
            while let Some(key) = at {
                let kept = |node: &Node| !node.children.is_empty() || node.capacity.is_some() || node.ordered;
                if self.node(key).is_none_or(kept) || used(key) {
                    break;
                }
                let Some(node) = self.nodes[key.0 as usize].take() else { break };
                self.children(node.parent).remove(&node.segment);
                self.vacant.push(key);
                at = node.parent;
            }
        }
        before - self.len()
    }
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
        let ab = keys.intern(["a", "b"]).unwrap();
        let ac = keys.intern(["a", "c"]).unwrap();
        assert_eq!(keys.intern(["a", "b"]), Ok(ab));
        assert_eq!((keys.forget(|key| key == ac), keys.len()), (1, 2));
        assert_eq!(keys.path(ac), ["a", "c"]);
        assert_eq!((keys.forget(|_| false), keys.len()), (2, 0));
        keys.intern(["x", "y", "z"]).unwrap();
        assert_eq!(keys.nodes.len(), 3);
    }

    #[test]
    fn paths_are_bounded() {
        let mut keys = Keys::default();
        assert_eq!(keys.intern([""]), Err(Error::EmptySegment));
        assert_eq!(keys.intern([]), Err(Error::EmptySegment));
        assert!(keys.intern(["a"; DEPTH_MAX]).is_ok());
        assert_eq!(keys.intern(["a"; DEPTH_MAX + 1]), Err(Error::TooDeep));
    }
}
