//! Kernels on texts, and on lists of texts.

pub(super) mod cast_text;
pub(super) mod text;
pub(super) mod text_lists;
pub(super) mod time;
pub(super) mod words;
