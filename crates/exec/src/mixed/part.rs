//! One dataset of a mix, and its stream, in this process or on a service. A dataset that begins again continues with
//! the next epoch of its stream.
//!
//! Invariant: the position names the first row that the mix has not taken, so it does not depend on how far the threads
//! of the stream are ahead.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Chunk;

use crate::skip::skip_log::SkippedSample;
use crate::tail::delivery::Delivery;
use crate::tail::position::{PartPosition, Position};

/// The stream of one dataset of a mix: its rows in order, without batches.
pub trait PartStream: Send {
    /// Returns the next rows; `None` at the end. Calls `poll` about every 50 ms while it waits.
    ///
    /// # Errors
    /// The first error in the order of the stream; any error of `poll`.
    fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>>;

    /// Returns the samples that were skipped since the last call.
    fn take_skipped(&mut self) -> Vec<SkippedSample>;
}

/// Starts the streams of the datasets of a mix.
pub trait PartStreams: Send {
    /// Starts the stream of a dataset at a position. With `end_epoch`, rows of that epoch and later ones are not needed;
    /// without it, the stream ends with the first epoch without a row, or soon after it.
    ///
    /// # Errors
    /// Any error that prevents the start.
    fn start(&self, part: usize, from: &Position, end_epoch: Option<u64>) -> Result<Box<dyn PartStream>>;

    /// Ends a dataset after the end of the mix, which needs no further row of it.
    ///
    /// # Errors
    /// Any error of `poll`.
    fn finish(&self, _part: usize, _poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

/// Whether a dataset of a mix begins again after its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    Never,
    /// It begins again unless the epoch of the mix ends there. Rows after its end are computed only once that is known,
    /// because they might fail.
    Unless,
    Always,
}

/// One dataset of a mix.
pub(super) struct MixPart {
    pub(super) name: String,
    number: usize,
    repeats: Repeats,
    stream: Option<Box<dyn PartStream>>,
    /// How often it has begun again in this epoch of the mix. For a dataset that does not repeat: 1 once it has left
    /// the mix.
    pass: u64,
    /// The epoch of its stream from which the mix takes rows.
    epoch: u64,
    /// The last delivery, of which the mix has taken the first `taken` rows.
    current: Option<Delivery>,
    taken: usize,
    /// The position after the delivery before `current`.
    at: Arc<Position>,
    /// Whether a row of this pass was taken.
    had_row: bool,
    has_ended: bool,
    /// Skipped samples that [`MixPart::take_skipped`] has not returned: samples of epochs that the mix has not reached,
    /// and of streams that were ended.
    skipped: Vec<SkippedSample>,
}

impl MixPart {
    /// Makes a dataset of a mix. Its stream starts with [`MixPart::begin`].
    pub(super) fn new(number: usize, name: &str, repeats: Repeats) -> Self {
        Self {
            name: name.to_owned(),
            number,
            repeats,
            stream: None,
            pass: 0,
            epoch: 0,
            current: None,
            taken: 0,
            at: Arc::default(),
            had_row: false,
            has_ended: false,
            skipped: Vec::new(),
        }
    }

    /// Goes to a position of an epoch of the mix, or without a position to the start of the epoch.
    pub(super) fn seek(&mut self, epoch: u64, from: Option<&PartPosition>) {
        self.end_stream();
        self.pass = from.map_or(0, |from| from.pass);
        self.epoch = match self.repeats {
            Repeats::Never => epoch,
            Repeats::Unless | Repeats::Always => (epoch << 32).wrapping_add(self.pass),
        };
        let start = Position::start_of(self.epoch);
        self.at = from.map_or_else(|| Arc::new(start.clone()), |from| from.at.clone());
        self.had_row = *self.at != start;
        (self.current, self.taken, self.has_ended) = (None, 0, false);
    }

