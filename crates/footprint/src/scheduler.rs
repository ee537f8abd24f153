use std::sync::Arc;

use crate::marks::Marks;
use crate::pending::{Drained, Pending, PendingFull};
use crate::wanted::Wanted;
use crate::{Conflict, Footprint, PendingRewrite, Phase, Rewrite, TxId};

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
/// use cadran_footprint::*;
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
/// assert_eq!(drained.get(1).unwrap().phase, Phase::Aborted);
/// scheduler.finalize_tx(tx);
/// scheduler.recycle(drained);
/// # Ok::<(), PendingFull>(())
/// ```
#[derive(Default)]
pub struct Scheduler {
    kind: SchedulerKind,
    /// By id. Few are open at once.
    open: Vec<(TxId, Tx)>,
    /// What ended transactions leave behind for the next ones.
    spare: Vec<Tx>,
}

/// Ended transactions kept for their memory: as many as are usually open at once.
const SPARE_MAX: usize = 4;

#[derive(Default)]
struct Tx {
    pending: Pending<PendingRewrite>,
    /// What those that are pending want.
    wanted: Wanted,
    /// Memory for what will be drained.
    spare: Option<(Arc<Wanted>, Vec<Phase>)>,
    marks: Marks,
    /// What was admitted, of the pairwise kind.
    admitted: Vec<Footprint>,
}

impl Scheduler {
    /// With nothing pending.
    pub fn new(kind: SchedulerKind) -> Scheduler {
        Scheduler { kind, ..Scheduler::default() }
    }

    /// How it finds out.
    pub fn kind(&self) -> SchedulerKind {
        self.kind
    }

    /// Adds a rewrite to a transaction. Of several with the same scope hash and rule the last wins.
    pub fn enqueue(&mut self, tx: TxId, rewrite: PendingRewrite) -> Result<(), PendingFull> {
        let tx = self.tx(tx);
        let span = tx.wanted.add(&rewrite.footprint)?;
        let number = tx.pending.put(rewrite)?;
        tx.wanted.give(number, span);
        Ok(())
    }

    /// Takes what is pending in a transaction, in the order of (scope hash, rule), each pair once.
    pub fn drain_for_tx(&mut self, tx: TxId) -> Rewrites {
        let tx = self.tx(tx);
        let drained = tx.pending.drain();
        tx.wanted.arrange(drained.order());
        let (mut wanted, mut phases) = tx.spare.take().unwrap_or_default();
        match Arc::get_mut(&mut wanted) {
            Some(wanted) => std::mem::swap(wanted, &mut tx.wanted),
            None => wanted = Arc::new(std::mem::take(&mut tx.wanted)),
        }
        phases.resize(drained.len(), Phase::Matched);
        Rewrites { drained, wanted, phases }
    }

    /// Admits a rewrite if it is independent of all that were admitted in its transaction, and notes it in its phase.
    /// A refusal leaves no other trace.
    pub fn reserve(&mut self, tx: TxId, rewrite: &mut PendingRewrite) -> Result<(), Conflict> {
        let kind = self.kind;
        let answer = self.tx(tx).reserve(kind, &rewrite.footprint);
        rewrite.phase = if answer.is_ok() { Phase::Reserved } else { Phase::Aborted };
        answer
    }

    /// As [`reserve`](Scheduler::reserve), for the rewrite at a place of those that were drained. There is nothing to
    /// admit where there is none.
    pub fn reserve_at(&mut self, tx: TxId, rewrites: &mut Rewrites, place: usize) -> Result<(), Conflict> {
        let Some(rewrite) = rewrites.drained.get(place) else { return Ok(()) };
        let kind = self.kind;
        let answer = self.tx(tx).reserve(kind, &rewrite.footprint);
        rewrites.phases[place] = if answer.is_ok() { Phase::Reserved } else { Phase::Aborted };
        answer
    }

