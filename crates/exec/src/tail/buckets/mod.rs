//! Batches of rows that belong together, over the ordered stream of one consumer: rows of about the same length, or rows of
//! one key.
//!
//! | module | |
//! |---|---|
//! | `rule` | how many rows a batch may have, and how long its rows are |
//! | `key` | the keys of rows |
//! | `pieces` | the rows in memory |
//! | `rows_of_keys` | the number of rows of each key that have left, in positions |
//! | `waiting` | the keys of rows that wait, which are bounded |
//! | `batch` | a batch of the rows of a bucket |
//!
//! A bucket yields a batch as soon as it has all rows of one, so the batches depend on the order of rows alone, not on
//! the bounds of chunks. Coordinated consumers see the same stream: a bucket waits until it has a batch for each of
//! them, pads all to one length, and each consumer takes its own batch.
//!
//! Invariants: rows leave a bucket in their order, and batches are delivered in the order in which they were closed. So a
//! stream resumes from the position of the first held row and, for each bucket, the number of rows from there on that
//! have left ([`Bucketer::start`]); no state contains rows. A resumed stream closes the same batches: up to the row at which
//! the last delivered batch was closed, it holds a part of the rows that the saved one held, so it closes none before.
//!
//! Bound: at most [`pieces::THIN`] rows in memory for each row of an unfinished batch, and four bytes for each row after the
//! first held one. Buckets of keys are bounded by `max_keys` and the rows of one chunk.

mod batch;
mod key;
mod pieces;
mod rows_of_keys;
mod rule;
mod waiting;

use std::collections::{HashMap, VecDeque};

use forebay_core::{ConsumerIndex, Error, Result};
use forebay_data::{Chunk, Memory};
use forebay_plan::{Sharding, Step};

pub(crate) use key::check_keys;
pub use key::{Key, KeyPart};
use pieces::{Pieces, Row};
pub use rows_of_keys::RowsOfKeys;
use rule::Rule;
use waiting::WaitingKeys;

use crate::tail::position::Position;

/// The rows of one key, or of about the same length, that wait for their batch.
#[derive(Default)]
struct Bucket {
    /// The held rows: first the rows of closed batches, then the rows that wait.
    held: VecDeque<Row>,
    /// The number of rows that wait, and the length of the longest of them.
    waiting: usize,
    longest: usize,
    /// The number of rows after the first held one that have left.
    left: u64,
    /// The number of coming rows that the saved run had delivered.
    passed: u64,
}

/// A batch that will get no further row.
struct Closed {
    bucket: usize,
    /// The rows that leave the bucket.
    rows: usize,
    /// The rows of each consumer's batch; 0 if the rows are dropped.
    size: usize,
}

/// Makes batches of rows that belong together.
pub(crate) struct Bucketer {
    step: Step,
    rule: Rule,
    /// The number of consumers that share each bucket's rows, and the index of this one.
    parts: usize,
    part: usize,
    pieces: Pieces,
    buckets: Vec<Bucket>,
    /// The bucket of each key, the key of each bucket, and the buckets that no key has.
    numbers: HashMap<Key, usize>,
    keys: Vec<Key>,
    unused: Vec<usize>,
    waiting: WaitingKeys,
    /// For each key, `left` and `passed` of its bucket together.
    delivered: RowsOfKeys,
    /// The sum of `passed` of all buckets.
    behind: u64,
    /// In the order in which they were closed.
    closed: VecDeque<Closed>,
    /// The memory, and its budget, of padded rows.
    memory: Memory,
}

impl Bucketer {
    /// Resumes at a position, which says how many of the next rows of each bucket have already left.
    pub(crate) fn new(step: &Step, sharding: Sharding, consumer: ConsumerIndex, from: &Position) -> Result<Self> {
        let (parts, part) = match sharding.coordinated {
            true => (sharding.consumers.max(1) as usize, consumer.0 as usize),
            false => (1, 0),
        };
        let mut bucketer = Self {
            step: step.clone(),
            rule: Rule::of(step)?,
            parts,
            part,
            pieces: Pieces::default(),
            buckets: Vec::new(),
            numbers: HashMap::new(),
            keys: Vec::new(),
            unused: Vec::new(),
            waiting: WaitingKeys::default(),
            delivered: RowsOfKeys::default(),
            behind: 0,
            closed: VecDeque::new(),
            memory: Memory::default(),
        };
        bucketer.empty();
        match bucketer.rule {
            Rule::Length(_) => {
                bucketer.buckets.iter_mut().zip(&from.bucketed).for_each(|(bucket, passed)| bucket.passed = *passed);
            }
            Rule::Key(_) => {
                for (key, passed) in from.keyed.iter() {
                    let bucket = bucketer.bucket_of(key.clone());
                    bucketer.buckets[bucket].passed = passed;
                }
                bucketer.delivered = from.keyed.clone();
            }
        }
        bucketer.behind = bucketer.buckets.iter().map(|bucket| bucket.passed).sum();
        Ok(bucketer)
    }

