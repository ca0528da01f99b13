//! A row divided at random into a prefix and a part that is learned.

use forebay_core::rng::SampleRng;

use super::IGNORED;

/// Appends the labels of a row, and returns the length of its prefix: uniform from 1 to all ids but one. A row of fewer
/// than two ids is all prefix.
pub(super) fn divide(ids: &[i32], rng: &mut SampleRng, labels: &mut Vec<i32>) -> i32 {
    let prefix = match u32::try_from(ids.len()).unwrap_or(u32::MAX) {
        0 | 1 => ids.len(),
        length => 1 + rng.up_to(length - 2) as usize,
    };
    labels.resize(labels.len() + prefix, IGNORED);
    labels.extend_from_slice(&ids[prefix..]);
    i32::try_from(prefix).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_core::SampleId;

    #[test]
    fn each_division_is_as_likely() {
        let ids: Vec<i32> = (0..6).collect();
        let mut counts = [0; 7];
        for sample in 0..10_000 {
            let mut labels = Vec::new();
            let prefix = divide(&ids, &mut SampleRng::new(1, SampleId(sample)), &mut labels) as usize;
            assert_eq!(labels[..prefix], vec![IGNORED; prefix]);
            assert_eq!(labels[prefix..], ids[prefix..]);
            counts[prefix] += 1;
        }
        assert_eq!((counts[0], counts[6]), (0, 0));
        assert!(counts[1..6].iter().all(|n| (1850..2150).contains(n)), "{counts:?}");
        assert_eq!(divide(&[7], &mut SampleRng::new(1, SampleId(0)), &mut Vec::new()), 1);
    }
}
