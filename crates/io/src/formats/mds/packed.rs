//! Shards that are compressed as a whole.

use std::io::Read;

use forebay_core::{Error, Result};

use super::wrong;
use crate::limits;
use crate::store::Object;

/// The likely ratio of decompressed to stored size. Room for more is made as bytes arrive.
const LIKELY: u64 = 8;

/// Refuses an unsupported compression of shards.
pub(super) fn check(compression: &str, basename: &str) -> Result<()> {
    let family = compression.split(':').next().unwrap_or_default();
    if matches!(family, "zstd" | "gz") && basename.ends_with(&format!(".{family}")) {
        return Ok(());
    }
    Err(Error::invalid(format!("shards are compressed with {compression:?}, which is not supported")).hint(
        "write them with compression=\"zstd\", \"gz\" or none; or let the library decompress them into a folder, and read that",
    ))
}

/// Says whether a shard is compressed.
pub(crate) fn is_packed(uri: &str) -> bool {
    uri.ends_with(".zstd") || uri.ends_with(".gz")
}

/// Decompresses a shard that has `bytes` bytes according to its index.
///
/// # Errors
/// Data when it is not such a shard, or has another length; Exhausted when that is above the memory limit.
pub(crate) fn unpacked(object: &Object, bytes: u64) -> Result<Vec<u8>> {
    let uri = object.uri();
    limits::record(uri, 0, "a compressed shard", object.size())?;
    limits::group("a shard", bytes, limits::group_bytes_max(object.size())).map_err(|e| e.with("file", uri))?;
    let mut packed = vec![0; object.size() as usize];
    object.read_at(0, &mut packed)?;
    let failed = |e: std::io::Error| wrong(uri, 0, format!("the shard cannot be decompressed: {e}"));
    let mut raw = Vec::with_capacity(bytes.min(object.size().saturating_mul(LIKELY)) as usize);
    // One byte more shows whether the file continues.
    let limit = bytes.saturating_add(1);
    if uri.ends_with(".gz") {
        flate2::read::MultiGzDecoder::new(&packed[..]).take(limit).read_to_end(&mut raw).map_err(failed)?;
    } else {
        zstd::stream::read::Decoder::new(&packed[..])
            .map_err(failed)?
            .take(limit)
            .read_to_end(&mut raw)
            .map_err(failed)?;
    }
    if raw.len() as u64 != bytes {
        return Err(wrong(
            uri,
            0,
            format!("the shard is {} bytes decompressed, and its index says {bytes}", raw.len()),
        ));
    }
    Ok(raw)
}
