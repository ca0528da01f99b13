//! MosaicML's shards (MDS, version 2): a folder with an `index.json`, which has the number of samples of each shard and
//! the encodings of their columns.
//!
//! ```text
//! shard:  samples (u32), where each sample begins and the last ends (u32 each), the columns again as JSON, the samples
//! sample: the length of each value whose column has none of its own (u32 each), the values
//! ```
//!
//! A shard may be compressed, and is then decompressed as a whole.

mod encoding;
mod fields;
mod index;
mod packed;
mod sample;
mod shard;

pub(crate) use fields::{Stored, fields, first_of, look};
pub(crate) use index::{Index, Shard, check_size, index_of, inside};
pub(crate) use packed::{is_packed, unpacked};
pub(crate) use sample::Parser;
pub(crate) use shard::{copy, starts, wrong};
