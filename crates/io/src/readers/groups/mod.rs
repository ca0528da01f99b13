//! `Parquet` and `Arrow`: a group of rows is a block, decoded once and kept while the memory suffices. Threads that
//! want the same group divide its columns, where columns are read one by one.

mod ahead;
mod footers;
mod group;
mod packed;
mod parts;
mod select;
mod selection;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ArrayRef;
use arrow_data::ArrayData;
use forebay_core::{Epoch, Error, Result};
use forebay_data::{Chunk, Field, Loss, Memory, RowId, Schema};
use forebay_plan::{Merged, rows_of_two_windows};

use super::blocks::Blocks;
use super::bytes::lru::Lru;
use super::bytes::pool::Pool;
use super::condition::RowCondition;
use super::reader::{Chunks, Place, Reader, block_ids, check, ids};
use crate::formats::arrow::Column;
use crate::formats::grouped::{DecodeOptions, Grouped};
use crate::rows;
use footers::Footer;
use group::{Decoded, Group};
use packed::Layout;
use parts::{BATCH_ROWS_MAX, Part, Parts, located, short};

/// The most footers that a reader keeps.
const FOOTERS_MAX: usize = 256;

/// The groups whose rows are read.
type GroupsInUse = Vec<Arc<Group<Part>>>;

pub(crate) struct Groups<F> {
    pub(super) schema: Arc<Schema>,
    merged: Option<Merged>,
    /// The columns of lists in which a missing list is empty.
    pub(super) empty_lists: Vec<String>,
    pub(super) pool: Pool,
    footers: Mutex<Lru<Footer<F>>>,
    groups: Mutex<Lru<Arc<Group<Part>>>>,
    /// The most bytes of a group so far.
    largest: AtomicUsize,
    /// How groups are packed, if a shuffle is over windows. The weight of a kept group is then its rows, otherwise its
    /// bytes.
    pub(super) layout: Option<Layout>,
    /// Where packed rows are allocated, and the columns made of them.
    pub(super) memory: Memory,
    /// The conditions that rows must meet to be decoded.
    pub(super) conditions: Vec<Arc<dyn RowCondition>>,
}

impl<F: Grouped> Groups<F> {
    /// A shuffle over windows decodes each group once only if the reader keeps the groups of two windows: the one that
    /// threads finish, and the one that they begin. So the bound is in rows, which the plan knows exactly, and not in
    /// bytes. Without windows the bound is that of the pool; a single larger group is kept while it is in use.
    pub(crate) fn new(
        schema: Arc<Schema>,
        (merged, empty_lists): (Option<Merged>, Vec<String>),
        pool: Pool,
        (window_rows, conditions): (u64, Vec<Arc<dyn RowCondition>>),
    ) -> Self {
        let layout = (window_rows > 0).then(|| Layout::new(schema.fields()));
        let largest = || pool.index.block_starts().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let kept = match &layout {
            Some(_) => rows_of_two_windows(window_rows, largest()) as usize,
            None => pool.budget.decoded(),
        };
        let (footers, groups) = (Mutex::new(Lru::new(FOOTERS_MAX)), Mutex::new(Lru::new(kept)));
        let memory = layout.as_ref().map_or_else(Memory::default, |_| Memory::reused());
        let is_here = |condition: &Arc<dyn RowCondition>| {
            F::BY_COLUMN && condition.columns().iter().all(|name| schema.position(name).is_some())
        };
        let conditions = conditions.into_iter().filter(is_here).collect();
        let largest = AtomicUsize::new(0);
        Self { schema, merged, empty_lists, pool, footers, groups, largest, layout, memory, conditions }
    }

    pub(super) fn uri(&self, file: usize) -> &str {
        self.pool.index.inner().uris.get(file).map_or("", |u| u)
    }

    /// Returns the number of rows of a block by the index.
    fn block_len(&self, block: u64) -> Result<usize> {
        let rows =
            self.pool.index.block_rows(block).ok_or_else(|| Error::internal(format!("there is no block {block}")))?;
        Ok((rows.end - rows.start) as usize)
    }

