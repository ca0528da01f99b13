//! The density of compressed files that are not counted: content bytes for each stored byte, from their first bytes.
//!
//! It is found once, when the index is made, and travels with the index. Windows of a shuffle are laid out over it, so it
//! depends on the files alone: an error of reading fails, and damaged bytes have an estimate, too.

use std::sync::atomic::AtomicBool;

use forebay_core::Result;

use super::format::FileAccess;
use crate::formats::compressed::is_named_so;
use crate::index::{DENSITY_MAX, DENSITY_UNIT};
use crate::parallel::for_each;
use crate::store::Stat;
use crate::store::decoded::{Codec, content_of};

/// The density where no sampled file has content.
const DEFAULT: u64 = 4 * DENSITY_UNIT;
/// Files whose first bytes are decompressed to estimate the content of all.
const SAMPLED_FILES: usize = 3;
/// Their first bytes.
const SAMPLED_BYTES: u64 = 256 << 10;

/// Returns the assumed content bytes for each stored byte, in [`DENSITY_UNIT`]s, of the files whose names show that they are
/// compressed: a quarter more than in the first bytes of three of them. 0 if there is no such file.
///
/// # Errors
/// The errors of reading. A damaged file has an estimate, too.
pub(super) fn of(uris: &[Box<str>], stats: &[Stat], access: FileAccess<'_>) -> Result<u64> {
    let named: Vec<usize> = (0..uris.len()).filter(|&file| is_named_so(&uris[file])).collect();
    let Some(last) = named.len().checked_sub(1) else { return Ok(0) };
    let mut sampled: Vec<usize> = (0..SAMPLED_FILES).map(|i| named[last * i / (SAMPLED_FILES - 1)]).collect();
    sampled.dedup();
    let one = |&file: &usize, _: &AtomicBool| -> Result<(u64, u64)> {
        let mut first = vec![0; stats[file].size.min(SAMPLED_BYTES) as usize];
        access.open(&uris[file], &stats[file])?.read_at(0, &mut first)?;
        match Codec::of(&first) {
            Some(codec) => content_of(codec, &first),
            None => Ok((first.len() as u64, first.len() as u64)),
        }
    };
    let found = for_each(&sampled, SAMPLED_FILES, &|_, _| Ok(()), one)?;
    // The first block of bzip2 may be longer than the first bytes: such a file has no content here.
    let with_content = found.into_iter().filter(|(_, content)| *content > 0);
    let (stored, content) = with_content.fold((0, 0), |(s, c), (stored, content)| (s + stored, c + content));
    Ok(if stored == 0 {
        DEFAULT
    } else {
        (content * 5 * DENSITY_UNIT).div_ceil(stored * 4).clamp(DENSITY_UNIT, DENSITY_MAX)
    })
}
