//! The places of the rows of one file.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::DType;

use super::codec::{Decoder, Encoder};
use super::matching::Matching;
use crate::store::decoded::Points;

/// The places of the rows of one file, in the form that its format needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Table {
    /// Consecutive frames: where each begins, and where the last ends. Text, Jsonl, Json, Csv, Tfrecord.
    Frames(Vec<u64>),
    /// Samples of a tar shard.
    Tar(TarTable),
    /// The rows of each row group of a Parquet file, or record batch of an Arrow file with a footer.
    Groups(Vec<u64>),
    /// As `Groups`, with some groups left out: they have no rows here.
    Matching(Matching),
    /// The messages of an Arrow stream.
    Messages(Messages),
    /// Rows of one length at a constant distance.
    Even(Even),
    /// Consecutive documents of token ids.
    Documents(Documents),
    /// The number of samples of a file that has their places itself, and the bytes that they had before compression.
    Shard { rows: u64, bytes: u64 },
}

/// Rows that need no table: the first offset, and the distance of rows, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Even {
    pub(crate) start: u64,
    pub(crate) step: u64,
    pub(crate) len: u64,
    pub(crate) rows: u64,
}

/// The messages of an Arrow stream after its schema: record batches, and the dictionaries that these use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Messages {
    /// The rows of each record batch.
    pub(crate) rows: Vec<u64>,
    /// Where each message begins, and where the last ends.
    pub(crate) starts: Vec<u64>,
    /// The indices of the messages that are dictionaries.
    pub(crate) dictionaries: Vec<u64>,
}

/// Documents of a file, whose places another file beside it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Documents {
    /// The type of a stored id.
    pub(crate) dtype: DType,
    /// The identity of that other file, which distinguishes it from earlier and later versions.
    pub(crate) told_by: String,
    /// Where each document begins, and where the last ends, in bytes.
    pub(crate) starts: Vec<u64>,
}

impl Even {
    /// Returns the place of a row.
    pub(crate) fn span(&self, row: u64) -> Option<Span> {
        let offset = self.start.checked_add(self.step.checked_mul(row)?)?;
        (row < self.rows).then_some(Span { offset, len: self.len })
    }

    fn is_within(&self, size: u64) -> bool {
        let Some(last) = self.rows.checked_sub(1) else { return true };
        self.span(last).and_then(|span| span.offset.checked_add(span.len)).is_some_and(|end| end <= size)
    }
}

impl Documents {
    /// Returns the place of a document.
    pub(crate) fn span(&self, row: usize) -> Option<Span> {
        let [start, end] = *self.starts.get(row..)?.first_chunk::<2>()?;
        Some(Span { offset: start, len: end.checked_sub(start)? })
    }
}

/// The result of counting the rows of one file.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) table: Arc<Table>,
    /// For a file that is compressed as a whole.
    pub(crate) points: Option<Arc<Points>>,
}

/// The samples of a tar shard: their keys, and for each extension of the source the place of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TarTable {
    keys: String,
    /// Where each key ends in `keys`.
    key_ends: Vec<u64>,
    /// Row by row, one (offset, length) for each extension; an offset of `u64::MAX` marks an absent member.
    offsets: Vec<u64>,
    lens: Vec<u64>,
}

/// The place of one member's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

impl TarTable {
    pub(crate) fn push(&mut self, key: &str, spans: &[Option<Span>]) {
        self.keys.push_str(key);
        self.key_ends.push(self.keys.len() as u64);
        self.offsets.extend(spans.iter().map(|s| s.map_or(u64::MAX, |s| s.offset)));
        self.lens.extend(spans.iter().map(|s| s.map_or(0, |s| s.len)));
    }

    pub(crate) fn rows(&self) -> usize {
        self.key_ends.len()
    }

    pub(crate) fn key(&self, row: usize) -> &str {
        let end = self.key_ends.get(row).map_or(0, |&e| e as usize);
        let start = row.checked_sub(1).and_then(|r| self.key_ends.get(r)).map_or(0, |&e| e as usize);
        self.keys.get(start..end).unwrap_or_default()
    }