    /// Returns decoded blocks. A thread begins the next block before other threads have finished this one.
    fn groups(&self, blocks: &[u64]) -> Result<(GroupsInUse, Vec<Arc<Decoded>>)> {
        if self.schema.fields().is_empty() {
            return Ok((Vec::new(), vec![Arc::default(); blocks.len()]));
        }
        let groups: Vec<_> = blocks.iter().map(|&block| self.group(block)).collect();
        for (at, (&block, group)) in blocks.iter().zip(&groups).enumerate() {
            self.request(&blocks[at..], &groups[at..])?;
            self.help(block, group)?;
        }
        let decoded = groups.iter().map(|group| self.pool.wait_for_reader(|| group.wait())).collect::<Result<_>>()?;
        Ok((groups, decoded))
    }

    fn group(&self, block: u64) -> Arc<Group<Part>> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(block).unwrap_or_else(|| {
            let group = Arc::<Group<Part>>::default();
            groups.put(block, 0, group.clone());
            group
        })
    }

    fn help(&self, block: u64, group: &Arc<Group<Part>>) -> Result<()> {
        let parts = Parts { of: self, group, block, rows: self.block_len(block)? };
        if !group.help(parts.count(), |part| parts.decode(part), |decoded| parts.join(decoded)) {
            return Ok(());
        }
        // The next thread that requests a failed group decodes it again.
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let weight = |decoded: Arc<Decoded>| match &self.layout {
            Some(_) => parts.rows,
            None => memory_of(&decoded.columns),
        };
        match group.wait().map(weight) {
            Ok(weight) => {
                self.largest.fetch_max(weight, Relaxed);
                groups.put(block, weight, group.clone());
            }
            Err(_) => groups.remove(block),
        }
        Ok(())
    }

    /// Returns the columns of some rows. Each row is a pair: its group's index in `groups`, and its place in that group.
    fn take(&self, groups: &[Arc<Decoded>], rows: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
        let fields = self.schema.fields();
        let packed: Vec<_> = groups.iter().filter_map(|group| group.packed.as_ref()).collect();
        let packed = match &self.layout {
            Some(layout) => layout.take(fields, &packed, rows, &self.memory)?,
            None => vec![None; fields.len()],
        };
        let column = |((i, field), packed): ((usize, &Field), Option<ArrayRef>)| match packed {
            Some(column) => Ok(column),
            None => {
                let parts: Vec<_> = groups.iter().map(|group| &group.columns[i].values).collect();
                rows::interleave(&field.kind, &parts, rows, &Memory::default())
            }
        };
        fields.iter().enumerate().zip(packed).map(column).collect()
    }

    /// Returns how many of the first rows are in groups that are already decoded; all rows, if no shuffle is over
    /// windows.
    fn at_hand(&self, ids: &[RowId], blocks: &Blocks) -> usize {
        if self.layout.is_none() {
            return ids.len();
        }
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let is_decoded = |block: &u64| groups.get(*block).is_some_and(|group| group.is_decoded());
        let decoded: Vec<bool> = blocks.numbers.iter().map(is_decoded).collect();
        let missing = decoded.contains(&false).then(|| ids.iter().position(|id| !decoded[blocks.place(*id)]));
        missing.flatten().unwrap_or(ids.len())
    }

    /// Says whether blocks exceed the memory for decoded groups, by the largest size so far; before the first, by their
    /// part of the files.
    fn exceeds_budget(&self, blocks: &Blocks) -> bool {
        let index = &self.pool.index;
        let stored = index.bytes() / index.blocks().max(1);
        let one = self.largest.load(Relaxed).max(usize::try_from(stored).unwrap_or(usize::MAX));
        self.layout.is_none()
            && blocks.numbers.len() > 1
            && one.saturating_mul(blocks.numbers.len()) > self.pool.budget.decoded()
    }

    /// Returns rows of blocks that are decoded one after another, so that at most one of them is in use.
    fn one_by_one(&self, ids: &Arc<[RowId]>, blocks: &Blocks) -> Result<Chunk> {
        let mut places: Vec<u32> = (0..ids.len() as u32).collect();
        let block = |place: &u32| blocks.place(ids[*place as usize]);
        places.sort_by_key(block);
        let of_block = |places: &[u32]| {
            let ids: Arc<[RowId]> = places.iter().map(|place| ids[*place as usize]).collect();
            self.chunk(ids.clone(), &Blocks::of(&ids))
        };
        let sorted = places.chunk_by(|a, b| block(a) == block(b)).map(of_block).collect::<Result<Vec<_>>>()?;
        let sorted = Chunk::concat(&sorted)?;
        // A chunk has its rows in the order in which they were requested, without the rows that were left out.
        let mut left = sorted.ids().iter().peekable();
        places.retain(|place| left.next_if(|id| **id == ids[*place as usize]).is_some());
        let mut back: Vec<u32> = (0..places.len() as u32).collect();
        back.sort_by_key(|at| places[*at as usize]);
        sorted.take(&back)
    }

    /// Takes the rows of the window that ends, and drops it before the next one is decoded, which reuses its memory.
    fn in_two(&self, ends: &[RowId], begins: &[RowId]) -> Result<Chunk> {
        let chunk = |ids: &[RowId]| self.chunk(ids.into(), &Blocks::of(ids));
        Chunk::concat(&[chunk(ends)?, chunk(begins)?])
    }

    /// Returns rows of these blocks, without the rows that were left out.
    fn chunk(&self, ids: Arc<[RowId]>, blocks: &Blocks) -> Result<Chunk> {
        let (begun, groups) = self.groups(&blocks.numbers)?;
        let wanted = ids.clone();
        let (ids, rows) = kept_rows(ids, blocks, &groups);
        let lack = |(id, &(group, row)): (&RowId, &(usize, usize))| self.lack(&groups[group].columns, row, *id);
        if !groups.iter().all(|group| is_complete(&group.columns))
            && let Some(error) = ids.iter().zip(&rows).find_map(lack)
        {
            return Err(error);
        }
        let fields = self.schema.fields().iter();
        let columns = match groups.as_slice() {
            [] => {
                return Chunk::new(
                    self.schema.clone(),
                    fields.map(|f| arrow_array::new_empty_array(&f.kind.arrow())).collect(),
                    ids,
                );
            }
            [one] if one.packed.is_none() => {
                let first = rows.first().map_or(0, |(_, row)| *row);
                let in_order = rows.iter().zip(first..).all(|(&(_, row), at)| row == at);
                let places: Vec<usize> = if in_order { Vec::new() } else { rows.iter().map(|(_, row)| *row).collect() };
                let take = |(i, f): (usize, &Field)| match in_order {
                    true => Ok(one.columns[i].values.slice(first, rows.len())),
                    false => rows::take(&f.kind, &one.columns[i].values, &places),
                };
                fields.enumerate().map(take).collect::<Result<_>>()?
            }
            groups => {
                let columns = self.take(groups, &rows)?;
                self.note_taken(&blocks.numbers, &begun, wanted.iter().map(|id| blocks.place(*id)));
                columns
            }
        };
        Chunk::new(self.schema.clone(), columns, ids)
    }

    /// Drops the groups of a shuffle over windows whose rows were all taken: an epoch has each row once. If rows were
    /// taken twice, a group that was dropped too early is decoded again.
    fn note_taken(&self, blocks: &[u64], groups: &[Arc<Group<Part>>], rows: impl Iterator<Item = usize>) {
        if self.layout.is_none() || groups.is_empty() {
            return;
        }
        let mut counts = vec![0; groups.len()];
        rows.for_each(|group| counts[group] += 1);
        for ((&block, group), count) in blocks.iter().zip(groups).zip(counts) {
            if self.block_len(block).is_ok_and(|len| group.take(count) >= len) {
                let mut kept = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.get(block).is_some_and(|one| Arc::ptr_eq(&one, group)) {
                    kept.remove(block);
                }
            }
        }
    }

    /// Returns the error of a row, if one of its columns lacks its value; `id` is the row's name.
    fn lack(&self, columns: &[Column], row: usize, id: RowId) -> Option<Error> {
        let (field, lack) =
            self.schema.fields().iter().zip(columns).find_map(|(f, column)| Some((f, column.lack(row)?)))?;
        let (file, group) = self.pool.index.file_of(id.sample.block());
        let error = lack.error(field).with("file", self.uri(file)).with(F::GROUP, group);
        Some(error.with("sample", self.pool.index.describe_sample(id.sample)))
    }

    /// Makes a chunk of the columns without the incomplete rows, and lists these rows in it.
    fn without_lacks(&self, columns: &[Column], ids: Arc<[RowId]>) -> Result<Chunk> {
        let values = columns.iter().map(|column| column.values.clone()).collect();
        let chunk = Chunk::new(self.schema.clone(), values, ids.clone())?;
        if is_complete(columns) {
            return Ok(chunk);
        }
        let lost: Vec<_> = ids.iter().enumerate().map(|(row, id)| self.lack(columns, row, *id)).collect();
        let kept = chunk.filter(&lost.iter().map(|error| Some(error.is_none())).collect())?;
        let loss = |(row, error): (&RowId, Option<Error>)| Some(Loss { row: *row, error: error?, record: None });
        Ok(kept.with_losses(ids.iter().zip(lost).filter_map(loss).collect()))
    }
}

