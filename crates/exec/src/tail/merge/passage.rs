//! The rows of a chunk on their way through the tail's ops, up to the rows that wait for their batch.

use forebay_core::{Epoch, Result};
use forebay_data::Chunk;
use forebay_plan::OnError;

use crate::skip::isolation::Isolation;
use crate::tail::merge::Merge;
use crate::tail::position::{Position, Unpacked};

impl Merge {
    pub(super) fn begin_metering(&mut self) {
        if !self.executable.stages().tail.is_empty() {
            self.executable.meter().begin(&mut self.scratch.tally);
        }
    }

    pub(super) fn end_metering(&mut self) {
        if !self.executable.stages().tail.is_empty() {
            self.executable.meter().end(&mut self.scratch.tally);
        }
    }

    /// Runs the ops on rows as they come. Counts the samples that these ops skip, and the skipped samples that the
    /// chunk lists. `comes_again`: the saved run may have delivered rows of this chunk.
    pub(super) fn pass(&mut self, chunk: Chunk, at: (Epoch, u64), comes_again: bool) -> Result<Chunk> {
        let executable = self.executable.clone();
        let locate = |e| executable.locate(e);
        let mut isolation = Isolation::new(executable.on_error(), &locate);
        let (rows, mut losses) = (chunk.num_rows(), chunk.losses().to_vec());
        let chunk = self.before.run(chunk, &executable, &mut isolation, &mut self.scratch)?;
        losses.extend(isolation.into_losses());
        if comes_again {
            self.replay.check(at.0, &losses)?;
        }
        let plan = executable.plan();
        let expected = plan.rows().map(|rows| rows.div_ceil(plan.sharding().parts()));
        // Positions of pipelines that skip no sample stay short.
        let rows = if executable.on_error().is_tolerant() { rows } else { 0 };
        self.skips.count(at, rows, losses, expected)?;
        Ok(chunk)
    }

    /// Cuts off the rows after the share that all consumers get.
    pub(super) fn within_share(&self, split: u64, index: u64, chunk: Chunk) -> Chunk {
        let Some(share) = self.share else { return chunk };
        let sizing = self.executable.plan().sizing();
        let left = share.saturating_sub(sizing.first_unit(split, index)).saturating_mul(sizing.unit_rows);
        let rows = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.num_rows());
        // All losses stay: it is unknown on which side of the cut their rows would be.
        let losses = chunk.losses().to_vec();
        chunk.slice(0, rows).with_losses(losses)
    }

    /// Takes the rows that are packed so far.
    pub(super) fn pack(&mut self, last: bool) -> Result<()> {
        let start = self.held_from();
        let Some(packer) = &mut self.packer else { return Ok(()) };
        let span = self.scratch.tally.start();
        let packed = packer.pack(last)?;
        self.packing.iter().for_each(|slot| self.scratch.tally.gave_out(*slot, span, packed.as_ref()));
        match (packed, start) {
            (Some(packed), Some(start)) => self.accept(packed, start),
            _ => Ok(()),
        }
    }

    /// Accepts the next rows; replaying from `start` yields them first.
    pub(super) fn accept(&mut self, chunk: Chunk, mut start: Position) -> Result<()> {
        // A packed row holds many samples, so it is never skipped.
        let locate = |e| e;
        let mut isolation = Isolation::new(OnError::Raise, &locate);
        let mut chunk = self.between.run(chunk, &self.executable, &mut isolation, &mut self.scratch)?;
        self.satisfied = self.is_full();
        let discard = std::mem::take(&mut self.discard).min(chunk.num_rows() as u64);
        if discard > 0 {
            chunk = chunk.slice(discard as usize, chunk.num_rows() - discard as usize);
            start.rows = discard;
        }
        if let Some(bucketer) = &mut self.bucketer {
            let (span, rows) = (self.scratch.tally.start(), chunk.clone());
            bucketer.hold(chunk, start)?;
            self.grouping.iter().for_each(|slot| self.scratch.tally.took_in(*slot, span, &rows));
            return Ok(());
        }
        self.pending.push(chunk, start);
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        let sizing = self.executable.plan().sizing();
        let passed = || sizing.first_unit(self.next.split, self.next.chunk);
        let is_taken = self.before.is_full() || self.between.is_full() || self.chosen.is_full();
        is_taken || self.share.is_some_and(|share| passed() >= share)
    }

    /// Returns the counters of the ops; empty where no op counts.
    pub(super) fn counters_out(&self) -> Vec<u64> {
        if !self.before.counts() && !self.between.counts() {
            return Vec::new();
        }
        self.before.counters.iter().chain(&self.between.counters).copied().collect()
    }

    /// Returns the position of the first token that the packer holds. Ops before packing counted up to its chunk; ops
    /// after packing continue from their current counters.
    pub(super) fn held_from(&self) -> Option<Position> {
        let (at, unpacked) = self.packer.as_ref()?.start()?;
        let mut start = Position { unpacked: (unpacked != Unpacked::default()).then_some(unpacked), ..at.clone() };
        // There are none where no op counts.
        if !start.counters.is_empty() {
            start.counters.truncate(self.before.counters.len());
            start.counters.extend(&self.between.counters);
        }
        Some(start)
    }
}
