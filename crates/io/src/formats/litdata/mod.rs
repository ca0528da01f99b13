//! LitData's chunks: a folder with an `index.json`, which has the number of samples of each chunk and the encodings of
//! their columns.
//!
//! ```text
//! chunk:  samples (u32), where each sample begins and the last ends (u32 each), the samples: as MosaicML's shards
//! sample: the length of each value (u32 each), the values
//! ```
//!
//! A value is a leaf of the tree of dictionaries and lists that the user's function returned. Nothing is unpickled.

mod encoding;
mod index;
mod packed;
mod tree;

pub(crate) use encoding::{DOCUMENT, Encoding, PREFIX};
pub(crate) use index::{Index, Stored, check_size, look};
pub(crate) use packed::unpacked;
