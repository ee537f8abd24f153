use std::collections::BTreeMap;

use super::active::ActiveSet;
use super::{Conflict, Footprint, Pending, PendingFull, PendingRewrite, Phase, TxId};

/// How independence is found out. Both kinds give the same answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// By generation-stamped sets: the time of a footprint, however many were admitted.
    #[default]
    Radix,
    /// By comparing with every footprint that was admitted: for comparison, and as the oracle in tests.
    Pairwise,
}

/// Pending rewrites of transactions, drained in order and admitted when they are independent.
///
/// ```
/// use cadran_footprint::batch::*;
///
/// let mut scheduler = Scheduler::new(SchedulerKind::Radix);
/// let (tx, node) = (TxId(1), NodeKey::new(1, 7));
/// for (first_byte, set) in [(2, Set::NodeReads), (1, Set::NodeWrites)] {
///     let mut scope_hash = [0; 32];
///     scope_hash[0] = first_byte;
///     let footprint = Footprint::new().with(set, node);
///     scheduler.enqueue(tx, PendingRewrite { scope_hash, footprint, ..Default::default() })?;
/// }
/// let mut drained = scheduler.drain_for_tx(tx);
/// assert_eq!(scheduler.reserve_all(tx, &mut drained), 1); // The write, which comes first by its hash.
/// assert_eq!(drained[1].phase, Phase::Aborted);
/// scheduler.finalize_tx(tx);
/// # Ok::<(), PendingFull>(())
/// ```
#[derive(Default)]
pub struct Scheduler {
    kind: SchedulerKind,
    open: BTreeMap<TxId, Transaction>,
    /// Active sets of ended transactions, kept for their memory.
    spare: Vec<ActiveSet>,
}

/// Active sets kept: as many as transactions are usually open at once.
const SPARE_MAX: usize = 4;

#[derive(Default)]
struct Transaction {
    pending: Pending<PendingRewrite>,
    active: ActiveSet,
    /// What was admitted, of the pairwise kind.
    admitted: Vec<Footprint>,
}

impl Scheduler {
    /// A scheduler with nothing pending.
    pub fn new(kind: SchedulerKind) -> Scheduler {
        Scheduler { kind, ..Scheduler::default() }
    }

    /// How it finds out whether rewrites are independent.
    pub fn kind(&self) -> SchedulerKind {
        self.kind
    }

    /// Adds a rewrite to a transaction. Of several with the same scope hash and rule the last wins.
    pub fn enqueue(&mut self, tx: TxId, rewrite: PendingRewrite) -> Result<(), PendingFull> {
        self.transaction(tx).pending.enqueue(rewrite)
    }

    /// Takes what is pending in a transaction, in the order of (scope hash, rule), each pair once.
    pub fn drain_for_tx(&mut self, tx: TxId) -> Vec<PendingRewrite> {
        self.transaction(tx).pending.drain()
    }

    /// Admits a rewrite if it is independent of all that were admitted in its transaction, and notes the answer as its
    /// phase. A refusal leaves no other trace.
    pub fn reserve(&mut self, tx: TxId, rewrite: &mut PendingRewrite) -> Result<(), Conflict> {
        let kind = self.kind;
        self.transaction(tx).reserve(kind, rewrite)
    }

    /// Reserves for each rewrite in order, and says how many were admitted; the others are [aborted](Phase::Aborted).
    pub fn reserve_all(&mut self, tx: TxId, rewrites: &mut [PendingRewrite]) -> usize {
        let kind = self.kind;
        let transaction = self.transaction(tx);
        rewrites.iter_mut().filter_map(|rewrite| transaction.reserve(kind, rewrite).ok()).count()
    }

    /// Ends a transaction: its reservations and what is still pending in it are forgotten.
    pub fn finalize_tx(&mut self, tx: TxId) {
        let Some(mut ended) = self.open.remove(&tx) else { return };
        if self.spare.len() < SPARE_MAX {
            ended.active.clear();
            self.spare.push(ended.active);
        }
    }

    fn transaction(&mut self, tx: TxId) -> &mut Transaction {
        let spare = &mut self.spare;
        self.open.entry(tx).or_insert_with(|| Transaction {
            active: spare.pop().unwrap_or_default(),
            ..Transaction::default()
        })
    }
}

impl Transaction {
    fn reserve(&mut self, kind: SchedulerKind, rewrite: &mut PendingRewrite) -> Result<(), Conflict> {
        let footprint = &rewrite.footprint;
        let answer = match kind {
            SchedulerKind::Radix => self.active.reserve(footprint),
            SchedulerKind::Pairwise => {
                match self.admitted.iter().find_map(|before| footprint.conflict(before)) {
                    Some(conflict) => Err(conflict),
                    None => {
                        self.admitted.push(footprint.clone());
                        Ok(())
                    }
                }
            }
        };
        rewrite.phase = if answer.is_ok() { Phase::Reserved } else { Phase::Aborted };
        answer
    }
}
