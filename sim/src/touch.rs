//! What active runs touch never conflicts: judged by names alone, without the tables of the product.

use std::collections::BTreeMap;

use cadran_core::{Access, Footprint, Job, RunId};

use crate::law::{Violation, broken};

/// What the runs that are on touch: from their first order until the server says that they are over.
#[derive(Default)]
pub(crate) struct Touch {
    on: BTreeMap<RunId, Footprint>,
}

impl Touch {
    /// A run is told to start something.
    pub(crate) fn start(&mut self, run: RunId, job: &Job) -> Result<(), Violation> {
        let Some(footprint) = of(job) else { return Ok(()) };
        for (other, theirs) in self.on.iter().filter(|(other, _)| **other != run) {
            if let Some(key) = conflict(&footprint, theirs) {
                return broken(
                    "what active runs touch never conflicts",
                    format!("{run} of {} starts although {other} is on: {key}", job.name),
                );
            }
        }
        for share in &footprint.pools {
            let others = self.on.iter().filter(|(other, _)| **other != run);
            let of_pool =
                others.flat_map(|(_, theirs)| &theirs.pools).filter(|theirs| theirs.pool == share.pool);
            let taken: u32 = of_pool.map(|theirs| theirs.units).sum();
            if taken + share.units > share.capacity {
                return broken(
                    "what active runs touch never conflicts",
                    format!(
                        "{run} of {} takes {} of {}, {taken} are taken",
                        job.name, share.units, share.capacity
                    ),
                );
            }
        }
        self.on.insert(run, footprint);
        Ok(())
    }

    /// A run is over.
    pub(crate) fn end(&mut self, run: RunId) {
        self.on.remove(&run);
    }

    /// After a restart only those are on that the record knows as open.
    pub(crate) fn keep(&mut self, is_open: impl Fn(RunId) -> bool) {
        self.on.retain(|run, _| is_open(*run));
    }
}

/// Whether the runs of two jobs can be in the way of one another.
pub(crate) fn can_exclude(one: &Job, other: &Job) -> bool {
    let (Some(one), Some(other)) = (of(one), of(other)) else { return false };
    // With a pool others may take what is missing for these two.
    conflict(&one, &other).is_some() || !one.pools.is_empty() && !other.pools.is_empty()
}

fn of(job: &Job) -> Option<Footprint> {
    job.body.footprint.resolve(&job.body.params, &[])
}

/// A key that excludes the two: the same, or one below the other, and not only read.
fn conflict(one: &Footprint, other: &Footprint) -> Option<String> {
    for (ours, how) in &one.keys {
        for (theirs, their_how) in &other.keys {
            let only_read = *how == Access::Read && *their_how == Access::Read;
            if ours.touches(theirs) && !only_read {
                return Some(format!("{} of {ours}, {} of {theirs}", how.word(), their_how.word()));
            }
        }
    }
    None
}
