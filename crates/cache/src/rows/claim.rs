//! Rows that one caller computes for all, and rows for which it waits because other callers compute them.
//!
//! A claim returns its pending rows only when it is fulfilled: each caller computes its own rows before it waits, so no
//! two callers wait for each other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::ArrayRef;
use forebay_core::Result;
use forebay_data::Memory;

use crate::lock::{deadline, write};
use crate::rows::admit::{admit, copy, write_filtered_out};
use crate::rows::claimed::ClaimedRows;
use crate::rows::found::Found;
use crate::rows::in_flight::{InFlight, Outcome};
use crate::rows::index::ROW_BYTES;
use crate::rows::number::Number;
use crate::rows::prefix::{Asking, Beyond, Look, Prefix};
use crate::rows::table::{Place, Table};
use crate::state::prefix::PrefixState;
use crate::stats::add;

/// Rows that the caller computes. When it is dropped without [`Claim::fulfil`], other callers compute them.
#[derive(Debug)]
pub struct Claim {
    prefix: Arc<Prefix>,
    claimed: ClaimedRows,
    pending: Pending,
    is_completed: bool,
}

/// The result of a claim.
#[derive(Debug, Clone, Copy)]
pub struct Computed<'a> {
    /// The computed rows, ascending: some of [`Claim::rows`]. A row that failed is not among them.
    pub rows: &'a [u32],
    /// The prefix's columns, of these rows in this order.
    pub columns: &'a [ArrayRef],
    /// Rows of the claim that a filter removed.
    pub filtered_out: &'a [u32],
    /// How long computing took, in nanoseconds. It only decides which rows are worth keeping.
    pub nanos: u64,
}

impl Claim {
    pub(crate) fn new(prefix: &Arc<Prefix>, until: Option<Instant>) -> Self {
        let pending = Pending { prefix: prefix.clone(), rows: Vec::new(), joined: Vec::new(), until };
        Self { prefix: prefix.clone(), claimed: ClaimedRows::new(&prefix.state), pending, is_completed: false }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        self.claimed.in_flight()
    }

