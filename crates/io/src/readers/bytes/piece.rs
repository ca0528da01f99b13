//! A run of bytes that a reader wants.

/// One run of bytes to read, and where it goes.
#[derive(Debug, Clone, Copy)]
pub(in crate::readers) struct Piece {
    pub(in crate::readers) file: usize,
    pub(in crate::readers) offset: u64,
    pub(in crate::readers) len: usize,
    /// Which buffer, and where in it.
    pub(in crate::readers) buffer: usize,
    pub(in crate::readers) at: usize,
}
