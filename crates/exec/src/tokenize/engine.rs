//! One tokenizer: text in, ids out.
//!
//! Invariant: the ids are those of `Tokenizer.encode(text, add_special_tokens)` of Hugging Face's released package,
//! whose Rust crate splits and tokenizes. Two parts are replaced for speed: a word is tokenized once (`words`), and the
//! steps of most byte-level tokenizers before the model run without the crate's offset bookkeeping (`bytes`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use forebay_core::Error;
use tokenizers::models::ModelWrapper;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizer, Result, Tokenizer};

use super::bytes::{ByteLevel, ByteScratch};
use super::framing::Framing;
use super::words::{Words, push};

pub(super) struct Engine {
    tokenizer: Tokenizer,
    bytes: Option<ByteLevel>,
}

/// The state that one thread keeps between texts: tokenized words, and buffers. It changes no id.
#[derive(Default)]
pub(super) struct Scratch {
    /// Words in the form of the model's input.
    words: Words,
    bytes: ByteScratch,
}

impl Engine {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// Invalid when the crate cannot read it, or when the ids of a text would not always be the same.
    pub(super) fn read(json: &[u8]) -> forebay_core::Result<Self> {
        let mut tokenizer = guarded(|| Tokenizer::from_bytes(json)).map_err(|error| {
            Error::invalid(format!("tokenize: the tokenizer cannot be read: {error}"))
                .hint("give a tokenizer.json that the tokenizers library of Hugging Face loads")
        })?;
        // The crate's own cache lives as long as the thread; this one ends with the work.
        let mut model = tokenizer.get_model().clone();
        model.resize_cache(0);
        tokenizer.with_model(model);
        if let ModelWrapper::BPE(bpe) = tokenizer.get_model()
            && let Some(dropout) = bpe.dropout.filter(|p| *p > 0.0)
        {
            return Err(Error::invalid(format!(
                "tokenize: the tokenizer leaves merges out at random (dropout={dropout}): a text would have other ids each time"
            ))
            .hint("set tokenizer.model.dropout = None"));
        }
        refuse_vanishing(&tokenizer)?;
        let bytes = ByteLevel::of(&tokenizer);
        Ok(Self { tokenizer, bytes })
    }

    /// Returns the ids around each text, and where a text is cut.
    ///
    /// # Errors
    /// Invalid when special tokens leave no room for the text.
    pub(super) fn framing(&self, special: bool, max_length: Option<usize>) -> forebay_core::Result<Framing> {
        Framing::of(&self.tokenizer, special, max_length)
    }

    /// Appends the ids of a text.
    pub(super) fn encode(
        &self,
        text: &str,
        framing: &Framing,
        scratch: &mut Scratch,
        ids: &mut Vec<i32>,
    ) -> Result<()> {
        guarded(|| framing.apply(ids, |ids| self.text(text, scratch, ids)))
    }

    fn text(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<i32>) -> Result<()> {
        match &self.bytes {
            Some(bytes) if bytes.takes(text) => bytes.encode(&self.tokenizer, text, &mut scratch.bytes, ids),
            _ => self.any(text, &mut scratch.words, ids),
        }
    }

    /// Does the steps of the crate's `encode` before it counts offsets.
    fn any(&self, text: &str, words: &mut Words, ids: &mut Vec<i32>) -> Result<()> {
        let added = self.tokenizer.get_added_vocabulary();
        let mut pieces = added.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        let model = self.tokenizer.get_model();
        for (word, _, tokens) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match tokens {
                Some(tokens) => push(tokens, ids)?,
                None => words.append(word.as_bytes(), ids, || model.tokenize(word))?,
            }
        }
        Ok(())
    }
}

/// Refuses added tokens that the normalizer reduces to nothing: the crate would search for the empty text for ever.
fn refuse_vanishing(tokenizer: &Tokenizer) -> forebay_core::Result<()> {
    let Some(normalizer) = tokenizer.get_normalizer() else { return Ok(()) };
    for token in tokenizer.get_added_tokens_decoder().values().filter(|token| token.normalized) {
        let mut text = NormalizedString::from(token.content.as_str());
        let normalized = guarded(|| normalizer.normalize(&mut text));
        if normalized.is_ok() && text.is_empty() {
            return Err(Error::invalid(format!(
                "tokenize: the normalizer leaves nothing of the added token {:?}, and the tokenizers library looks for it \
                 without end",
                token.content
            ))
            .hint("add the token with normalized=False"));
        }
    }
    Ok(())
}

/// Even a tokenizer.json that the crate accepts may make it panic: on a score table, on a word.
fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("the tokenizers library panicked: {}", text.unwrap_or("without a message")).into())
    })
}
