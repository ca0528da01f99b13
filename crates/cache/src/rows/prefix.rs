//! Looks up rows of a prefix: the rows that are found, the rows that the caller must compute, and the rows that other
//! callers are computing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use forebay_data::{Memory, Schema};

use crate::key::RowKey;
use crate::lock::{read, write};
use crate::rows::admit::room;
use crate::rows::answer::Answer;
use crate::rows::claim::Claim;
use crate::rows::found::Found;
use crate::rows::index::{FILE_BYTES, Numbering, RowLocation};
use crate::rows::number::{NO_NUMBER, Number};
use crate::rows::tier_read::TierRead;
use crate::state::CacheState;
use crate::state::prefix::{InUse, PrefixState};
use crate::stats::add;
use crate::tiers::TierId;
use crate::tiers::list::Tiers;
use crate::tiers::tier::Tier;

/// The rows of one prefix. Cheap to share.
#[derive(Debug)]
pub struct Prefix {
    pub(super) cache: Arc<CacheState>,
    pub(super) tiers: Arc<Tiers>,
    pub(super) state: Arc<PrefixState>,
    _in_use: Arc<InUse>,
}

/// The result of a lookup: every requested row is in one of the three.
#[derive(Debug)]
pub struct Look {
    /// Rows that were found.
    pub found: Found,
    /// The rows that the caller must compute, and the rows that other callers compute now.
    pub claim: Claim,
    /// Rows that are missing and for which there is no room, ascending. Only [`Prefix::look_within_room`] leaves rows.
    pub left: Vec<u32>,
}

/// The handling of missing rows for which there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beyond {
    /// The caller must compute them, like rows that will be kept.
    Claim,
    /// They are [left](Look::left).
    Leave,
}

impl Prefix {
    pub(crate) fn new(cache: Arc<CacheState>, tiers: Arc<Tiers>, state: Arc<PrefixState>, in_use: Arc<InUse>) -> Self {
        Self { cache, tiers, state, _in_use: in_use }
    }

