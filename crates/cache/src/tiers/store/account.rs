//! Decides which prefixes are in use in the store, and which blocks are deleted when its quota is full: arithmetic over
//! a listing.
//!
//! A store has no owner and no locks. A process that uses a prefix rewrites the object `used` in its folder every
//! [`MARK_EVERY`]. A prefix is in use if its mark, or its newest block, is younger than [`USED_FOR`]. All times are by
//! the store's clock; the newest time of the listing counts as now.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use crate::key::PrefixKey;
use crate::tiers::block::name::Name;
use crate::tiers::remote::blocks::Object;
use crate::tiers::remote::names::{parse_mark, parse_name};

/// The interval of marks of a prefix in use.
pub(crate) const MARK_EVERY: Duration = Duration::from_secs(600);
/// How long a mark holds: longer than networks usually fail.
const USED_FOR: Duration = Duration::from_secs(3600);
/// At least this part of the quota is freed together, so that the store is not listed for each block.
const REMOVE_PART: u64 = 64;

/// Says whether a prefix that was last used `at` is in use.
pub(crate) fn is_in_use(at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(at).is_ok_and(|age| age < USED_FOR) || at > now
}

/// The content of a store.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// The blocks: name, bytes, when they were written.
    pub(crate) blocks: Vec<(Name, u64, SystemTime)>,
    /// When each prefix was last used.
    pub(crate) used: HashMap<PrefixKey, SystemTime>,
}

impl Contents {
    /// Parses a listing. Other objects are left out.
    pub(crate) fn new(objects: Vec<Object>) -> Self {
        let mut contents = Self::default();
        for Object { name, bytes, modified } in objects {
            let block = parse_name(&name);
            let Some(prefix) = block.as_ref().map(|block| block.prefix).or_else(|| parse_mark(&name)) else { continue };
            let used = contents.used.entry(prefix).or_insert(modified);
            *used = modified.max(*used);
            contents.blocks.extend(block.map(|block| (block, bytes, modified)));
        }
        contents
    }

    /// Returns the bytes of all blocks.
    pub(crate) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Returns the blocks to delete so that `bytes` fit into `quota` for a prefix: first those of the prefix that was
    /// used longest ago, its oldest first. Empty where the blocks that are not in use do not suffice.
    pub(crate) fn victims(mut self, wanting: PrefixKey, bytes: u64, quota: u64) -> Vec<(Name, u64)> {
        let lacking = (self.bytes() + bytes).saturating_sub(quota);
        let Some(now) = self.used.values().max().copied().filter(|_| lacking > 0) else { return Vec::new() };
        let used = &self.used;
        self.blocks.retain(|(name, ..)| name.prefix != wanting && !is_in_use(used[&name.prefix], now));
        self.blocks.sort_by_key(|(name, _, modified)| (used[&name.prefix], name.prefix, *modified, name.name.clone()));
        let (mut freed, enough) = (0, lacking.max(quota / REMOVE_PART));
        let mut victims: Vec<(Name, u64)> = Vec::new();
        for (name, bytes, _) in self.blocks {
            if freed >= enough {
                break;
            }
            freed += bytes;
            victims.push((name, bytes));
        }
        if freed < lacking { Vec::new() } else { victims }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::remote::names::mark_of;
    use crate::version::FORMAT;

    const A: PrefixKey = PrefixKey([0xaa; 32]);
    const B: PrefixKey = PrefixKey([0xbb; 32]);
    const C: PrefixKey = PrefixKey([0xcc; 32]);

    fn at(hours: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(hours * 3600)
    }

    fn object(name: String, bytes: u64, hours: u64) -> Object {
        Object { name, bytes, modified: at(hours) }
    }

    fn block(prefix: PrefixKey, name: &str, bytes: u64, hours: u64) -> Object {
        object(format!("{FORMAT}/{prefix}/{name}.arrow"), bytes, hours)
    }

    fn listing() -> Vec<Object> {
        vec![
            block(B, "b2", 20, 4),
            block(B, "b1", 20, 3),
            block(A, "a1", 10, 1),
            block(C, "c1", 30, 2),
            object(mark_of(A), 0, 6),
            object(mark_of(C), 0, 100),
            object("thesis.arrow".to_owned(), 1 << 40, 0),
            object(format!("{FORMAT}/{A}/notes.txt"), 1 << 40, 0),
            object(format!("9/{A}/other.arrow"), 1 << 40, 0),
        ]
    }

    fn victims(wanting: PrefixKey, bytes: u64, quota: u64) -> Vec<String> {
        let victims = Contents::new(listing()).victims(wanting, bytes, quota);
        victims.into_iter().map(|(name, _)| name.name).collect()
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_what_is_in_use_stays() {
        let contents = Contents::new(listing());
        assert_eq!((contents.bytes(), contents.blocks.len()), (80, 4), "what is not ours does not count");
        assert_eq!(victims(C, 20, 100), [""; 0], "there is room");
        assert_eq!(victims(C, 21, 100), ["b1"], "B was last used before A was");
        assert_eq!(victims(C, 50, 100), ["b1", "b2"]);
        assert_eq!(victims(C, 70, 100), ["b1", "b2", "a1"]);
        assert_eq!(victims(C, 71, 100), [""; 0], "nothing goes where all would not suffice: C is in use");
        assert_eq!(victims(B, 30, 100), ["a1"], "a prefix does not lose rows for its own rows");
        assert_eq!(victims(C, 10, 1), [""; 0]);
        assert_eq!(Contents::default().victims(A, 2, 1), []);
    }

    #[test]
    fn at_least_a_part_of_the_quota_is_freed_at_once() {
        let blocks = (0..100).map(|n| block(A, &format!("{n:03}"), 100, 1)).chain([object(mark_of(C), 0, 100)]);
        let victims = Contents::new(blocks.collect()).victims(C, 1, 64 * 1000 / 64 * 10);
        assert_eq!(victims.len(), 2, "156 bytes, where one would do");
    }
}
