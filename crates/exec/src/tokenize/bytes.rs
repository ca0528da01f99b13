//! Byte-level tokenizers, which most language models have: runs the steps before the model without the offset
//! bookkeeping of the `tokenizers` crate.
//!
//! Only for tokenizers and texts where both are known to yield the same words: a pattern that `bitcannon` supports, and
//! characters that it and the crate's regular expressions put into the same class (their Unicode versions differ). The
//! crate handles every other text. The test below compares both.

use aho_corasick::AhoCorasick;
use bitcannon::{Span, classify::classify, regexes};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    Model, NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizerWrapper, Result,
    SplitDelimiterBehavior, Tokenizer,
};
use unicode_normalization_alignments::{IsNormalized, is_nfc_quick};

use super::words::{Words, push};

/// The word rules of a byte-level tokenizer.
pub(super) struct ByteLevel {
    pattern: Pattern,
    /// Whether a space is put before a text that does not begin with one.
    prefix_space: bool,
    /// Whether texts are normalized to NFC first.
    nfc: bool,
    /// Finds added tokens in a text.
    added: Option<AhoCorasick>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pattern {
    /// GPT-2, RoBERTa, BLOOM, and the default `ByteLevel`.
    Gpt2,
    /// GPT-4, Llama 3.
    Cl100k,
    /// Qwen: as GPT-4, with each digit as a word.
    Qwen,
    /// GPT-4o, Llama 4.
    O200k,
    /// Mistral, since 2024.
    Tekken,
    /// DeepSeek, since version 3.
    DeepSeek,
}

const QWEN: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The longest text for which buffers are kept: they take ten times as much.
const KEPT_MAX: usize = 1 << 20;

#[derive(Default)]
pub(super) struct ByteScratch {
    /// Words as they are in the text, before their bytes are mapped to letters.
    words: Words,
    splitting: Splitting,
    spaced: String,
    mapped: String,
}

#[derive(Default)]
struct Splitting {
    tags: Vec<u8>,
    bits: [Vec<u64>; 3],
    spans: Vec<Span>,
}

impl ByteLevel {
    /// Returns the word rules of a tokenizer, if it is supported.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let nfc = match tokenizer.get_normalizer() {
            None => false,
            Some(NormalizerWrapper::NFC(_)) => true,
            Some(_) => return None,
        };
        let (pattern, prefix_space) = shape(tokenizer.get_pre_tokenizer()?)?;
        let added = tokenizer.get_added_tokens_decoder();
        let contents: Vec<&str> = added.values().map(|token| token.content.as_str()).collect();
        // A token that NFC changes is searched for in its changed form.
        if nfc && contents.iter().any(|content| !is_nfc(tokenizer, content)) {
            return None;
        }
        let added = if contents.is_empty() { None } else { Some(AhoCorasick::new(&contents).ok()?) };
        Some(Self { pattern, prefix_space, nfc, added })
    }

    /// Says whether both ways are known to yield the same words for a text.
    pub(super) fn takes(&self, text: &str) -> bool {
        text.is_ascii() || (text.chars().all(common) && (!self.nfc || is_nfc_quick(text.chars()) == IsNormalized::Yes))
    }

    /// Appends the ids of a text.
    pub(super) fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        scratch: &mut ByteScratch,
        ids: &mut Vec<i32>,
    ) -> Result<()> {
        if !self.added.as_ref().is_some_and(|added| added.is_match(text)) {
            return self.piece(tokenizer, text, scratch, ids);
        }
        let pieces = tokenizer.get_added_vocabulary().extract_and_normalize(None::<&NormalizerWrapper>, text);
        for (piece, _, tokens) in pieces.get_splits(OffsetReferential::Normalized, OffsetType::None) {
            match tokens {
                Some(tokens) => push(tokens, ids)?,
                None => self.piece(tokenizer, piece, scratch, ids)?,
            }
        }
        Ok(())
    }

    /// Appends the ids of the text between added tokens.
    fn piece(&self, tokenizer: &Tokenizer, piece: &str, scratch: &mut ByteScratch, ids: &mut Vec<i32>) -> Result<()> {
        if piece.is_empty() {
            return Ok(());
        }
        let ByteScratch { words, splitting, spaced, mapped } = scratch;
        let mut piece = piece;
        if self.prefix_space && !piece.starts_with(' ') {
            spaced.clear();
            spaced.push(' ');
            spaced.push_str(piece);
            piece = spaced;
        }
        let model = tokenizer.get_model();
        for span in self.pattern.split(piece, splitting)? {
            let word = &piece.as_bytes()[span.range()];
            words.append(word, ids, || {
                mapped.clear();
                mapped.extend(word.iter().map(|byte| LETTERS[usize::from(*byte)]));
                model.tokenize(mapped)
            })?;
        }
        if piece.len() > KEPT_MAX {
            *splitting = Splitting::default();
            *spaced = String::new();
        }
        Ok(())
    }
}

impl Pattern {
    fn of(pattern: &str) -> Option<Self> {
        match pattern {
            regexes::GPT2 => Some(Self::Gpt2),
            regexes::CL100K => Some(Self::Cl100k),
            QWEN => Some(Self::Qwen),
            regexes::O200K => Some(Self::O200k),
            regexes::TEKKEN => Some(Self::Tekken),
            _ => None,
        }
    }

