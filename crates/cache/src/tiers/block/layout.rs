//! The places of a block's rows, as its record batch states them.

use std::sync::Arc;

use forebay_data::{DType, Field, Kind};

use crate::key::{FileKey, RowKey};
use crate::rows::table::{Shape, shapes};
use crate::tiers::block::format::{BlockHeader, HEAD_BYTES_MAX};
use crate::tiers::block::read_at::{ReadAt, Trouble, broken, bytes};

/// The place of one part of all rows in a block.
#[derive(Debug, Clone)]
pub(crate) enum StoredColumn {
    /// Row `i` has `width` bytes from `at + i * width` on.
    Even { width: usize, at: u64 },
    /// Row `i` has the bytes from `at + starts[i]` to `at + starts[i + 1]`.
    Any { starts: Arc<[i64]>, at: u64 },
    /// Whether each row has a value; already read.
    There(Arc<[u8]>),
}

/// The places of the rows of a block.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) keys: Vec<RowKey>,
    pub(crate) sums: Arc<[u64]>,
    pub(crate) parts: Vec<StoredColumn>,
}

impl Layout {
    /// Returns the bytes of a row, without its validity bytes.
    pub(crate) fn row_bytes(&self, row: usize) -> usize {
        let part = |part: &StoredColumn| match part {
            StoredColumn::Even { width, .. } => *width,
            StoredColumn::Any { starts, .. } => (starts[row + 1] - starts[row]) as usize,
            StoredColumn::There(_) => 0,
        };
        self.parts.iter().map(part).sum()
    }

    /// Returns how many rows from `first` on have about `bytes` bytes: at least one, if there is one.
    pub(crate) fn step(&self, first: usize, bytes: usize) -> usize {
        let even: usize =
            self.parts.iter().map(|part| if let StoredColumn::Even { width, .. } = part { *width } else { 1 }).sum();
        let any = |row: usize| {
            let part = |part: &StoredColumn| match part {
                StoredColumn::Any { starts, .. } => (starts[row + 1] - starts[first]) as usize,
                _ => 0,
            };
            self.parts.iter().map(part).sum::<usize>()
        };
        let left = self.keys.len() - first;
        let fits = (1..=left).take_while(|n| n * even + any(first + n - 1) <= bytes).count();
        fits.clamp(left.min(1), left)
    }
}

/// The buffers of a record batch, in order.
struct Buffers<'a, F: ?Sized> {
    file: &'a F,
    /// The offset and the length of each; checked against the file.
    list: std::vec::IntoIter<(u64, u64)>,
    rows: u64,
}

pub(super) fn layout<F: ReadAt + ?Sized>(
    file: &F,
    len: u64,
    header: &BlockHeader,
    at: i64,
    head_len: i32,
    body_len: i64,
) -> Result<Layout, Trouble> {
    let lies = || broken("a record batch that is not in it");
    let [at, head_len, body_len] =
        [u64::try_from(at), u64::try_from(head_len), u64::try_from(body_len)].map(|n| n.map_err(|_| lies()));
    let (at, head_len, body_len) = (at?, head_len?, body_len?);
    let body = at.checked_add(head_len).filter(|_| head_len <= HEAD_BYTES_MAX).ok_or_else(lies)?;
    if body.checked_add(body_len).is_none_or(|end| end > len) || head_len < 8 {
        return Err(lies());
    }
    // A marker and the length come before the message.
    let message = bytes(file, at + 8, head_len - 8)?;
    let message = arrow_ipc::root_as_message(&message).map_err(|e| Trouble::Broken(e.to_string()))?;
    let batch = message.header_as_record_batch().ok_or_else(|| broken("no record batch"))?;
    if batch.compression().is_some() || batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err(broken("compressed"));
    }
    let rows = u32::try_from(batch.length()).ok().filter(|&rows| rows > 0).ok_or_else(|| broken("no rows"))?;
    // Buffers must not overlap, so that few bytes cannot stand for many columns.
    let mut free = 0;
    let mut place = |buffer: &arrow_ipc::Buffer| {
        let (from, len) = (u64::try_from(buffer.offset()).ok()?, u64::try_from(buffer.length()).ok()?);
        let end = from.checked_add(len).filter(|&end| end <= body_len && from >= free)?;
        free = end;
        Some((body + from, len))
    };
    let list: Option<Vec<(u64, u64)>> = batch.buffers().iter().flat_map(|b| b.iter()).map(&mut place).collect();
    let mut buffers = Buffers { file, list: list.ok_or_else(lies)?.into_iter(), rows: rows.into() };
    let mut parts = Vec::new();
    for field in header.fields() {
        buffers.column(field, &mut parts)?;
    }
    let layout = buffers.keys(parts)?;
    if buffers.list.next().is_some() {
        return Err(broken("more columns than its schema"));
    }
    Ok(layout)
}

