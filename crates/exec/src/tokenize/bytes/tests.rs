//! Compares the words of this module with the crate's: for every accepted character, among others of each class, and
//! for random texts.

use proptest::prelude::*;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::byte_level::ByteLevel as CrateByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{AddedToken, PreTokenizer};

use super::*;

fn sequence(patterns: &[&str], behavior: SplitDelimiterBehavior, invert: bool) -> PreTokenizerWrapper {
    let split = |p: &&str| Split::new(SplitPattern::Regex((*p).to_owned()), behavior, invert).expect("made").into();
    let level = CrateByteLevel::new(false, true, false).into();
    Sequence::new(patterns.iter().map(split).chain([level]).collect()).into()
}

fn tokenizers() -> Vec<(Pattern, Tokenizer)> {
    use SplitDelimiterBehavior::{Isolated, Removed};
    let shapes: [(Pattern, PreTokenizerWrapper); 9] = [
        (Pattern::Gpt2, CrateByteLevel::new(false, true, true).into()),
        (Pattern::Gpt2, CrateByteLevel::new(true, true, true).into()),
        (Pattern::Gpt2, sequence(&[regexes::GPT2], Isolated, false)),
        (Pattern::Cl100k, sequence(&[regexes::CL100K], Removed, true)),
        (Pattern::Cl100k, sequence(&[regexes::CL100K], Isolated, false)),
        (Pattern::Qwen, sequence(&[QWEN], Isolated, false)),
        (Pattern::O200k, sequence(&[regexes::O200K], Isolated, false)),
        (Pattern::Tekken, sequence(&[regexes::TEKKEN], Isolated, false)),
        (Pattern::DeepSeek, sequence(regexes::DEEPSEEK, Isolated, false)),
    ];
    let made = shapes.map(|(pattern, shape)| {
        let mut tokenizer = Tokenizer::new(WordLevel::default());
        tokenizer.with_pre_tokenizer(Some(shape));
        (pattern, tokenizer)
    });
    made.into()
}

/// Returns the words of a text, their bytes mapped to letters: by this module, and by the crate.
fn both(ours: &ByteLevel, tokenizer: &Tokenizer, text: &str) -> (Vec<String>, Vec<String>) {
    let spaced = if ours.prefix_space && !text.starts_with(' ') { format!(" {text}") } else { text.to_owned() };
    let mut splitting = Splitting::default();
    let word = |span: &Span| spaced.as_bytes()[span.range()].iter().map(|b| LETTERS[usize::from(*b)]).collect();
    let got = ours.pattern.split(&spaced, &mut splitting).expect("made").iter().map(word).collect();
    let mut pieces = text.into();
    tokenizer.get_pre_tokenizer().expect("made").pre_tokenize(&mut pieces).expect("made");
    let want = pieces.get_splits(OffsetReferential::Normalized, OffsetType::None);
    (got, want.into_iter().map(|(word, _, _)| word.to_owned()).collect())
}

/// One or more of each class of the patterns, and the characters of their literals.
const AMONG: [&str; 24] = [
    "a",
    "A",
    "\u{1c5}",
    "\u{2b0}",
    "\u{6f22}",
    "\u{304b}",
    "1",
    "\u{bd}",
    "!",
    "'",
    "'s",
    "'T",
    "'re",
    "'LL",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\u{301}",
    "\u{200d}",
    "\u{1f600}",
    "_/",
    "\u{a0}",
];

#[test]
fn each_common_character_is_of_the_same_class_in_both() {
    let tokenizers = tokenizers();
    let common: Vec<char> = ('\0'..=char::MAX).filter(|c| common(*c)).collect();
    assert!(common.len() > 30_000);
    // Most characters are of two scripts. Of these, one character in sixteen is enough.
    let many = |c: &char| matches!(*c as u32, 0x4E00..=0x9FA5 | 0xAC00..=0xD7A3);
    for (number, c) in common.iter().filter(|c| !many(c) || (**c as u32).is_multiple_of(16)).enumerate() {
        let mut text = String::new();
        for (i, before) in AMONG.iter().enumerate() {
            let after = AMONG[(i * 7 + number) % AMONG.len()];
            text.push_str(&format!("{before}{c}{after}{c}{c}\nZ"));
        }
        // Each character with one of the shapes, and its neighbours with the others.
        let (pattern, tokenizer) = &tokenizers[number % tokenizers.len()];
        let ours = ByteLevel::of(tokenizer).expect("made");
        assert_eq!(ours.pattern, *pattern);
        let (got, want) = both(&ours, tokenizer, &text);
        assert_eq!(got, want, "{pattern:?} {c:?} {text:?}");
    }
}

fn texts() -> impl Strategy<Value = String> {
    let character = prop_oneof![
        6 => prop::sample::select(AMONG.map(str::to_owned).to_vec()),
        2 => any::<char>().prop_filter("a common one", |c| common(*c)).prop_map(String::from),
        1 => (0u32..0x600).prop_filter_map("a common one", char::from_u32).prop_filter("", |c| common(*c)).prop_map(String::from),
    ];
    // Runs, so that words cross the boundaries of the 64-byte blocks that are split at a time.
    let run = (character, prop_oneof![9 => 1usize..3, 1 => 1usize..80]).prop_map(|(c, n)| c.repeat(n));
    prop::collection::vec(run, 1..60).prop_map(|runs| runs.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn words_are_those_of_the_crate(text in texts()) {
        for (pattern, tokenizer) in tokenizers_once() {
            let ours = ByteLevel::of(tokenizer).expect("made");
            let (got, want) = both(&ours, tokenizer, &text);
            prop_assert_eq!(got, want, "{:?} {:?}", pattern, &text);
        }
    }
}

fn tokenizers_once() -> &'static [(Pattern, Tokenizer)] {
    static MADE: std::sync::OnceLock<Vec<(Pattern, Tokenizer)>> = std::sync::OnceLock::new();
    MADE.get_or_init(tokenizers)
}

#[test]
fn what_may_differ_goes_the_crates_way() {
    let (_, tokenizer) = tokenizers().swap_remove(4);
    let ours = ByteLevel::of(&tokenizer).expect("made");
    // A long s after an apostrophe, and recent Unicode characters.
    for text in ["it'\u{17f}", "\u{212a}", "\u{88f}", "\u{a7ce}", "\u{323b0}", "\u{295}"] {
        assert!(!ours.takes(text), "{text:?}");
    }
    assert!(ours.takes("it's \u{4f60}\u{597d} \u{1f600}"));

    let mut nfc = tokenizer.clone();
    nfc.with_normalizer(Some(NFC)).expect("made");
    let ours = ByteLevel::of(&nfc).expect("made");
    assert!(ours.takes("caf\u{e9}"));
    assert!(!ours.takes("cafe\u{301}"));
    nfc.add_tokens([AddedToken::from("e\u{301}", false)]).expect("made");
    assert!(ByteLevel::of(&nfc).is_none());
    let unlike = [regexes::CL100K.replace("{1,3}", "{1,2}"), regexes::CL100K.replace("{1,3}", "+")];
    for pattern in unlike {
        let mut other = tokenizer.clone();
        other.with_pre_tokenizer(Some(sequence(&[&pattern], SplitDelimiterBehavior::Isolated, false)));
        assert!(ByteLevel::of(&other).is_none());
    }
}
