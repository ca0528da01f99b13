//! Batches of rows of about the same length, over the ordered stream of one consumer.
//!
//! A bucket yields a batch as soon as it has all rows of one, so the batches depend on the order of rows alone, not on
//! the bounds of chunks. Coordinated consumers see the same stream: a bucket waits until it has a batch for each of
//! them, pads all to one length, and each consumer takes its own batch.
//!
//! Invariants: rows leave a bucket in their order. So a stream resumes from the position of the first held row and, for
//! each bucket, the number of rows from there on that have left ([`Bucketer::start`]); no state contains rows.
//!
//! Bound: at most [`THIN`] rows in memory for each row of an unfinished batch, and two bytes for each row after the
//! first held one.

use std::collections::VecDeque;

use arrow_array::{Array, ArrayRef};
use forebay_core::{ConsumerIndex, Error, Result};
use forebay_data::{Chunk, Memory, Ragged, RowId};
use forebay_plan::{Bucket, Op, Sharding, Step};

use crate::ops::pad_op::{Longest, Padded};
use crate::tail::position::Position;

/// When only one row of a chunk in this many is still held, the held rows are copied and the chunk is dropped.
/// Otherwise a bucket that rarely fills would keep an epoch in memory.
const THIN: usize = 4;

/// Rows of one chunk.
struct Piece {
    start: Position,
    /// The bucket of each row.
    buckets: Vec<u16>,
    /// The rows that are still in memory, ascending, and their columns.
    rows: Vec<u32>,
    chunk: Chunk,
    /// The columns that are padded, by index in the schema.
    ragged: Vec<(usize, Ragged)>,
    /// The number of rows that are held.
    held: usize,
}

impl Piece {
    /// Returns the index of a held row in the columns.
    fn place(&self, row: u32) -> Result<usize> {
        self.rows.binary_search(&row).map_err(|_| Error::internal("a row of a bucket is gone"))
    }

    /// Keeps only these held rows.
    fn keep(&mut self, rows: Vec<u32>) -> Result<()> {
        let places = rows.iter().map(|row| self.place(*row).map(|place| place as u32)).collect::<Result<Vec<_>>>()?;
        self.chunk = self.chunk.take(&places)?;
        self.ragged = ragged(&self.chunk)?;
        self.rows = rows;
        Ok(())
    }
}

/// Returns the columns whose rows have a length, by index in the schema.
fn ragged(chunk: &Chunk) -> Result<Vec<(usize, Ragged)>> {
    let fields = chunk.schema().fields().iter().zip(chunk.columns()).enumerate();
    let fields = fields.filter(|(_, (field, _))| Ragged::inner(&field.kind).is_some());
    fields.map(|(i, (field, column))| Ok((i, Ragged::of(&field.kind, column)?))).collect()
}

/// A row: the number of its piece, counted from the first of all, and its index in the piece.
type Row = (u64, u32);

/// Makes batches of rows of about the same length.
pub(crate) struct Bucketer {
    step: Step,
    spec: Bucket,
    /// The number of consumers that share each bucket's rows, and the index of this one.
    parts: usize,
    part: usize,
    pieces: VecDeque<Piece>,
    /// The number of the first piece, and its first held row.
    first: (u64, usize),
    /// The held rows of each bucket.
    held: Vec<VecDeque<Row>>,
    /// For each bucket, the number of rows after the first held one that have left; and the number of coming rows that
    /// the saved run had delivered.
    left: Vec<u64>,
    passed: Vec<u64>,
    /// Full buckets, in the order in which they filled.
    full: VecDeque<usize>,
    /// The memory, and its budget, of padded rows.
    memory: Memory,
}

impl Bucketer {
    /// Resumes where the next `passed` rows of each bucket have already left.
    pub(crate) fn new(step: &Step, sharding: Sharding, consumer: ConsumerIndex, passed: &[u64]) -> Result<Self> {
        let Op::BucketByLength(spec) = &step.node.op else { return Err(Error::internal("no bucket_by_length")) };
        let (parts, part) = match sharding.coordinated {
            true => (sharding.consumers.max(1) as usize, consumer.0 as usize),
            false => (1, 0),
        };
        let buckets = spec.batch_sizes.len();
        let mut passed = passed.to_vec();
        passed.resize(buckets, 0);
        Ok(Self {
            step: step.clone(),
            spec: spec.clone(),
            parts,
            part,
            pieces: VecDeque::new(),
            first: (0, 0),
            held: vec![VecDeque::new(); buckets],
            left: vec![0; buckets],
            passed,
            full: VecDeque::new(),
            memory: Memory::default(),
        })
    }

    /// Keeps padded rows within the budget of this memory.
    pub(crate) fn within(self, memory: &Memory) -> Self {
        Self { memory: memory.clone(), ..self }
    }

