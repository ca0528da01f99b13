//! LitData's chunks: a folder with an `index.json`, which says how many samples each chunk has and what their columns are stored as.
//!
//! ```text
//! chunk:  samples (u32), where each sample begins and the last ends (u32 each), the samples: as MosaicML's shards
//! sample: the length of each value (u32 each), the values
//! ```
//!
//! A value is a leaf of what the user's function returned, a tree of dictionaries and lists. Nothing is unpickled.

mod encoding;
mod index;
mod packed;
mod tree;

pub(crate) use encoding::Encoding;
pub(crate) use index::{Index, Stored, check_size, look};
pub(crate) use packed::unpacked;

/// What begins the name of an encoding of LitData, among those of MosaicML's shards.
pub(crate) const PREFIX: &str = "litdata:";
/// The encoding of a document of a chunk for `TokensLoader`: the value alone, without its length.
pub(crate) const DOCUMENT: &str = "litdata:document:";
