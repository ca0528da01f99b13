//! The most that one thing of a file may be. What a file says of itself is compared with these before memory is taken.
//!
//! Whatever is longer than its file is refused anyway; these are for what is true and still too much: a "record" that is
//! a broken length, a line that is no text, a small file that unfolds to terabytes. Invariant: every refusal is an
//! Exhausted error that names the file, the place, the size, the limit, and how to raise it where that makes sense.

use std::sync::OnceLock;

use forebay_core::{Error, ErrorKind, Result};

/// The variable that sets [`record_bytes_max`], in bytes.
const RECORD_BYTES_NAME: &str = "FOREBAY_RECORD_BYTES_MAX";
/// Without it: nothing that a training step consumes one of is a gigabyte.
const RECORD_BYTES_DEFAULT: u64 = 1 << 30;

/// The most columns that fields, features or extensions of a file make.
pub(crate) const COLUMNS_MAX: usize = 1 << 14;
/// The most bytes of a column's name, the dots of nested ones included.
pub(crate) const NAME_BYTES_MAX: usize = 1 << 12;
/// The most bytes that one column of a Parquet row group may say it decodes to.
pub(crate) const GROUP_COLUMN_BYTES_MAX: u64 = 8 << 30;

/// Returns the most bytes of one record, line, archive member or file of `from_files`.
pub(crate) fn record_bytes_max() -> u64 {
    static MAX: OnceLock<u64> = OnceLock::new();
    *MAX.get_or_init(|| {
        let set = std::env::var(RECORD_BYTES_NAME).ok().and_then(|text| text.trim().parse().ok());
        set.unwrap_or(RECORD_BYTES_DEFAULT)
    })
}

/// Refuses a record, line, member or file that is too long to be one; `offset` is where it begins.
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