    /// Returns the place of extension `extension` (of `extensions`) of a row, if the sample has it.
    pub(crate) fn span(&self, row: usize, extension: usize, extensions: usize) -> Option<Span> {
        let i = row * extensions + extension;
        let (&offset, &len) = (self.offsets.get(i)?, self.lens.get(i)?);
        (offset != u64::MAX).then_some(Span { offset, len })
    }
}

impl Table {
    /// Returns the number of rows, summed over groups.
    pub(crate) fn rows(&self) -> u64 {
        match self {
            Table::Frames(starts) => starts.len().saturating_sub(1) as u64,
            Table::Tar(tar) => tar.rows() as u64,
            Table::Groups(_) | Table::Matching(_) | Table::Messages(_) => {
                self.group_rows().iter().fold(0, |sum, &n| sum.saturating_add(n))
            }
            Table::Even(even) => even.rows,
            Table::Documents(documents) => documents.starts.len().saturating_sub(1) as u64,
            Table::Shard { rows, .. } => *rows,
        }
    }

    /// Returns the rows of each group that is decoded as a whole; empty for a file without groups.
    pub(crate) fn group_rows(&self) -> &[u64] {
        match self {
            Table::Groups(rows) | Table::Matching(Matching { rows, .. }) | Table::Messages(Messages { rows, .. }) => {
                rows
            }
            _ => &[],
        }
    }

    /// Says whether all places are within a file of this size.
    pub(crate) fn is_within(&self, size: u64) -> bool {
        match self {
            Table::Frames(starts) => starts.iter().all(|start| *start <= size),
            Table::Tar(tar) => tar
                .offsets
                .iter()
                .zip(&tar.lens)
                .all(|(offset, len)| *offset == u64::MAX || offset.checked_add(*len).is_some_and(|end| end <= size)),
            Table::Even(even) => even.is_within(size),
            Table::Documents(documents) => documents.starts.iter().all(|start| *start <= size),
            Table::Messages(messages) => messages.starts.iter().all(|start| *start <= size),
            Table::Groups(_) | Table::Matching(_) | Table::Shard { .. } => true,
        }
    }

    pub(crate) fn encode(&self, to: &mut Encoder) {
        match self {
            Table::Frames(starts) => {
                to.int(0);
                to.rising(starts);
            }
            Table::Tar(tar) => {
                to.int(1);
                to.text(&tar.keys);
                [&tar.key_ends, &tar.offsets].into_iter().for_each(|n| to.rising(n));
                to.rising(&tar.lens);
            }
            Table::Groups(rows) => {
                to.int(2);
                to.rising(rows);
            }
            Table::Matching(Matching { rows, bytes }) => {
                to.int(7);
                to.rising(rows);
                to.int(*bytes);
            }
            Table::Even(Even { start, step, len, rows }) => {
                [3, *start, *step, *len, *rows].into_iter().for_each(|n| to.int(n));
            }
            Table::Documents(documents) => {
                to.int(4);
                to.text(documents.dtype.name());
                to.text(&documents.told_by);
                to.rising(&documents.starts);
            }
            Table::Shard { rows, bytes } => [5, *rows, *bytes].into_iter().for_each(|n| to.int(n)),
            Table::Messages(messages) => {
                to.int(6);
                [&messages.rows, &messages.starts, &messages.dictionaries].into_iter().for_each(|n| to.rising(n));
            }
        }
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<Arc<Self>> {
        let table = match from.int()? {
            0 => Table::Frames(from.rising()?),
            1 => Table::Tar(TarTable {
                keys: from.text()?.to_owned(),
                key_ends: from.rising()?,
                offsets: from.rising()?,
                lens: from.rising()?,
            }),
            2 => Table::Groups(from.rising()?),
            3 => Table::Even(Even { start: from.int()?, step: from.int()?, len: from.int()?, rows: from.int()? }),
            4 => Table::Documents(Documents {
                dtype: DType::parse(from.text()?)?,
                told_by: from.text()?.to_owned(),
                starts: from.rising()?,
            }),
            5 => Table::Shard { rows: from.int()?, bytes: from.int()? },
            6 => {
                Table::Messages(Messages { rows: from.rising()?, starts: from.rising()?, dictionaries: from.rising()? })
            }
            7 => Table::Matching(Matching { rows: from.rising()?, bytes: from.int()? }),
            other => return Err(Error::data(format!("an index holds an unknown table {other}"))),
        };
        Ok(Arc::new(table))
    }
}
