use crate::marks::Marks;
use crate::pending::{Drained, Pending, PendingFull};
use crate::{Conflict, Footprint, PendingRewrite, Phase, TxId};

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

/// Rewrites whose keys are fetched from memory at the same time: enough to keep it busy, few enough to stay in the first
/// cache.
const TOGETHER: usize = 16;

#[derive(Default)]
struct Tx {
    pending: Pending<PendingRewrite>,
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
        self.tx(tx).pending.enqueue(rewrite)
    }

    /// Takes what is pending in a transaction, in the order of (scope hash, rule), each pair once.
    pub fn drain_for_tx(&mut self, tx: TxId) -> Drained<PendingRewrite> {
        self.tx(tx).pending.drain()
    }

    /// Admits a rewrite if it is independent of all that were admitted in its transaction, and notes it in its phase.
    /// A refusal leaves no other trace.
    pub fn reserve(&mut self, tx: TxId, rewrite: &mut PendingRewrite) -> Result<(), Conflict> {
        let kind = self.kind;
        let answer = self.tx(tx).reserve(kind, &rewrite.footprint);
        rewrite.phase = if answer.is_ok() { Phase::Reserved } else { Phase::Aborted };
        answer
    }

    /// As [`reserve`](Scheduler::reserve) for each that was drained, in order, and faster than one by one: what must be
    /// fetched from memory is fetched for several at once. Says how many were admitted; the others are
    /// [aborted](Phase::Aborted).
    pub fn reserve_all(&mut self, tx: TxId, drained: &mut Drained<PendingRewrite>) -> usize {
        let kind = self.kind;
        let tx = self.tx(tx);
        let mut admitted = 0;
        for place in 0..drained.len() {
            if place % TOGETHER == 0 {
                let soon = (place..place + TOGETHER).map_while(|place| drained.get(place));
                tx.marks.expect(soon.map(|rewrite| &rewrite.footprint));
            }
            let Some(rewrite) = drained.get_mut(place) else { break };
            let free = match kind {
                SchedulerKind::Radix => tx.marks.admits(&rewrite.footprint),
                SchedulerKind::Pairwise => tx.reserve(kind, &rewrite.footprint).is_ok(),
            };
            rewrite.phase = if free { Phase::Reserved } else { Phase::Aborted };
            admitted += usize::from(free);
        }
        admitted
    }

    /// Ends a transaction: its reservations and what is still pending in it are forgotten.
    pub fn finalize_tx(&mut self, tx: TxId) {
        let Ok(at) = self.find(tx) else { return };
        let (_, mut ended) = self.open.remove(at);
        if self.spare.len() < SPARE_MAX {
            ended.marks.begin();
            ended.admitted.clear();
            let left = ended.pending.drain();
            ended.pending.recycle(left);
            self.spare.push(ended);
        }
    }

    /// Gives the memory of what was drained back, to be used again.
    pub fn recycle(&mut self, drained: Drained<PendingRewrite>) {
        let open = self.open.first_mut().map(|(_, tx)| tx);
        if let Some(tx) = open.or(self.spare.last_mut()) {
            tx.pending.recycle(drained);
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

impl Tx {
    fn reserve(&mut self, kind: SchedulerKind, footprint: &Footprint) -> Result<(), Conflict> {
        match kind {
            SchedulerKind::Radix => self.marks.reserve(footprint),
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
