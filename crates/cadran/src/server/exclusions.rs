//! Which jobs can exclude which, in words.

use cadran_core::{Access, Footprint, Key, Overlap, PoolShare};
use cadran_http::JobConflict;
use cadran_place::conflicts::{Conflict, ConflictReason, Declared, conflicts};

/// By name; and whether there may be more than are listed.
pub fn exclusions(mut jobs: Vec<(String, Footprint, Overlap)>) -> (Vec<JobConflict>, bool) {
    jobs.sort_by(|one, two| one.0.cmp(&two.0));
    let (names, declared): (Vec<String>, Vec<Declared>) =
        jobs.into_iter().map(|(name, footprint, overlap)| (name, Declared { footprint, overlap })).unzip();
    let found = conflicts(&declared);
    let row = |conflict: Conflict| {
        let (touches, other_touches) = match conflict.why {
            ConflictReason::Key { one, other } => (key(&one), key(&other)),
            ConflictReason::Pool { one, other } => (pool(&one), pool(&other)),
        };
        JobConflict {
            job: names[conflict.one].clone(),
            other: names[conflict.other].clone(),
            touches,
            other_touches,
            by_params: conflict.by_params,
        }
    };
    (found.list.into_iter().map(row).collect(), found.cut)
}

fn key((access, key): &(Access, Key)) -> String {
    format!("{} of {key}", access.word())
}

fn pool(share: &PoolShare) -> String {
    format!("{} of {} in pool {}", share.units, share.capacity, share.pool)
}