    /// Keeps padded rows within the budget of this memory.
    pub(crate) fn within(self, memory: &Memory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// Says whether rows that the saved run had delivered are still to come.
    pub(crate) fn is_behind(&self) -> bool {
        self.behind > 0
    }

    /// Adds the rows that begin at `start`.
    pub(crate) fn hold(&mut self, chunk: Chunk, start: Position) -> Result<()> {
        let number = self.pieces.push(chunk.clone(), start).map_err(|e| self.step.node.blame(e))?;
        match &self.rule {
            Rule::Length(op) => {
                let (op, column) = (op.clone(), chunk.schema().position(&op.column));
                let column = column.ok_or_else(|| Error::internal("the column of lengths is gone"))?;
                for row in 0..chunk.num_rows() {
                    let length = self.length(column, (number, row as u32))?;
                    self.put((number, row as u32), op.bucket_of(length), length)?;
                }
            }
            Rule::Key(op) => {
                let most = op.max_keys;
                for (row, key) in key::keys(&op.key, &chunk)?.into_iter().enumerate() {
                    self.make_room(&key, most);
                    let bucket = self.bucket_of(key);
                    self.put((number, row as u32), bucket, 0)?;
                }
            }
        }
        self.settle();
        self.thin(&[number])
    }

    /// Returns the position from which a stream resumes; `next` is the position behind all rows.
    pub(crate) fn start(&self, next: impl FnOnce() -> Position) -> Position {
        let at = self.pieces.start().unwrap_or_else(next);
        if matches!(self.rule, Rule::Key(_)) {
            return Position { keyed: self.delivered.clone(), ..at };
        }
        let mut bucketed: Vec<u64> = self.buckets.iter().map(|bucket| bucket.left + bucket.passed).collect();
        if bucketed.iter().all(|left| *left == 0) {
            bucketed.clear();
        }
        Position { bucketed, ..at }
    }

    /// Returns the next batch, made of one bucket's first rows; with `last`, also batches that will never be full.
    pub(crate) fn next(&mut self, last: bool) -> Result<Option<Chunk>> {
        loop {
            if self.closed.is_empty() && last && !self.rule.drops_remainder() {
                self.close_all();
            }
            let Some(Closed { bucket, rows, size }) = self.closed.pop_front() else { return Ok(None) };
            let rows: Vec<Row> = self.buckets[bucket].held.drain(..rows).collect();
            let shared = &rows[..size * self.parts];
            let batch = match shared.is_empty() {
                true => None,
                false => Some(self.batch(bucket, shared).map_err(|e| self.step.node.blame(e))?),
            };
            self.leave(bucket, &rows)?;
            if batch.is_some() {
                return Ok(batch);
            }
        }
    }

    /// Ends the epoch: drops the rows that are held.
    pub(crate) fn end_epoch(&mut self) {
        self.pieces.clear();
        self.closed.clear();
        self.waiting.clear();
        self.empty();
    }

    /// Empties all buckets. Only the buckets of lengths are known before rows come.
    fn empty(&mut self) {
        let known = if let Rule::Length(op) = &self.rule { op.num_buckets() } else { 0 };
        self.buckets = std::iter::repeat_with(Bucket::default).take(known).collect();
        self.numbers.clear();
        self.keys.clear();
        self.unused.clear();
        (self.delivered, self.behind) = (RowsOfKeys::default(), 0);
    }

    /// Returns the bucket of a key.
    fn bucket_of(&mut self, key: Key) -> usize {
        if let Some(bucket) = self.numbers.get(&key) {
            return *bucket;
        }
        let bucket = self.unused.pop().unwrap_or_else(|| {
            self.buckets.push(Bucket::default());
            self.keys.push(Key::new());
            self.buckets.len() - 1
        });
        self.numbers.insert(key.clone(), bucket);
        self.keys[bucket] = key;
        bucket
    }

    /// Closes batches until a row of a key may come, by the bound of keys.
    fn make_room(&mut self, key: &Key, most: usize) {
        if self.numbers.get(key).is_some_and(|bucket| self.waiting.has(*bucket)) {
            return;
        }
        while self.waiting.keys() >= most
            && let Some(bucket) = self.waiting.oldest()
        {
            self.close(bucket, self.buckets[bucket].waiting, false);
        }
    }

    /// Puts the next row into its bucket, and closes the batches that are full.
    fn put(&mut self, row: Row, bucket: usize, length: usize) -> Result<()> {
        let counts_keys = matches!(self.rule, Rule::Key(_));
        let piece = self.pieces.get_mut(row.0).ok_or_else(|| Error::internal("a chunk of rows is gone"))?;
        piece.buckets.push(bucket as u32);
        let own = &mut self.buckets[bucket];
        if own.passed > 0 {
            (own.passed, own.left) = (own.passed - 1, own.left + 1);
            self.behind -= 1;
            if counts_keys {
                self.waiting.count(row, bucket, false, false);
            }
            return Ok(());
        }
        piece.held += 1;
        let longest = own.longest.max(length);
        let whole = own.waiting / self.parts;
        if whole > 0 && !self.rule.allows(bucket, whole + 1, longest) {
            self.close(bucket, whole * self.parts, true);
            self.buckets[bucket].longest = self.longest_waiting(bucket)?;
        }
        let own = &mut self.buckets[bucket];
        own.held.push_back(row);
        (own.waiting, own.longest) = (own.waiting + 1, own.longest.max(length));
        let (waiting, longest) = (own.waiting, own.longest);
        if counts_keys {
            self.waiting.count(row, bucket, true, waiting == 1);
        }
        if waiting.is_multiple_of(self.parts) && !self.rule.allows(bucket, waiting / self.parts + 1, longest) {
            self.close(bucket, waiting, true);
        }
        Ok(())
    }

    /// Closes the batch of the first `rows` rows of a bucket that wait.
    fn close(&mut self, bucket: usize, rows: usize, is_full: bool) {
        let own = &mut self.buckets[bucket];
        let first = own.held[own.held.len() - own.waiting];
        (own.waiting, own.longest) = (own.waiting - rows, 0);
        // Rows that do not make a batch for each consumer are dropped.
        let size = if is_full || !self.rule.drops_remainder() { rows / self.parts } else { 0 };
        self.closed.push_back(Closed { bucket, rows, size });
        if matches!(self.rule, Rule::Key(_)) {
            self.waiting.close(first, &self.pieces);
        }
    }

    /// Closes all batches, as at the end of an epoch: by length, or by key.
    fn close_all(&mut self) {
        let mut rest: Vec<usize> = (0..self.buckets.len()).filter(|bucket| self.buckets[*bucket].waiting > 0).collect();
        if matches!(self.rule, Rule::Key(_)) {
            rest.sort_unstable_by(|a, b| self.keys[*a].cmp(&self.keys[*b]));
        }
        rest.into_iter().for_each(|bucket| self.close(bucket, self.buckets[bucket].waiting, false));
    }

    /// Returns the first dimension of a held row.
    fn length(&self, column: usize, row: Row) -> Result<usize> {
        let (piece, place) = self.pieces.find(row)?;
        Ok(piece.ragged(column)?.len_of(place))
    }

    /// Returns the length of the longest row of a bucket that waits.
    fn longest_waiting(&self, bucket: usize) -> Result<usize> {
        let (Rule::Length(op), own) = (&self.rule, &self.buckets[bucket]) else { return Ok(0) };
        let first = own.held.len() - own.waiting;
        let Some(row) = own.held.get(first) else { return Ok(0) };
        let column = self.pieces.find(*row)?.0.chunk.schema().position(&op.column);
        let column = column.ok_or_else(|| Error::internal("the column of lengths is gone"))?;
        own.held.range(first..).try_fold(0, |longest, row| Ok(self.length(column, *row)?.max(longest)))
    }

    /// Lets rows leave their bucket.
    fn leave(&mut self, bucket: usize, rows: &[Row]) -> Result<()> {
        self.buckets[bucket].left += rows.len() as u64;
        if let Some(key) = self.keys.get(bucket) {
            self.delivered.add(key, rows.len() as u64);
        }
        let mut pieces: Vec<u64> = rows.iter().map(|row| row.0).collect();
        for number in &pieces {
            self.pieces.get_mut(*number).into_iter().for_each(|piece| piece.held -= 1);
        }
        pieces.dedup();
        self.settle();
        self.thin(&pieces)
    }

    /// Frees the rows before the first held one. The rows that have left a bucket are its first ones.
    fn settle(&mut self) {
        loop {
            if let Some(bucket) = self.pieces.first_bucket() {
                let own = &mut self.buckets[bucket];
                if own.left == 0 {
                    return;
                }
                own.left -= 1;
                if let Some(key) = self.keys.get(bucket) {
                    self.delivered.take_one(key);
                    if own.left == 0 && own.held.is_empty() && own.passed == 0 {
                        self.numbers.remove(key);
                        self.unused.push(bucket);
                    }
                }
            }
            if !self.pieces.drop_first() {
                return;
            }
        }
    }

    /// Frees the rows that have left a piece, once most of its rows have left.
    fn thin(&mut self, pieces: &[u64]) -> Result<()> {
        for number in pieces {
            let Some(piece) = self.pieces.get_mut(*number).filter(|piece| piece.is_thin()) else { continue };
            // A bucket holds its rows in order.
            let mut rows: Vec<u32> = Vec::with_capacity(piece.held);
            for Bucket { held, .. } in &self.buckets {
                let first = held.partition_point(|row| row.0 < *number);
                rows.extend(held.range(first..).take_while(|row| row.0 == *number).map(|row| row.1));
            }
            rows.sort_unstable();
            piece.keep(rows).map_err(|e| self.step.node.blame(e))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
