//! Rows are found by content: by the computation ([`PrefixKey`]), and by the row of a version of a file ([`RowKey`]).
//! So an added file invalidates no other, a changed file is another file, and pipelines with the same beginning share
//! rows.

use std::fmt;

use forebay_core::{Error, Result, Seed};

use crate::FORMAT;

/// The hash of a pipeline's prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrefixKey(pub [u8; 32]);

impl PrefixKey {
    /// Hashes a prefix: its canonical graph, without the ops that only order rows, and the seed where a random op was
    /// frozen.
    pub fn of(graph: &[u8], frozen: Option<Seed>) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(b"forebay prefix").update(&FORMAT.to_le_bytes());
        match frozen {
            None => hash.update(&[0]),
            Some(seed) => hash.update(&[1]).update(&seed.0.to_le_bytes()),
        };
        Self(hash.update(graph).finalize().into())
    }

    /// The key of a source of remote files, whose pages are kept like the rows of a prefix.
    pub(crate) fn of_source(what: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(b"forebay source").update(&FORMAT.to_le_bytes());
        Self(hash.update(what.as_bytes()).finalize().into())
    }

    /// Parses the text of [`fmt::Display`].
    ///
    /// # Errors
    /// Invalid when it is not such a text.
    pub fn parse(text: &str) -> Result<Self> {
        let hash = blake3::Hash::from_hex(text).ok().filter(|h| h.to_hex().as_str() == text);
        hash.map(|h| Self(h.into())).ok_or_else(|| {
            Error::invalid(format!("a prefix has 64 lowercase hexadecimal digits, not {text:?}"))
                .hint("`forebay cache ls` lists them")
        })
    }
}

impl fmt::Display for PrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from(self.0).to_hex().as_str())
    }
}

impl fmt::Debug for PrefixKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrefixKey({self})")
    }
}

/// One version of a file, or of another source of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey(pub [u8; 16]);

impl FileKey {
    /// The key of the content at `uri` with this size and identity, which is an etag, a time of change, or the hash of
    /// a blob.
    pub fn of(uri: &str, size: u64, identity: &str) -> Self {
        let mut hash = blake3::Hasher::new();
        hash.update(&size.to_le_bytes());
        [uri, identity].iter().for_each(|text| {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        });
        let mut key = [0; 16];
        hash.finalize_xof().fill(&mut key);
        Self(key)
    }
}

/// A row of a file. Requests should list rows of one file together, which saves lookups of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The file.
    pub file: FileKey,
    /// The row in it, from 0.
    pub row: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_apart_what_differs_and_read_back() {
        let key = PrefixKey::of(b"graph", None);
        assert_ne!(key, PrefixKey::of(b"graph", Some(Seed(0))));
        assert_eq!(PrefixKey::parse(&key.to_string()), Ok(key));
        assert!(PrefixKey::parse(&key.to_string().to_uppercase()).is_err() && PrefixKey::parse("../x").is_err());
        assert_ne!(FileKey::of("ab", 1, "c"), FileKey::of("a", 1, "bc"));
    }
}
