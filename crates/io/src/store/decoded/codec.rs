//! The compression of a file, recognized by its first bytes.

use forebay_core::{Error, Result};

/// The first bytes that identify the codec of a file, of a member, of a frame or of a stream.
pub(crate) const HEAD: usize = 12;

/// The compression of a file as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Consecutive members; BGZF files are such.
    Gzip,
    /// One stream: TensorFlow's `ZLIB`.
    Zlib,
    /// Consecutive frames, skippable ones among them.
    Zstd,
    /// Consecutive streams.
    Bzip2,
    /// Consecutive streams.
    Xz,
}

/// The codecs in the order of their numbers in an index.
const ALL: [Codec; 5] = [Codec::Gzip, Codec::Zlib, Codec::Zstd, Codec::Bzip2, Codec::Xz];

impl Codec {
    /// Returns the codec of a file by its first bytes. A zlib stream may begin like text, so it is never detected here.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        ALL.into_iter().find(|codec| *codec != Codec::Zlib && codec.begins(head))
    }

    /// Says whether a member, a frame or a stream of this codec begins with these bytes.
    pub(crate) fn begins(self, head: &[u8]) -> bool {
        match self {
            Codec::Gzip => head.starts_with(b"\x1f\x8b\x08"),
            // Deflate with the window of 32 KiB that every writer uses, without a preset dictionary.
            Codec::Zlib => {
                matches!(head, [0x78, flags, ..] if flags & 0x20 == 0 && (0x7800 + u16::from(*flags)) % 31 == 0)
            }
            Codec::Zstd => head.starts_with(b"\x28\xb5\x2f\xfd") || matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]),
            Codec::Bzip2 => {
                matches!(head, [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..]
                    if rest.starts_with(b"1AY&SY") || rest.starts_with(b"\x17\x72\x45\x38\x50\x90"))
            }
            Codec::Xz => head.starts_with(b"\xfd7zXZ\x00"),
        }
    }

    /// Returns its common name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Codec::Gzip => "gzip",
            Codec::Zlib => "zlib",
            Codec::Zstd => "zstd",
            Codec::Bzip2 => "bzip2",
            Codec::Xz => "xz",
        }
    }

    pub(super) fn number(self) -> u64 {
        self as u64
    }

    pub(super) fn from_number(number: u64) -> Result<Self> {
        let known = usize::try_from(number).ok().and_then(|number| ALL.get(number));
        known.copied().ok_or_else(|| Error::data(format!("an index holds an unknown codec {number}")))
    }

    /// Returns the unit of zero padding between members and after the last; `None` if none is allowed.
    pub(super) fn padding(self) -> Option<u64> {
        match self {
            Codec::Gzip => Some(1),
            Codec::Xz => Some(4),
            Codec::Zlib | Codec::Zstd | Codec::Bzip2 => None,
        }
    }
}
