//! A random middle part moved to the end.

use forebay_core::rng::SampleRng;
use forebay_plan::FillInMiddle;

/// Where a row is cut, and in which order its parts come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// The row stays.
    None,
    /// Prefix, suffix, middle.
    PrefixFirst(usize, usize),
    /// Suffix, prefix and middle, with the mark of the middle before the prefix.
    SuffixFirst(usize, usize),
}

impl Cut {
    /// Draws the cut of a row of `length` ids or characters. Both bounds are uniform, and may be at its ends.
    pub(super) fn draw(op: &FillInMiddle, length: usize, rng: &mut SampleRng) -> Self {
        let (changed, suffix_first) = (rng.unit() < op.rate, rng.unit() < op.spm_rate);
        let most = u32::try_from(length).unwrap_or(u32::MAX);
        let (a, b) = (rng.up_to(most) as usize, rng.up_to(most) as usize);
        match (changed, suffix_first) {
            (false, _) => Cut::None,
            (true, false) => Cut::PrefixFirst(a.min(b), a.max(b)),
            (true, true) => Cut::SuffixFirst(a.min(b), a.max(b)),
        }
    }
}

/// Appends the ids of a row, cut; `tokens` mark prefix, suffix and middle.
pub(super) fn move_ids(cut: Cut, [prefix, suffix, middle]: &[i32; 3], ids: &[i32], to: &mut Vec<i32>) {
    match cut {
        Cut::None => to.extend_from_slice(ids),
        Cut::PrefixFirst(a, b) => {
            let parts: [(&i32, &[i32]); 3] = [(prefix, &ids[..a]), (suffix, &ids[b..]), (middle, &ids[a..b])];
            for (token, part) in parts {
                to.push(*token);
                to.extend_from_slice(part);
            }
        }
        Cut::SuffixFirst(_, b) => {
            to.extend([*prefix, *suffix]);
            to.extend_from_slice(&ids[b..]);
            to.push(*middle);
            to.extend_from_slice(&ids[..b]);
        }
    }
}

/// Returns a text, cut between characters.
pub(super) fn move_text(cut: Cut, [prefix, suffix, middle]: &[String; 3], text: &str) -> String {
    let at = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    match cut {
        Cut::None => text.to_owned(),
        Cut::PrefixFirst(a, b) => {
            let (a, b) = (at(a), at(b));
            [prefix, &text[..a], suffix, &text[b..], middle, &text[a..b]].concat()
        }
        Cut::SuffixFirst(_, b) => {
            let b = at(b);
            [prefix, suffix, &text[b..], middle, &text[..b]].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::SampleId;
    use forebay_plan::MiddleTokens;

    #[test]
    fn parts_come_in_the_published_orders() {
        let ids = [10, 11, 12, 13, 14];
        let moved = |cut| {
            let mut to = Vec::new();
            move_ids(cut, &[1, 2, 3], &ids, &mut to);
            to
        };
        assert_eq!(moved(Cut::PrefixFirst(1, 3)), [1, 10, 2, 13, 14, 3, 11, 12]);
        assert_eq!(moved(Cut::SuffixFirst(1, 3)), [1, 2, 13, 14, 3, 10, 11, 12]);
        assert_eq!(moved(Cut::None), ids);
        let marks = ["<P>", "<S>", "<M>"].map(str::to_owned);
        assert_eq!(move_text(Cut::PrefixFirst(1, 3), &marks, "añ漢b"), "<P>a<S>b<M>ñ漢");
        assert_eq!(move_text(Cut::SuffixFirst(1, 4), &marks, "añ漢b"), "<P><S><M>añ漢b");
    }

    #[test]
    fn the_rates_are_those_that_are_asked_for() {
        let op =
            FillInMiddle { column: "ids".to_owned(), tokens: MiddleTokens::Ids([1, 2, 3]), rate: 0.5, spm_rate: 0.25 };
        let cuts: Vec<Cut> =
            (0..10_000).map(|sample| Cut::draw(&op, 100, &mut SampleRng::new(1, SampleId(sample)))).collect();
        let count = |is: fn(&Cut) -> bool| cuts.iter().filter(|cut| is(cut)).count();
        assert!((4850..5150).contains(&count(|cut| *cut == Cut::None)));
        assert!((1150..1350).contains(&count(|cut| matches!(cut, Cut::SuffixFirst(..)))));
        assert!(cuts.iter().any(|cut| matches!(cut, Cut::PrefixFirst(0, _) | Cut::SuffixFirst(0, _))));
        assert!(cuts.iter().any(|cut| matches!(cut, Cut::PrefixFirst(_, 100) | Cut::SuffixFirst(_, 100))));
    }
}
