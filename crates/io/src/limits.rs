//! Size limits of the parts of a file. Sizes that a file states are compared with these before memory is allocated.
//!
//! Readers refuse any part that is longer than its file. These limits also refuse parts that are consistent but too
//! large: a broken length, a line of binary data, a small file that decompresses to terabytes. Invariant: every refusal
//! is an Exhausted error that names the file, the place, the size, the limit, and how to raise it where that makes
//! sense.

use std::sync::OnceLock;

use forebay_core::{Error, ErrorKind, Result};

/// The variable that sets [`record_bytes_max`], in bytes.
const RECORD_BYTES_NAME: &str = "FOREBAY_RECORD_BYTES_MAX";
/// The default: no training step consumes a record of a gigabyte.
const RECORD_BYTES_DEFAULT: u64 = 1 << 30;

/// The most columns that fields, features or extensions of a file may make.
pub(crate) const COLUMNS_MAX: usize = 1 << 14;
/// The most bytes of a column's name, the dots of nested ones included.
pub(crate) const NAME_BYTES_MAX: usize = 1 << 12;
/// The variable that sets [`group_bytes_max`], in bytes.
const GROUP_BYTES_NAME: &str = "FOREBAY_GROUP_BYTES_MAX";
/// The least default: a column may always have this many bytes.
const GROUP_BYTES_FLOOR: u64 = 1 << 30;
/// By default, a column may also have this many times its stored size.
const GROUP_RATIO: u64 = 64;
/// The largest default for a column.
const GROUP_BYTES_CEILING: u64 = 8 << 30;

/// Returns the most bytes of one record, line, archive member or file of `from_files`.
pub(crate) fn record_bytes_max() -> u64 {
    static MAX: OnceLock<u64> = OnceLock::new();
    *MAX.get_or_init(|| {
        let set = std::env::var(RECORD_BYTES_NAME).ok().and_then(|text| text.trim().parse().ok());
        set.unwrap_or(RECORD_BYTES_DEFAULT)
    })
}

/// Returns the most bytes that one column of a Parquet row group, or an Arrow record batch, may decode to when it has
/// `stored` bytes in its file. Real data grows little; a small file that grows to gigabytes is broken or malicious.
pub(crate) fn group_bytes_max(stored: u64) -> u64 {
    static SET: OnceLock<Option<u64>> = OnceLock::new();
    let set = SET.get_or_init(|| std::env::var(GROUP_BYTES_NAME).ok()?.trim().parse().ok());
    set.unwrap_or_else(|| stored.saturating_mul(GROUP_RATIO).clamp(GROUP_BYTES_FLOOR, GROUP_BYTES_CEILING))
}

/// Refuses `what` when it has, or states, more than `max` bytes, by [`group_bytes_max`].
pub(crate) fn group(what: &str, bytes: u64, max: u64) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exhausted, format!("{what} is {bytes} bytes in memory, more than the limit of {max}")).hint(
        format!(
            "the file may be corrupt; if it is right, write it in smaller parts (row_group_size=, max_chunksize=), or set \
             {GROUP_BYTES_NAME} (bytes) here and where the workers run"
        ),
    ))
}

/// Refuses a record, line, member or file that is too long; `offset` is where it begins.
pub(crate) fn record(uri: &str, offset: u64, what: &str, bytes: u64) -> Result<()> {
    let max = record_bytes_max();
    if bytes <= max {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exhausted, format!("{what} of {bytes} bytes is larger than the limit of {max}"))
        .with("file", uri)
        .with("offset", offset)
        .hint(format!(
            "the file may be corrupt or of another format; if it is right, set {RECORD_BYTES_NAME} (bytes) here and where \
             the workers run"
        )))
}

/// Refuses more columns than a table can sensibly have.
pub(crate) fn columns(what: &str, count: usize) -> Result<()> {
    if count <= COLUMNS_MAX {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Exhausted, format!("{what}: more than {COLUMNS_MAX}"))
        .hint("the file may be corrupt or of another format; or keep what is many in one list"))
}
