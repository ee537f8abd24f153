//! Enqueueing and draining beside an ordered map in which the last wins.

use std::collections::BTreeMap;

use cadran_footprint::batch::{
    DrainKey, Footprint, Pending, PendingRewrite, ResourceKey, RuleId, ScopeHash, Set,
};

use crate::measure::{Chance, Effort, thousand};
use cadran_dev::bench_table::Table;

/// A small item: a number of the caller's.
#[derive(Clone)]
pub(crate) struct Item {
    hash: ScopeHash,
    rule: RuleId,
    number: u32,
}

impl DrainKey for Item {
    fn scope_hash(&self) -> &ScopeHash {
        &self.hash
    }

    fn rule(&self) -> RuleId {
        self.rule
    }
}

pub(crate) fn fair_hash(chance: &mut Chance) -> ScopeHash {
    let mut hash = [0; 32];
    hash.chunks_mut(8).for_each(|word| word.copy_from_slice(&chance.next().to_be_bytes()));
    hash
}

pub(crate) fn items(count: usize, mut hash: impl FnMut(usize) -> ScopeHash) -> Vec<Item> {
    (0..count).map(|at| Item { hash: hash(at), rule: RuleId(at as u32 % 4), number: at as u32 }).collect()
}

/// All in, and the order of what goes out.
pub(crate) fn ours<T: DrainKey>(pending: &mut Pending<T>, items: Vec<T>) -> Vec<T> {
    for item in items {
        pending.enqueue(item).unwrap();
    }
    pending.drain()
}

/// All in, and all out in order.
pub(crate) fn map<T: DrainKey>(items: Vec<T>) -> usize {
    let mut map: BTreeMap<(ScopeHash, RuleId), (u64, T)> = BTreeMap::new();
    for (item, nonce) in items.into_iter().zip(0..) {
        map.insert((*item.scope_hash(), item.rule()), (nonce, item));
    }
    map.into_values().map(|(nonce, _)| nonce as usize).sum()
}

fn row<T: DrainKey + Clone>(effort: Effort, table: &mut Table, label: &str, items: &[T], goal: Option<f64>) {
    let mut pending = Pending::new();
    let mut map: BTreeMap<(ScopeHash, RuleId), u32> = BTreeMap::new();
    for (item, nonce) in items.iter().zip(0..) {
        map.insert((*item.scope_hash(), item.rule()), nonce);
    }
    let drained = ours(&mut pending, items.to_vec());
    let keys = drained.iter().map(|item| (*item.scope_hash(), item.rule()));
    assert!(keys.eq(map.into_keys()), "{label}");
    let drain = |items| ours(&mut pending, items);
    let (time, rival) = effort.both((|| items.to_vec(), drain), (|| items.to_vec(), self::map));
    let count = items.len();
    let (time, rival) = (thousand(time, count), ("ordered map", thousand(rival, count)));
    match goal {
        Some(goal) => table.faster(label, time, rival, goal),
        None => table.beside(label, time, rival),
    }
}

fn sizes(quick: bool) -> &'static [usize] {
    if quick { &[10_000, 100_000] } else { &[10_000, 100_000, 1_000_000] }
}

pub(crate) fn fair(effort: Effort, quick: bool, table: &mut Table) {
    for &count in sizes(quick) {
        let mut chance = Chance(1);
        let small = items(count, |_| fair_hash(&mut chance));
        row(effort, table, &format!("{count} items, a thousand"), &small, Some(10.0));
        let rewrites: Vec<PendingRewrite> = small
            .iter()
            .map(|item| PendingRewrite {
                scope_hash: item.hash,
                compact_rule: item.rule,
                scope: ResourceKey::new(1, item.number.into()),
                footprint: Footprint::new().with(Set::NodeWrites, ResourceKey::new(1, item.number.into())),
                ..PendingRewrite::default()
            })
            .collect();
        row(effort, table, &format!("{count} rewrites, a thousand"), &rewrites, None);
    }
}

pub(crate) fn hostile(effort: Effort, quick: bool, table: &mut Table) {
    let prefix = [7; 8];
    for &count in sizes(quick) {
        let mut chance = Chance(2);
        let ways: [(&str, Vec<Item>); 5] = [
            (
                "equal prefixes",
                items(count, |_| {
                    let mut hash = fair_hash(&mut chance);
                    hash[..8].copy_from_slice(&prefix);
                    hash
                }),
            ),
            (
                "only the last bytes differ",
                items(count, |at| {
                    let mut hash = [9; 32];
                    let scrambled = (at as u32).wrapping_mul(0x9e37_79b1);
                    hash[28..].copy_from_slice(&scrambled.to_be_bytes());
                    hash
                }),
            ),
            ("nearly all duplicates", {
                let known: Vec<ScopeHash> = (0..100).map(|_| fair_hash(&mut chance)).collect();
                let mut all = items(count, |at| known[(at * 7919) % 100]);
                all.iter_mut().for_each(|item| item.rule = RuleId(1));
                all
            }),
            ("sorted", {
                let mut sorted = items(count, |_| fair_hash(&mut chance));
                sorted.sort_by_key(|item| item.hash);
                sorted
            }),
            (
                "a few outliers",
                items(count, |at| {
                    let mut hash = [0; 32];
                    if at % 1000 == 0 {
                        hash[at / 1000 % 32] = 1 << (at % 8);
                    }
                    hash[24..]
                        .copy_from_slice(&(at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
                    hash
                }),
            ),
        ];
        for (name, items) in &ways {
            row(effort, table, &format!("{count}, {name}, a thousand"), items, None);
        }
    }
}
