//! How CSV files are written.

/// How files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// The quote; `None` if quotes are letters.
    pub(crate) quote: Option<u8>,
    /// Whether a quoted field may have line breaks.
    pub(crate) multiline: bool,
}