    /// Returns the columns of its rows.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.state.schema
    }

    /// Sets whether rows that are computed from now on are also written to the store. The default is yes.
    pub fn store(&self, is_stored: bool) {
        self.state.stored.store(is_stored, Ordering::Relaxed);
    }

    /// Looks up rows. Never fails: rows that cannot be read are missing, and counted. Rows from tiers below memory are
    /// read into `memory`.
    pub fn look(self: &Arc<Self>, rows: &[RowKey], memory: &Memory) -> Look {
        self.ask(rows, Beyond::Claim, memory)
    }

    /// As [`Prefix::look`], for a caller that can produce rows that will not be kept more cheaply in another way. These
    /// rows are left.
    pub fn look_within_room(self: &Arc<Self>, rows: &[RowKey], memory: &Memory) -> Look {
        self.ask(rows, Beyond::Leave, memory)
    }

    fn ask(self: &Arc<Self>, rows: &[RowKey], beyond: Beyond, memory: &Memory) -> Look {
        let passes = self.cache.asked(self.state.key, rows.len() as u64, self.state.rows);
        let numbers = self.numbers(rows);
        let rows = (0..).zip(numbers).collect();
        self.resolve(
            Found::new(&self.state.schema),
            rows,
            Asking { passes, memory, beyond, until: None, overdue: false },
        )
    }

    /// Returns the numbers of rows, and numbers files that are new.
    fn numbers(&self, rows: &[RowKey]) -> Vec<Number> {
        let mut numbering = Numbering::default();
        {
            let index = read(&self.state.index);
            let known: Option<Vec<Number>> = rows.iter().map(|row| numbering.find(&index, row)).collect();
            if let Some(known) = known {
                return known;
            }
        }
        let numbers = {
            let mut index = write(&self.state.index);
            let mut number = |row| match numbering.find(&index, row) {
                Some(number) => number,
                None if self.cache.memory().count_index(FILE_BYTES) => numbering.give(&mut index, row),
                None => NO_NUMBER,
            };
            rows.iter().map(&mut number).collect()
        };
        self.cache.shrink();
        numbers
    }

    /// Adds the rows that can be found to `found`, and claims the others.
    pub(crate) fn resolve(self: &Arc<Self>, found: Found, rows: Vec<(u32, Number)>, asking: Asking<'_>) -> Look {
        let mut answer = Answer::new(found, asking.passes);
        let missing = self.find(&mut answer, rows, asking.memory);
        let room = match asking.beyond {
            Beyond::Claim => missing.len(),
            Beyond::Leave => room(&self.cache, &self.tiers, &self.state, missing.len()),
        };
        let (claim, left) = self.claim(&mut answer, missing, room, &asking);
        Look { found: answer.found, claim, left }
    }

    /// Reads rows from memory and the tiers; returns the missing rows, ascending.
    fn find(&self, answer: &mut Answer, rows: Vec<(u32, Number)>, memory: &Memory) -> Vec<(u32, Number)> {
        let (mut hits, mut filtered_out, mut missing) = (0, Vec::new(), Vec::new());
        let mut below = TierId::ALL.map(TierRead::new);
        {
            let index = read(&self.state.index);
            for (row, number) in rows {
                match index.location(number) {
                    RowLocation::Memory(slot) if answer.take(row, slot, &index) => hits += 1,
                    RowLocation::InTier(tier, slot) if below[tier as usize].want(row, number, slot, &index) => {}
                    RowLocation::FilteredOut => filtered_out.push(row),
                    _ => missing.push((row, number)),
                }
            }
        }
        let counters = &self.state.counters;
        add(self.cache.memory().hits(counters), hits);
        add(&counters.filtered_out_hits, filtered_out.len());
        answer.found.add_filtered_out(&filtered_out);
        for tier in TierId::ALL {
            let tier_read = std::mem::replace(&mut below[tier as usize], TierRead::new(tier));
            if tier_read.is_empty() {
                continue;
            }
            let unread = match self.tiers.get(tier) {
                Some(tier) => {
                    let (found, unread) = tier_read.read(&**tier, &self.cache, &self.state, answer, memory);
                    add(tier.hits(counters), found);
                    unread
                }
                None => tier_read.into_rows(),
            };
            let index = read(&self.state.index);
            for (row, number) in unread {
                match index.location(number) {
                    // A farther tier has it, too.
                    RowLocation::InTier(next, slot)
                        if next > tier && below[next as usize].want(row, number, slot, &index) => {}
                    _ => missing.push((row, number)),
                }
            }
        }
        missing.sort_unstable();
        missing
    }

    /// Claims up to `room` rows, joins the claims of rows in flight, and leaves the rest. Rows that other callers kept
    /// since the lookup are found.
    fn claim(
        self: &Arc<Self>,
        answer: &mut Answer,
        rows: Vec<(u32, Number)>,
        room: usize,
        asking: &Asking<'_>,
    ) -> (Claim, Vec<u32>) {
        let (mut claim, mut left) = (Claim::new(self, asking.until), Vec::new());
        if rows.is_empty() {
            return (claim, left);
        }
        let mut index = write(&self.state.index);
        for (row, number) in rows {
            match index.location(number) {
                RowLocation::Memory(slot) if answer.take(row, slot, &index) => {}
                RowLocation::FilteredOut => answer.found.add_filtered_out(&[row]),
                // The row cannot be kept.
                _ if number == NO_NUMBER && asking.beyond == Beyond::Leave => left.push(row),
                _ if number == NO_NUMBER => claim.add(row, number),
                _ => match index.in_flight.get(&number) {
                    // The same row is requested twice: it is computed twice, and kept once.
                    Some(in_flight) if Arc::ptr_eq(in_flight, claim.in_flight()) => claim.add(row, NO_NUMBER),
                    Some(in_flight) if !asking.overdue => claim.join(row, number, in_flight),
                    _ if claim.rows().len() >= room => left.push(row),
                    _ => {
                        let late = index.in_flight.insert(number, claim.in_flight().clone());
                        late.into_iter().for_each(|late| late.overtake());
                        claim.add(row, number);
                    }
                },
            }
        }
        drop(index);
        // If the claim is late, no peer is queried any more: these rows are computed here.
        for tier in self.tiers.below() {
            if !asking.overdue && !claim.rows().is_empty() {
                tier.ask(&self.cache, &self.state, answer, claim.claimed_mut(), asking.memory);
            }
        }
        claim.in_flight().commit();
        let missed = claim.rows().len() + left.len();
        add(&self.state.counters.misses, missed);
        add(&self.state.counters.memory_refused, left.len());
        if missed > 0 {
            self.tiers.below().for_each(|tier| tier.missed(&self.state));
        }
        (claim, left)
    }
}

/// The parameters of a lookup.
pub(crate) struct Asking<'a> {
    /// Passes over the prefix.
    pub(crate) passes: f64,
    pub(crate) memory: &'a Memory,
    pub(crate) beyond: Beyond,
    /// The end of the caller's wait for others, once it has begun to wait.
    pub(crate) until: Option<Instant>,
    /// The awaited claims are late: their rows are claimed anyway.
    pub(crate) overdue: bool,
}

impl Look {
    /// Says whether every row was found.
    pub fn is_complete(&self) -> bool {
        self.claim.rows().is_empty() && self.claim.pending().is_empty() && self.left.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_data::{DType, Field, Kind};

    use super::*;
    use crate::cache::Cache;
    use crate::key::{FileKey, PrefixKey};
    use crate::options::Options;

    #[test]
    fn who_takes_over_rows_that_are_late_computes_them_and_peers_wait_for_that() {
        let cache = Cache::open(&Options { memory: 1 << 20, disk: None, store: None }).expect("opens");
        let schema = Arc::new(Schema::new(vec![Field::new("x", Kind::scalar(DType::Int64))]).expect("a schema"));
        let prefix = cache.prefix(PrefixKey([1; 32]), &schema, 10, "late rows");
        let rows = [RowKey { file: FileKey([1; 16]), row: 3 }];
        let look = || prefix.look(&rows, &Memory::default());
        let late = look();
        let waits = look();
        assert!(late.claim.rows() == [0] && waits.claim.rows().is_empty());
        let none = crate::rows::claim::Computed { rows: &[], columns: &[], filtered_out: &[], nanos: 0 };
        let taken = waits.claim.fulfil(&none).wait(Duration::ZERO, &Memory::default());
        assert_eq!(taken.claim.rows(), [0], "it is overdue");
        assert!(
            late.claim.in_flight().is_overtaken() && taken.claim.in_flight().is_asked(true),
            "for any rank of the peer"
        );
    }
}