    pub(crate) fn claimed_mut(&mut self) -> &mut ClaimedRows {
        &mut self.claimed
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn add(&mut self, row: u32, number: Number) {
        self.claimed.add(row, number);
    }

    pub(crate) fn join(&mut self, row: u32, number: Number, in_flight: &Arc<InFlight>) {
        in_flight.join();
        let joined = &mut self.pending.joined;
        // Consecutive rows are mostly of one claim.
        let at = joined.iter().rposition(|known| Arc::ptr_eq(known, in_flight)).unwrap_or_else(|| {
            joined.push(in_flight.clone());
            joined.len() - 1
        });
        self.pending.rows.push((row, number, at));
    }

    /// Returns the rows to compute, ascending, by their place in the request.
    pub fn rows(&self) -> &[u32] {
        self.claimed.rows()
    }

    /// Delivers the computed rows to the cache and to the waiting callers, even if the cache does not keep them.
    /// Returns the rows to wait for.
    pub fn fulfil(mut self, computed: &Computed<'_>) -> Pending {
        let none = Pending { prefix: self.prefix.clone(), rows: Vec::new(), joined: Vec::new(), until: None };
        let pending = std::mem::replace(&mut self.pending, none);
        if !self.rows().is_empty() && self.publish(computed).is_err() {
            add(&self.prefix.state.counters.unfit, computed.rows.len());
        }
        pending
    }

    fn publish(&mut self, computed: &Computed<'_>) -> Result<()> {
        let prefix = self.prefix.clone();
        let (cache, tiers, state) = (&prefix.cache, &prefix.tiers, &prefix.state);
        let table = Table::of(&state.schema, computed.columns, computed.rows.len())?;
        if table.bytes() > 0 {
            cache.computed(state.key, computed.nanos, table.rows(), table.bytes() as u64);
        }
        let rows = self.claimed.numbered(computed.rows);
        let kept = if self.in_flight().is_overtaken() {
            admit(cache, tiers, state, &table, &self.claimed.still_ours(&rows))
        } else {
            admit(cache, tiers, state, &table, &rows)
        };
        let filtered_out: Vec<Number> =
            self.claimed.numbered(computed.filtered_out).into_iter().map(|(number, _)| number).collect();
        let known = filtered_out.is_empty() || cache.memory().count_index(filtered_out.len() as u64 * ROW_BYTES);
        let id = {
            let mut index = write(&state.index);
            self.claimed.leave(&mut index.in_flight);
            if known {
                let new = index.add_filtered_out(&filtered_out);
                cache.memory().uncount_index((filtered_out.len() as u64 - new) * ROW_BYTES);
            }
            kept.as_ref().map(|kept| index.add_segment(kept.segment.clone()))
        };
        self.is_completed = true;
        kept.zip(id).into_iter().for_each(|(kept, id)| kept.commit(cache, tiers, state, id));
        if known && !filtered_out.is_empty() {
            write_filtered_out(cache, tiers, state, &filtered_out);
        }
        cache.shrink();
        if self.in_flight().is_waited_for() {
            self.in_flight().complete(hand_over(state, &table, &rows, filtered_out));
        }
        Ok(())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.is_completed {
            return;
        }
        if !self.rows().is_empty() {
            self.claimed.leave(&mut write(&self.prefix.state.index).in_flight);
        }
        // Also if peers sent all of its rows: a waiting caller looks them up again.
        self.in_flight().complete(Outcome::default());
    }
}

/// Copies rows for the waiting callers, because the next owner of the columns may write to them.
fn hand_over(state: &PrefixState, table: &Table, rows: &[(Number, u32)], filtered_out: Vec<Number>) -> Outcome {
    let table = Some(copy(state, table, rows, &Memory::default()));
    let rows: HashMap<Number, u32> = (0..).zip(rows).map(|(i, (number, _))| (*number, i)).collect();
    Outcome { table, rows, filtered_out: filtered_out.into_iter().collect() }
}

/// Rows that other callers are computing.
#[derive(Debug)]
pub struct Pending {
    prefix: Arc<Prefix>,
    /// For each row: its place in the request, its number, and the place of its claim in `joined`.
    rows: Vec<(u32, Number, usize)>,
    joined: Vec<Arc<InFlight>>,
    until: Option<Instant>,
}

impl Pending {
    /// Says whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows, ascending, by their place in the request.
    pub fn rows(&self) -> Vec<u32> {
        self.rows.iter().map(|(row, _, _)| *row).collect()
    }

    /// Waits for the rows, at most `limit` in all from the first wait of a request. The caller must compute rows that
    /// were abandoned or are late.
    pub fn wait(self, limit: Duration, memory: &Memory) -> Look {
        let until = self.until.unwrap_or_else(|| deadline(limit));
        let outcomes: Vec<_> = self.joined.iter().map(|in_flight| in_flight.wait(until)).collect();
        let overdue = outcomes.iter().any(Option::is_none);
        let state = &self.prefix.state;
        let mut found = Found::new(&state.schema);
        let mut table = |outcome: &Option<Arc<Outcome>>| Some(found.push(outcome.as_ref()?.table.clone()?, false));
        let tables: Vec<Option<u32>> = outcomes.iter().map(&mut table).collect();
        let (mut left, all) = (Vec::new(), self.rows.len());
        for (row, number, at) in self.rows {
            let outcome = outcomes[at].as_ref();
            let place = outcome.and_then(|outcome| outcome.rows.get(&number)).zip(tables[at]);
            match place {
                Some((&row_in_table, table)) => found.put(row, Place { table, row: row_in_table }),
                None if outcome.is_some_and(|outcome| outcome.filtered_out.contains(&number)) => {
                    found.add_filtered_out(&[row])
                }
                None => left.push((row, number)),
            }
        }
        add(&state.counters.shared, all - left.len());
        let passes = self.prefix.cache.passes(state.key);
        let asking = Asking { passes, memory, beyond: Beyond::Claim, until: Some(until), overdue };
        self.prefix.resolve(found, left, asking)
    }
}
