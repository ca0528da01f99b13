//! Rows that one caller computes for all, and those that it waits for because another does.
//!
//! What others compute comes out of a claim only when that is fulfilled: a caller does its own part before it waits, so no two
//! wait for each other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::ArrayRef;
use forebay_core::Result;
use forebay_data::Memory;

use crate::admit::{admit, copy, write_without};
use crate::flight::{Flight, Landed};
use crate::found::Found;
use crate::index::{NO_NUMBER, Number, ROW_BYTES};
use crate::lock::{deadline, read, write};
use crate::prefix::{Asking, Beyond, Look, Prefix};
use crate::shared::Cell;
use crate::stats::add;
use crate::table::{Place, Table};

/// Rows for the caller to compute. Dropped without [`Claim::fulfil`], it lets others compute them.
#[derive(Debug)]
pub struct Claim {
    prefix: Arc<Prefix>,
    flight: Arc<Flight>,
    rows: Vec<u32>,
    numbers: Vec<Number>,
    pending: Pending,
    landed: bool,
}

/// What came of a claim.
#[derive(Debug, Clone, Copy)]
pub struct Computed<'a> {
    /// The rows that there are, ascending: some of [`Claim::rows`]. One that failed is not among them.
    pub rows: &'a [u32],
    /// The prefix's columns, of these rows in this order.
    pub columns: &'a [ArrayRef],
    /// Rows of the claim that a filter removed.
    pub without: &'a [u32],
    /// How long it took to compute them, in nanoseconds. Only decides what is worth keeping.
    pub nanos: u64,
}

impl Claim {
    pub(crate) fn new(prefix: &Arc<Prefix>, until: Option<Instant>) -> Self {
        let pending = Pending { prefix: prefix.clone(), rows: Vec::new(), flights: Vec::new(), until };
        let flight = Arc::default();
        Self { prefix: prefix.clone(), flight, rows: Vec::new(), numbers: Vec::new(), pending, landed: false }
    }

    pub(crate) fn flight(&self) -> &Arc<Flight> {
        &self.flight
    }

    pub(crate) fn pending(&self) -> &Pending {
        &self.pending
    }

    pub(crate) fn add(&mut self, row: u32, number: Number) {
        self.rows.push(row);
        self.numbers.push(number);
    }

    /// Returns the rows that are claimed, with their numbers.
    pub(crate) fn numbered_rows(&self) -> impl Iterator<Item = (u32, Number)> {
        self.rows.iter().copied().zip(self.numbers.iter().copied())
    }

