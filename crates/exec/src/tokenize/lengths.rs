//! How many bytes of a text each id of a byte-level tokenizer stands for, so that ids are placed in the text without
//! the offsets of the `tokenizers` crate.
//!
//! Invariant: only for tokenizers whose ids together stand for exactly the bytes of the text. [`Lengths::place`] also
//! compares their sum with the text.

use std::ops::Range;

use tokenizers::Tokenizer;
use tokenizers::models::ModelWrapper;

/// The largest id with a length: published vocabularies have fewer than 300,000.
const ID_MAX: u32 = 1 << 22;

pub(super) struct Lengths(Vec<u32>);

impl Lengths {
    /// Returns the lengths of a byte-level tokenizer's ids, if each stands for its own bytes.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let ModelWrapper::BPE(model) = tokenizer.get_model() else { return None };
        let added = tokenizer.get_added_tokens_decoder();
        if model.unk_token.is_some() || added.values().any(|token| token.lstrip || token.rstrip) {
            return None;
        }
        let vocab = tokenizer.get_vocab(false);
        let largest = vocab.values().chain(added.keys()).copied().max().filter(|id| *id <= ID_MAX)?;
        let mut lengths = vec![0; largest as usize + 1];
        for (token, id) in &vocab {
            // A letter of the model's alphabet stands for a byte.
            lengths[*id as usize] = token.chars().count() as u32;
        }
        for (id, token) in &added {
            lengths[*id as usize] = token.content.len() as u32;
        }
        Some(Self(lengths))
    }

    /// Appends where the ids of a text are; false, and nothing, if they do not stand for exactly `bytes` bytes.
    pub(super) fn place(&self, ids: &[i32], bytes: usize, places: &mut Vec<Range<usize>>) -> bool {
        let before = places.len();
        let mut at = 0;
        for id in ids {
            let length = usize::try_from(*id).ok().and_then(|id| self.0.get(id)).copied().unwrap_or(0);
            places.push(at..at + length as usize);
            at += length as usize;
        }
        if at != bytes {
            places.truncate(before);
        }
        at == bytes
    }
}
