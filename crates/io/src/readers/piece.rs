//! A run of bytes that a reader wants.

/// One run of bytes to read, and where it goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: usize,
    /// Which buffer, and where in it.
    pub(super) buffer: usize,
    pub(super) at: usize,
}
