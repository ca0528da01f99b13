//! A header of an archive: its checksum, its numbers and its name, and the extended headers in front of it (PAX, GNU).

use forebay_core::Result;

use crate::store::Forward;

pub(super) const BLOCK: u64 = 512;
/// Bytes that are read ahead at once to find the next header, or to check the end of an archive.
pub(super) const STEP: usize = 64 << 10;

/// The properties of the next member from PAX and GNU headers.
#[derive(Debug, Default)]
pub(super) struct Override {
    pub(super) name: Option<Vec<u8>>,
    pub(super) size: Option<u64>,
}

/// Returns the offset of the first block between `from` and `end` that has a header's checksum.
pub(super) fn find_header(forward: &mut Forward, from: u64, end: u64) -> Result<Option<u64>> {
    let mut at = from.next_multiple_of(BLOCK);
    while at < end {
        let len = (end - at).next_multiple_of(BLOCK).min(STEP as u64) as usize;
        let blocks = forward.at(at, len)?.as_chunks::<512>().0;
        if let Some(found) = blocks.iter().position(sum_is_right) {
            return Ok(Some(at + found as u64 * BLOCK));
        }
        if blocks.is_empty() {
            break;
        }
        at += blocks.len() as u64 * BLOCK;
    }
    Ok(None)
}

/// Says whether the checksum of a header is right: the sum of the bytes, with the sum's own field as spaces; old
/// writers summed signed bytes. An empty field is no sum: the padded end of a payload has one.
pub(super) fn sum_is_right(header: &[u8; 512]) -> bool {
    if header[148..156].iter().all(|&b| b == 0 || b == b' ') {
        return false;
    }
    let Some(want) = number(&header[148..156]) else { return false };
    let byte = |i: usize| if (148..156).contains(&i) { b' ' } else { header[i] };
    let unsigned: u64 = (0..512).map(|i| u64::from(byte(i))).sum();
    let signed: i64 = (0..512).map(|i| i64::from(byte(i) as i8)).sum();
    want == unsigned || i64::try_from(want) == Ok(signed)
}

/// Reads an octal number, or a big-endian one when the first bit is set.
pub(super) fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        // The first byte is only a marker for this encoding.
        let high = field.len().saturating_sub(8).max(1);
        if field[0] != 0x80 || field[1..high].iter().any(|&b| b != 0) {
            return None;
        }
        return Some(field[high..].iter().fold(0, |n, &b| n << 8 | u64::from(b)));
    }
    let text = std::str::from_utf8(field).ok()?.trim_matches(|c| c == ' ' || c == '\0');
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn until_nul(field: &[u8]) -> &[u8] {
    &field[..field.iter().position(|&b| b == 0).unwrap_or(field.len())]
}

pub(super) fn name_of(header: &[u8; 512]) -> Vec<u8> {
    let name = until_nul(&header[..100]);
    let prefix = until_nul(&header[345..500]);
    if header[257..263] != *b"ustar\0" || prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

pub(super) fn long_name(bytes: &[u8], ahead: &mut Override) -> Option<()> {
    ahead.name = Some(until_nul(bytes).to_vec());
    Some(())
}

/// Reads PAX records: `length key=value\n`, where the length counts itself.
pub(super) fn pax(mut bytes: &[u8], ahead: &mut Override) -> Option<()> {
    while !bytes.is_empty() && bytes[0] != 0 {
        let space = bytes.iter().position(|&b| b == b' ')?;
        let len: usize = std::str::from_utf8(&bytes[..space]).ok()?.parse().ok()?;
        let record = bytes.get(space + 1..len)?.strip_suffix(b"\n")?;
        let equals = record.iter().position(|&b| b == b'=')?;
        let (key, value) = (&record[..equals], &record[equals + 1..]);
        match key {
            b"path" => ahead.name = Some(value.to_vec()),
            b"size" => ahead.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
            _ if key.starts_with(b"GNU.sparse.") => return None,
            _ => {}
        }
        bytes = &bytes[len..];
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_sum_is_never_right() {
        let mut block = [0; 512];
        assert!(!sum_is_right(&block));
        block[..2].fill(0x80);
        assert!(!sum_is_right(&block), "signed bytes have the sum 0");
        block[148..155].copy_from_slice(b"0001000");
        assert!(sum_is_right(&block), "unsigned bytes have the sum 0o1000");
    }

    #[test]
    fn numbers_are_octal_or_base_256() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   17 \0\0"), Some(0o17));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1]), Some(2 << 32 | 1));
        assert_eq!(number(&[0x80, 0, 0, 0, 0, 0, 1, 5]), Some(0x105));
        assert_eq!(number(&[0xff; 12]), None);
        assert_eq!(number(b"12x4"), None);
    }
}