    /// Says whether rows that the saved run had delivered are still to come.
    pub(crate) fn is_behind(&self) -> bool {
        self.passed.iter().any(|passed| *passed > 0)
    }

    /// Adds the rows that begin at `start`.
    pub(crate) fn hold(&mut self, chunk: Chunk, start: Position) -> Result<()> {
        let ragged = ragged(&chunk).map_err(|e| self.step.node.blame(e))?;
        let place = chunk.schema().position(&self.spec.column);
        let lengths = ragged.iter().find(|(i, _)| Some(*i) == place).map(|(_, lengths)| lengths);
        let lengths = lengths.ok_or_else(|| Error::internal("the column of lengths is gone"))?;
        let number = self.first.0 + self.pieces.len() as u64;
        let mut buckets = Vec::with_capacity(chunk.num_rows());
        let mut held = 0;
        for row in 0..chunk.num_rows() {
            let bucket = self.spec.bucket_of(lengths.len_of(row));
            buckets.push(bucket as u16);
            if self.passed[bucket] > 0 {
                (self.passed[bucket], self.left[bucket]) = (self.passed[bucket] - 1, self.left[bucket] + 1);
                continue;
            }
            held += 1;
            self.held[bucket].push_back((number, row as u32));
            if self.held[bucket].len().is_multiple_of(self.parts * self.spec.batch_sizes[bucket]) {
                self.full.push_back(bucket);
            }
        }
        let rows = (0..chunk.num_rows() as u32).collect();
        self.pieces.push_back(Piece { start, buckets, rows, chunk, ragged, held });
        self.settle();
        self.thin(&[number])
    }

    /// Returns the resume point: the position of the first held row, if there is one, and for each bucket the number of
    /// rows from there on that have left.
    pub(crate) fn start(&self) -> (Option<Position>, Vec<u64>) {
        let mut left: Vec<u64> = self.left.iter().zip(&self.passed).map(|(left, passed)| left + passed).collect();
        if left.iter().all(|left| *left == 0) {
            left.clear();
        }
        let first = self.pieces.front();
        let at = first.map(|p| Position { rows: p.start.rows + self.first.1 as u64, ..p.start.clone() });
        (at, left)
    }

    /// Returns the next batch, made of one bucket's first rows; with `last`, also batches that will never be full.
    pub(crate) fn next(&mut self, last: bool) -> Result<Option<Chunk>> {
        let (bucket, rows) = match self.full.pop_front() {
            Some(bucket) => (bucket, self.spec.batch_sizes[bucket]),
            None if last && !self.spec.drop_remainder => {
                // Rows that do not make a batch for each consumer are dropped.
                let rest = |bucket: &usize| self.held[*bucket].len() / self.parts;
                let Some(bucket) = (0..self.held.len()).find(|bucket| rest(bucket) > 0) else { return Ok(None) };
                (bucket, rest(&bucket))
            }
            None => return Ok(None),
        };
        let rows: Vec<Row> = self.held[bucket].drain(..rows * self.parts).collect();
        let batch = self.batch(bucket, &rows).map_err(|e| self.step.node.blame(e))?;
        self.left[bucket] += rows.len() as u64;
        let mut pieces: Vec<u64> = rows.iter().map(|row| row.0).collect();
        for number in &pieces {
            self.pieces[(number - self.first.0) as usize].held -= 1;
        }
        pieces.dedup();
        self.settle();
        self.thin(&pieces)?;
        Ok(Some(batch))
    }

    /// Frees the rows that have left a piece, once most of its rows have left.
    fn thin(&mut self, pieces: &[u64]) -> Result<()> {
        for number in pieces {
            let place = number.checked_sub(self.first.0).and_then(|place| usize::try_from(place).ok());
            let Some(piece) = place.and_then(|place| self.pieces.get_mut(place)) else { continue };
            if piece.rows.len() <= piece.held * THIN {
                continue;
            }
            // A bucket holds its rows in order.
            let mut rows: Vec<u32> = Vec::with_capacity(piece.held);
            for held in &self.held {
                let first = held.partition_point(|row| row.0 < *number);
                rows.extend(held.range(first..).take_while(|row| row.0 == *number).map(|row| row.1));
            }
            rows.sort_unstable();
            piece.keep(rows).map_err(|e| self.step.node.blame(e))?;
        }
        Ok(())
    }

    /// Ends the epoch: drops the rows that are held.
    pub(crate) fn end_epoch(&mut self) {
        self.pieces.clear();
        self.first = (0, 0);
        self.held.iter_mut().for_each(VecDeque::clear);
        self.left.fill(0);
        self.passed.fill(0);
        self.full.clear();
    }

