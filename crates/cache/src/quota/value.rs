//! The value of a prefix, and the choice of the prefix that makes room for another: arithmetic, without a clock and
//! without I/O.
//!
//! An epoch requests each row once, so the most recently used row is needed last: LRU over more data than fits never
//! hits. Here all rows of a prefix have one value, which is the time that a kept byte saves:
//!
//! ```text
//! value = nanoseconds to compute a byte of it × recent passes over its rows
//! ```
//!
//! Within a prefix all rows have the same value, so kept rows stay, and the rows that fit are hits. Another prefix
//! takes room only from one of clearly lower value ([`MARGIN`]). Otherwise two jobs of about the same value would take
//! room from each other for ever.
//!
//! *Recent* is counted in passes, not in seconds: a pass is as many requested rows, of any prefix, as the source has. A
//! request counts half as much one pass later. So one pass over new data takes no room from equally costly rows in use;
//! the second pass begins to. A job that ended loses its room after a few passes of others. An unused cache keeps all
//! of its rows.

use std::collections::HashMap;

use crate::key::PrefixKey;

/// How many times the value of another prefix a prefix must have to take its room.
const MARGIN: f64 = 1.5;
/// A block is stale when none of its rows was requested for this many passes over its prefix: its file has changed.
pub(crate) const STALE_PASSES: f64 = 3.0;
/// The weight of a new measurement of the cost of a prefix.
const NEWEST: f64 = 0.1;

/// The recent uses of the prefixes of a cache.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    /// Passes over any prefix since the start.
    now: f64,
    prefixes: HashMap<PrefixKey, Use>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Use {
    /// Recent passes, as of `at`.
    lately: f64,
    at: f64,
    /// Passes over this prefix since the start.
    passes: f64,
    nanos_per_byte: Option<f64>,
    /// Bytes of a row.
    row_bytes: Option<f64>,
}

impl Uses {
    /// Records that `rows` of a prefix were requested, of the `of` rows that its source has; for a source of pages,
    /// bytes. Returns the passes over it since the start.
    pub(crate) fn asked(&mut self, prefix: PrefixKey, rows: u64, of: u64) -> f64 {
        let passes = rows as f64 / of.max(1) as f64;
        self.now += passes;
        let used = self.prefixes.entry(prefix).or_default();
        // Earlier requests of this call count less by its end.
        used.lately = used.lately * decay(self.now - used.at) + (1.0 - decay(passes)) / std::f64::consts::LN_2;
        used.at = self.now;
        used.passes += passes;
        used.passes
    }

    /// Records the time that rows of a prefix took to compute, or pages of a source to fetch, and their bytes.
    pub(crate) fn computed(&mut self, prefix: PrefixKey, nanos: u64, rows: usize, bytes: u64) {
        let cost = nanos as f64 / bytes.max(1) as f64;
        let size = bytes as f64 / rows.max(1) as f64;
        let mean = |old: Option<f64>, new: f64| Some(old.map_or(new, |old| old + (new - old) * NEWEST));
        let used = self.prefixes.entry(prefix).or_default();
        used.nanos_per_byte = mean(used.nanos_per_byte, cost);
        used.row_bytes = mean(used.row_bytes, size);
    }

    /// Returns the mean bytes of a row of a prefix, if any was computed.
    pub(crate) fn row_bytes(&self, prefix: PrefixKey) -> Option<f64> {
        self.prefixes.get(&prefix)?.row_bytes
    }

    /// Records the time that another process took to compute a byte of a prefix, if this process has not measured it.
    pub(crate) fn told(&mut self, prefix: PrefixKey, nanos_per_byte: f64) {
        self.prefixes.entry(prefix).or_default().nanos_per_byte.get_or_insert(nanos_per_byte);
    }

    /// Returns the nanoseconds that computing a byte of a prefix takes, if known.
    pub(crate) fn cost(&self, prefix: PrefixKey) -> Option<f64> {
        self.prefixes.get(&prefix)?.nanos_per_byte
    }

    /// Returns the passes over any prefix since the start.
    pub(crate) fn now(&self) -> f64 {
        self.now
    }

    /// Returns the passes over a prefix since the start.
    pub(crate) fn passes(&self, prefix: PrefixKey) -> f64 {
        self.prefixes.get(&prefix).map_or(0.0, |used| used.passes)
    }

    /// Returns the value of a prefix. If its cost is not known yet, a byte counts as a nanosecond.
    pub(crate) fn value(&self, prefix: PrefixKey) -> f64 {
        self.prefixes
            .get(&prefix)
            .map_or(0.0, |used| used.nanos_per_byte.unwrap_or(1.0) * used.lately * decay(self.now - used.at))
    }
}

fn decay(passes: f64) -> f64 {
    (-passes).exp2()
}

/// Returns the holder that must give room to a prefix of value `wanting`, if there is one: the one of the least value.
pub(crate) fn gives_room(wanting: f64, holders: impl IntoIterator<Item = (PrefixKey, f64)>) -> Option<PrefixKey> {
    let least = holders.into_iter().min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    least.filter(|(_, value)| wanting > value * MARGIN).map(|(prefix, _)| prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PrefixKey = PrefixKey([1; 32]);
    const B: PrefixKey = PrefixKey([2; 32]);

    fn passes(uses: &mut Uses, prefix: PrefixKey, n: f64) {
        uses.asked(prefix, (n * 1000.0) as u64, 1000);
    }

    #[test]
    fn one_pass_over_new_data_takes_nothing_and_the_second_does() {
        let mut uses = Uses::default();
        passes(&mut uses, A, 8.0);
        let wants = |uses: &Uses| gives_room(uses.value(B), [(A, uses.value(A))]);
        for _ in 0..100 {
            passes(&mut uses, B, 0.01);
            assert_eq!(wants(&uses), None);
        }
        (0..100).for_each(|_| passes(&mut uses, B, 0.01));
        assert_eq!(wants(&uses), Some(A));
        assert_eq!(gives_room(uses.value(A), [(B, uses.value(B))]), None, "and it is not taken back at once");
    }

    #[test]
    fn equals_that_are_used_in_turn_keep_what_they_have() {
        let mut uses = Uses::default();
        for round in 0..1000 {
            passes(&mut uses, [A, B][round % 2], 0.1);
            assert_eq!(gives_room(uses.value(B), [(A, uses.value(A))]).filter(|_| round > 40), None);
            assert_eq!(gives_room(uses.value(A), [(B, uses.value(B))]).filter(|_| round > 40), None);
        }
    }

    #[test]
    fn what_is_dear_goes_before_what_is_cheap_and_unused_before_all() {
        let mut uses = Uses::default();
        uses.computed(A, 10_000, 1, 1000);
        uses.computed(B, 1000, 1, 1000);
        for _ in 0..20 {
            passes(&mut uses, A, 0.5);
            passes(&mut uses, B, 0.5);
        }
        let holders = |uses: &Uses| [(A, uses.value(A)), (B, uses.value(B)), (PrefixKey([3; 32]), 0.0)];
        assert_eq!(gives_room(uses.value(A), [(B, uses.value(B))]), Some(B));
        assert_eq!(gives_room(uses.value(B), [(A, uses.value(A))]), None);
        assert_eq!(gives_room(uses.value(B), holders(&uses)), Some(PrefixKey([3; 32])));
        assert_eq!(gives_room(0.0, holders(&uses)), None);
    }
}
