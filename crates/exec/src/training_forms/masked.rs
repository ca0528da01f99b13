//! Random ids masked, by the rule of BERT.

use forebay_core::rng::SampleRng;
use forebay_plan::MaskTokens;

use super::IGNORED;

/// Appends the ids of a row, some of them changed, and their labels.
pub(super) fn mask(op: &MaskTokens, ids: &[i32], rng: &mut SampleRng, made: &mut Vec<i32>, labels: &mut Vec<i32>) {
    let largest = u32::try_from(op.vocab_size - 1).unwrap_or(u32::MAX);
    for &id in ids {
        // Each id takes three draws, so that no id's fate depends on those before it.
        let (chosen, how, random) = (rng.unit() < op.probability, rng.unit(), rng.up_to(largest));
        let is_special = op.special_ids.binary_search(&id).is_ok();
        if !chosen || is_special {
            made.push(id);
            labels.push(IGNORED);
            continue;
        }
        labels.push(id);
        made.push(if how < op.mask_replace {
            op.mask_id
        } else if how < op.mask_replace + op.random_replace {
            random as i32
        } else {
            id
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::SampleId;

    #[test]
    fn the_parts_of_the_published_rule() {
        let op = MaskTokens {
            column: "ids".to_owned(),
            labels: "labels".to_owned(),
            mask_id: 3,
            vocab_size: 1000,
            probability: 0.15,
            mask_replace: 0.8,
            random_replace: 0.1,
            special_ids: vec![1, 2],
        };
        let ids: Vec<i32> = (0..100_000).map(|i| if i % 10 == 0 { 1 } else { 500 }).collect();
        let (mut made, mut labels) = (Vec::new(), Vec::new());
        mask(&op, &ids, &mut SampleRng::new(1, SampleId(0)), &mut made, &mut labels);
        assert_eq!((made.len(), labels.len()), (ids.len(), ids.len()));
        assert!(ids.iter().zip(&labels).all(|(id, label)| *label == IGNORED || (label == id && *id != 1)));
        let chosen: Vec<i32> = made.iter().zip(&labels).filter(|(_, l)| **l != IGNORED).map(|(m, _)| *m).collect();
        let share = |of: usize, all: usize| of as f64 / all as f64;
        let count = |id: i32| chosen.iter().filter(|made| **made == id).count();
        assert!((share(chosen.len(), 90_000) - 0.15).abs() < 0.005);
        assert!((share(count(3), chosen.len()) - 0.8).abs() < 0.02);
        assert!((share(count(500), chosen.len()) - 0.1).abs() < 0.02);
        assert!(chosen.iter().all(|id| (0..1000).contains(id)));
        assert!(made.iter().zip(&ids).zip(&labels).all(|((made, id), label)| *label != IGNORED || made == id));
    }
}
