use super::{DrainKey, Footprint, NodeKey};

/// The hash of a rewrite's scope, all of it: the first part of the order in which rewrites are drained.
pub type ScopeHash = [u8; 32];

/// A rule, by its small stable number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId(pub u32);

/// A transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxId(pub u64);

/// How far a rewrite has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Its rule matched; nothing is decided.
    #[default]
    Matched,
    /// It was admitted: independent of all that were admitted before it.
    Reserved,
    /// It was refused.
    Aborted,
}

/// A unit of work that waits to be admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingRewrite {
    /// The hash of its scope.
    pub scope_hash: ScopeHash,
    /// Its rule.
    pub compact_rule: RuleId,
    /// Where it applies.
    pub scope: NodeKey,
    /// What it reads, writes and claims.
    pub footprint: Footprint,
    /// How far it has come.
    pub phase: Phase,
}

impl DrainKey for PendingRewrite {
    #[inline]
    fn scope_hash(&self) -> &ScopeHash {
        &self.scope_hash
    }

    #[inline]
    fn rule(&self) -> RuleId {
        self.compact_rule
    }
}
