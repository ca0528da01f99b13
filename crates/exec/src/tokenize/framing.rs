//! The ids around a text, and where the text is cut: the tokenizer's template, truncation and padding.

use forebay_core::{Error, Result};
use tokenizers::{
    Encoding, PaddingDirection, PaddingParams, PaddingStrategy, PostProcessor, Token, Tokenizer, TruncationDirection,
    TruncationStrategy,
};

/// Represents the text while the tokenizer's template is read.
const TEXT: u32 = u32::MAX;

/// The framing of the ids of one text.
pub(super) struct Framing {
    /// The ids before the text, and after it; a template that has the text twice has ids in between.
    around: Vec<Vec<i32>>,
    cut: Option<Cut>,
    padding: Option<PaddingParams>,
}

struct Cut {
    /// The most ids of the text itself.
    length: usize,
    /// Whether its end is kept instead of its beginning.
    left: bool,
}

impl Framing {
    /// Reads the framing of a tokenizer. The op's `max_length` replaces the saved truncation.
    pub(super) fn of(tokenizer: &Tokenizer, special: bool, max_length: Option<usize>) -> Result<Self> {
        let template =
            around(tokenizer, special).map_err(|e| Error::invalid(format!("tokenize: the template: {e}")))?;
        let added = tokenizer.get_post_processor().filter(|_| special).map_or(0, |p| p.added_tokens(false));
        let cut = match (max_length, tokenizer.get_truncation()) {
            (Some(length), _) => Some((length, false, "max_length")),
            (None, Some(saved)) if saved.strategy == TruncationStrategy::OnlySecond => {
                return Err(Error::invalid(
                    "tokenize: the tokenizer truncates the second text of a pair, and there is one",
                )
                .hint("use max_length=, or tokenizer.no_truncation()"));
            }
            (None, Some(saved)) => {
                let left = saved.direction == TruncationDirection::Left;
                Some((saved.max_length, left, "the tokenizer's own truncation, max_length"))
            }
            (None, None) => None,
        };
        let cut = cut.map(|(length, left, name)| match length.checked_sub(added) {
            Some(length) if length > 0 => Ok(Cut { length, left }),
            _ => Err(Error::invalid(format!(
                "tokenize: {name}={length} leaves no room: each text gets {added} special tokens"
            ))
            .hint("use a greater max_length, or add_special_tokens=False")),
        });
        Ok(Self { around: template, cut: cut.transpose()?, padding: tokenizer.get_padding().cloned() })
    }

    /// Appends the framed ids of a text, which `encode` appends.
    pub(super) fn apply<E>(
        &self,
        ids: &mut Vec<i32>,
        encode: impl FnOnce(&mut Vec<i32>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let start = ids.len();
        ids.extend_from_slice(&self.around[0]);
        if let [_, after, rest @ ..] = &self.around[..] {
            let from = ids.len();
            encode(ids)?;
            self.cut(ids, from);
            let text = from..ids.len();
            ids.extend_from_slice(after);
            for after in rest {
                ids.extend_from_within(text.clone());
                ids.extend_from_slice(after);
            }
        }
        self.pad(ids, start);
        Ok(())
    }

    fn cut(&self, ids: &mut Vec<i32>, from: usize) {
        let Some(cut) = &self.cut else { return };
        let past = (ids.len() - from).saturating_sub(cut.length);
        if cut.left {
            ids.drain(from..from + past);
        } else {
            ids.truncate(ids.len() - past);
        }
    }

    fn pad(&self, ids: &mut Vec<i32>, start: usize) {
        let Some(padding) = &self.padding else { return };
        let length = ids.len() - start;
        let mut target = match padding.strategy {
            PaddingStrategy::Fixed(length) => length,
            // Padded by itself, like `encode`: a row may not depend on others.
            PaddingStrategy::BatchLongest => length,
        };
        if let Some(multiple) = padding.pad_to_multiple_of.filter(|n| *n > 0) {
            target = target.next_multiple_of(multiple);
        }
        let missing = std::iter::repeat_n(padding.pad_id as i32, target.saturating_sub(length));
        match padding.direction {
            PaddingDirection::Right => ids.extend(missing),
            PaddingDirection::Left => drop(ids.splice(start..start, missing)),
        }
    }
}

/// Returns the ids that the tokenizer's own post-processor puts around a text of one token.
fn around(tokenizer: &Tokenizer, special: bool) -> std::result::Result<Vec<Vec<i32>>, tokenizers::Error> {
    let text = Encoding::from_tokens(vec![Token::new(TEXT, String::new(), (0, 0))], 0);
    let framed = match tokenizer.get_post_processor() {
        Some(processor) => processor.process(text, None, special)?,
        None => text,
    };
    let part = |ids: &[u32]| ids.iter().map(|id| *id as i32).collect();
    Ok(framed.get_ids().split(|id| *id == TEXT).map(part).collect())
}