    /// Frees the rows before the first held one. The rows that have left a bucket are its first ones.
    fn settle(&mut self) {
        while let Some(piece) = self.pieces.front() {
            match piece.buckets.get(self.first.1).map(|bucket| &mut self.left[usize::from(*bucket)]) {
                Some(0) => return,
                Some(left) => {
                    *left -= 1;
                    self.first.1 += 1;
                }
                None => {
                    self.pieces.pop_front();
                    self.first = (self.first.0 + 1, 0);
                }
            }
        }
    }

    /// Returns the piece of a held row, and its index there.
    fn find(&self, row: &Row) -> Result<(&Piece, usize)> {
        let piece = &self.pieces[(row.0 - self.first.0) as usize];
        Ok((piece, piece.place(row.1)?))
    }

    /// Makes this consumer's batch of rows of a bucket.
    fn batch(&self, bucket: usize, rows: &[Row]) -> Result<Chunk> {
        let size = rows.len() / self.parts;
        let ours = &rows[self.part * size..(self.part + 1) * size];
        let schema = &self.step.schema;
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (i, field) in schema.fields().iter().enumerate() {
            columns.push(match field.uniform && Ragged::inner(&field.kind).is_some() {
                true => self.padded(bucket, i, rows, ours)?,
                false => self.gathered(i, ours)?,
            });
        }
        let id = |row: &Row| self.find(row).map(|(piece, place)| piece.chunk.ids()[place]);
        let ids: Vec<RowId> = ours.iter().map(id).collect::<Result<_>>()?;
        let batch = Chunk::new(schema.clone(), columns, ids.into())?;
        if !self.pieces.iter().any(|piece| piece.chunk.has_parts()) {
            return Ok(batch);
        }
        let part = |row: &Row| self.find(row).map(|(piece, place)| piece.chunk.part(place));
        batch.with_parts(ours.iter().map(part).collect::<Result<_>>()?)
    }

    /// Returns a column of this consumer's rows, padded to the longest row of all consumers, or to the requested
    /// length.
    fn padded(&self, bucket: usize, column: usize, rows: &[Row], ours: &[Row]) -> Result<ArrayRef> {
        let field = &self.step.schema.fields()[column];
        let of = |row: &Row| {
            let (piece, place) = self.find(row)?;
            let ragged = piece.ragged.iter().find(|(i, _)| *i == column);
            ragged.map(|(_, ragged)| (ragged, place)).ok_or_else(|| Error::internal("a column is gone"))
        };
        let lengths = rows.iter().map(|row| {
            let (piece, place) = self.find(row)?;
            of(row).map(|(ragged, row)| (ragged.len_of(row), piece.chunk.ids()[place].sample))
        });
        let longest = Longest::of(lengths.collect::<Result<Vec<_>>>()?.into_iter());
        let length = self.spec.padded_length(bucket)?.unwrap_or(longest.length);
        let bytes = ours.iter().map(|row| of(row).map(|(ragged, row)| ragged.get(row))).collect::<Result<Vec<_>>>()?;
        Padded { field, rows: &bytes, longest, length, fixed: false }.column(&self.spec.pad_of(field)?, &self.memory)
    }

