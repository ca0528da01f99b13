//! Makes batches of pending rows, and delivers each between two positions.

use forebay_core::{Epoch, Result};
use forebay_data::Chunk;

use crate::profile::op_meter::MeterInput;
use crate::tail::delivery::Delivery;
use crate::tail::merge::Merge;
use crate::tail::position::Position;

impl Merge {
    /// Delivers all complete batches; with `last`, also batches that no further row will fill.
    pub(super) fn make_ready(&mut self, last: bool) -> Result<()> {
        if self.bucketer.is_some() {
            return self.deliver_buckets(last);
        }
        match self.batching {
            None => {
                while let Some((chunk, start)) = self.pending.pop() {
                    let end = self.first_pending();
                    self.deliver(chunk, false, start, end);
                }
            }
            Some(batching) => {
                let parts = self.parts();
                let round = batching.size.saturating_mul(parts);
                while self.pending.rows() >= round {
                    self.deliver_round(batching.size)?;
                }
                // Rows that do not make a batch for each coordinated consumer are dropped. Where a plan aligns batches,
                // a chunk is whole batches, and the short batch of an epoch may come before others.
                let (rest, is_whole) =
                    (self.pending.rows() / parts, self.executable.stages().aligned.is_some() && parts == 1);
                if (last || is_whole) && !batching.drop_remainder && rest > 0 {
                    self.deliver_round(rest)?;
                }
            }
        }
        Ok(())
    }

    fn deliver_buckets(&mut self, last: bool) -> Result<()> {
        while !self.chosen.is_full() {
            let start = self.first_pending();
            let span = self.scratch.tally.start();
            let next = self.bucketer.as_mut().map(|b| b.next(last)).transpose();
            let Some(batch) = next.map_err(|e| self.executable.locate(e))?.flatten() else {
                return Ok(());
            };
            self.grouping.iter().for_each(|slot| self.scratch.tally.gave_out(*slot, span, Some(&batch)));
            if self.chosen.next() {
                self.finish_batch(batch, start)?;
            }
        }
        Ok(())
    }

    /// Returns the number of consumers that get a batch of each round.
    fn parts(&self) -> usize {
        let sharding = self.executable.plan().sharding();
        if sharding.coordinated { sharding.consumers.max(1) as usize } else { 1 }
    }

    /// Delivers this consumer's batch of the next round, in which each coordinated consumer has one batch.
    fn deliver_round(&mut self, rows: usize) -> Result<()> {
        let start = self.first_pending();
        let others = self.parts() - 1;
        let before = others.min(self.consumer.0 as usize);
        drop(self.pending.take(before * rows));
        let parts = self.pending.take(rows);
        drop(self.pending.take((others - before) * rows));
        let batch = match self.grouping {
            Some(slot) => self.scratch.metered(slot, MeterInput::Chunks(&parts), |_| Chunk::concat(&parts))?,
            None => Chunk::concat(&parts)?,
        };
        self.finish_batch(batch, start)
    }

    /// Runs the ops on whole batches, and delivers the batch.
    fn finish_batch(&mut self, mut batch: Chunk, start: Position) -> Result<()> {
        for op in &self.after {
            batch = op.run(&batch, None, &mut self.scratch).map_err(|e| self.executable.locate(e))?;
            let at = (Epoch(self.next.epoch), self.next.split);
            self.skips.count(at, 0, batch.losses().to_vec(), None)?;
            batch = batch.with_losses(Vec::new());
        }
        let end = self.first_pending();
        self.deliver(batch, true, start, end);
        Ok(())
    }

    fn first_pending(&self) -> Position {
        let next = || match (self.next.split, self.next.chunk) {
            (0, 0) if self.next.passed.is_empty() => self.next.clone(),
            _ => Position { counters: self.counters_out(), tally: self.skips.tally, ..self.next.clone() },
        };
        if let Some(bucketer) = &self.bucketer {
            let start = bucketer.start(next);
            // The last batch of an epoch ends where the next epoch begins, which has no batch yet.
            return Position { batches: if start.is_start() { 0 } else { self.chosen.counted() }, ..start };
        }
        self.pending.start().cloned().or_else(|| self.held_from()).unwrap_or_else(next)
    }

    fn deliver(&mut self, chunk: Chunk, batched: bool, start: Position, end: Position) {
        let mut delivery = Delivery::new(chunk, batched, start, end);
        let (steps, given) = (delivery.steps(), self.given);
        self.given -= given.min(steps);
        if given >= steps {
            return;
        }
        if given > 0 {
            drop(delivery.split_off(given as usize));
        }
        self.ready.push_back(delivery);
    }
}
