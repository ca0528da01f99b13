//! Flat files of token ids: files of nanoGPT (`ids.tofile`), llm.c's `.bin` with its header, and NumPy's `.npy`.
//!
//! Only the beginning and the size of a file are read. The header of an llm.c or NumPy file also has a count of ids,
//! and the two must agree.

mod ids;
mod npy;

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::DType;

pub(crate) use ids::{narrow, widen};

use crate::fail;
use crate::formats::compressed;
use crate::index::table::Even;
use crate::store::Object;

/// The bytes of a file's beginning that are read first.
const HEAD: u64 = 4096;
/// The endings of compressed files.
const COMPRESSED: [&str; 6] = [".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4"];
/// The length of an llm.c file's header.
const LLMC_HEADER: u64 = 1024;

/// How ids are cut into rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) dtype: DType,
    /// The ids of a row.
    pub(crate) length: u64,
    /// The ids from one row's beginning to that of the next.
    pub(crate) stride: u64,
}

/// The place of the ids in a file.
struct Ids {
    start: u64,
    count: u64,
}

/// Finds the rows of a file. Ids after the last whole row are dropped.
///
/// # Errors
/// Invalid when the file states another type; Data when its size is not one of whole ids, it is compressed, or its
/// header is broken or does not agree with its size.
pub(crate) fn rows(object: &Arc<Object>, of: Rows) -> Result<Even> {
    let Ids { start, count } = find(object, of.dtype)?;
    let rows = count.checked_sub(of.length).map_or(0, |rest| rest / of.stride.max(1) + 1);
    let size = of.dtype.size() as u64;
    Ok(Even { start, step: of.stride.saturating_mul(size), len: of.length.saturating_mul(size), rows })
}

fn find(object: &Object, dtype: DType) -> Result<Ids> {
    let (uri, size) = (object.uri(), object.size());
    let mut head = vec![0; size.min(HEAD) as usize];
    object.read_at(0, &mut head)?;
    if COMPRESSED.iter().any(|ending| uri.to_ascii_lowercase().ends_with(ending)) {
        compressed::refuse(uri, &head)?;
    }
    if npy::is_one(uri, &head) {
        let npy::Header { dtype: holds, count, start } = npy::header(object, &head)?;
        same(uri, dtype, holds)?;
        return agreeing(uri, size, Ids { start, count }, dtype);
    }
    if let Some((holds, count)) = llmc(uri, &head)? {
        same(uri, dtype, holds)?;
        return agreeing(uri, size, Ids { start: LLMC_HEADER, count }, dtype);
    }
    if !size.is_multiple_of(dtype.size() as u64) {
        return Err(Error::data(format!("{size} bytes are no whole number of {dtype}"))
            .with("fault", "file")
            .with("file", uri)
            .hint("the file is truncated, or was written as another dtype: name that one, dtype=\"int32\""));
    }
    Ok(Ids { start: 0, count: size / dtype.size() as u64 })
}

/// Reads the header of llm.c: magic, version and count; each magic has its own type of ids.
fn llmc(uri: &str, head: &[u8]) -> Result<Option<(DType, u64)>> {
    let word = |i: usize| head.get(i * 4..).and_then(|b| b.first_chunk::<4>()).map(|b| i32::from_le_bytes(*b));
    let holds = match (word(0), word(1)) {
        (Some(20_240_520), Some(1)) => DType::Uint16,
        (Some(20_240_801), Some(7)) => DType::Uint32,
        (Some(20_240_522), Some(1)) => {
            return Err(fail::corrupt(uri, 0, "this is an evaluation file of llm.c, which is no run of token ids")
                .with("fault", "file")
                .hint("name the files of tokens, and not those of questions"));
        }
        _ => return Ok(None),
    };
    let count = word(2).and_then(|n| u64::try_from(n).ok());
    Ok(Some((holds, count.ok_or_else(|| fail::corrupt(uri, 8, "the header of llm.c counts no ids"))?)))
}

/// Refuses a file that states another type than the user does.
fn same(uri: &str, dtype: DType, holds: DType) -> Result<()> {
    if holds == dtype {
        return Ok(());
    }
    Err(Error::invalid(format!("the file holds {holds}, and dtype says {dtype}"))
        .with("file", uri)
        .hint(format!("use dtype=\"{holds}\"")))
}

/// Refuses a file that does not end where its header says.
fn agreeing(uri: &str, size: u64, ids: Ids, dtype: DType) -> Result<Ids> {
    let end = ids.count.checked_mul(dtype.size() as u64).and_then(|bytes| bytes.checked_add(ids.start));
    if end == Some(size) {
        return Ok(ids);
    }
    let counted = ids.count;
    let what = if end.is_none_or(|end| end > size) { "ends before" } else { "goes on behind" };
    Err(Error::data(format!("the file {what} the {counted} ids that its header counts"))
        .with("fault", "file")
        .with("file", uri)
        .with("bytes", size)
        .hint("the file is truncated, or something was appended to it: write or fetch it again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Allowed;
    use crate::store::stat;

    fn found(name: &str, bytes: &[u8], of: Rows) -> Result<Even> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        let uri = path.to_str().expect("utf-8");
        let allowed = Allowed::everything();
        rows(&Object::open(uri, &stat(uri, &allowed)?, None, &allowed)?.into(), of)
    }

    #[test]
    fn rows_are_counted_by_the_size_alone_and_the_short_one_is_left_out() {
        for (ids, length, stride, want) in [
            (0, 4, 4, 0),
            (3, 4, 4, 0),
            (4, 4, 4, 1),
            (11, 4, 4, 2),
            (12, 4, 4, 3),
            (9, 5, 4, 2),
            (9, 2, 7, 2),
            (8, 2, 7, 1),
        ] {
            let even =
                found("a.bin", &vec![7; ids * 2], Rows { dtype: DType::Uint16, length, stride }).expect("counted");
            assert_eq!(even, Even { start: 0, step: stride * 2, len: length * 2, rows: want }, "{ids} ids");
        }
    }

    #[test]
    fn a_header_that_does_not_agree_with_the_size_is_refused() {
        let file = |count: i32, ids: usize| {
            let head = [20_240_520, 1, count].iter().flat_map(|n: &i32| n.to_le_bytes()).collect::<Vec<_>>();
            [head, vec![0; 1024 - 12], vec![1; ids * 2]].concat()
        };
        let of = Rows { dtype: DType::Uint16, length: 2, stride: 2 };
        assert_eq!(found("a.bin", &file(5, 5), of).map(|even| (even.start, even.rows)), Ok((1024, 2)));
        for (count, ids, what) in [(6, 5, "ends before"), (4, 5, "goes on behind"), (i32::MAX, 5, "ends before")] {
            let e = found("a.bin", &file(count, ids), of).expect_err("refused");
            assert!(e.message().contains(what), "{e}");
        }
        let e = found("a.bin", &file(-1, 5), of).expect_err("refused");
        assert!(e.message().contains("counts no ids"), "{e}");
        let e = found("a.bin", &file(5, 5), Rows { dtype: DType::Int32, ..of }).expect_err("refused");
        assert_eq!(e.message(), "the file holds uint16, and dtype says int32");
    }
}
