//! Files that are compressed as a whole, recognized by their first bytes. Before a file is opened, its name only
//! suggests whether it is compressed.

use std::sync::Arc;

use forebay_core::{Error, Result};

use crate::store::decoded::Codec;
use crate::store::{Forward, Object};

/// The first bytes of an lz4 file.
const LZ4: &[u8] = b"\x04\x22\x4d\x18";

/// Says whether the file's name is that of a compressed file.
pub(crate) fn is_named_so(uri: &str) -> bool {
    let ends = |end: &&str| {
        uri.len() >= end.len() && uri.as_bytes()[uri.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
    };
    [".gz", ".bgz", ".zst", ".zstd", ".bz2", ".xz", ".lzma"].iter().any(ends)
}

/// Returns the codec of a file of text or an archive.
///
/// # Errors
/// Data for an lz4 file, naming the file and a command that decompresses it.
pub(crate) fn codec(uri: &str, head: &[u8]) -> Result<Option<Codec>> {
    if head.starts_with(LZ4) {
        return Err(Error::data("this file is compressed with lz4, which is not supported")
            .with("fault", "file")
            .with("file", uri)
            .hint("decompress it by `unlz4`, or compress it with gzip, zstd, bzip2 or xz"));
    }
    Ok(Codec::of(head))
}

/// Refuses a compressed file of a format that is read by offsets in the stored bytes.
///
/// # Errors
/// Data, naming the file and the codec.
pub(crate) fn refuse(uri: &str, head: &[u8]) -> Result<()> {
    let Some(codec) = codec(uri, head)? else { return Ok(()) };
    Err(Error::data(format!("this file is compressed with {}, which is not supported for this format", codec.name()))
        .with("fault", "file")
        .with("file", uri)
        .hint("decompress it once: its rows are read by their place in the file"))
}

/// Starts to read the whole content of a file.
pub(crate) fn reading(object: Arc<Object>) -> Result<Forward> {
    Forward::reading(object).unpacked(codec)
}

/// Starts to read parts of the content of a file.
pub(crate) fn skipping(object: Arc<Object>) -> Result<Forward> {
    Forward::skipping(object).unpacked(codec)
}