    /// As [`reserve_at`](Scheduler::reserve_at) for each that was drained, in order, and much faster than one by one. Says
    /// how many were admitted; the others are [aborted](Phase::Aborted).
    pub fn reserve_all(&mut self, tx: TxId, rewrites: &mut Rewrites) -> usize {
        if self.kind == SchedulerKind::Pairwise {
            let places = 0..rewrites.len();
            return places.filter(|&place| self.reserve_at(tx, rewrites, place).is_ok()).count();
        }
        let Rewrites { wanted, phases, .. } = rewrites;
        self.tx(tx).marks.reserve_all(wanted, phases)
    }

    /// Ends a transaction: its reservations and what is still pending in it are forgotten.
    pub fn finalize_tx(&mut self, tx: TxId) {
        let Ok(at) = self.find(tx) else { return };
        let (_, mut ended) = self.open.remove(at);
        if self.spare.len() < SPARE_MAX {
            ended.marks.begin();
            ended.admitted.clear();
            ended.wanted.clear();
            let left = ended.pending.drain();
            ended.pending.recycle(left);
            self.spare.push(ended);
        }
    }

    /// Gives the memory of what was drained back, to be used again.
    pub fn recycle(&mut self, rewrites: Rewrites) {
        let open = self.open.first_mut().map(|(_, tx)| tx);
        if let Some(tx) = open.or(self.spare.last_mut()) {
            let Rewrites { drained, mut wanted, mut phases } = rewrites;
            tx.pending.recycle(drained);
            phases.clear();
            // While its reservations are not forgotten, the keys are needed.
            if let Some(free) = Arc::get_mut(&mut wanted) {
                free.clear();
                tx.spare = Some((wanted, phases));
            }
        }
    }

    fn tx(&mut self, tx: TxId) -> &mut Tx {
        let at = self.find(tx).unwrap_or_else(|at| {
            self.open.insert(at, (tx, self.spare.pop().unwrap_or_default()));
            at
        });
        &mut self.open[at].1
    }

    fn find(&self, tx: TxId) -> Result<usize, usize> {
        self.open.binary_search_by_key(&tx, |(tx, _)| *tx)
    }
}

/// Rewrites that were drained: by (scope hash, rule), each pair once.
pub struct Rewrites {
    drained: Drained<PendingRewrite>,
    wanted: Arc<Wanted>,
    /// How far each has come, by its place. They stand apart, so that reserving does not touch the rewrites themselves.
    phases: Vec<Phase>,
}

impl Rewrites {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.drained.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.drained.is_empty()
    }

    /// The rewrite at a place in the order.
    pub fn get(&self, place: usize) -> Option<Rewrite<'_>> {
        Some(rewrite(self.drained.get(place)?, *self.phases.get(place)?))
    }

    /// The rewrites in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rewrite<'_>> {
        self.drained.iter().zip(&self.phases).map(|(pending, phase)| rewrite(pending, *phase))
    }

    /// How far each has come, in order.
    pub fn phases(&self) -> &[Phase] {
        &self.phases
    }
}

fn rewrite(pending: &PendingRewrite, phase: Phase) -> Rewrite<'_> {
    let PendingRewrite { scope_hash, compact_rule, scope, footprint, .. } = pending;
    Rewrite { scope_hash, compact_rule: *compact_rule, scope: *scope, footprint, phase }
}

impl Tx {
    fn reserve(&mut self, kind: SchedulerKind, footprint: &Footprint) -> Result<(), Conflict> {
        match kind {
            SchedulerKind::Radix => match self.marks.reserve(footprint) {
                None => Ok(()),
                Some(at) => Err(Conflict { set: footprint.set_at(at), key: footprint.keys()[at] }),
            },
            SchedulerKind::Pairwise => {
                match self.admitted.iter().find_map(|before| footprint.conflict(before)) {
                    Some(conflict) => Err(conflict),
                    None => {
                        self.admitted.push(footprint.clone());
                        Ok(())
                    }
                }
            }
        }
    }
}
