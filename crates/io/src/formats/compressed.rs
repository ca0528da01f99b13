//! Files that are compressed as a whole, told by how they begin and not by their names.

use forebay_core::{Error, Result};

/// How files begin that a program compressed, what it is called, and what undoes it.
const KINDS: [(&[u8], &str, &str); 5] = [
    (b"\x1f\x8b\x08", "gzip", "gunzip"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"BZh91AY&SY", "bzip2", "bunzip2"),
    (b"\xfd7zXZ\x00", "xz", "unxz"),
    (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
];
/// How much of a file's beginning is looked at.
pub(crate) const HEAD: usize = 10;

/// Refuses a file that begins as a compressed one: its rows cannot be found without all that is before them.
///
/// # Errors
/// Data, naming the file, what it is compressed with, and what undoes that.
pub(crate) fn refuse(uri: &str, head: &[u8]) -> Result<()> {
    match KINDS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        None => Ok(()),
        Some((_, name, tool)) => {
            Err(Error::data(format!("this file is compressed with {name}, which is not supported"))
                .with("fault", "file")
                .with("file", uri)
                .hint(format!(
                    "decompress it once, as by `{tool}`: rows of a compressed file cannot be read in any order"
                )))
        }
    }
}
