//! Ids of the objects of roles. They are newtypes, so that an ordinal cannot be passed as a row.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// The user's `seed=`. All random numbers of a job follow from it.
    Seed(u64)
}
id! {
    /// One pass over the pipeline, from 0.
    Epoch(u64)
}
id! {
    /// The place of a split in its epoch and consumer, from 0. It decides the order, never the arrival time.
    Ordinal(u64)
}
id! {
    /// The index of a job's reader, from 0.
    ConsumerIndex(u32)
}
id! {
    /// Rises with every assignment of a split; messages with an older token are refused.
    FencingToken(u64)
}
id! {
    /// One run of one worker process. A restarted worker has a new id.
    WorkerId(u128)
}

/// The place of a sample in its source: the source block, and the row of it. Stable under every op that keeps rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SampleId(pub u64);

impl SampleId {
    /// The most blocks that a source may have.
    pub const BLOCKS_MAX: u64 = 1 << 24;
    /// The most rows that a block may have.
    pub const ROWS_MAX: u64 = 1 << 40;

    /// Makes the id of row `row` of block `block`.
    pub fn new(block: u64, row: u64) -> Self {
        debug_assert!(block < Self::BLOCKS_MAX && row < Self::ROWS_MAX);
        Self(block << 40 | row)
    }

    /// Returns the source block.
    pub fn block(self) -> u64 {
        self.0 >> 40
    }

    /// Returns the row within its block.
    pub fn row(self) -> u64 {
        self.0 & (Self::ROWS_MAX - 1)
    }
}

impl fmt::Display for SampleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.block(), self.row())
    }
}

/// The BLAKE3 hash of a pipeline's canonical graph. The same pipeline has the same id on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct DatasetId(pub [u8; 32]);

impl From<DatasetId> for String {
    fn from(id: DatasetId) -> String {
        id.to_string()
    }
}

impl TryFrom<String> for DatasetId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return Err(format!("a dataset id has 64 hexadecimal digits, not {text:?}"));
        }
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|e| e.to_string())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatasetId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_ids_round_trip_at_their_limits() {
        let id = SampleId::new(SampleId::BLOCKS_MAX - 1, SampleId::ROWS_MAX - 1);
        assert_eq!((id.block(), id.row()), (SampleId::BLOCKS_MAX - 1, SampleId::ROWS_MAX - 1));
    }

    #[test]
    fn dataset_ids_read_back_what_they_print_and_refuse_the_rest() {
        let id = DatasetId([0xa5; 32]);
        assert_eq!(DatasetId::try_from(id.to_string()), Ok(id));
        assert!(DatasetId::try_from("é".repeat(32)).is_err());
    }
}