impl<F: ReadAt + ?Sized> Buffers<'_, F> {
    fn next(&mut self) -> Result<(u64, u64), Trouble> {
        self.list.next().ok_or_else(|| broken("fewer columns than its schema"))
    }

    /// Returns the offset of the next buffer, which has `width` bytes for each of `rows`.
    fn numbers(&mut self, rows: u64, width: usize) -> Result<u64, Trouble> {
        let (at, len) = self.next()?;
        let fits = rows.checked_mul(width as u64).is_some_and(|bytes| bytes <= len);
        fits.then_some(at).ok_or_else(|| broken("a column that is too short"))
    }

    /// Finds a column, in the order in which Arrow writes its buffers.
    fn column(&mut self, field: &Field, parts: &mut Vec<StoredColumn>) -> Result<(), Trouble> {
        let there = self.next()?;
        let rows = self.rows;
        match (&field.kind, shapes(field)[0]) {
            (Kind::Scalar { .. }, Shape::Even(width)) => {
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (_, Shape::Even(width)) => {
                self.next()?;
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (Kind::Tensor { dtype, shape }, Shape::Any) => {
                self.next()?;
                let ends = self.offsets::<4>(dtype.size())?;
                self.next()?;
                parts.push(self.runs(ends)?);
                self.next()?;
                self.next()?;
                let width = 4 * shape.len();
                parts.push(StoredColumn::Even { width, at: self.numbers(rows, width)? });
            }
            (_, Shape::Any) => {
                let ends = self.offsets::<8>(1)?;
                parts.push(self.runs(ends)?);
            }
        }
        if field.nullable {
            parts.push(StoredColumn::There(self.there(there)?));
        }
        Ok(())
    }

    /// Reads the offset of each row, as numbers of `N` bytes that count `size` bytes each.
    fn offsets<const N: usize>(&mut self, size: usize) -> Result<Arc<[i64]>, Trouble> {
        let at = self.numbers(self.rows + 1, N)?;
        let bytes = bytes(self.file, at, (self.rows + 1) * N as u64)?;
        let number = |piece: &[u8]| {
            let mut word = [0; 8];
            word[..N].copy_from_slice(piece);
            // A negative number of four bytes becomes a number that exceeds every buffer.
            i64::from_le_bytes(word).checked_mul(size as i64)
        };
        let starts: Option<Arc<[i64]>> = bytes.chunks_exact(N).map(number).collect();
        let rising = |starts: &Arc<[i64]>| starts[0] >= 0 && starts.windows(2).all(|w| w[0] <= w[1]);
        starts.filter(rising).ok_or_else(|| broken("rows that end before they begin"))
    }

    fn runs(&mut self, starts: Arc<[i64]>) -> Result<StoredColumn, Trouble> {
        let (at, len) = self.next()?;
        let fits = starts.last().is_some_and(|&end| end as u64 <= len);
        fits.then_some(StoredColumn::Any { starts, at }).ok_or_else(|| broken("rows that end behind their column"))
    }

    /// Reads which rows have a value. Without a buffer, all have.
    fn there(&mut self, (at, len): (u64, u64)) -> Result<Arc<[u8]>, Trouble> {
        let rows = self.rows as usize;
        if len == 0 {
            return Ok(vec![1; rows].into());
        }
        if len < self.rows.div_ceil(8) {
            return Err(broken("a column that is too short"));
        }
        let bits = bytes(self.file, at, self.rows.div_ceil(8))?;
        Ok((0..rows).map(|row| bits[row / 8] >> (row % 8) & 1).collect())
    }

    fn keys(&mut self, parts: Vec<StoredColumn>) -> Result<Layout, Trouble> {
        let rows = self.rows;
        let mut column = |width: usize| {
            self.next()?;
            let at = self.numbers(rows, width)?;
            bytes(self.file, at, rows * width as u64)
        };
        let (files, numbers, sums) = (column(16)?, column(8)?, column(DType::Uint64.size())?);
        let word = |piece: &[u8]| piece.try_into().map_or(0, u64::from_le_bytes);
        let file = |piece: &[u8]| FileKey(piece.try_into().unwrap_or_default());
        let keys = files.chunks_exact(16).zip(numbers.chunks_exact(8));
        let keys = keys.map(|(f, row)| RowKey { file: file(f), row: word(row) }).collect();
        Ok(Layout { keys, sums: sums.chunks_exact(8).map(word).collect(), parts })
    }
}
