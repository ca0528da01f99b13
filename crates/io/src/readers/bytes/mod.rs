//! The bytes of files, for readers: `pool` keeps files open, `pieces` reads many runs of bytes into the buffers of
//! columns, and `lru` keeps what a reader decoded.

pub(super) mod lru;
pub(super) mod piece;
pub(super) mod pieces;
pub(super) mod pool;
