//! Ops on text and tokens: chats and texts to ids, ids to what a model trains on, and lists packed to rows.

mod chat;
mod checks;
mod corrupt_spans;
mod fill_in_middle;
mod mask_tokens;
mod pack;
mod prefix_lm;
mod tokenize;

pub use chat::{Chat, Learn};
pub use corrupt_spans::CorruptSpans;
pub use fill_in_middle::{FillInMiddle, MiddleTokens};
pub use mask_tokens::MaskTokens;
pub use pack::{Along, Pack, Packing};
pub use prefix_lm::PrefixLm;
pub use tokenize::Tokenize;