    /// Claims some of its rows no more: they are there.
    pub(crate) fn release(&mut self, rows: &HashSet<u32>) {
        let (gone, kept): (Vec<_>, Vec<_>) = self.numbered_rows().partition(|(row, _)| rows.contains(row));
        (self.rows, self.numbers) = kept.into_iter().unzip();
        let mut index = write(&self.prefix.cell.index);
        for (_, number) in gone {
            // Whoever waits for it looks again when this claim has landed.
            if index.flying.get(&number).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
                index.flying.remove(&number);
            }
        }
    }

    pub(crate) fn join(&mut self, row: u32, number: Number, flight: &Arc<Flight>) {
        flight.join();
        let flights = &mut self.pending.flights;
        // Rows of one flight mostly follow each other.
        let at = flights.iter().rposition(|known| Arc::ptr_eq(known, flight)).unwrap_or_else(|| {
            flights.push(flight.clone());
            flights.len() - 1
        });
        self.pending.rows.push((row, number, at));
    }

    /// Returns the rows to compute, ascending, by their place in the question.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Gives what was computed to the cache and to those who wait for it, kept or not. Returns the rows to wait for.
    pub fn fulfil(mut self, computed: &Computed<'_>) -> Pending {
        let none = Pending { prefix: self.prefix.clone(), rows: Vec::new(), flights: Vec::new(), until: None };
        let pending = std::mem::replace(&mut self.pending, none);
        if !self.rows.is_empty() && self.give(computed).is_err() {
            add(&self.prefix.cell.counters.unfit, computed.rows.len());
        }
        pending
    }

    fn give(&mut self, computed: &Computed<'_>) -> Result<()> {
        let prefix = self.prefix.clone();
        let (shared, cell) = (&prefix.shared, &prefix.cell);
        let table = Table::of(&cell.schema, computed.columns, computed.rows.len())?;
        if table.bytes() > 0 {
            shared.computed(cell.key, computed.nanos, table.rows(), table.bytes() as u64);
        }
        let rows = self.numbered(computed.rows);
        let kept = if self.flight.is_overtaken() {
            admit(shared, cell, &table, &self.still_ours(&rows))
        } else {
            admit(shared, cell, &table, &rows)
        };
        let without: Vec<Number> = self.numbered(computed.without).into_iter().map(|(number, _)| number).collect();
        let known = without.is_empty() || shared.count_index(without.len() as u64 * ROW_BYTES);
        let id = {
            let mut index = write(&cell.index);
            self.leave(&mut index.flying);
            if known {
                let new = index.add_without(&without);
                shared.uncount_index((without.len() as u64 - new) * ROW_BYTES);
            }
            kept.as_ref().map(|kept| index.add_segment(kept.segment.clone()))
        };
        self.landed = true;
        kept.zip(id).into_iter().for_each(|(kept, id)| kept.settle(shared, cell, id));
        if known && !without.is_empty() {
            write_without(shared, cell, &without);
        }
        shared.shrink();
        if self.flight.is_waited_for() {
            self.flight.land(hand_over(cell, &table, &rows, without));
        }
        Ok(())
    }

    /// Returns those of `rows` that are in the claim and may be kept: their numbers and their places in `rows`.
    fn numbered(&self, rows: &[u32]) -> Vec<(Number, u32)> {
        let number = |(place, row): (u32, &u32)| {
            let at = self.rows.binary_search(row).ok()?;
            Some((self.numbers[at], place)).filter(|(number, _)| *number != NO_NUMBER)
        };
        (0..).zip(rows).filter_map(number).collect()
    }

    /// Returns those of `rows` that nobody has taken over: whoever did keeps them.
    fn still_ours(&self, rows: &[(Number, u32)]) -> Vec<(Number, u32)> {
        let index = read(&self.prefix.cell.index);
        let ours = |n: &Number| index.flying.get(n).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight));
        rows.iter().copied().filter(|(number, _)| ours(number)).collect()
    }

    /// Takes the claim's rows out of those that are being computed, unless somebody took them over.
    fn leave<H: std::hash::BuildHasher>(&self, flying: &mut HashMap<Number, Arc<Flight>, H>) {
        for number in &self.numbers {
            if flying.get(number).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
                flying.remove(number);
            }
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.landed {
            return;
        }
        if !self.rows.is_empty() {
            self.leave(&mut write(&self.prefix.cell.index).flying);
        }
        // Also where peers gave all of its rows: whoever waits looks for them again.
        self.flight.land(Landed::default());
    }
}

/// Copies rows for those who wait: what the caller has is written to by whoever gets it next.
fn hand_over(cell: &Cell, table: &Table, rows: &[(Number, u32)], without: Vec<Number>) -> Landed {
    let table = Some(copy(cell, table, rows, &Memory::default()));
    let rows: HashMap<Number, u32> = (0..).zip(rows).map(|(i, (number, _))| (*number, i)).collect();
    Landed { table, rows, without: without.into_iter().collect() }
}

/// Rows that others are computing.
#[derive(Debug)]
pub struct Pending {
    prefix: Arc<Prefix>,
    /// The place of each in the question, its number, and its flight's place in `flights`.
    rows: Vec<(u32, Number, usize)>,
    flights: Vec<Arc<Flight>>,
    until: Option<Instant>,
}

impl Pending {
    /// Says whether there is nothing to wait for.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows, ascending, by their place in the question.
    pub fn rows(&self) -> Vec<u32> {
        self.rows.iter().map(|(row, _, _)| *row).collect()
    }

    /// Waits for them, `limit` in all from the first wait of a question on. What was given up by then, or is late, is for the
    /// caller to compute.
    pub fn wait(self, limit: Duration, memory: &Memory) -> Look {
        let until = self.until.unwrap_or_else(|| deadline(limit));
        let landed: Vec<_> = self.flights.iter().map(|flight| flight.wait(until)).collect();
        let overdue = landed.iter().any(Option::is_none);
        let cell = &self.prefix.cell;
        let mut found = Found::new(&cell.schema);
        let mut table = |landed: &Option<Arc<Landed>>| Some(found.push(landed.as_ref()?.table.clone()?, false));
        let tables: Vec<Option<u32>> = landed.iter().map(&mut table).collect();
        let (mut left, all) = (Vec::new(), self.rows.len());
        for (row, number, flight) in self.rows {
            let landed = landed[flight].as_ref();
            let place = landed.and_then(|landed| landed.rows.get(&number)).zip(tables[flight]);
            match place {
                Some((&at, table)) => found.put(row, Place { table, row: at }),
                None if landed.is_some_and(|landed| landed.without.contains(&number)) => found.add_without(&[row]),
                None => left.push((row, number)),
            }
        }
        add(&cell.counters.shared, all - left.len());
        let passes = self.prefix.shared.passes(cell.key);
        let asking = Asking { passes, memory, beyond: Beyond::Claim, until: Some(until), overdue };
        self.prefix.resolve(found, left, asking)
    }
}