    fn split<'a>(self, text: &str, with: &'a mut Splitting) -> Result<&'a [Span]> {
        let text = text.as_bytes();
        // A span has 32-bit byte offsets.
        if u32::try_from(text.len()).is_err() {
            return Err("it is longer than 4 GiB".into());
        }
        let words = text.len().div_ceil(64) + 1;
        let Splitting { tags, bits: [starts, flags, later], spans } = with;
        tags.resize(tags.len().max(text.len()), 0);
        for (bits, length) in [(&mut *starts, words), (&mut *flags, words), (&mut *later, 2 * words)] {
            bits.resize(bits.len().max(length), 0);
        }
        spans.resize(spans.len().max(text.len() + 1), Span::default());
        classify(text, &mut tags[..text.len()]);
        let (tags, later) = (&tags[..text.len()], &mut later[..2 * words]);
        let (starts, flags) = (&mut starts[..words], &mut flags[..words]);
        let count = match self {
            Self::Gpt2 => bitcannon::bitcannon_byte_level(text, tags, starts, flags, spans),
            Self::Cl100k => bitcannon::bitcannon_cl100k(text, tags, starts, flags, spans),
            Self::Qwen => bitcannon::bitcannon_qwen(text, tags, starts, flags, spans),
            Self::O200k => bitcannon::bitcannon_o200k(text, tags, starts, flags, later, spans),
            Self::Tekken => bitcannon::bitcannon_tekken(text, tags, starts, flags, later, spans),
            Self::DeepSeek => bitcannon::bitcannon_deepseek(text, tags, starts, spans),
        };
        Ok(&spans[..count])
    }
}

/// Reads a pre-tokenizer: its pattern, and whether it puts a space first.
fn shape(pre_tokenizer: &PreTokenizerWrapper) -> Option<(Pattern, bool)> {
    match pre_tokenizer {
        PreTokenizerWrapper::ByteLevel(level) if level.use_regex => Some((Pattern::Gpt2, level.add_prefix_space)),
        PreTokenizerWrapper::Sequence(sequence) => {
            let (last, splits) = sequence.as_ref().split_last()?;
            match last {
                PreTokenizerWrapper::ByteLevel(level) if !level.use_regex && !level.add_prefix_space => {
                    Some((of_splits(splits)?, false))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn of_splits(splits: &[PreTokenizerWrapper]) -> Option<Pattern> {
    let regexes: Vec<(&str, &Split)> = splits.iter().map(regex).collect::<Option<_>>()?;
    let isolated = |split: &Split| split.behavior == SplitDelimiterBehavior::Isolated && !split.invert;
    match regexes[..] {
        // Such a pattern leaves no gaps, so that both notations mean the same.
        [(pattern, split)]
            if isolated(split) || (split.behavior == SplitDelimiterBehavior::Removed && split.invert) =>
        {
            Pattern::of(pattern)
        }
        [_, _, _] => {
            let same = regexes.iter().map(|(pattern, _)| pattern).eq(regexes::DEEPSEEK);
            (same && regexes.iter().all(|(_, split)| isolated(split))).then_some(Pattern::DeepSeek)
        }
        _ => None,
    }
}

fn regex(pre_tokenizer: &PreTokenizerWrapper) -> Option<(&str, &Split)> {
    match pre_tokenizer {
        PreTokenizerWrapper::Split(split) => match &split.pattern {
            SplitPattern::Regex(pattern) => Some((pattern, split)),
            SplitPattern::String(_) => None,
        },
        _ => None,
    }
}

fn is_nfc(tokenizer: &Tokenizer, content: &str) -> bool {
    let mut normalized = NormalizedString::from(content);
    let done = tokenizer.get_normalizer().map(|normalizer| normalizer.normalize(&mut normalized));
    matches!(done, Some(Ok(()))) && normalized.get() == content
}

/// Says whether a character has the same class in both: characters of the scripts of most text, which have been in
/// Unicode for long. U+017F and U+212A are excluded, because a pattern that ignores case matches them as `s` and `k`.
fn common(character: char) -> bool {
    matches!(character as u32,
        // Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic
        0..=0x17E | 0x180..=0x294 | 0x296..=0x52F | 0x531..=0x588 | 0x591..=0x5F4 | 0x600..=0x6FF
        // India's, Thai, Georgian, more of Latin and Greek
        | 0x900..=0xC5B | 0xC5D..=0xCDB | 0xCDD..=0xDFF | 0xE01..=0xE5B | 0x10A0..=0x10FF | 0x1E00..=0x1FFE
        // Punctuation, currencies, letter-like symbols without U+212A, arrows, mathematics, boxes, dingbats
        | 0x2000..=0x206F | 0x20A0..=0x20C0 | 0x2100..=0x2129 | 0x212B..=0x218B | 0x2190..=0x27BF
        // Chinese, Japanese, Korean, their punctuation and widths
        | 0x3000..=0x303F | 0x3041..=0x3096 | 0x3099..=0x30FF | 0x4E00..=0x9FA5 | 0xAC00..=0xD7A3
        | 0xFE00..=0xFE0F | 0xFF01..=0xFF9F
        // Emoji
        | 0x1F300..=0x1F64F | 0x1F680..=0x1F6D2 | 0x1F900..=0x1F9FF)
}

/// The letter for each byte in a byte-level vocabulary.
const LETTERS: [char; 256] = letters();

const fn letters() -> [char; 256] {
    let mut letters = ['\0'; 256];
    let (mut byte, mut others) = (0, 0);
    while byte < 256 {
        let itself = matches!(byte, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
        let code = if itself { byte as u32 } else { 256 + others };
        others += !itself as u32;
        letters[byte] = match char::from_u32(code) {
            Some(letter) => letter,
            None => panic!("below 0x144"),
        };
        byte += 1;
    }
    letters
}

#[cfg(test)]
mod tests;
