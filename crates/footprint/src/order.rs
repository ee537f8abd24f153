//! Numbers of items sorted by (scope hash, rule), the last of equals kept.

use crate::pending::{InOrder, word};

/// Members of a bucket that neighbours may sort among themselves. Fair hashes give buckets of one or two.
const BUCKET_MAX: u32 = 16;

/// Groups up to this are sorted by comparing; the logarithm of it is a constant.
const COMPARE_MAX: usize = 64;

/// Bits of one scatter among hostile hashes: their counters fit the first cache.
const SCATTER_BITS: u32 = 11;

/// Words of a key: four of the hash, and the rule.
const WORDS: usize = 5;

/// Sorts, in memory that is used again.
#[derive(Default)]
pub(crate) struct Sorter {
    counts: Vec<u32>,
    /// The 32 leading bits that differ, and the number of the item.
    scattered: Vec<u64>,
    pairs: Vec<(u64, u32)>,
    other: Vec<(u64, u32)>,
    /// Groups that are still to be refined.
    groups: Vec<Group>,
    /// The list handed out last, when it came back.
    pub(crate) order: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Group {
    start: u32,
    end: u32,
}

impl Sorter {
    /// Fills `order` with the numbers of the items that stay, in order. `heads` are the first words of their hashes.
    pub(crate) fn sort<T: InOrder>(&mut self, items: &[T], heads: &[u64], order: &mut Vec<u32>) {
        order.clear();
        let Some(&first) = heads.first() else { return };
        let differ = heads.iter().fold(0, |differ, head| differ | (head ^ first));
        if heads.len() <= 2 || !self.scatter(heads, differ) {
            self.refine(items, heads, order);
            return;
        }
        // Nearly sorted: nobody is further from its place than its bucket is long.
        let scattered = &mut self.scattered[..];
        // Those that begin alike come to stand side by side, the later one after the earlier.
        let mut differ = true;
        for at in 1..scattered.len() {
            let this = scattered[at];
            let mut to = at;
            let mut before = scattered[at - 1];
            while before > this {
                scattered[to] = before;
                to -= 1;
                if to == 0 {
                    before = !this;
                    break;
                }
                before = scattered[to - 1];
            }
            scattered[to] = this;
            differ &= (before ^ this) >> 32 != 0;
        }
        if differ {
            order.extend(scattered.iter().map(|at| *at as u32));
            return;
        }
        order.reserve(scattered.len());
        let mut at = 0;
        while at < scattered.len() {
            let alike = scattered[at] >> 32;
            let mut end = at + 1;
            while end < scattered.len() && scattered[end] >> 32 == alike {
                end += 1;
            }
            if end - at == 1 {
                order.push(scattered[at] as u32);
            } else {
                // Repeated items, or, seldom, hashes that begin alike.
                let run = &mut scattered[at..end];
                run.sort_unstable_by(|a, b| compare(items, *a as u32, *b as u32).then(a.cmp(b)));
                keep_last_of(items, run.iter().map(|at| *at as u32), order);
            }
            at = end;
        }
    }

    /// Scatters by the leading bits that differ. Says whether the buckets are short.
    fn scatter(&mut self, heads: &[u64], differ: u64) -> bool {
        if differ == 0 {
            return false;
        }
        let lead = differ.leading_zeros();
        let bits = heads.len().ilog2().min(20);
        self.counts.clear();
        self.counts.resize(1 << bits, 0);
        let counts = &mut self.counts[..];
        for &head in heads {
            counts[((head << lead) >> (64 - bits)) as usize] += 1;
        }
        let mut sum = 0;
        let mut longest = 0;
        for count in counts.iter_mut() {
            longest = longest.max(*count);
            let start = sum;
            sum += *count;
            *count = start;
        }
        if longest > BUCKET_MAX {
            return false;
        }
        self.scattered.resize(heads.len(), 0);
        for (&head, at) in heads.iter().zip(0u64..) {
            let leading = head << lead;
            let place = &mut counts[(leading >> (64 - bits)) as usize];
            self.scattered[*place as usize] = (leading >> 32) << 32 | at;
            *place += 1;
        }
        true
    }

