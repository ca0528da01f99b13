//! From the ordered chunks of splits to what the user gets: the tail's ops, exact batches, and where each begins.
//!
//! The same code merges the splits of this process and those of a service, so both give the same batches.
//! Invariant: a [`Position`] names the first row not yet delivered by split, chunk and row, together with the tail's
//! counters before that chunk; replaying from there gives exactly the rest.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::BooleanArray;
use forebay_core::{Epoch, Result};
use forebay_data::Chunk;
use forebay_plan::{Batching, TailStep};
use serde::{Deserialize, Serialize};

use crate::executable::Executable;
use crate::work::{Compiled, Scratch};

/// The first row not yet delivered. The default is the start of the first epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The epoch.
    pub epoch: u64,
    /// The split's ordinal in the consumer's epoch.
    pub split: u64,
    /// The chunk in its split.
    pub chunk: u64,
    /// Rows of that chunk, after the tail's ops, that have been delivered.
    pub rows: u64,
    /// Rows that each counting op of the tail had seen before that chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
}

/// What `next()` returns: one batch, or a run of single samples.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// The rows.
    pub chunk: Chunk,
    /// Whether they are one batch; else each row is a sample of its own.
    pub batched: bool,
    /// The epoch.
    pub epoch: Epoch,
    start: Position,
    end: Position,
}

impl Delivery {
    /// Returns the position once `rows` of its rows have been used.
    pub fn position_after(&self, rows: usize) -> Position {
        if rows >= self.chunk.num_rows() {
            return self.end.clone();
        }
        Position { rows: self.start.rows + rows as u64, ..self.start.clone() }
    }
}

enum Before {
    Work(Box<Compiled>),
    Take(u64),
    Skip(u64),
    Shard { count: u64, index: u64 },
}

/// Rows that wait for their batch to be full.
struct Piece {
    chunk: Chunk,
    start: Position,
}

/// Merges the chunks of one consumer. See the module's documentation.
pub struct Merge {
    executable: Arc<Executable>,
    before: Vec<Before>,
    after: Vec<Compiled>,
    batching: Option<Batching>,
    counters: Vec<u64>,
    pending: VecDeque<Piece>,
    pending_rows: usize,
    ready: VecDeque<Delivery>,
    /// The place after the last chunk that was pushed.
    next: Position,
    /// Rows of the next chunk that were delivered before this merge began.
    discard: u64,
    satisfied: bool,
    scratch: Scratch,
}

impl Merge {
    /// Starts merging at `from`: the next chunk pushed must be that one.
    ///
    /// # Errors
    /// As [`Executable::new`], for the tail's ops.
    pub fn new(executable: Arc<Executable>, from: &Position) -> Result<Self> {
        let stages = executable.stages().clone();
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut batching = stages.aligned;
        let mut schema = executable.schema().clone();
        for step in &stages.tail {
            match step {
                TailStep::Work(work) => {
                    let compiled = Compiled::new(work, &schema, executable.plan().seed(), executable.environment())?;
                    schema = compiled.schema().clone();
                    match batching {
                        Some(_) => after.push(compiled),
                        None => before.push(Before::Work(Box::new(compiled))),
                    }
                }
                TailStep::Take(n) => before.push(Before::Take(*n)),
                TailStep::Skip(n) => before.push(Before::Skip(*n)),
                TailStep::Shard { count, index } => before.push(Before::Shard { count: *count, index: *index }),
                TailStep::Batch(b) => batching = Some(*b),
            }
        }
        let mut counters = from.counters.clone();
        counters.resize(before.len(), 0);
        let mut merge = Self {
            executable,
            before,
            after,
            batching,
            counters,
            pending: VecDeque::new(),
            pending_rows: 0,
            ready: VecDeque::new(),
            next: Position { rows: 0, counters: Vec::new(), ..from.clone() },
            discard: from.rows,
            satisfied: false,
            scratch: Scratch::default(),
        };
        merge.satisfied = merge.takes_are_full();
        Ok(merge)
    }

    /// Takes the next chunk of the ordered stream: chunk `index` of split `split`.
    ///
    /// # Errors
    /// Whatever an op of the tail gives.
    pub fn push(&mut self, split: u64, index: u64, chunk: Chunk) -> Result<()> {
        let at =
            |p: &Self, rows| Position { epoch: p.next.epoch, split, chunk: index, rows, counters: p.counters_out() };
        let mut start = at(self, 0);
        let mut chunk = self.through_tail(chunk)?;
        self.next = Position { chunk: index + 1, ..at(self, 0) };
        let discard = std::mem::take(&mut self.discard).min(chunk.num_rows() as u64);
        if discard > 0 {
            chunk = chunk.slice(discard as usize, chunk.num_rows() - discard as usize);
            start.rows = discard;
        }
        if chunk.num_rows() > 0 {
            self.pending_rows += chunk.num_rows();
            self.pending.push_back(Piece { chunk, start });
        }
        self.make_ready(false)
    }

