//! TFRecord framing: length, its masked CRC32C, payload, its masked CRC32C; little-endian.

use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};

use super::compressed;
use crate::store::Forward;
use crate::store::decoded::Codec;
use crate::{fail, limits};

/// The bytes before a payload, and after it.
pub(crate) const HEADER: usize = 12;
pub(crate) const FOOTER: usize = 4;
/// Bytes that are read ahead at once for the next record.
const STEP: usize = 64 << 10;

/// The checksum that TensorFlow writes: rotated and shifted, so that data that contains its own checksum is not a fixed
/// point.
fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the bytes before and after a payload.
pub(crate) fn frame(payload: &[u8]) -> ([u8; HEADER], [u8; FOOTER]) {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    let sum = masked(&header[..8]);
    header[8..].copy_from_slice(&sum.to_le_bytes());
    (header, masked(payload).to_le_bytes())
}

fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk::<4>().map_or(0, |b| u32::from_le_bytes(*b))
}

/// Adds the number of the record to an error, where it is known.
fn numbered(error: Error, record: Option<u64>) -> Error {
    match record {
        Some(record) => error.with("record", record),
        None => error,
    }
}

fn bad(uri: &str, offset: u64, record: Option<u64>, what: &str) -> Error {
    numbered(fail::corrupt(uri, offset, what), record)
        .hint("the file is corrupt: write or fetch it again; verify=False reads on without checksums")
}

/// Returns the codec of a file of records. A record's length may look like the beginning of a compressed file, so the
/// checksum of the length decides.
///
/// # Errors
/// As [`compressed::codec`].
pub(crate) fn codec(uri: &str, head: &[u8]) -> Result<Option<Codec>> {
    if head.len() >= HEADER && masked(&head[..8]) == word(&head[8..HEADER]) {
        return Ok(None);
    }
    // No record of less than 4 GiB has a nonzero upper half of its length; zlib's streams have.
    let is_zlib = Codec::Zlib.begins(head) && head.get(4..8).is_some_and(|upper| upper != [0; 4]);
    Ok(compressed::codec(uri, head)?.or(is_zlib.then_some(Codec::Zlib)))
}

/// Returns the length of the record at `offset`, framing included, or `None` at the end of the file.
///
/// # Errors
/// Data when the file ends within the record, or (with `verify`) the length's checksum differs.
pub(crate) fn next(forward: &mut Forward, offset: u64, record: Option<u64>, verify: bool) -> Result<Option<u64>> {
    let object = forward.object();
    let (uri, size) = (object.uri(), forward.size());
    let header = forward.at(offset, HEADER)?;
    if header.is_empty() {
        return Ok(None);
    }
    let cut = || numbered(fail::truncated(uri, "the file ends within a record").with("offset", offset), record);
    let Some(len) = header.first_chunk::<8>().filter(|_| header.len() == HEADER) else { return Err(cut()) };
    if verify && masked(&header[..8]) != word(&header[8..]) {
        return Err(bad(uri, offset, record, "the checksum of a record's length differs"));
    }
    let frame = u64::from_le_bytes(*len).checked_add((HEADER + FOOTER) as u64);
    let frame = frame.filter(|&n| size.is_none_or(|size| n <= size - offset)).ok_or_else(cut)?;
    limits::record(uri, offset, "a record", frame).map_err(|e| numbered(e, record))?;
    // The size of a compressed file is known only after its end was read.
    if size.is_none() && (forward.at(offset, frame as usize)?.len() as u64) < frame {
        return Err(cut());
    }
    Ok(Some(frame))
}

/// Says whether bytes at `offset` begin like a record that ends before `size`.
fn is_header(header: &[u8], offset: u64, size: u64) -> bool {
    let Some((len, sum)) = header.split_first_chunk::<8>() else { return false };
    let end = u64::from_le_bytes(*len).checked_add(offset + (HEADER + FOOTER) as u64);
    // The length alone rules out almost every offset.
    end.is_some_and(|end| end <= size) && sum.len() == 4 && masked(len) == word(sum)
}

/// Returns where the first record between `from` and `end` begins, by the checksum of its length; the end of the file
/// counts as one.
pub(crate) fn find(forward: &mut Forward, from: u64, end: u64) -> Result<Option<u64>> {
    let size = forward.object().size();
    let mut at = from;
    while at < end.min(size) {
        let len = (end.min(size) - at).min(STEP as u64) as usize;
        let bytes = forward.at(at, len + HEADER - 1)?;
        if let Some(found) = (0..len).find(|&i| is_header(&bytes[i..bytes.len().min(i + HEADER)], at + i as u64, size))
        {
            return Ok(Some(at + found as u64));
        }
        at += len as u64;
    }
    Ok((end > size).then_some(size))
}

/// Checks that a reader that begins at `from` finds the record at `at`, or the end of the file, and no other before it.
///
/// # Errors
/// Data where it finds another one, because a record holds records, or where the length's checksum differs.
pub(crate) fn check_find(forward: &mut Forward, from: u64, at: u64, verify: bool) -> Result<()> {
    let object = forward.object();
    if let Some(offset) = find(forward, from, at)? {
        return Err(fail::ambiguous(object.uri(), offset, "a row holds what looks like the header of a record"));
    }
    if at >= object.size() || is_header(forward.at(at, HEADER)?, at, object.size()) {
        return Ok(());
    }
    next(forward, at, None, verify)?;
    Err(fail::corrupt(
        object.uri(),
        at,
        "the checksum of a record's length differs, so no reader can begin at this record",
    )
    .with("fault", "file")
    .hint("use shuffle(window=None), which needs no checksum where verify=False; or write the file again"))
}

/// Checks a whole frame and returns its payload.
pub(crate) fn payload<'f>(
    frame: &'f [u8],
    uri: &str,
    offset: u64,
    record: Option<u64>,
    verify: bool,
) -> Result<&'f [u8]> {
    let len = frame.first_chunk::<8>().map(|b| u64::from_le_bytes(*b));
    if frame.len() < HEADER + FOOTER || len != Some((frame.len() - HEADER - FOOTER) as u64) {
        return Err(bad(uri, offset, record, "a record is not as long as it was"));
    }
    if verify && masked(&frame[..8]) != word(&frame[8..]) {
        return Err(bad(uri, offset, record, "the checksum of a record's length differs"));
    }
    let (payload, sum) = frame[HEADER..].split_at(frame.len() - HEADER - FOOTER);
    if verify && masked(payload) != word(sum) {
        return Err(bad(uri, offset, record, "the checksum of a record differs"));
    }
    Ok(payload)
}

/// Finds where every record begins, and where the last ends.
pub(crate) fn starts(forward: &mut Forward, verify: bool, stop: &AtomicBool) -> Result<Vec<u64>> {
    let mut starts = vec![0];
    let mut at = 0;
    while let Some(len) = next(forward, at, Some(starts.len() as u64 - 1), verify)? {
        at += len;
        starts.push(at);
        if starts.len() % 1024 == 0 {
            crate::parallel::check(stop)?;
        }
    }
    Ok(starts)
}
