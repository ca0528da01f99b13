//! Ops that choose the rows of an epoch and their order. The epoch plan applies them while the number of rows is known.
//!
//! They read no column, and keep the columns unchanged; `enumerate` adds one.

mod chosen_rows;
mod enumerate;
mod parts;
mod repeat;
mod shuffle;

pub use chosen_rows::{Part, SelectRows};
pub use enumerate::Enumerate;
pub use parts::{Shard, Skip, Take};
pub use repeat::Repeat;
pub use shuffle::{Shuffle, ShuffleWindow};
