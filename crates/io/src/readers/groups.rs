//! `Parquet` and `Arrow`: a group of rows is a block, decoded once and kept while it fits. Threads that want the same
//! group share its columns out among them, where these are read one by one.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_data::ArrayData;
use forebay_core::{Epoch, Error, Result};
use forebay_data::{Chunk, Field, Loss, RowId, Schema};

use super::lru::Lru;
use super::packed::{Layout, Packed};
use super::pool::Pool;
use super::{Chunks, Place, Reader, block_ids, check, ids};
use crate::formats::arrow::{self, Column};
use crate::formats::grouped::Grouped;
use crate::{fail, rows};

/// The most bytes of decoded groups that a reader keeps, unless a shuffle is over windows. A single larger group is kept while it is in use.
const DECODED_BYTES_MAX: usize = 512 << 20;
/// The most footers that a reader keeps.
const FOOTERS_MAX: usize = 256;

/// The most rows that are decoded in one step, so that a footer that lies about its rows asks for no memory.
const BATCH_ROWS_MAX: usize = 1 << 20;

/// A group that is being decoded, or was.
#[derive(Default)]
struct Group {
    /// The next part that nobody decodes yet.
    next: AtomicUsize,
    state: Mutex<Decoding>,
    /// Told when the last part is there.
    done: Condvar,
}

#[derive(Default)]
struct Decoding {
    parts: Vec<(usize, Result<Vec<Column>>)>,
    all: Option<Result<Arc<Decoded>>>,
}

/// A decoded group. The columns that are in `packed` are empty.
#[derive(Default)]
struct Decoded {
    columns: Vec<Column>,
    packed: Option<Packed>,
}

/// Turns a panic into an error, because other threads wait for the result.
fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|_| Err(Error::internal("decoding a group of rows failed")))
}

impl Group {
    fn lock(&self) -> MutexGuard<'_, Decoding> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decodes parts (a part is one column, or all) until every part has a thread. The thread that finishes the last part packs the group
    /// and gets `true`.
    fn help(
        &self,
        count: usize,
        decode: impl Fn(usize) -> Result<Vec<Column>>,
        pack: impl Fn(Vec<Column>) -> Result<Decoded>,
    ) -> bool {
        loop {
            let part = self.next.fetch_add(1, Relaxed);
            if part >= count {
                return false;
            }
            // Others wait for every part that was begun.
            let decoded = guarded(|| decode(part));
            let mut state = self.lock();
            state.parts.push((part, decoded));
            if state.parts.len() < count {
                continue;
            }
            let mut parts = std::mem::take(&mut state.parts);
            drop(state);
            parts.sort_by_key(|(part, _)| *part);
            let parts = parts.into_iter().map(|(_, columns)| columns).collect::<Result<Vec<_>>>();
            let decoded = parts.and_then(|parts| guarded(|| pack(parts.concat())));
            self.lock().all = Some(decoded.map(Arc::new));
            self.done.notify_all();
            return true;
        }
    }

