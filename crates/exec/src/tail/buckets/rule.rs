//! The rules of an op that puts rows into buckets: how many rows a batch may have, and how long its rows are.

use forebay_core::{Error, Result};
use forebay_data::Field;
use forebay_plan::ops::{BatchByKey, Bucket};
use forebay_plan::{Op, Step};

/// The op whose rules hold.
#[derive(Clone)]
pub(super) enum Rule {
    Length(Bucket),
    Key(BatchByKey),
}

impl Rule {
    pub(super) fn of(step: &Step) -> Result<Self> {
        match &step.node.op {
            Op::BucketByLength(op) => Ok(Self::Length(op.clone())),
            Op::BatchByKey(op) => Ok(Self::Key(op.clone())),
            _ => Err(Error::internal("an op that has no buckets")),
        }
    }

    /// Says whether batches that are not full are dropped.
    pub(super) fn drops_remainder(&self) -> bool {
        match self {
            Self::Length(op) => op.drop_remainder,
            Self::Key(op) => op.drop_remainder,
        }
    }

    /// Says whether a batch of a bucket may have so many rows, of which the longest has this length.
    pub(super) fn allows(&self, bucket: usize, rows: usize, longest: usize) -> bool {
        match self {
            Self::Length(op) => {
                let padded = op.padded_length(bucket).unwrap_or(longest).max(1);
                rows <= op.rows_of(bucket) && op.max_tokens.is_none_or(|most| rows.saturating_mul(padded) <= most)
            }
            Self::Key(op) => rows <= op.size,
        }
    }

    /// Returns the length to which the rows of a bucket are padded; `None` is the longest of the batch.
    pub(super) fn padded_length(&self, bucket: usize) -> Option<usize> {
        match self {
            Self::Length(op) => op.padded_length(bucket),
            Self::Key(_) => None,
        }
    }

    /// Returns the padding of a column, as the bytes of one number; `None` if it is not padded.
    pub(super) fn pad_of(&self, field: &Field) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Length(op) => op.pad_of(field).map(Some),
            Self::Key(op) => op.pad_of(field),
        }
    }
}
