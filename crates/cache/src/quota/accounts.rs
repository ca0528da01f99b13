//! The accounts of a tier: the bytes of each block, the prefix that it belongs to, and the next block to evict when
//! another prefix needs the room. [`crate::quota::value`] decides between prefixes.
//!
//! Memory also holds copies of rows that peers have. The memories of all peers act as one cache, and a copy takes room
//! there from a row that no peer has. So copies take free room, and the prefix's own rows take it back. Against other
//! prefixes, copies count as rows of a tenth of the value, because reading a row from a peer costs little compared with
//! computing it.
//!
//! Invariant: held and reserved bytes together never exceed the quota, except between [`QuotaAccounts::set_quota`] with
//! a smaller quota and the end of its evictions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::key::PrefixKey;
use crate::quota::value::{STALE_PASSES, Uses, gives_room};

/// How often a prefix searches its own blocks for stale ones, in passes over it.
const LOOK_THROUGH_PASSES: f64 = 0.25;

/// The value of a copy of a peer's row, as a part of the value that the row has when no peer has it.
const COPY_WORTH: f64 = 0.1;

/// When a row of a block was last requested, in passes over its prefix.
#[derive(Debug, Default)]
pub(crate) struct LastHit(AtomicU64);

impl LastHit {
    pub(crate) fn set(&self, passes: f64) {
        self.0.store(passes.to_bits(), Ordering::Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// A block of a prefix, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) prefix: PrefixKey,
    pub(crate) block: u32,
}

#[derive(Debug)]
struct HeldBlock {
    bytes: u64,
    last_hit: Arc<LastHit>,
}

#[derive(Debug, Default)]
struct PrefixAccount {
    bytes: u64,
    /// By number, the oldest first.
    blocks: BTreeMap<u32, HeldBlock>,
    /// The numbers of the blocks that hold copies of peers' rows.
    copies: BTreeSet<u32>,
    /// The passes over the prefix when it last searched its blocks for stale ones.
    looked_through: f64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct QuotaAccounts {
    quota: u64,
    used: u64,
    accounts_by_prefix: HashMap<PrefixKey, PrefixAccount>,
    /// Prefixes whose blocks must not be evicted: other processes use them.
    protected: HashSet<PrefixKey>,
}

impl QuotaAccounts {
    pub(crate) fn new(quota: u64) -> Self {
        Self { quota, used: 0, accounts_by_prefix: HashMap::new(), protected: HashSet::new() }
    }

    pub(crate) fn quota(&self) -> u64 {
        self.quota
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Returns the bytes that are neither held nor reserved.
    pub(crate) fn free(&self) -> u64 {
        self.quota.saturating_sub(self.used)
    }

    /// Reserves up to `bytes` for a prefix, and evicts blocks of prefixes of lower value. The caller must
    /// [hold](QuotaAccounts::hold) the granted bytes or [give them back](QuotaAccounts::give_back). The returned
    /// victims are no longer held.
    pub(crate) fn reserve(&mut self, prefix: PrefixKey, bytes: u64, uses: &Uses) -> (u64, Vec<Victim>) {
        self.reserve_from(bytes, |accounts| accounts.victim(prefix, uses))
    }

    /// As [`QuotaAccounts::reserve`], for copies of peers' rows.
    pub(crate) fn reserve_copy(&mut self, prefix: PrefixKey, bytes: u64, uses: &Uses) -> (u64, Vec<Victim>) {
        self.reserve_from(bytes, |accounts| accounts.other(prefix, uses.value(prefix) * COPY_WORTH, uses))
    }

    fn reserve_from(&mut self, bytes: u64, next: impl Fn(&mut Self) -> Option<Victim>) -> (u64, Vec<Victim>) {
        let mut victims = Vec::new();
        while self.free() < bytes {
            let Some(victim) = next(self) else { break };
            self.drop_block(victim);
            victims.push(victim);
        }
        let granted = bytes.min(self.free());
        self.used += granted;
        (granted, victims)
    }

    /// Returns the prefixes that hold blocks.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = PrefixKey> {
        self.accounts_by_prefix.keys().copied()
    }

    /// Sets the prefixes whose blocks must not be evicted.
    pub(crate) fn protect(&mut self, prefixes: HashSet<PrefixKey>) {
        self.protected = prefixes;
    }

    pub(crate) fn protects_any(&self) -> bool {
        !self.protected.is_empty()
    }

    /// Counts `bytes` that are in use already, even beyond the quota.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.used += bytes;
    }

    /// Reserves `bytes` if they are free; returns whether it did.
    pub(crate) fn reserve_free(&mut self, bytes: u64) -> bool {
        let fits = bytes <= self.free();
        self.used += if fits { bytes } else { 0 };
        fits
    }

    /// Says whether [`QuotaAccounts::reserve`] would grant `bytes`, or a part of them, to a prefix.
    pub(crate) fn has_room(&mut self, prefix: PrefixKey, bytes: u64, uses: &Uses) -> bool {
        bytes <= self.free() || self.victim(prefix, uses).is_some()
    }

    /// Gives back reserved bytes that are not needed.
    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.used = self.used.saturating_sub(bytes);
    }

    /// Turns reserved bytes into a block.
    pub(crate) fn hold(&mut self, block: Victim, bytes: u64, last_hit: Arc<LastHit>) {
        let account = self.accounts_by_prefix.entry(block.prefix).or_default();
        account.bytes += bytes;
        account.blocks.insert(block.block, HeldBlock { bytes, last_hit });
    }

    /// As [`QuotaAccounts::hold`], for copies of peers' rows.
    pub(crate) fn hold_copy(&mut self, block: Victim, bytes: u64, last_hit: Arc<LastHit>) {
        self.hold(block, bytes, last_hit);
        self.accounts_by_prefix.entry(block.prefix).or_default().copies.insert(block.block);
    }

    /// Changes the size of a block.
    pub(crate) fn resize(&mut self, block: Victim, bytes: u64) {
        let Some(account) = self.accounts_by_prefix.get_mut(&block.prefix) else { return };
        let Some(held) = account.blocks.get_mut(&block.block) else { return };
        let before = std::mem::replace(&mut held.bytes, bytes);
        account.bytes = account.bytes - before + bytes;
        self.used = self.used.saturating_sub(before) + bytes;
    }

    /// Drops a block from the accounts; returns whether it was there.
    pub(crate) fn drop_block(&mut self, block: Victim) -> bool {
        let Some(account) = self.accounts_by_prefix.get_mut(&block.prefix) else { return false };
        let Some(held) = account.blocks.remove(&block.block) else { return false };
        account.copies.remove(&block.block);
        account.bytes -= held.bytes;
        self.used = self.used.saturating_sub(held.bytes);
        if account.blocks.is_empty() {
            self.accounts_by_prefix.remove(&block.prefix);
        }
        true
    }

    /// Changes the quota, and drops blocks until the rest fits: those of the least valuable prefix first.
    pub(crate) fn set_quota(&mut self, quota: u64, uses: &Uses) -> Vec<Victim> {
        self.quota = quota;
        let mut victims = Vec::new();
        while self.used > self.quota {
            let ours = self.accounts_by_prefix.keys().filter(|prefix| !self.protected.contains(prefix));
            let values = ours.map(|&prefix| (prefix, uses.value(prefix)));
            let Some(prefix) = gives_room(f64::INFINITY, values) else { break };
            let Some(victim) = self.first_out(prefix) else { break };
            self.drop_block(victim);
            victims.push(victim);
        }
        victims
    }

    /// Returns the oldest block of copies of a prefix, or else its oldest block.
    fn first_out(&self, prefix: PrefixKey) -> Option<Victim> {
        let oldest = || Some(*self.accounts_by_prefix.get(&prefix)?.blocks.keys().next()?);
        self.copy(prefix).or_else(|| Some(Victim { prefix, block: oldest()? }))
    }

    /// Returns the oldest block of copies of a prefix.
    fn copy(&self, prefix: PrefixKey) -> Option<Victim> {
        let block = *self.accounts_by_prefix.get(&prefix)?.copies.first()?;
        Some(Victim { prefix, block })
    }

    fn victim(&mut self, wanting: PrefixKey, uses: &Uses) -> Option<Victim> {
        let own = self.copy(wanting).or_else(|| self.stale(wanting, uses.passes(wanting)));
        own.or_else(|| self.other(wanting, uses.value(wanting), uses))
    }

    /// Returns a block of a prefix that is worth less than `value`.
    fn other(&self, wanting: PrefixKey, value: f64, uses: &Uses) -> Option<Victim> {
        let others = self.accounts_by_prefix.keys().filter(|&&p| p != wanting && !self.protected.contains(&p));
        let gives = gives_room(value, others.map(|&prefix| (prefix, uses.value(prefix))))?;
        self.first_out(gives)
    }

    /// Returns a block of the prefix itself whose rows were not requested for [`STALE_PASSES`].
    fn stale(&mut self, prefix: PrefixKey, passes: f64) -> Option<Victim> {
        let account = self.accounts_by_prefix.get_mut(&prefix)?;
        if passes < account.looked_through + LOOK_THROUGH_PASSES {
            return None;
        }
        let stale = account.blocks.iter().find(|(_, held)| passes - held.last_hit.get() > STALE_PASSES);
        match stale {
            Some((&block, _)) => Some(Victim { prefix, block }),
            None => {
                account.looked_through = passes;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PrefixKey = PrefixKey([1; 32]);
    const B: PrefixKey = PrefixKey([2; 32]);

    fn hold(accounts: &mut QuotaAccounts, prefix: PrefixKey, block: u32, uses: &Uses) -> Vec<u32> {
        let (granted, victims) = accounts.reserve(prefix, 10, uses);
        assert_eq!(granted, 10);
        accounts.hold(Victim { prefix, block }, 10, Arc::default());
        victims.into_iter().map(|victim| victim.block).collect()
    }

    #[test]
    fn copies_take_what_is_free_and_own_rows_take_it_back() {
        let (mut accounts, mut uses) = (QuotaAccounts::new(40), Uses::default());
        uses.asked(A, 1, 1);
        assert_eq!(hold(&mut accounts, A, 1, &uses), [0; 0]);
        for block in [2, 3, 4] {
            assert_eq!(accounts.reserve_copy(A, 10, &uses), (10, Vec::new()));
            accounts.hold_copy(Victim { prefix: A, block }, 10, Arc::default());
        }
        assert_eq!(accounts.reserve_copy(A, 10, &uses), (0, Vec::new()), "none takes from its own prefix");
        assert!(accounts.has_room(A, 10, &uses));
        for (block, copy) in [(5, 2), (6, 3), (7, 4)] {
            assert_eq!(hold(&mut accounts, A, block, &uses), [copy]);
        }
        assert!(
            !accounts.has_room(A, 10, &uses) && accounts.reserve(A, 10, &uses) == (0, Vec::new()),
            "all are its own"
        );
    }

    #[test]
    fn copies_take_from_another_prefix_only_what_is_worth_next_to_nothing() {
        let (mut accounts, mut uses) = (QuotaAccounts::new(20), Uses::default());
        uses.asked(A, 1, 1);
        assert_eq!((hold(&mut accounts, A, 1, &uses), hold(&mut accounts, A, 2, &uses)), (Vec::new(), Vec::new()));
        (0..3).for_each(|_| _ = uses.asked(B, 1, 1));
        assert_eq!(accounts.reserve_copy(B, 10, &uses).0, 0, "rows of it would be kept");
        assert!(accounts.has_room(B, 10, &uses));
        (0..3).for_each(|_| _ = uses.asked(B, 1, 1));
        assert_eq!(accounts.reserve_copy(B, 10, &uses), (10, vec![Victim { prefix: A, block: 1 }]));
    }
}
