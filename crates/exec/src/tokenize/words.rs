//! Tokenized words: each is looked up by all of its bytes, so an id depends on no earlier word.

use std::collections::HashMap;

use tokenizers::{Result, Token};

/// Most words of a text have few bytes and few tokens. Each has a slot in a table; a word replaces another one in its
/// slot.
const SLOTS_BITS: u32 = 16;
const SHORT_MAX: usize = 15;
const FEW: usize = 3;
/// Longer words, and words of many tokens; all are dropped when there are this many.
const LONG_WORDS_MAX: usize = 1 << 14;
/// Longer words, and words of more tokens, are too rare to be kept.
const LONG_MAX: usize = 64;

#[derive(Default)]
pub(super) struct Words {
    /// Empty until the first word.
    slots: Vec<Slot>,
    long: HashMap<Box<[u8]>, Box<[i32]>>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The bytes of the word and their number, which is not 0.
    key: u128,
    ids: [i32; FEW],
    count: u8,
}

impl Words {
    /// Appends the ids of a word; calls `tokenize` if they are not cached.
    pub(super) fn append(
        &mut self,
        word: &[u8],
        ids: &mut Vec<i32>,
        tokenize: impl FnOnce() -> Result<Vec<Token>>,
    ) -> Result<()> {
        if word.is_empty() {
            return Ok(());
        }
        if self.slots.is_empty() {
            self.slots = vec![Slot::default(); 1 << SLOTS_BITS];
        }
        let key = key(word);
        let at = key.map_or(0, place);
        if let Some(key) = key
            && self.slots[at].key == key
        {
            let slot = &self.slots[at];
            ids.extend_from_slice(&slot.ids[..usize::from(slot.count)]);
            return Ok(());
        }
        if let Some(known) = self.long.get(word) {
            ids.extend_from_slice(known);
            return Ok(());
        }
        let start = ids.len();
        push(&tokenize()?, ids)?;
        self.keep(word, key.map(|key| (key, at)), &ids[start..]);
        Ok(())
    }

    fn keep(&mut self, word: &[u8], short: Option<(u128, usize)>, ids: &[i32]) {
        if let Some((key, at)) = short
            && ids.len() <= FEW
        {
            let mut slot = Slot { key, count: ids.len() as u8, ..Slot::default() };
            slot.ids[..ids.len()].copy_from_slice(ids);
            self.slots[at] = slot;
        } else if word.len() <= LONG_MAX && ids.len() <= LONG_MAX {
            if self.long.len() == LONG_WORDS_MAX {
                self.long.clear();
            }
            self.long.insert(word.into(), ids.into());
        }
    }
}

/// Returns a short word and its length as one number, which is equal for equal words only.
fn key(word: &[u8]) -> Option<u128> {
    if word.len() > SHORT_MAX {
        return None;
    }
    let mut bytes = [0; 16];
    bytes[..word.len()].copy_from_slice(word);
    bytes[15] = word.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

fn place(key: u128) -> usize {
    let low = key as u64 ^ 0x2d35_8dcc_aa6c_78a5;
    let high = (key >> 64) as u64 ^ 0x8bb8_4b93_962e_acc9;
    let product = u128::from(low) * u128::from(high);
    ((product as u64 ^ (product >> 64) as u64) >> (64 - SLOTS_BITS)) as usize
}

/// Appends the ids of tokens.
pub(super) fn push(tokens: &[Token], ids: &mut Vec<i32>) -> Result<()> {
    for token in tokens {
        let id = i32::try_from(token.id);
        ids.push(id.map_err(|_| format!("the id {} of the token {:?} is no int32", token.id, token.value))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(word: &[u8]) -> Vec<Token> {
        let count = word.len() * usize::from(word[0] % 3);
        let sum = word.iter().fold(7u32, |sum, b| sum.wrapping_mul(31).wrapping_add(u32::from(*b)) >> 1);
        (0..count as u32).map(|i| Token::new((sum + i) & 0xffff, String::new(), (0, 0))).collect()
    }

    proptest! {
        /// The ids of a word are those of its tokens, with any words before it.
        #[test]
        fn a_word_has_its_own_ids(words in prop::collection::vec(prop::collection::vec(0u8..4, 1..80), 1..300)) {
            let mut kept = Words::default();
            for word in words.iter().chain(&words) {
                let (mut got, mut want) = (Vec::new(), Vec::new());
                kept.append(word, &mut got, || Ok(tokens(word))).expect("made");
                push(&tokens(word), &mut want).expect("made");
                prop_assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut kept = Words::default();
        for n in 0..3 * LONG_WORDS_MAX as u64 {
            let word = [&[1; 20], &n.to_le_bytes()[..]].concat();
            kept.append(&word, &mut Vec::new(), || Ok(tokens(&word))).expect("made");
        }
        assert!(kept.long.len() <= LONG_WORDS_MAX);
        assert_eq!(kept.slots.len(), 1 << SLOTS_BITS);
    }

    #[test]
    fn an_id_that_is_no_int32_is_refused() {
        let token = Token::new(u32::MAX, "a".to_owned(), (0, 1));
        let mut words = Words::default();
        let error = words.append(b"a", &mut Vec::new(), || Ok(vec![token])).expect_err("refused");
        assert!(error.to_string().contains("4294967295"), "{error}");
    }
}
