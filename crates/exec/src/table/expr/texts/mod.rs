//! Kernels on texts, and on lists of texts.

pub(super) mod cast_text;
mod patterns;
pub(super) mod text;
pub(super) mod text_lists;
pub(super) mod time;
mod time_format;
pub(super) mod words;
