//! Random spans replaced by sentinels, by the rule of T5: a fixed number of ids in a fixed number of spans, whose
//! lengths and distances are a uniformly drawn division.

use forebay_core::rng::SampleRng;
use forebay_plan::CorruptSpans;

/// Appends the ids of a row with sentinels in the place of spans, and the spans, each behind its sentinel. A row of
/// fewer than two ids has no span.
pub(super) fn corrupt(op: &CorruptSpans, ids: &[i32], rng: &mut SampleRng, made: &mut Vec<i32>, labels: &mut Vec<i32>) {
    let (noise, spans) = numbers(op, ids.len());
    let lengths = divide(noise, spans, rng);
    let distances = divide(ids.len() - noise, spans, rng);
    let mut at = 0;
    for ((distance, length), sentinel) in distances.iter().zip(&lengths).zip(&op.sentinel_ids) {
        made.extend_from_slice(&ids[at..at + distance]);
        made.push(*sentinel);
        at += distance;
        labels.push(*sentinel);
        labels.extend_from_slice(&ids[at..at + length]);
        at += length;
    }
    made.extend_from_slice(&ids[at..]);
    made.extend(op.eos_id);
    labels.extend(op.eos_id);
}

/// Returns how many ids of a row are replaced, and in how many spans.
fn numbers(op: &CorruptSpans, length: usize) -> (usize, usize) {
    if length < 2 {
        return (0, 0);
    }
    let noise = ((length as f64 * op.density).round_ties_even() as usize).clamp(1, length - 1);
    let spans = (noise as f64 / op.mean_length).round_ties_even() as usize;
    (noise, spans.clamp(1, noise.min(length - noise).min(op.sentinel_ids.len())))
}

/// Divides `items` into `parts` of at least one, all divisions equally likely.
fn divide(items: usize, parts: usize, rng: &mut SampleRng) -> Vec<usize> {
    let mut lengths = Vec::with_capacity(parts);
    let (mut open, mut begun) = (parts.saturating_sub(1), 0);
    for place in 1..items {
        // A part ends before this item with the probability that one of the remaining ends falls here.
        let left = (items - place) as u32;
        if open > 0 && (rng.up_to(left - 1) as usize) < open {
            lengths.push(place - begun);
            (open, begun) = (open - 1, place);
        }
    }
    if parts > 0 {
        lengths.push(items - begun);
    }
    lengths
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use forebay_core::SampleId;
    use proptest::prelude::*;

    fn op(density: f64, mean_length: f64, eos_id: Option<i32>) -> CorruptSpans {
        let (column, labels) = ("ids".to_owned(), "labels".to_owned());
        CorruptSpans { column, labels, sentinel_ids: (900..1000).rev().collect(), density, mean_length, eos_id }
    }

    #[test]
    fn all_divisions_are_equally_likely() {
        let mut counts: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for sample in 0..10_000 {
            *counts.entry(divide(6, 3, &mut SampleRng::new(1, SampleId(sample)))).or_default() += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    proptest! {
        /// The spans in the places of their sentinels are the row, and their numbers those of the published rule.
        #[test]
        fn nothing_is_lost(length in 0usize..400, density in 0.05f64..0.9, mean in 1.0f64..10.0, sample in 0u64..1000) {
            let op = op(density, mean, Some(1));
            let ids: Vec<i32> = (2..2 + length as i32).collect();
            let (mut made, mut labels) = (Vec::new(), Vec::new());
            corrupt(&op, &ids, &mut SampleRng::new(1, SampleId(sample)), &mut made, &mut labels);
            prop_assert_eq!((made.pop(), labels.pop()), (Some(1), Some(1)));
            let spans: Vec<&[i32]> = labels.split(|id| *id >= 900).skip(1).collect();
            let sentinels: Vec<i32> = made.iter().copied().filter(|id| *id >= 900).collect();
            let want: Vec<i32> = (0..sentinels.len() as i32).map(|i| 999 - i).collect();
            prop_assert_eq!(&sentinels, &want);
            prop_assert_eq!(spans.len(), sentinels.len());
            let whole: Vec<i32> = made.iter().flat_map(|id| match *id {
                id if id >= 900 => spans[(999 - id) as usize].to_vec(),
                id => vec![id],
            }).collect();
            prop_assert_eq!(&whole, &ids);
            let noise: usize = spans.iter().map(|span| span.len()).sum();
            prop_assert!(spans.iter().all(|span| !span.is_empty()));
            prop_assert_eq!((noise, spans.len()), numbers(&op, length));
        }
    }

    #[test]
    fn the_numbers_of_t5() {
        // 512 ids at 15 % and a mean of 3: 77 ids in 26 spans.
        assert_eq!(numbers(&op(0.15, 3.0, None), 512), (77, 26));
        assert_eq!(numbers(&op(0.15, 3.0, None), 2), (1, 1));
        assert_eq!(numbers(&op(0.15, 3.0, None), 1), (0, 0));
        assert_eq!(numbers(&op(0.9, 1.0, None), 100), (90, 10));
    }
}
