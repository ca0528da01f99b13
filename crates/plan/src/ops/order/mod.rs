//! Ops that decide which rows come in which order. The epoch plan does them while the number of rows is known.
//!
//! They read no column: the columns before them are those after them.

mod chosen_rows;
mod parts;
mod repeat;
mod shuffle;

pub use chosen_rows::{Part, SelectRows};
pub use parts::{Shard, Skip, Take};
pub use repeat::Repeat;
pub use shuffle::{Shuffle, ShuffleWindow};
