//! Megatron's indexed datasets: a `.bin` file of token ids, and an `.idx` file beside it with the place of each
//! sequence and the sequences of each document.
//!
//! ```text
//! .idx: "MMIDIDX\0\0", version 1 (u64), type (u8), sequences (u64), indices (u64),
//!       the number of ids of each sequence (i32), the offset of each in .bin (i64),
//!       the first sequence of each document and the end (i64),
//!       and, in multimodal datasets, a mode for each sequence (i8), which is not read
//! ```
//!
//! The index is walked front to back at three places at once, so a large index needs no memory besides the resulting
//! table.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use forebay_core::{Error, Result};
use forebay_data::DType;

use crate::index::table::Documents;
use crate::store::{Forward, Object};
use crate::{fail, limits};

const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const VERSION: u64 = 1;
/// The bytes before the lengths of the sequences.
const HEADER: u64 = 34;

/// Returns a path without the ending `.bin` or `.idx`.
pub(crate) fn prefix(path: &str) -> &str {
    path.strip_suffix(".idx").or_else(|| path.strip_suffix(".bin")).unwrap_or(path)
}

/// Returns the name of one of the two files.
pub(crate) fn file(prefix: &str, ending: &str) -> String {
    format!("{prefix}.{ending}")
}

/// The header of an index.
struct Header {
    dtype: DType,
    sequences: u64,
    documents: u64,
}

/// Finds the documents of a `.bin` file of `bytes` bytes by its index.
///
/// # Errors
/// Data when the index is truncated or of another version, names ids that the `.bin` file lacks, or leaves some of it
/// out; Invalid when it holds no token ids.
pub(crate) fn documents(index: Arc<Object>, told_by: String, bytes: u64, stop: &AtomicBool) -> Result<Documents> {
    let header = header(&index)?;
    let uri = index.uri().to_owned();
    let mut walk = Walk::new(index, &header);
    let mut starts = vec![0];
    let mut first = walk.document(0)?;
    if first != 0 {
        return Err(fail::corrupt(
            &uri,
            walk.documents_at,
            "the first document does not begin with the first sequence",
        )
        .with("fault", "file"));
    }
    for document in 1..header.documents {
        let end = walk.document(document)?;
        if end < first || end > header.sequences {
            let error = fail::corrupt(&uri, walk.documents_at + document * 8, "documents are not in order");
            return Err(error.with("fault", "file").with("document", document - 1));
        }
        let begins = walk.at;
        for sequence in first..end {
            walk.sequence(sequence, bytes)?;
        }
        limits::record(&uri, begins, "a document", walk.at - begins).map_err(|e| e.with("document", document - 1))?;
        starts.push(walk.at);
        first = end;
        if document % 1024 == 0 {
            crate::parallel::check(stop)?;
        }
    }
    if first != header.sequences || walk.at != bytes {
        let (at, left) = (walk.at, header.sequences - first);
        return Err(Error::data(format!("the index leaves out {left} sequences, and {} bytes of the ids", bytes - at))
            .with("fault", "file")
            .with("file", &uri)
            .hint("the .idx file is not that of the .bin file beside it, or one of them was written again: write both again"));
    }
    Ok(Documents { dtype: header.dtype, told_by, starts })
}