    /// Starts its stream, unless it runs.
    ///
    /// # Errors
    /// As [`PartStreams::start`].
    pub(super) fn begin(&mut self, streams: &dyn PartStreams) -> Result<()> {
        if self.stream.is_some() || self.has_left() {
            return Ok(());
        }
        let end_epoch = Some(self.epoch + 1).filter(|_| self.ends_with_pass());
        self.stream = Some(streams.start(self.number, &self.at, end_epoch).map_err(|e| self.blame(e))?);
        Ok(())
    }

    /// Returns whether it has another row in this pass.
    ///
    /// # Errors
    /// The error of its stream.
    pub(super) fn has_row(&mut self, streams: &dyn PartStreams, poll: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        loop {
            match &self.current {
                Some(later) if later.epoch.0 != self.epoch => return Ok(false),
                Some(current) if self.taken < current.chunk.num_rows() => return Ok(true),
                _ if self.has_ended => return Ok(false),
                _ => {}
            }
            self.begin(streams)?;
            let Some(stream) = &mut self.stream else { return Ok(false) };
            match stream.next(poll).map_err(|e| e.with("part", &self.name))? {
                Some(next) => {
                    self.at = self.position();
                    (self.current, self.taken) = (Some(next), 0);
                }
                None => self.has_ended = true,
            }
        }
    }

    /// Takes the next row: its chunk, and its place in the chunk. [`MixPart::has_row`] has returned true before.
    pub(super) fn take(&mut self) -> Option<(&Chunk, usize)> {
        let current = self.current.as_ref()?;
        self.taken += 1;
        self.had_row = true;
        Some((&current.chunk, self.taken - 1))
    }

    /// Returns whether its stream ends with the current pass.
    fn ends_with_pass(&self) -> bool {
        match self.repeats {
            Repeats::Never => true,
            Repeats::Unless => self.pass == 0,
            Repeats::Always => false,
        }
    }

    /// Begins again, with the next epoch of its stream.
    pub(super) fn begin_again(&mut self) {
        if self.ends_with_pass() {
            self.end_stream();
            (self.current, self.taken, self.has_ended) = (None, 0, false);
        }
        self.pass += 1;
        self.epoch = self.epoch.wrapping_add(1);
        self.at = Arc::new(Position::start_of(self.epoch));
        self.had_row = false;
    }

    /// Leaves the mix until the epoch ends.
    pub(super) fn leave(&mut self) {
        self.at = self.position();
        self.pass = 1;
        self.end_stream();
        (self.current, self.has_ended) = (None, true);
    }

    fn end_stream(&mut self) {
        self.skipped = self.take_skipped();
        self.stream = None;
    }

    /// Returns whether it has left the mix.
    pub(super) fn has_left(&self) -> bool {
        self.repeats == Repeats::Never && self.pass > 0
    }

    /// Returns whether it has begun again.
    pub(super) fn has_begun_again(&self) -> bool {
        self.pass > 0
    }

    /// Returns whether a row of this pass was taken.
    pub(super) fn had_row(&self) -> bool {
        self.had_row
    }

    /// Returns its position, for a saved state.
    pub(super) fn saved(&self) -> PartPosition {
        PartPosition { pass: self.pass, at: self.position() }
    }

    fn position(&self) -> Arc<Position> {
        match &self.current {
            Some(current) if current.epoch.0 == self.epoch && self.taken > 0 => {
                Arc::new(current.position_after(self.taken))
            }
            _ => self.at.clone(),
        }
    }

    /// Returns the samples that it skipped since the last call, without samples of epochs that the mix has not reached.
    pub(super) fn take_skipped(&mut self) -> Vec<SkippedSample> {
        let mut skipped = std::mem::take(&mut self.skipped);
        skipped.extend(self.stream.iter_mut().flat_map(|stream| stream.take_skipped()));
        let (now, later) = skipped.into_iter().partition(|lost| lost.epoch.0 <= self.epoch);
        self.skipped = later;
        now
    }

    /// Names the dataset in an error.
    pub(super) fn blame(&self, error: Error) -> Error {
        error.with("part", &self.name)
    }
}
