//! Sources: as Python writes them, and their index.

pub(super) mod draft;
pub(super) mod folders;
pub(super) mod indexing;