    /// For hashes that crowd together: groups are divided by the leading bits in which they differ, word after word.
    /// Each pass over a group either divides it or moves on to the next word, or ends it as equal.
    fn refine<T: InOrder>(&mut self, items: &[T], heads: &[u64], order: &mut Vec<u32>) {
        self.pairs.clear();
        self.pairs.extend(heads.iter().copied().zip(0..));
        self.other.clear();
        self.other.resize(heads.len(), (0, 0));
        self.groups.clear();
        self.groups.push(Group { start: 0, end: heads.len() as u32 });
        // The group that comes first in order is the last of the list.
        while let Some(group) = self.groups.pop() {
            let members = &mut self.pairs[group.start as usize..group.end as usize];
            if members.len() <= COMPARE_MAX {
                // Words before this one are equal.
                let full = |a: &(u64, u32), b: &(u64, u32)| compare(items, a.1, b.1).then(a.1.cmp(&b.1));
                members.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| full(a, b)));
                keep_last(items, members, order);
                continue;
            }
            let first = members[0].0;
            let differ = members.iter().fold(0, |differ, pair| differ | (pair.0 ^ first));
            if differ != 0 {
                self.divide(group, differ);
                continue;
            }
            // Equal so far: on to the first word in which any of them differs. Mostly there is none, and these are one
            // item, repeated: then the last is all that stays.
            let last = members[members.len() - 1].1;
            let after = |pair: &(u64, u32)| first_differing(&items[pair.1 as usize], &items[last as usize]);
            let word = members.iter().map(after).min().unwrap_or(WORDS);
            if word >= WORDS {
                order.push(last);
                continue;
            }
            members.iter_mut().for_each(|pair| pair.0 = word_of(&items[pair.1 as usize], word));
            self.groups.push(group);
        }
    }

    /// Divides a group by the leading bits in which its members differ. Members keep their order in each part.
    fn divide(&mut self, group: Group, differ: u64) {
        let members = &mut self.pairs[group.start as usize..group.end as usize];
        let lead = differ.leading_zeros();
        let bits = SCATTER_BITS.min(members.len().ilog2()).min(64 - lead);
        self.counts.clear();
        self.counts.resize((1 << bits) + 1, 0);
        let part = |value: u64| ((value << lead) >> (64 - bits)) as usize;
        for pair in members.iter() {
            self.counts[part(pair.0)] += 1;
        }
        let mut sum = 0;
        for count in self.counts.iter_mut() {
            let start = sum;
            sum += *count;
            *count = start;
        }
        let other = &mut self.other[..members.len()];
        for &pair in members.iter() {
            let place = &mut self.counts[part(pair.0)];
            other[*place as usize] = pair;
            *place += 1;
        }
        members.copy_from_slice(other);
        // Each count is now the end of its part.
        let before = self.groups.len();
        let mut start = 0;
        for &end in &self.counts[..1 << bits] {
            if end > start {
                self.groups.push(Group { start: group.start + start, end: group.start + end });
                start = end;
            }
        }
        self.groups[before..].reverse();
    }
}

fn compare<T: InOrder>(items: &[T], one: u32, other: u32) -> std::cmp::Ordering {
    let (one, other) = (&items[one as usize], &items[other as usize]);
    one.scope_hash().cmp(other.scope_hash()).then_with(|| one.rule().cmp(&other.rule()))
}

/// Of equal neighbours, keeps the last. Those with different words are not equal.
fn keep_last<T: InOrder>(items: &[T], sorted: &[(u64, u32)], order: &mut Vec<u32>) {
    for (at, pair) in sorted.iter().enumerate() {
        let next = sorted.get(at + 1);
        if next.is_none_or(|next| next.0 != pair.0 || compare(items, pair.1, next.1).is_ne()) {
            order.push(pair.1);
        }
    }
}

/// Of equal neighbours, keeps the last.
fn keep_last_of<T: InOrder>(items: &[T], sorted: impl Iterator<Item = u32>, order: &mut Vec<u32>) {
    let mut sorted = sorted.peekable();
    while let Some(at) = sorted.next() {
        if sorted.peek().is_none_or(|&next| compare(items, at, next).is_ne()) {
            order.push(at);
        }
    }
}

/// The first word in which two keys differ.
fn first_differing<T: InOrder>(one: &T, other: &T) -> usize {
    (0..WORDS).find(|&at| word_of(one, at) != word_of(other, at)).unwrap_or(WORDS)
}

fn word_of<T: InOrder>(item: &T, at: usize) -> u64 {
    if at < 4 { word(item.scope_hash(), at) } else { u64::from(item.rule().0) }
}