    /// Waits until the group is decoded. Returns the error of the first part that failed.
    fn wait(&self) -> Result<Arc<Decoded>> {
        let mut state = self.lock();
        loop {
            if let Some(all) = &state.all {
                return all.clone();
            }
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

pub(super) struct Groups<F> {
    schema: Arc<Schema>,
    pool: Pool,
    footers: Mutex<Lru<Arc<F>>>,
    groups: Mutex<Lru<Arc<Group>>>,
    /// How groups are packed, if a shuffle is over windows. Then the weight of a kept group is its rows, else its bytes.
    layout: Option<Layout>,
}

impl<F: Grouped> Groups<F> {
    /// A shuffle over windows decodes each group once only if the reader keeps the groups of two windows: of the one that threads finish,
    /// and of the one that they begin. So the bound is in rows, which the plan knows exactly, and not in bytes.
    pub(super) fn new(schema: Arc<Schema>, pool: Pool, window_rows: u64) -> Self {
        let layout = (window_rows > 0).then(|| Layout::new(schema.fields()));
        let largest = || pool.index.block_starts().windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let kept = match &layout {
            Some(_) => window_rows.max(largest()).saturating_mul(2) as usize,
            None => DECODED_BYTES_MAX,
        };
        let (footers, groups) = (Mutex::new(Lru::new(FOOTERS_MAX)), Mutex::new(Lru::new(kept)));
        Self { schema, pool, footers, groups, layout }
    }

    fn file(&self, file: usize) -> Result<Arc<F>> {
        if let Some(footer) = self.footers.lock().unwrap_or_else(PoisonError::into_inner).get(file as u64) {
            return Ok(footer);
        }
        let footer = Arc::new(F::open(self.pool.get(file)?, self.schema.fields())?);
        if file > 0 && self.schema.fields().iter().any(arrow::may_be_time) {
            arrow::check_time(self.file(0)?.schema(), footer.schema(), self.schema.fields(), self.uri(file))?;
        }
        self.footers.lock().unwrap_or_else(PoisonError::into_inner).put(file as u64, 1, footer.clone());
        Ok(footer)
    }

    fn uri(&self, file: usize) -> &str {
        self.pool.index.inner().uris.get(file).map_or("", |u| u)
    }

    /// Returns the rows that the index counts in a block.
    fn block_len(&self, block: u64) -> Result<usize> {
        let rows =
            self.pool.index.block_rows(block).ok_or_else(|| Error::internal(format!("there is no block {block}")))?;
        Ok((rows.end - rows.start) as usize)
    }

    /// Returns blocks, decoded. A thread begins the next block before other threads have finished this one.
    fn groups(&self, blocks: &[u64]) -> Result<Vec<Arc<Decoded>>> {
        if self.schema.fields().is_empty() {
            return Ok(vec![Arc::default(); blocks.len()]);
        }
        let groups: Vec<_> = blocks.iter().map(|&block| self.group(block)).collect();
        for (&block, group) in blocks.iter().zip(&groups) {
            self.help(block, group);
        }
        groups.iter().map(|group| group.wait()).collect()
    }

    fn group(&self, block: u64) -> Arc<Group> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.get(block).unwrap_or_else(|| {
            let group = Arc::<Group>::default();
            groups.put(block, 0, group.clone());
            group
        })
    }

    fn help(&self, block: u64, group: &Arc<Group>) {
        let (fields, pack) = (self.schema.fields(), |columns| self.pack(block, columns));
        let last = match F::BY_COLUMN {
            true => group.help(fields.len(), |column| self.decode(block, &fields[column..=column]), pack),
            false => group.help(1, |_| self.decode(block, fields), pack),
        };
        if !last {
            return;
        }
        // The next thread that asks for a group that failed decodes it again.
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let weight = |decoded: Arc<Decoded>| match &self.layout {
            Some(_) => self.block_len(block),
            None => Ok(memory_of(&decoded.columns)),
        };
        match group.wait().and_then(weight) {
            Ok(weight) => groups.put(block, weight, group.clone()),
            Err(_) => groups.remove(block),
        }
    }

    /// Decodes columns of a block.
    fn decode(&self, block: u64, fields: &[Field]) -> Result<Vec<Column>> {
        let (file, group) = self.pool.index.file_of(block);
        let (uri, rows) = (self.uri(file), self.block_len(block)?);
        let schema = Schema::new(fields.to_vec())?;
        let batches = self.file(file)?.batches(group, fields, rows.min(BATCH_ROWS_MAX))?;
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let batch = joined(&batches)?.filter(|batch| batch.num_rows() == rows);
        let batch = batch.ok_or_else(|| short::<F>(uri, group))?;
        located::<F>(&schema, uri, group, &batch)
    }

    fn pack(&self, block: u64, mut columns: Vec<Column>) -> Result<Decoded> {
        let rows = self.block_len(block)?;
        let pack = |layout: &Layout| layout.pack(self.schema.fields(), &mut columns, rows);
        let packed = self.layout.as_ref().map(pack).transpose()?;
        Ok(Decoded { columns, packed })
    }

    /// Returns the columns of some rows. Each row is a pair: its group's index in `groups`, and its place in that group.
    fn take(&self, groups: &[Arc<Decoded>], rows: &[(usize, usize)]) -> Result<Vec<ArrayRef>> {
        let fields = self.schema.fields();
        let packed: Vec<_> = groups.iter().filter_map(|group| group.packed.as_ref()).collect();
        let packed = match &self.layout {
            Some(layout) => layout.take(fields, &packed, rows)?,
            None => vec![None; fields.len()],
        };
        let column = |((i, field), packed): ((usize, &Field), Option<ArrayRef>)| match packed {
            Some(column) => Ok(column),
            None => {
                let parts: Vec<_> = groups.iter().map(|group| &group.columns[i].values).collect();
                rows::interleave(&field.kind, &parts, rows)
            }
        };
        fields.iter().enumerate().zip(packed).map(column).collect()
    }

    /// Says what is wrong with a row of columns, if one of them lacks it; `id` is its name.
    fn lack(&self, columns: &[Column], row: usize, id: RowId) -> Option<Error> {
        let (field, lack) =
            self.schema.fields().iter().zip(columns).find_map(|(f, column)| Some((f, column.lack(row)?)))?;
        let (file, group) = self.pool.index.file_of(id.sample.block());
        let error = lack.error(field).with("file", self.uri(file)).with(F::GROUP, group);
        Some(error.with("sample", self.pool.index.describe_sample(id.sample)))
    }

    /// Makes a chunk of columns without the rows that they lack, and has it say so.
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

/// Says whether no row of these columns lacks anything.
fn is_complete(columns: &[Column]) -> bool {
    columns.iter().all(|column| column.lacks.is_empty())
}

/// Returns the bytes that columns hold: memory that several share, as those of an Arrow record batch do, counts once.
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

/// Makes one batch of several.
fn joined(batches: &[RecordBatch]) -> Result<Option<RecordBatch>> {
    match batches {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        [first, ..] => arrow_select::concat::concat_batches(&first.schema(), batches).map(Some).map_err(fail::arrow),
    }
}

/// Takes a batch of a group as the columns of a schema.
fn located<F: Grouped>(schema: &Schema, uri: &str, group: usize, batch: &RecordBatch) -> Result<Vec<Column>> {
    arrow::columns(schema, batch).map_err(|e| e.with("file", uri).with(F::GROUP, group))
}

fn short<F: Grouped>(uri: &str, group: usize) -> Error {
    fail::truncated(uri, &format!("a {} has fewer rows than its head says", F::GROUP)).with(F::GROUP, group)
}

impl<F: Grouped> Reader for Groups<F> {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        check(&self.pool.index, places)?;
        let ids = ids(&self.pool.index, places);
        let mut blocks: Vec<u64> = ids.iter().map(|id| id.sample.block()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let groups = self.groups(&blocks)?;
        let place = |block: u64| blocks.binary_search(&block).unwrap_or(0);
        let lack = |id: &RowId| self.lack(&groups[place(id.sample.block())].columns, id.sample.row() as usize, *id);
        if !groups.iter().all(|group| is_complete(&group.columns))
            && let Some(error) = ids.iter().find_map(lack)
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
                let one = &one.columns;
                let rows: Vec<usize> = ids.iter().map(|id| id.sample.row() as usize).collect();
                let first = rows[0];
                let in_order = rows.iter().zip(first..).all(|(&a, b)| a == b);
                let take = |(i, f): (usize, &Field)| match in_order {
                    true => Ok(one[i].values.slice(first, rows.len())),
                    false => rows::take(&f.kind, &one[i].values, &rows),
                };
                fields.enumerate().map(take).collect::<Result<_>>()?
            }
            groups => {
                let at = |id: &RowId| (place(id.sample.block()), id.sample.row() as usize);
                self.take(groups, &ids.iter().map(at).collect::<Vec<_>>())?
            }
        };
        Chunk::new(self.schema.clone(), columns, ids)
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        let total = self.block_len(block)?;
        let (file, group) = self.pool.index.file_of(block);
        let uri = self.uri(file);
        if total == 0 {
            return Ok(Box::new(std::iter::empty()));
        }
        let mut batches =
            self.file(file)?.batches(group, self.schema.fields(), rows.min(total).clamp(1, BATCH_ROWS_MAX))?;
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
                    located::<F>(&self.schema, uri, group, &batch).and_then(|c| self.without_lacks(&c, ids))
                }
                Some(Err(e)) => Err(e),
            };
            over = chunk.is_err();
            Some(chunk)
        })))
    }
}
