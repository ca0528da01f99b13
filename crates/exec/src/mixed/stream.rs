//! The iterator over a mix of datasets whose rows are not counted.
//!
//! The rows of a run of places are one chunk of the merge, and a window of the mix is a split. So a position names a run
//! like any other chunk, and with it the position of each dataset before the run. A resumed stream reads at most one run
//! of the mix again, and of each dataset the rows behind its own position.
//!
//! Invariants: the datasets' threads decide when rows are computed, never which rows come; a dataset is asked for a row
//! only when its place has come, so the end of an epoch is the same in every run.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Epoch, Error, Result};
use forebay_plan::{Changes, Combined, Combining, MixSchedule, Source, Stop, never_read};

use super::part::{MixPart, PartStreams, Repeats};
use super::run_rows::{MixColumns, RunRows, Samples};
use crate::executable::Executable;
use crate::local::options::LocalOptions;
use crate::skip::skip_log::SkippedSample;
use crate::tail::delivery::Delivery;
use crate::tail::merge::Merge;
use crate::tail::position::MixPosition;

/// Places whose rows are put together at once. Positions name runs, so it is fixed.
const RUN: u64 = 64;

/// The item behind the last row of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Run,
    Window,
    Epoch,
}

/// An iterator over a mix. Dropping it ends the streams of its datasets.
pub struct MixedStream {
    executable: Arc<Executable>,
    consumer: ConsumerIndex,
    streams: Box<dyn PartStreams>,
    schedule: MixSchedule,
    stop: Stop,
    columns: MixColumns,
    parts: Vec<MixPart>,
    merge: Merge,
    epoch: u64,
    end_epoch: Option<u64>,
    window: u64,
    run: u64,
    /// The dataset of each place of the window; empty before its first run.
    places: Vec<u16>,
    /// Whether the epoch has no further row.
    is_over: bool,
    /// Whether a row came in this epoch, or may have come, or none was needed.
    had_row: bool,
    skipped: Vec<SkippedSample>,
    ended: Option<Option<Error>>,
}

impl MixedStream {
    /// Mixes the rows of streams. The threads of `options` are of no account.
    ///
    /// # Errors
    /// Invalid where the source is no such mix, for a state of another mix, and for `ordered=False`.
    pub fn over(executable: Arc<Executable>, options: LocalOptions, streams: Box<dyn PartStreams>) -> Result<Self> {
        let (combined, (weights, per_batch), stop) = mix_of(&executable)?;
        if !options.ordered {
            executable.check_any_order()?;
        }
        let sharding = executable.plan().sharding();
        let schedule = MixSchedule::new(weights, stop, executable.plan().seed(), sharding, options.consumer);
        let schedule = schedule.per_batch(per_batch);
        let samples = Samples::new(&executable.plan().extent().parts);
        let repeats = match stop {
            Stop::First | Stop::Once => Repeats::Never,
            Stop::All => Repeats::Unless,
            Stop::Rows(_) | Stop::Never => Repeats::Always,
        };
        let parts = combined.parts.iter().enumerate();
        let parts: Vec<_> = parts.map(|(number, part)| MixPart::new(number, &part.name, repeats)).collect();
        let mut merge = Merge::new(executable.clone(), options.consumer, &options.from)?;
        merge.set_budget(options.budget);
        merge.set_known_skips(options.known_skips.clone());
        let names = combined.column.as_ref().map(|_| parts.iter().map(|part| part.name.clone()).collect());
        let memory = executable.memory().clone();
        let columns = MixColumns { schema: Arc::new(executable.stages().source.schema()?), names, samples, memory };
        let mut stream = Self {
            executable,
            consumer: options.consumer,
            streams,
            schedule,
            stop,
            columns,
            parts,
            merge,
            epoch: options.from.epoch,
            end_epoch: options.end_epoch,
            window: options.from.split,
            run: options.from.chunk,
            places: Vec::new(),
            is_over: false,
            had_row: !options.from.is_start(),
            skipped: Vec::new(),
            ended: None,
        };
        stream.seek(options.from.mixed.as_deref())?;
        Ok(stream)
    }

