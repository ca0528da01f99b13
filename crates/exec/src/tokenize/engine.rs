//! One tokenizer: text in, ids out, by the parts of Hugging Face's library.
//!
//! Why not its own `encode`: the ids of a text go to the end of a buffer of the caller's, special tokens and all, so that
//! a row costs no allocation and no lock; and its reader leaves out to compile the patterns that it has no own code for.
//! Invariant: the ids are those of `Tokenizer.encode(text, add_special_tokens)` of the Python package.

use forebay_core::Error;
use tokenizers::SplitDelimiterBehavior;
use tokenizers::pipeline::{
    Model, PipelineModelScratch, PipelinePreTokenizer, PipelineToken, PipelineTokenizer, PreTokenizer,
    PreTokenizerScratch, Segment, Span, SpecialSegmentIterator, normalize_all,
};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};

type Result<T> = std::result::Result<T, tokenizers::Error>;

pub(super) struct Engine {
    tokenizer: PipelineTokenizer,
    pre_tokenizer: PipelinePreTokenizer,
}

/// What one thread keeps between texts: the model's cache of words is the most of it.
pub(super) struct Scratch {
    model: PipelineModelScratch,
    splitting: PreTokenizerScratch,
    spans: Vec<Span>,
}

/// How texts are encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framing {
    /// Whether special tokens are put around each text.
    pub(super) special: bool,
    /// The most ids of a text, those included.
    pub(super) max_length: usize,
}

impl Engine {
    /// Reads a `tokenizer.json`.
    pub(super) fn read(json: &[u8]) -> Result<Self> {
        let canonical = tokenizers::canonicalize_str(std::str::from_utf8(json)?)?;
        let tokenizer = tokenizers::from_json(&canonical)?;
        let pre_tokenizer = compiled(tokenizer.get_pre_tokenizer())?;
        Ok(Self { tokenizer, pre_tokenizer })
    }

    /// Returns how many special tokens each text is framed with.
    pub(super) fn num_special(&self) -> usize {
        self.tokenizer.get_post_processor().single.n_special()
    }

    pub(super) fn scratch(&self) -> Scratch {
        let model = self.tokenizer.get_model().init_scratch();
        Scratch { model, splitting: PreTokenizerScratch::default(), spans: Vec::new() }
    }

    /// Appends the ids of a text.
    pub(super) fn encode(
        &self,
        text: &str,
        framing: Framing,
        scratch: &mut Scratch,
        ids: &mut Vec<PipelineToken>,
    ) -> Result<()> {
        if !framing.special {
            let start = ids.len();
            self.sequence(text, scratch, ids)?;
            ids.truncate(start.saturating_add(framing.max_length));
            return Ok(());
        }
        let template = &self.tokenizer.get_post_processor().single;
        ids.extend(template.prefix.iter().map(|&(id, _)| id));
        let start = ids.len();
        self.sequence(text, scratch, ids)?;
        ids.truncate(start.saturating_add(framing.max_length - template.n_special()));
        ids.extend(template.suffix.iter().map(|&(id, _)| id));
        Ok(())
    }

    /// Added tokens are looked for twice: in the text as it is, and in what normalization makes of the rest.
    fn sequence(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<PipelineToken>) -> Result<()> {
        let added = self.tokenizer.get_added_vocabulary();
        for segment in SpecialSegmentIterator::new(text, added, false, false) {
            let (plain, offset) = match segment {
                Segment::SpecialToken(id) => {
                    ids.push(id.into());
                    continue;
                }
                Segment::Text { text, input_offset } => (text, input_offset),
            };
            let normal = normalize_all(self.tokenizer.get_normalizers(), plain, offset)?;
            for segment in SpecialSegmentIterator::new(&normal, added, true, false) {
                match segment {
                    Segment::SpecialToken(id) => ids.push(id.into()),
                    Segment::Text { text, .. } => self.words(text, scratch, ids)?,
                }
            }
        }
        Ok(())
    }

    fn words(&self, text: &str, scratch: &mut Scratch, ids: &mut Vec<PipelineToken>) -> Result<()> {
        // A span counts its bytes in 32 bits.
        if u32::try_from(text.len()).is_err() {
            return Err("it is longer than 4 GiB".into());
        }
        scratch.spans.clear();
        self.pre_tokenizer.pre_tokenize(text, &mut scratch.splitting, &mut scratch.spans)?;
        self.tokenizer.get_model().tokenize_spans(text, &scratch.spans, &mut scratch.model, ids)
    }
}

/// Compiles those patterns that the library splits by neither code of its own nor a plain string.
fn compiled(pre_tokenizer: &PipelinePreTokenizer) -> Result<PipelinePreTokenizer> {
    Ok(match pre_tokenizer {
        PipelinePreTokenizer::Split(split) => PipelinePreTokenizer::Split(with_pattern(split)?),
        // Three patterns that are run as one, by code of its own.
        PipelinePreTokenizer::Sequence(sequence) if sequence.is_deepseek() => native(sequence)?,
        PipelinePreTokenizer::Sequence(sequence) => {
            let members = sequence.pre_tokenizers().iter().map(compiled).collect::<Result<_>>()?;
            PipelinePreTokenizer::Sequence(PipelineSequence::new(members))
        }
        other => other.clone(),
    })
}

fn with_pattern(split: &Split) -> Result<Split> {
    let whole = split.behavior == SplitDelimiterBehavior::Isolated && !split.invert;
    let make = match &split.pattern {
        SplitPattern::Regex(_) if split.grammar().is_none() || !whole => Split::new,
        _ => Split::native,
    };
    make(split.pattern.clone(), split.behavior, split.invert)
}

/// Clones without compiling.
fn native(sequence: &PipelineSequence) -> Result<PipelinePreTokenizer> {
    let member = |one: &PipelinePreTokenizer| match one {
        PipelinePreTokenizer::Split(split) => {
            Split::native(split.pattern.clone(), split.behavior, split.invert).map(PipelinePreTokenizer::Split)
        }
        other => Ok(other.clone()),
    };
    let members = sequence.pre_tokenizers().iter().map(member).collect::<Result<_>>()?;
    Ok(PipelinePreTokenizer::Sequence(PipelineSequence::new(members)))
}

/// Says that a tokenizer cannot be used, and what can.
pub(super) fn unreadable(error: &tokenizers::Error) -> Error {
    Error::invalid(format!("tokenize: the tokenizer cannot be read: {error}"))
        .hint("give a tokenizer.json that the tokenizers library of Hugging Face loads")
}