    /// Every split of the epoch has been pushed (or no more is needed): a short last batch comes out, and the next
    /// epoch begins.
    ///
    /// # Errors
    /// As [`Merge::push`].
    pub fn end_epoch(&mut self) -> Result<()> {
        let epoch = self.next.epoch;
        self.next = Position { epoch: epoch + 1, ..Position::default() };
        self.make_ready(true)?;
        self.pending.clear();
        self.pending_rows = 0;
        self.counters.fill(0);
        self.discard = 0;
        self.satisfied = self.takes_are_full();
        Ok(())
    }

    /// Returns the next delivery that is ready.
    pub fn pop(&mut self) -> Option<Delivery> {
        self.ready.pop_front()
    }

    /// Says whether a `take` has all its rows, so that nothing more of this epoch is needed.
    pub fn is_satisfied(&self) -> bool {
        self.satisfied
    }

    fn takes_are_full(&self) -> bool {
        self.before.iter().zip(&self.counters).any(|(b, seen)| matches!(b, Before::Take(n) if seen >= n))
    }

    /// Counters are written down only where an op counts.
    fn counters_out(&self) -> Vec<u64> {
        if self.before.iter().all(|b| matches!(b, Before::Work(_))) { Vec::new() } else { self.counters.clone() }
    }

    fn through_tail(&mut self, mut chunk: Chunk) -> Result<Chunk> {
        for (step, seen) in self.before.iter().zip(&mut self.counters) {
            let rows = chunk.num_rows() as u64;
            let first = *seen;
            match step {
                Before::Work(work) => {
                    chunk = work.run(&chunk, None, &mut self.scratch).map_err(|e| self.executable.locate(e))?;
                    continue;
                }
                Before::Take(n) => chunk = chunk.slice(0, rows.min(n.saturating_sub(first)) as usize),
                Before::Skip(n) => {
                    let gone = rows.min(n.saturating_sub(first));
                    chunk = chunk.slice(gone as usize, (rows - gone) as usize);
                }
                Before::Shard { count, index } => {
                    let keep: BooleanArray = (first..first + rows).map(|i| Some(i % count == *index)).collect();
                    chunk = chunk.filter(&keep)?;
                }
            }
            *seen += rows;
        }
        self.satisfied = self.takes_are_full();
        Ok(chunk)
    }

    fn make_ready(&mut self, last: bool) -> Result<()> {
        match self.batching {
            None => {
                while let Some(piece) = self.pending.pop_front() {
                    self.pending_rows -= piece.chunk.num_rows();
                    let end = self.first_pending();
                    self.deliver(piece.chunk, false, piece.start, end);
                }
            }
            Some(batching) => {
                while self.pending_rows >= batching.size {
                    self.deliver_batch(batching.size)?;
                }
                if last && !batching.drop_remainder && self.pending_rows > 0 {
                    self.deliver_batch(self.pending_rows)?;
                }
            }
        }
        Ok(())
    }

    fn deliver_batch(&mut self, rows: usize) -> Result<()> {
        let start = self.first_pending();
        let mut parts = Vec::new();
        let mut missing = rows;
        while missing > 0 {
            let Some(piece) = self.pending.front_mut() else { break };
            let have = piece.chunk.num_rows();
            if have <= missing {
                missing -= have;
                parts.extend(self.pending.pop_front().map(|p| p.chunk));
            } else {
                parts.push(piece.chunk.slice(0, missing));
                piece.chunk = piece.chunk.slice(missing, have - missing);
                piece.start.rows += missing as u64;
                missing = 0;
            }
        }
        self.pending_rows -= rows;
        let mut batch = Chunk::concat(&parts)?;
        for work in &self.after {
            batch = work.run(&batch, None, &mut self.scratch).map_err(|e| self.executable.locate(e))?;
        }
        let end = self.first_pending();
        self.deliver(batch, true, start, end);
        Ok(())
    }

    fn first_pending(&self) -> Position {
        let next = || Position {
            counters: if self.next.split == 0 && self.next.chunk == 0 { Vec::new() } else { self.counters_out() },
            ..self.next.clone()
        };
        self.pending.front().map_or_else(next, |p| p.start.clone())
    }

    fn deliver(&mut self, chunk: Chunk, batched: bool, start: Position, end: Position) {
        let epoch = Epoch(start.epoch);
        self.ready.push_back(Delivery { chunk, batched, epoch, start, end });
    }
}
