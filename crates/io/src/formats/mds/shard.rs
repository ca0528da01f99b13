//! A shard's table: where its samples begin.

use forebay_core::{Error, Result};

use crate::fail;

/// The bytes of a shard before the offsets of its samples.
const COUNT: u64 = 4;

/// Returns where the samples of a shard begin, and where the last ends: `read` fills a slice from an offset of the
/// shard, which has `size` bytes.
///
/// # Errors
/// Data when the number of samples differs from the index, or a sample is not within the shard; any error of `read`.
pub(crate) fn starts(uri: &str, rows: u64, size: u64, read: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<Vec<u32>> {
    let table = rows.checked_add(1).and_then(|n| n.checked_mul(4)?.checked_add(COUNT)).filter(|&end| end <= size);
    let Some(table) = table else {
        let what = format!("the shard is too short for the {rows} samples that its index counts");
        return Err(fail::truncated(uri, &what).with("fault", "file"));
    };
    let mut bytes = vec![0; table as usize];
    read(&mut bytes)?;
    let (words, _) = bytes.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|b| u32::from_le_bytes(*b)).collect();
    let (counted, starts) = (words[0], words[1..].to_vec());
    if u64::from(counted) != rows {
        return Err(wrong(uri, 0, format!("the shard has {counted} samples, and its index counts {rows}")));
    }
    let begins_within = starts.first().is_some_and(|&start| u64::from(start) >= table);
    if !begins_within || !starts.is_sorted() || starts.last().is_some_and(|&end| u64::from(end) > size) {
        return Err(wrong(
            uri,
            COUNT,
            "the places of the samples are not in order, or not within the shard".to_owned(),
        ));
    }
    Ok(starts)
}

/// Fills a slice from an offset of a decompressed shard.
pub(crate) fn copy(shard: &[u8], at: u64, to: &mut [u8]) -> Result<()> {
    let from = usize::try_from(at).ok().and_then(|at| shard.get(at..)?.get(..to.len()));
    to.copy_from_slice(from.ok_or_else(|| Error::internal("more than a shard"))?);
    Ok(())
}

/// Returns the error of a shard that does not match its format.
pub(crate) fn wrong(uri: &str, offset: u64, what: String) -> Error {
    fail::corrupt(uri, offset, what)
        .with("fault", "file")
        .hint("the shard is corrupt, or not the one of this index.json: write or fetch the folder again")
}
