use std::collections::BTreeMap;

use super::Error;

/// Segments in one path: deeper ones are a mistake, and each costs a mark on every acquisition.
pub const DEPTH_MAX: usize = 32;
/// Keys known at once: what fits beside a mode in 32 bits.
pub const KEYS_MAX: usize = 1 << 29;

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
    /// Keys right below it, owners that hold or await it, and pins. What is used is not forgotten.
    pub(crate) uses: u32,
    pub(crate) ordered: bool,
    /// Of a pool.
    pub(crate) capacity: Option<u32>,
}

/// Paths and their numbers.
#[derive(Default)]
pub(crate) struct Keys {
    nodes: Vec<Option<Node>>,
    vacant: Vec<Key>,
    by_path: BTreeMap<(Option<Key>, Box<str>), Key>,
}

impl Keys {
    /// The key of a path; it and those above it are made when they are new.
    pub(crate) fn intern<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> Result<Key, Error> {
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
        if let Some(&key) = self.by_path.get(&(parent, segment.into())) {
            return Ok(key);
        }
        if parent.is_some_and(|parent| self.node(parent).is_some_and(|node| node.capacity.is_some())) {
            return Err(Error::Pool);
        }
        let node = Node { parent, segment: segment.into(), uses: 0, ordered: false, capacity: None };
        let key = match self.vacant.pop() {
            Some(key) => key,
            None if self.nodes.len() == KEYS_MAX => return Err(Error::Full),
            None => {
                self.nodes.push(None);
                Key((self.nodes.len() - 1) as u32)
            }
        };
        self.nodes[key.0 as usize] = Some(node);
        self.by_path.insert((parent, segment.into()), key);
        if let Some(parent) = parent.and_then(|parent| self.node_mut(parent)) {
            parent.uses += 1;
        }
        Ok(key)
    }

    pub(crate) fn node(&self, key: Key) -> Option<&Node> {
        self.nodes.get(key.0 as usize)?.as_ref()
    }

    pub(crate) fn node_mut(&mut self, key: Key) -> Option<&mut Node> {
        self.nodes.get_mut(key.0 as usize)?.as_mut()
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

    /// Forgets what nothing uses, and then what only that used.
    pub(crate) fn forget_unused(&mut self) -> usize {
        let before = self.len();
        for index in 0..self.nodes.len() {
            let mut at = Some(Key(index as u32));
            while let Some(key) = at {
                at = None;
                if self.node(key).is_some_and(|node| node.uses == 0)
                    && let Some(node) = self.nodes[key.0 as usize].take()
                {
                    self.by_path.remove(&(node.parent, node.segment));
                    self.vacant.push(key);
                    if let Some(parent) = node.parent
                        && let Some(above) = self.node_mut(parent)
                    {
                        above.uses -= 1;
                        at = Some(parent);
                    }
                }
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
        keys.node_mut(ac).unwrap().uses += 1;
        assert_eq!((keys.forget_unused(), keys.len()), (1, 2));
        assert_eq!(keys.path(ac), ["a", "c"]);
        keys.node_mut(ac).unwrap().uses -= 1;
        assert_eq!((keys.forget_unused(), keys.len()), (2, 0));
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
