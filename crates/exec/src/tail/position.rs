//! A place in a stream, in the form of a saved state.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::skip::skip_log::SkipTally;
use crate::tail::buckets::RowsOfKeys;
use crate::tail::delivered_ahead::DeliveredAhead;

/// The positions of the datasets of a streamed mix.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MixPosition {
    /// The position of each dataset.
    pub parts: Vec<PartPosition>,
    /// Whether the epoch has no further row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_over: bool,
}

/// The position of one dataset of a streamed mix.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PartPosition {
    /// How often it has begun again in this epoch. For a dataset that does not repeat: 1 once it has left the mix.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pass: u64,
    /// Its first row that the mix has not taken.
    pub at: Arc<Position>,
}

/// The first row not yet delivered. The default is the start of the first epoch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Position {
    /// The epoch.
    pub epoch: u64,
    /// The ordinal of the split in the consumer's epoch.
    pub split: u64,
    /// The index of the chunk in its split.
    pub chunk: u64,
    /// The number of rows of that chunk, after the tail's ops, that were delivered. Where rows are packed, it counts
    /// the first rows that come out of that chunk and the ones that follow.
    pub rows: u64,
    /// The split and chunk of `rows`, if they are later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<(u64, u64)>,
    /// The later splits and chunks that were already delivered.
    #[serde(default, skip_serializing_if = "DeliveredAhead::is_empty")]
    pub passed: DeliveredAhead,
    /// The positions of the datasets of a streamed mix before that chunk; `None` at the start of an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed: Option<Arc<MixPosition>>,
    /// The phase of the epoch (`plan::Sharding`): not 0 if the number of consumers changed during the epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub phase: u64,
    /// The token of that chunk where packing begins; `None` means its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpacked: Option<Unpacked>,
    /// For each bucket, the number of its rows from there on that were delivered; empty means none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bucketed: Vec<u64>,
    /// The same for rows in batches by key, for each key that has such rows.
    #[serde(default, skip_serializing_if = "RowsOfKeys::is_empty")]
    pub keyed: RowsOfKeys,
    /// The number of batches of the epoch before it, where `take` or `skip` counts batches of buckets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub batches: u64,
    /// The number of rows that each counting op of the tail had seen before that chunk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<u64>,
    /// The skip counts of the epoch before that chunk, where samples may be skipped.
    #[serde(default, skip_serializing_if = "SkipTally::is_empty")]
    pub tally: SkipTally,
    /// The steps of the epoch before the first row here: batches, or samples. Counted if consumers end epochs together.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub step: u64,
    /// The steps from here on that were delivered. Such a position is one step behind, so that a resumed consumer
    /// determines again where the epoch ends, and has its last batch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub given: u64,
}

impl Position {
    /// Returns the start of an epoch.
    pub(crate) fn start_of(epoch: u64) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Returns whether it is the start of an epoch.
    pub(crate) fn is_start(&self) -> bool {
        *self == Self::start_of(self.epoch)
    }
}

/// The first token not yet packed, within a chunk of the input of `pack`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Unpacked {
    /// Its row.
    pub row: u64,
    /// Its place in its row.
    pub token: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
