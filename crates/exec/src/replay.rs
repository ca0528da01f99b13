//! The start of a resumed stream: the rows that the saved run gave out from the same chunk are computed again, counted and dropped.
//!
//! A position counts rows, so the same rows must come again. A row that fails each time is left out each time. A row that the saved run
//! left out by accident (its process died, it took too long) is in the saved state. If another row is left out by accident now, the
//! count would drop a row that nobody got. The stream ends with an error instead.

use forebay_core::{Epoch, Error, Result};
use forebay_data::Loss;

use crate::delivery::Position;
use crate::isolate::Known;

/// Checks the rows that a resumed stream computes again.
#[derive(Debug)]
pub(crate) struct Replay {
    is_under_way: bool,
    known: Known,
}

impl Replay {
    /// Begins at a position, with nothing known.
    pub(crate) fn new(from: &Position) -> Self {
        let is_inside = from.rows > 0 || from.unpacked.is_some() || !from.bucketed.is_empty() || from.given > 0;
        Self { is_under_way: is_inside, known: Known::default() }
    }

    /// Says which samples the saved run had left out by accident.
    pub(crate) fn set_known(&mut self, known: Known) {
        self.known = known;
    }

    /// Checks what a chunk lacks, before anything of it is taken.
    ///
    /// # Errors
    /// Unavailable when a sample is left out by accident that the saved run may have given out.
    pub(crate) fn check(&self, epoch: Epoch, losses: &[Loss]) -> Result<()> {
        if !self.is_under_way {
            return Ok(());
        }
        let Some(loss) = self.known.first_unknown(epoch, losses) else { return Ok(()) };
        let sample = loss.error.get("sample").unwrap_or("a sample");
        let message =
            format!("cannot go on from this state: {sample}, which the saved run had, failed by accident this time");
        Err(Error::unavailable(message)
            .with("sample", sample)
            .with("last", &loss.error)
            .hint("load the state again, so that the sample is tried again: without it another one would be skipped"))
    }

    /// Ends the replay after a chunk, unless rows that the saved run gave out are still to come (`is_behind`).
    pub(crate) fn go_on(&mut self, is_behind: bool) {
        self.is_under_way &= is_behind;
    }
}
