//! The number of rows of each key that were delivered, in positions.
//!
//! Each batch changes the number of one key, and makes a position. Positions share the rest of the map, so a batch takes
//! the logarithm of the number of keys, and not a copy of all.

use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tail::buckets::Key;

/// A number of rows for each key that has some, in the order of keys. A state has it as a list of pairs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RowsOfKeys(RedBlackTreeMapSync<Key, u64>);

impl RowsOfKeys {
    /// Returns whether no key has rows.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys that have rows, and how many.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, u64)> {
        self.0.iter().map(|(key, rows)| (key, *rows))
    }

    /// Adds rows of a key.
    pub(super) fn add(&mut self, key: &Key, rows: u64) {
        match self.0.get_mut(key) {
            Some(had) => *had += rows,
            None if rows == 0 => {}
            None => {
                self.0.insert_mut(key.clone(), rows);
            }
        }
    }

    /// Takes one row of a key away.
    pub(super) fn take_one(&mut self, key: &Key) {
        match self.0.get_mut(key) {
            Some(rows) if *rows > 1 => *rows -= 1,
            _ => {
                self.0.remove_mut(key);
            }
        }
    }
}

impl Serialize for RowsOfKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for RowsOfKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(|pairs: Vec<(Key, u64)>| Self(pairs.into_iter().collect()))
    }
}
