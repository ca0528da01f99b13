//! The rows of a claim: the index has them as in flight until they are computed, or released.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::lock::{read, write};
use crate::rows::in_flight::InFlight;
use crate::rows::number::{NO_NUMBER, Number};
use crate::state::prefix::PrefixState;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct ClaimedRows {
    prefix: Arc<PrefixState>,
    in_flight: Arc<InFlight>,
    /// The rows, ascending, by their place in the request.
    rows: Vec<u32>,
    numbers: Vec<Number>,
}

impl ClaimedRows {
    pub(crate) fn new(prefix: &Arc<PrefixState>) -> Self {
        Self { prefix: prefix.clone(), in_flight: Arc::default(), rows: Vec::new(), numbers: Vec::new() }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    pub(crate) fn rows(&self) -> &[u32] {
        &self.rows
    }

    pub(crate) fn add(&mut self, row: u32, number: Number) {
        self.rows.push(row);
        self.numbers.push(number);
    }

    /// Returns the rows, with their numbers.
    pub(crate) fn numbered_rows(&self) -> impl Iterator<Item = (u32, Number)> {
        self.rows.iter().copied().zip(self.numbers.iter().copied())
    }

    /// Releases rows that peers sent.
    pub(crate) fn release(&mut self, rows: &HashSet<u32>) {
        let (gone, kept): (Vec<_>, Vec<_>) = self.numbered_rows().partition(|(row, _)| rows.contains(row));
        (self.rows, self.numbers) = kept.into_iter().unzip();
        let mut index = write(&self.prefix.index);
        for (_, number) in gone {
            // A caller that waits for the row looks it up again when this claim is completed.
            if index.in_flight.get(&number).is_some_and(|in_flight| Arc::ptr_eq(in_flight, &self.in_flight)) {
                index.in_flight.remove(&number);
            }
        }
    }

    /// Returns the rows among `rows` that are claimed and that can be kept: their numbers and their places in `rows`.
    pub(crate) fn numbered(&self, rows: &[u32]) -> Vec<(Number, u32)> {
        let number = |(place, row): (u32, &u32)| {
            let at = self.rows.binary_search(row).ok()?;
            Some((self.numbers[at], place)).filter(|(number, _)| *number != NO_NUMBER)
        };
        (0..).zip(rows).filter_map(number).collect()
    }

    /// Returns the rows among `rows` that no other claim has taken over: that claim keeps the others.
    pub(crate) fn still_ours(&self, rows: &[(Number, u32)]) -> Vec<(Number, u32)> {
        let index = read(&self.prefix.index);
        let ours = |n: &Number| index.in_flight.get(n).is_some_and(|in_flight| Arc::ptr_eq(in_flight, &self.in_flight));
        rows.iter().copied().filter(|(number, _)| ours(number)).collect()
    }

    /// Removes the rows from those in flight, except rows that another claim took over.
    pub(crate) fn leave<H: std::hash::BuildHasher>(&self, in_flight: &mut HashMap<Number, Arc<InFlight>, H>) {
        for number in &self.numbers {
            if in_flight.get(number).is_some_and(|in_flight| Arc::ptr_eq(in_flight, &self.in_flight)) {
                in_flight.remove(number);
            }
        }
    }
}