/// Returns the rows that were not left out, and the place of each: its group's index in `groups`, and its place in that
/// group.
fn kept_rows(ids: Arc<[RowId]>, blocks: &Blocks, groups: &[Arc<Decoded>]) -> (Arc<[RowId]>, Vec<(usize, usize)>) {
    let at = |id: &RowId| (blocks.place(*id), id.sample.row() as usize);
    if groups.iter().all(|group| group.kept.is_none()) {
        let rows = ids.iter().map(at).collect();
        return (ids, rows);
    }
    let kept = |id: &RowId| {
        let (group, row) = at(id);
        let place = groups[group].kept.as_ref().map_or(Some(row), |kept| kept.place(row));
        place.map(|place| (*id, (group, place)))
    };
    let (ids, rows): (Vec<_>, Vec<_>) = ids.iter().filter_map(kept).unzip();
    (ids.into(), rows)
}

/// Says whether all rows of these columns are complete.
fn is_complete(columns: &[Column]) -> bool {
    columns.iter().all(|column| column.lacks.is_empty())
}

/// Returns the bytes that columns hold: memory that several columns share, as in an Arrow record batch, counts once.
fn memory_of(columns: &[Column]) -> usize {
    fn add(data: &ArrayData, held: &mut HashMap<usize, usize>) {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        for buffer in data.buffers().iter().chain(nulls) {
            held.insert(buffer.data_ptr().as_ptr() as usize, buffer.capacity());
        }
        data.child_data().iter().for_each(|child| add(child, held));
    }
    let mut held = HashMap::new();
    columns.iter().for_each(|column| add(&column.values.to_data(), &mut held));
    let lacks: usize = columns.iter().map(|column| size_of_val(column.lacks.as_slice())).sum();
    held.values().sum::<usize>() + lacks
}