    /// As [`LocalStream::next`](crate::LocalStream::next).
    ///
    /// # Errors
    /// The first error in the order of the stream; after it, the stream has ended with that error.
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        if let Some(ended) = &self.ended {
            return ended.clone().map_or(Ok(None), Err);
        }
        let next = self.advance(poll);
        self.collect_skipped();
        match &next {
            Ok(Some(_)) => {}
            Ok(None) => {
                self.ended = Some(None);
                (0..self.parts.len()).try_for_each(|part| self.streams.finish(part, poll))?;
            }
            Err(e) => self.ended = Some(Some(e.clone())),
        }
        next
    }

    /// Returns the costs of ops and the state of caches, as JSON.
    pub fn stats(&self) -> String {
        self.executable.stats()
    }

    /// As [`LocalStream::stream`](crate::LocalStream::stream).
    pub fn stream(&self) -> u64 {
        self.merge.stream()
    }

    /// Returns the samples that were skipped since the last call.
    pub fn take_skipped(&mut self) -> Vec<SkippedSample> {
        let mut skipped = std::mem::take(&mut self.skipped);
        skipped.extend(self.merge.take_skipped());
        skipped
    }

    fn advance(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        loop {
            if let Some(delivery) = self.merge.pop() {
                return Ok(Some(delivery));
            }
            if self.end_epoch.is_some_and(|end| self.epoch >= end) {
                return Ok(None);
            }
            if self.merge.is_satisfied() {
                poll()?;
                self.had_row = true;
                self.next_epoch()?;
                continue;
            }
            self.next_run(poll)?;
        }
    }

    /// Takes the rows of the next run, and merges them.
    fn next_run(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        if self.is_over {
            return self.next_epoch();
        }
        if self.places.is_empty() {
            poll()?;
            self.parts.iter_mut().try_for_each(|part| part.begin(&*self.streams))?;
            if self.end_parts_without_turn(poll)? {
                return self.next_epoch();
            }
            let takes_part: Vec<bool> = self.parts.iter().map(|part| !part.has_left()).collect();
            let places = self.schedule.window(Epoch(self.epoch), self.window, &takes_part);
            self.places = places.ok_or_else(|| Error::internal("a mix has a window without a dataset"))?;
        }
        let (first, length) = ((self.run * RUN) as usize, RUN as usize);
        let places: Vec<u16> = self.places.iter().skip(first).take(length).copied().collect();
        if self.places.is_empty() {
            return self.next_epoch();
        }
        if places.is_empty() {
            return Err(other_state());
        }
        let mut next = if first + length < self.places.len() { Next::Run } else { Next::Window };
        let mut rows = RunRows::default();
        for part in places {
            if let Some(end) = self.take(usize::from(part), &mut rows, poll)? {
                next = end;
                break;
            }
        }
        self.push(rows, next)
    }

    /// Takes the row of a place. Returns the next item if there is no row.
    fn take(&mut self, part: usize, rows: &mut RunRows, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Next>> {
        if !self.parts[part].has_row(&*self.streams, poll)? {
            if let Some(next) = self.end_part(part)? {
                return Ok(Some(next));
            }
            if !self.parts[part].has_row(&*self.streams, poll)? {
                return Err(self.no_rows(part));
            }
        }
        if let Some((chunk, row)) = self.parts[part].take() {
            rows.push(part, chunk, row);
        }
        Ok(None)
    }

    /// Decides what happens where a place is a dataset's that has no row left: `None` if it begins again.
    fn end_part(&mut self, part: usize) -> Result<Option<Next>> {
        if !self.parts[part].had_row() && self.stop != Stop::Once {
            return Err(self.no_rows(part));
        }
        let others = |has_ended: fn(&MixPart) -> bool| {
            self.parts.iter().enumerate().all(|(other, of)| other == part || has_ended(of))
        };
        match self.stop {
            Stop::First => return Ok(Some(Next::Epoch)),
            Stop::Once => {
                let is_last = others(MixPart::has_left);
                self.parts[part].leave();
                return Ok(Some(if is_last { Next::Epoch } else { Next::Window }));
            }
            Stop::All if !self.parts[part].has_begun_again() && others(MixPart::has_begun_again) => {
                return Ok(Some(Next::Epoch));
            }
            Stop::All | Stop::Rows(_) | Stop::Never => self.parts[part].begin_again(),
        }
        Ok(None)
    }

    /// Ends datasets that have to be read whole and have no share in this window and behind it. Returns whether the
    /// epoch ends with the last of them.
    fn end_parts_without_turn(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
        for part in 0..self.parts.len() {
            let is_open = match self.stop {
                Stop::Once => !self.parts[part].has_left(),
                Stop::All => !self.parts[part].has_begun_again(),
                Stop::First | Stop::Rows(_) | Stop::Never => false,
            };
            if !is_open || self.schedule.has_turn(part, self.window) {
                continue;
            }
            if self.parts[part].has_row(&*self.streams, poll)? {
                return Err(never_read(&self.parts[part].name));
            }
            if self.end_part(part)? == Some(Next::Epoch) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Merges the rows of a run.
    fn push(&mut self, rows: RunRows, next: Next) -> Result<()> {
        let is_over = next == Next::Epoch;
        if !(is_over && rows.is_empty()) {
            let after = MixPosition { parts: self.parts.iter().map(MixPart::saved).collect(), is_over };
            self.had_row |= !rows.is_empty();
            let chunk = rows.chunk(&self.columns)?;
            self.merge.push_mixed((self.window, self.run), chunk, Arc::new(after), next != Next::Run)?;
        }
        match next {
            Next::Run => self.run += 1,
            Next::Window => {
                (self.window, self.run) = (self.window + 1, 0);
                self.places.clear();
            }
            Next::Epoch => self.next_epoch()?,
        }
        Ok(())
    }

    fn next_epoch(&mut self) -> Result<()> {
        self.collect_skipped();
        self.merge.end_epoch()?;
        if self.end_epoch.is_none() && !self.had_row {
            let error = Error::data("mix: no dataset gives a row, and epochs=None would never end");
            return Err(error.hint("look at the conditions of filters, or give the stream an end"));
        }
        (self.epoch, self.window, self.run, self.had_row) = (self.epoch + 1, 0, 0, false);
        self.seek(None)
    }

    /// Goes to a position of the epoch; without one, to its start.
    fn seek(&mut self, from: Option<&MixPosition>) -> Result<()> {
        let is_start = (self.window, self.run) == (0, 0);
        if from.map_or(!is_start, |from| from.parts.len() != self.parts.len()) {
            return Err(other_state());
        }
        self.places.clear();
        self.is_over = from.is_some_and(|from| from.is_over);
        for (number, part) in self.parts.iter_mut().enumerate() {
            part.seek(self.epoch, from.map(|from| &from.parts[number]));
        }
        Ok(())
    }

    fn collect_skipped(&mut self) {
        let (epoch, split) = (Epoch(self.epoch), self.window);
        for (number, part) in self.parts.iter_mut().enumerate() {
            for mut lost in part.take_skipped() {
                lost.loss.row.sample = self.columns.samples.global(number, lost.loss.row.sample);
                lost.loss.error = part.blame(lost.loss.error);
                self.skipped.push(SkippedSample { epoch, split, loss: lost.loss });
            }
        }
    }

    fn no_rows(&self, part: usize) -> Error {
        let (of, stages) = (&self.parts[part], &self.executable.stages().parts[part]);
        let sharding = self.executable.plan().sharding();
        let error = if sharding.consumers > 1 && !sharding.coordinated {
            let (consumer, consumers) = (self.consumer.0, sharding.consumers);
            Error::data(format!("mix: {:?} gives no row to consumer {consumer} of {consumers}", of.name)).hint(
                "consumers divide a dataset by splits: a small one has too few. coordinated=True divides the batches \
                 instead; stop=\"once\" reads each dataset as far as it goes",
            )
        } else {
            Error::data(format!("mix: {:?} gives no row", of.name))
                .hint("look at the conditions of its filters; or leave it out, or use stop=\"once\"")
        };
        stages
            .first_uncounted()
            .map_or_else(|| stages.graph.blame_source(error.clone()), |node| node.blame(error.clone()))
    }
}

fn other_state() -> Error {
    Error::invalid("this state is of another mix").hint("a saved state fits the pipeline that it was saved with")
}

/// The weights of a mix, their changes during training, and the rows of a batch if each batch has these shares.
type Shares<'a> = ((&'a [f64], Option<&'a Changes>), Option<u64>);

/// Returns the mix that is the source of a pipeline, with its shares and its end.
fn mix_of(executable: &Executable) -> Result<(&Combined, Shares<'_>, Stop)> {
    match &executable.stages().source {
        Source::Combined(combined) => match &combined.how {
            Combining::Mix { weights, stop, changes, per_batch } => {
                Ok((combined, ((weights, changes.as_ref()), *per_batch), *stop))
            }
            _ => Err(Error::internal("only a mix is put together as it comes")),
        },
        _ => Err(Error::internal("only a mix is put together as it comes")),
    }
}
