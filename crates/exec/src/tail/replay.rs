//! The start of a resumed stream: the rows that the saved run delivered from the same chunk are computed again, counted
//! and dropped.
//!
//! A position counts rows, so the same rows must come again. A row that fails each time is skipped each time. A row
//! that the saved run skipped by accident (its process died, it took too long) is in the saved state. If another row
//! fails by accident now, the count would drop a row that was never delivered, so the stream ends with an error
//! instead.

use forebay_core::{Epoch, Error, Result};
use forebay_data::Loss;

use crate::skip::known_skips::KnownSkips;
use crate::tail::position::Position;

/// Checks the rows that a resumed stream computes again.
#[derive(Debug)]
pub(crate) struct Replay {
    is_under_way: bool,
    known_skips: KnownSkips,
}

impl Replay {
    /// Begins at a position, without known skips.
    pub(crate) fn new(from: &Position) -> Self {
        let is_bucketed = !from.bucketed.is_empty() || !from.keyed.is_empty();
        let is_inside = from.rows > 0 || from.unpacked.is_some() || is_bucketed || from.given > 0;
        Self { is_under_way: is_inside, known_skips: KnownSkips::default() }
    }

    /// Sets the samples that the saved run skipped by accident.
    pub(crate) fn set_known_skips(&mut self, known_skips: KnownSkips) {
        self.known_skips = known_skips;
    }

    /// Checks the losses of a chunk, before any row of it is delivered.
    ///
    /// # Errors
    /// Unavailable when a sample fails by accident that the saved run may have delivered.
    pub(crate) fn check(&self, epoch: Epoch, losses: &[Loss]) -> Result<()> {
        if !self.is_under_way {
            return Ok(());
        }
        let Some(loss) = self.known_skips.first_unknown(epoch, losses) else { return Ok(()) };
        let sample = loss.error.get("sample").unwrap_or("a sample");
        let message =
            format!("cannot go on from this state: {sample}, which the saved run had, failed by accident this time");
        Err(Error::unavailable(message)
            .with("sample", sample)
            .with("last", &loss.error)
            .hint("load the state again, so that the sample is tried again: without it another one would be skipped"))
    }

    /// Ends the replay after a chunk, unless rows that the saved run delivered are still to come (`is_behind`).
    pub(crate) fn end_chunk(&mut self, is_behind: bool) {
        self.is_under_way &= is_behind;
    }
}
