//! The density of compressed files that are not counted: content bytes for each stored byte, from their first bytes.
//!
//! It is found once, when the index is made, and travels with the index. Windows of a shuffle are laid out over it, so it
//! depends on the files alone: an error of reading fails, and damaged bytes have an estimate, too.

use std::sync::atomic::AtomicBool;

use forebay_core::{ErrorKind, Result};

use super::format::FileAccess;
use crate::formats::compressed::is_named_so;
use crate::parallel::for_each;
use crate::store::Stat;
use crate::store::decoded::{Codec, content_of};

/// Compressed files whose first bytes are decompressed to estimate the content of all.
const SAMPLED_FILES: usize = 3;
/// Their first bytes.
const SAMPLED_BYTES: u64 = 256 << 10;
/// The content bytes for each stored byte where no sampled file is compressed.
const DENSITY: u64 = 4;

/// Returns the assumed content bytes for each stored byte of the files whose names show that they are compressed: a
/// quarter more than in the first bytes of three of them. 0 if there is no such file.
///
/// # Errors
/// The errors of reading, except those of rights. A damaged file has an estimate, too.
pub(super) fn of(uris: &[Box<str>], stats: &[Stat], access: FileAccess<'_>) -> Result<u64> {
    let named: Vec<usize> = (0..uris.len()).filter(|&file| is_named_so(&uris[file])).collect();
    let Some(last) = named.len().checked_sub(1) else { return Ok(0) };
    let mut sampled: Vec<usize> = (0..SAMPLED_FILES).map(|i| named[last * i / (SAMPLED_FILES - 1)]).collect();
    sampled.dedup();
    let one = |&file: &usize, _: &AtomicBool| -> Result<Option<u64>> {
        let mut first = vec![0; stats[file].size.min(SAMPLED_BYTES) as usize];
        match access.open(&uris[file], &stats[file]).and_then(|object| object.read_at(0, &mut first)) {
            // Only workers may be allowed to read it.
            Err(e) if e.kind() == ErrorKind::PermissionDenied => return Ok(None),
            read => read?,
        }
        let Some(codec) = Codec::of(&first) else { return Ok(None) };
        // A block of bzip2 may be longer than the first bytes.
        let content = Some(content_of(codec, &first)?).filter(|content| *content > 0);
        Ok(content.map(|content| (content * 5).div_ceil(first.len() as u64 * 4)))
    };
    let found = for_each(&sampled, SAMPLED_FILES, &|_, _| Ok(()), one)?;
    Ok(found.into_iter().flatten().max().unwrap_or(DENSITY))
}