    fn gathered(&self, column: usize, ours: &[Row]) -> Result<ArrayRef> {
        // Rows of a bucket are in order, so rows of one piece are adjacent.
        let (mut arrays, mut places, mut last) = (Vec::<&dyn Array>::new(), Vec::with_capacity(ours.len()), None);
        for row in ours {
            let (piece, place) = self.find(row)?;
            if last.replace(row.0) != Some(row.0) {
                arrays.push(piece.chunk.columns()[column].as_ref());
            }
            places.push((arrays.len() - 1, place));
        }
        arrow_select::interleave::interleave(&arrays, &places).map_err(|e| Error::internal(format!("arrow: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, Int32Lists, Kind, Schema, tensor_shape_of_row};
    use forebay_plan::{Node, PadTo};
    use proptest::prelude::*;

    use super::*;

    const SIZES: [usize; 3] = [3, 2, 1];

    fn step() -> Step {
        let (column, boundaries, batch_sizes) = ("ids".to_owned(), vec![2, 5], SIZES.to_vec());
        let (pad_to, padding, drop_remainder) = (PadTo::Longest, Vec::new(), false);
        let spec = Bucket { column, boundaries, batch_sizes, pad_to, padding, drop_remainder };
        let node = Arc::new(Node::new(Op::BucketByLength(spec)));
        let fields = vec![Field::new("ids", Int32Lists::kind()), Field::new("n", Kind::scalar(DType::Int32))];
        let schema = node.op.apply(&Schema::new(fields).expect("names differ")).expect("it has a length");
        Step { node, place: 0, random: 0, schema: Arc::new(schema), per_batch: false }
    }

    /// Rows of these lengths, numbered from `first`.
    fn chunk(lengths: &[usize], first: usize) -> Chunk {
        let ends = lengths.iter().scan(0, |end, n| {
            *end += *n as i32;
            Some(*end)
        });
        let ends: Vec<i32> = ends.collect();
        let numbers = (first..first + lengths.len()).map(|n| n as i32);
        let values = numbers.clone().zip(lengths).flat_map(|(n, len)| std::iter::repeat_n(n, *len)).collect();
        let lists = Int32Lists::column(values, &ends).expect("valid");
        let ids = numbers.clone().map(|n| RowId { sample: SampleId(n as u64), epoch: Epoch(0) }).collect();
        let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from_iter_values(numbers));
        Chunk::new(step().schema, vec![lists, numbers], ids).expect("a chunk")
    }

    /// Returns the batches of rows that come in runs of `run`, from a position on: the rows of each batch, their
    /// length, and the resume point after it.
    fn batches(
        lengths: &[usize],
        run: usize,
        sharding: Sharding,
        rank: u32,
        from: &Position,
    ) -> Vec<(Vec<u64>, usize, Position)> {
        let mut bucketer = Bucketer::new(&step(), sharding, ConsumerIndex(rank), &from.bucketed).expect("made");
        let (mut out, mut next, mut skip) = (Vec::new(), from.chunk, from.rows as usize);
        let mut take = |bucketer: &mut Bucketer, next: u64, last: bool| {
            while let Some(batch) = bucketer.next(last).expect("fits") {
                let here: usize = bucketer.pieces.iter().map(|piece| piece.chunk.num_rows()).sum();
                let held: usize = bucketer.held.iter().map(VecDeque::len).sum();
                assert!(here <= held * THIN, "{here} rows are kept for {held} that are held");
                let rows: Vec<u64> = batch.ids().iter().map(|id| id.sample.0).collect();
                let ids = &batch.schema().fields()[0];
                let shape = tensor_shape_of_row(&ids.kind, &batch.columns()[0], 0).expect("a tensor");
                let (at, bucketed) = bucketer.start();
                let end = Position { chunk: next, ..Position::default() };
                out.push((rows, shape[0], Position { bucketed, ..at.unwrap_or(end) }));
            }
        };
        for (i, lengths) in lengths.chunks(run).enumerate().skip(from.chunk as usize) {
            let here = chunk(lengths, i * run);
            let at = Position { chunk: i as u64, rows: skip as u64, ..Position::default() };
            next = i as u64 + 1;
            bucketer.hold(here.slice(skip, lengths.len() - skip), at).expect("held");
            skip = 0;
            take(&mut bucketer, next, false);
        }
        take(&mut bucketer, next, true);
        out
    }

    /// The same, computed row by row.
    fn reference(lengths: &[usize], parts: usize) -> Vec<Vec<u64>> {
        let mut held = [Vec::new(), Vec::new(), Vec::new()];
        let mut out = Vec::new();
        for (row, length) in (0..).zip(lengths) {
            let bucket = usize::from(*length >= 2) + usize::from(*length >= 5);
            held[bucket].push(row);
            if held[bucket].len() == SIZES[bucket] * parts {
                out.push(std::mem::take(&mut held[bucket]));
            }
        }
        out.extend(held.into_iter().map(|rows| rows[..rows.len() / parts * parts].to_vec()).filter(|r| !r.is_empty()));
        out
    }

    proptest! {
        #[test]
        fn ranks_share_the_batches_of_single_rows_wherever_chunks_begin_and_from_any_position(
            lengths in prop::collection::vec(0usize..9, 0..60), run in 1usize..9, parts in 1u32..4, cut: prop::sample::Index,
        ) {
            let sharding = Sharding { coordinated: true, ..Sharding::from(parts) };
            let want = reference(&lengths, parts as usize);
            let ranks: Vec<_> = (0..parts).map(|r| batches(&lengths, run, sharding, r, &Position::default())).collect();
            for (i, want) in want.iter().enumerate() {
                let rows: Vec<u64> = ranks.iter().flat_map(|rank| rank[i].0.clone()).collect();
                prop_assert_eq!(&rows, want);
                let longest = want.iter().map(|row| lengths[*row as usize]).max();
                prop_assert!(ranks.iter().all(|rank| Some(rank[i].1) == longest && rank[i].2 == ranks[0][i].2));
            }
            prop_assert!(ranks.iter().all(|rank| rank.len() == want.len()));
            if !want.is_empty() {
                let cut = cut.index(want.len());
                let rest = batches(&lengths, run, sharding, 0, &ranks[0][cut].2);
                prop_assert_eq!(rest.len(), ranks[0].len() - cut - 1);
                for (rest, whole) in rest.iter().zip(&ranks[0][cut + 1..]) {
                    prop_assert_eq!((&rest.0, rest.1), (&whole.0, whole.1));
                }
            }
        }
    }
}