fn header(index: &Object) -> Result<Header> {
    let (uri, size) = (index.uri(), index.size());
    let broken = |what: String| {
        Error::data(what).with("fault", "file").with("file", uri).hint(
            "from_megatron reads what Megatron's IndexedDatasetBuilder writes: a .bin file, and an .idx file beside it",
        )
    };
    let mut head = [0; HEADER as usize];
    let len = size.min(HEADER) as usize;
    index.read_at(0, &mut head[..len])?;
    if head[..len.min(MAGIC.len())] != MAGIC[..len.min(MAGIC.len())] || len == 0 {
        return Err(broken("this is no index of Megatron: it begins with no magic".to_owned()));
    }
    if len < HEADER as usize {
        return Err(fail::truncated(uri, "the index ends within its header").with("fault", "file"));
    }
    let word = |at: usize| head[at..].first_chunk::<8>().map_or(0, |b| u64::from_le_bytes(*b));
    if word(9) != VERSION {
        return Err(broken(format!("an index of version {}, and this reads version {VERSION}", word(9))));
    }
    let dtype = match head[17] {
        1 => DType::Uint8,
        2 => DType::Int8,
        3 => DType::Int16,
        4 => DType::Int32,
        5 => DType::Int64,
        8 => DType::Uint16,
        6 | 7 => {
            return Err(
                Error::invalid("this dataset holds real numbers, and token ids are whole ones").with("file", uri)
            );
        }
        other => return Err(broken(format!("the index has type {other}, which is none"))),
    };
    let (sequences, documents) = (word(18), word(26));
    let needs = sequences
        .checked_mul(12)
        .zip(documents.checked_mul(8))
        .and_then(|(s, d)| s.checked_add(d)?.checked_add(HEADER));
    match needs {
        Some(needs) if needs == size || needs.checked_add(sequences) == Some(size) => {}
        Some(needs) if needs < size => {
            return Err(broken(format!(
                "the index goes on behind its {sequences} sequences and {documents} documents"
            )));
        }
        _ => {
            let what = format!("the index ends before its {sequences} sequences and {documents} documents");
            return Err(fail::truncated(uri, &what).with("fault", "file"));
        }
    }
    if documents == 0 {
        return Err(broken("the index has no documents, not even the end of none".to_owned()));
    }
    Ok(Header { dtype, sequences, documents })
}

/// The three places of an index.
struct Walk {
    lengths: Forward,
    pointers: Forward,
    documents: Forward,
    pointers_at: u64,
    documents_at: u64,
    size: u64,
    /// Where the next sequence begins in the file of ids.
    at: u64,
}

impl Walk {
    fn new(index: Arc<Object>, header: &Header) -> Self {
        let pointers_at = HEADER + header.sequences * 4;
        Self {
            lengths: Forward::reading(index.clone()),
            pointers: Forward::reading(index.clone()),
            documents: Forward::reading(index),
            pointers_at,
            documents_at: pointers_at + header.sequences * 8,
            size: header.dtype.size() as u64,
            at: 0,
        }
    }

    /// Returns a document's first sequence.
    fn document(&mut self, document: u64) -> Result<u64> {
        let at = self.documents_at + document * 8;
        let first = self.documents.at(at, 8)?.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b));
        u64::try_from(first).map_err(|_| self.corrupt(at, "a document begins before the first sequence"))
    }

    /// Reads a sequence, which must begin where the one before it ends, and end within `bytes`.
    fn sequence(&mut self, sequence: u64, bytes: u64) -> Result<()> {
        let (length_at, pointer_at) = (HEADER + sequence * 4, self.pointers_at + sequence * 8);
        let length = self.lengths.at(length_at, 4)?.first_chunk::<4>().map_or(-1, |b| i32::from_le_bytes(*b));
        let pointer = self.pointers.at(pointer_at, 8)?.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b));
        let Ok(length) = u64::try_from(length) else {
            return Err(self.corrupt(length_at, "a sequence has a negative number of ids").with("sequence", sequence));
        };
        if u64::try_from(pointer) != Ok(self.at) {
            let what = format!("a sequence begins at {pointer}, and the ones before it end at {}", self.at);
            return Err(self.corrupt(pointer_at, &what).with("sequence", sequence));
        }
        let end = self.at.saturating_add(length * self.size);
        if end > bytes {
            let what = format!("a sequence ends at {end}, and the file of ids has {bytes} bytes");
            return Err(self
                .corrupt(pointer_at, &what)
                .with("sequence", sequence)
                .hint("the .bin file is truncated, or not the one of this index: write or fetch both again"));
        }
        self.at = end;
        Ok(())
    }

    fn corrupt(&self, offset: u64, what: &str) -> Error {
        fail::corrupt(self.lengths.object().uri(), offset, what).with("fault", "file")
    }
}