impl<F: Grouped> Reader for Groups<F> {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let blocks = Blocks::of(&ids);
        if self.exceeds_budget(&blocks) {
            return self.one_by_one(&ids, &blocks).or_else(|_| self.chunk(ids, &blocks));
        }
        // Where one of two parts fails, the error must not depend on the groups that happen to be decoded.
        match ids.split_at(self.at_hand(&ids, &blocks)) {
            (ends, begins) if !ends.is_empty() && !begins.is_empty() => {
                self.in_two(ends, begins).or_else(|_| self.chunk(ids, &blocks))
            }
            _ => self.chunk(ids, &blocks),
        }
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        let total = self.block_len(block)?;
        let (file, group) = self.pool.index.file_of(block);
        let uri = self.uri(file);
        if total == 0 {
            return Ok(Box::new(std::iter::empty()));
        }
        let (fields, rows) = (self.schema.fields(), rows.min(total).clamp(1, BATCH_ROWS_MAX));
        let mut batches = self.file(file)?.batches(group, DecodeOptions { fields, rows, kept: None, ahead: None })?;
        let (mut row, mut over) = (0u64, false);
        Ok(Box::new(std::iter::from_fn(move || {
            if over {
                return None;
            }
            let chunk = match batches.next() {
                None if row < total as u64 => Err(short::<F>(uri, group)),
                None => return None,
                Some(Ok(batch)) => {
                    let ids = block_ids(block, row, batch.num_rows(), epoch);
                    row += batch.num_rows() as u64;
                    located::<F>((&self.schema, &self.empty_lists), uri, group, &batch)
                        .and_then(|c| self.without_lacks(&c, ids))
                }
                Some(Err(e)) => Err(e),
            };
            over = chunk.is_err();
            Some(chunk)
        })))
    }
}
