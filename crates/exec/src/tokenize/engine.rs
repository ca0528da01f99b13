//! One tokenizer: text in, ids out.
//!
//! Invariant: the ids are those of `Tokenizer.encode(text, add_special_tokens)` of Hugging Face's released package,
//! whose Rust crate splits and tokenizes. Two parts are replaced for speed: a word is tokenized once (`words`), and the
//! steps of most byte-level tokenizers before the model run without the crate's offset bookkeeping (`bytes`). Where
//! ids lie in the text follows from their lengths there (`lengths`), and else from the crate's offsets.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use forebay_core::Error;
use tokenizers::models::ModelWrapper;
use tokenizers::{Model, NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizer, Result, Tokenizer};

use super::bytes::{ByteLevel, ByteScratch};
use super::framing::Framing;
use super::lengths::Lengths;
use super::words::{Words, push};

pub(super) struct Engine {
    tokenizer: Tokenizer,
    bytes: Option<ByteLevel>,
    lengths: OnceLock<Option<Lengths>>,
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
        Ok(Self { tokenizer, bytes, lengths: OnceLock::new() })
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

    /// Appends the ids of a text without special tokens.
    pub(super) fn plain(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<i32>) -> Result<()> {
        guarded(|| self.text(text, scratch, ids))
    }

    /// As [`Engine::plain`], and appends where in the text each id is, in bytes.
    pub(super) fn placed(
        &self,
        text: &str,
        scratch: &mut Scratch,
        ids: &mut Vec<i32>,
        places: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        if let Some(bytes) = self.bytes.as_ref().filter(|bytes| bytes.takes(text))
            && let Some(lengths) = self.lengths.get_or_init(|| Lengths::of(&self.tokenizer))
        {
            let start = ids.len();
            guarded(|| bytes.encode(&self.tokenizer, text, &mut scratch.bytes, ids))?;
            if lengths.place(&ids[start..], text.len(), places) {
                return Ok(());
            }
            ids.truncate(start);
        }
        guarded(|| self.any_placed(text, ids, places))
    }

    /// Returns the texts of the tokenizer's special tokens.
    pub(super) fn special_tokens(&self) -> Vec<String> {
        let added = self.tokenizer.get_added_tokens_decoder();
        let mut special: Vec<String> =
            added.values().filter(|token| token.special).map(|token| token.content.clone()).collect();
        special.sort_unstable();
        special
    }

    /// Does the steps of the crate's `encode` before the post-processor.
    fn any_placed(&self, text: &str, ids: &mut Vec<i32>, places: &mut Vec<Range<usize>>) -> Result<()> {
        let added = self.tokenizer.get_added_vocabulary();
        let mut pieces = added.extract_and_normalize(self.tokenizer.get_normalizer(), text);
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        let model = self.tokenizer.get_model();
        pieces.tokenize(|word| model.tokenize(word.get()))?;
        let encoding = pieces.into_encoding(None, 0, OffsetType::Byte)?;
        for (id, (from, to)) in encoding.get_ids().iter().zip(encoding.get_offsets()) {
            ids.push(i32::try_from(*id).map_err(|_| format!("the id {id} is no int32"))?);
            places.push(*from..*to);
        }
        Ok(())
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
