//! A mix keeps its shares in each window, has each row once and in order, and ends where its rule says.

use super::*;
use proptest::prelude::*;

fn rows(mix: &Mix, key: u64, count: u64) -> Vec<MixedRow> {
    let mut finder = MixFinder::default();
    (0..count).map(|place| finder.find(mix, key, place)).collect()
}

#[test]
fn counts_before_a_window_are_sums_of_the_windows_before_it() {
    let shares = Shares::new(&[0.7, 1e-3, 0.2, 5e-6, 0.1], 0);
    let mut sums = vec![0; 5];
    for window in 0..5000 {
        assert_eq!(shares.before(window), sums, "{window}");
        sums.iter_mut().zip(shares.window(window, WINDOW)).for_each(|(sum, count)| *sum += count);
    }
    for windows in [1u64 << 32, (1 << 40) + 12_345] {
        for (rows, rate) in shares.before(windows).into_iter().zip(shares.rates()) {
            assert!((rows as f64 - rate * windows as f64).abs() < 40.0, "{rows} {rate}");
        }
    }
}

fn parts() -> impl Strategy<Value = (Vec<f64>, Vec<u64>)> {
    prop::collection::vec((1u32..2000, 1u64..6000), 2..7)
        .prop_map(|parts| parts.into_iter().map(|(weight, len)| (f64::from(weight), len)).unzip())
}

proptest! {
    /// Shares hold in each window, and each row of a part comes once and in order.
    #[test]
    fn windows_have_exact_counts_and_rows_come_in_order((weights, lens) in parts(), key: u64) {
        let mix = Mix::new(&weights, None, Stop::Never, &lens).expect("a mix");
        let got = rows(&mix, key, 6 * WINDOW);
        let sum: f64 = weights.iter().sum();
        for window in got.chunks(WINDOW as usize) {
            for (part, weight) in weights.iter().enumerate() {
                let count = window.iter().filter(|(of, _)| *of == part).count() as f64;
                prop_assert!((count - weight / sum * WINDOW as f64).abs() < 1.001, "{count} {weight} of {sum}");
            }
        }
        for part in 0..weights.len() {
            let own = got.iter().filter(|(of, _)| *of == part).map(|(_, row)| *row);
            prop_assert!(own.eq(0..got.iter().filter(|(of, _)| *of == part).count() as u64));
        }
        let mut finder = MixFinder::default();
        for place in (0..got.len()).rev().step_by(97) {
            prop_assert_eq!(finder.find(&mix, key, place as u64), got[place], "looked up out of order");
        }
    }

    /// Each batch of a full window has the share of each part. A window has as many rows of each part as without batches.
    #[test]
    fn batches_have_exact_counts((weights, lens) in parts(), key: u64, bits in 1u32..=10) {
        let batch = 1u64 << bits;
        let plain = Mix::new(&weights, None, Stop::Never, &lens).expect("a mix");
        let mix = plain.clone().per_batch(Some(batch));
        let (got, plain) = (rows(&mix, key, 4 * WINDOW), rows(&plain, key, 4 * WINDOW));
        let sum: f64 = weights.iter().sum();
        let of = |rows: &[MixedRow], part| rows.iter().filter(|row| row.0 == part).count();
        for (part, weight) in weights.iter().enumerate() {
            let wanted = weight / sum * batch as f64;
            for rows in got.chunks(batch as usize) {
                let count = of(rows, part) as f64;
                prop_assert!(wanted.floor() <= count && count <= wanted.ceil(), "{count} of {wanted}");
            }
            for (window, plain) in got.chunks(WINDOW as usize).zip(plain.chunks(WINDOW as usize)) {
                prop_assert_eq!(of(window, part), of(plain, part));
            }
            let own = got.iter().filter(|(of, _)| *of == part).map(|(_, row)| *row);
            prop_assert!(own.eq(0..of(&got, part) as u64));
        }
    }

    /// In a short window, such as the last one, a batch may have one row more or less than the next whole number.
    #[test]
    fn batches_of_a_short_window_are_nearly_exact(
        counts in prop::collection::vec(0u64..500, 2..6), key: u64, bits in 1u32..10,
    ) {
        let (batch, all) = (1u64 << bits, counts.iter().sum::<u64>());
        let parts = lay_out(&counts, Some(batch), key, 3);
        for (part, count) in counts.iter().enumerate() {
            prop_assert_eq!(parts.iter().filter(|of| usize::from(**of) == part).count() as u64, *count);
            for rows in parts.chunks(batch as usize) {
                let wanted = *count as f64 * rows.len() as f64 / all as f64;
                let found = rows.iter().filter(|of| usize::from(**of) == part).count() as f64;
                prop_assert!((found - wanted).abs() < 2.001, "{found} of {wanted}");
            }
        }
    }

    #[test]
    fn a_mix_ends_where_its_rule_says((weights, lens) in parts(), key: u64, count in 1u64..9000) {
        let all = |stop| {
            let mix = Mix::new(&weights, None, stop, &lens).expect("a mix");
            let got = rows(&mix, key, mix.len().expect("an end"));
            let counts: Vec<u64> =
                (0..lens.len()).map(|part| got.iter().filter(|(of, _)| *of == part).count() as u64).collect();
            assert!((0..lens.len()).all(|part| mix.count(part) == Some(counts[part])));
            for (part, count) in counts.iter().enumerate() {
                assert!(got.iter().filter(|(of, _)| *of == part).map(|(_, row)| *row).eq(0..*count));
            }
            counts
        };
        let sum: f64 = weights.iter().sum();
        let near = |counts: &[u64], slack: f64| {
            let rows = counts.iter().sum::<u64>() as f64;
            counts.iter().zip(&weights).all(|(count, weight)| (*count as f64 - weight / sum * rows).abs() < slack)
        };
        let first = all(Stop::First);
        prop_assert!(first.iter().zip(&lens).all(|(count, len)| count <= len));
        prop_assert!(first.iter().zip(&lens).any(|(count, len)| count == len), "{first:?} of {lens:?}");
        prop_assert!(near(&first, 8.0), "{first:?} by {weights:?}");
        let every = all(Stop::All);
        prop_assert!(every.iter().zip(&lens).all(|(count, len)| count >= len), "{every:?} of {lens:?}");
        let shortest = every.iter().zip(&lens).any(|(count, len)| *count <= len + 8);
        prop_assert!(shortest && near(&every, 8.0), "{every:?} of {lens:?} by {weights:?}");
        prop_assert_eq!(all(Stop::Once), lens.clone());
        let some = all(Stop::Rows(count));
        prop_assert_eq!(some.iter().sum::<u64>(), count);
        prop_assert!(near(&some, 8.0), "{some:?}");
    }
}

#[test]
fn parts_that_have_ended_leave_their_share_to_the_others() {
    let mix = Mix::new(&[6.0, 3.0, 1.0], None, Stop::Once, &[600, 30_000, 10_000]).expect("a mix");
    assert_eq!(mix.phases.len(), 2, "the other two end together");
    let got = rows(&mix, 3, 41_024 - 424);
    let behind = &got[1000..2024];
    let second = behind.iter().filter(|(part, _)| *part == 1).count();
    assert!(behind.iter().all(|(part, _)| *part != 0) && (760..=776).contains(&second), "{second}");
}

#[test]
fn extreme_weights_have_a_plan_or_none() {
    let tiny = [1.0, 1e-11];
    assert!(Mix::new(&tiny, None, Stop::All, &[5, 1 << 60]).is_err(), "the second would take 2^96 rows");
    let mix = Mix::new(&tiny, None, Stop::First, &[1 << 50, 1 << 50]).expect("a mix");
    assert_eq!(mix.count(0), Some(1 << 50));
    let mix = Mix::new(&tiny, None, Stop::Once, &[3, 0]).expect("a mix");
    assert_eq!(mix.len(), Some(3));
}

/// A closing window may be longer than others.
#[test]
fn without_batches_the_whole_window_is_permuted() {
    let parts = lay_out(&[600, 500], None, 7, 3);
    let first = parts[..1024].iter().filter(|part| **part == 0).count();
    assert!((540..580).contains(&first), "{first}");
    assert_ne!(parts, lay_out(&[600, 500], Some(1024), 7, 3));
    assert_eq!(lay_out(&[600, 424], None, 7, 3), lay_out(&[600, 424], Some(1024), 7, 3));
}

#[test]
fn no_batch_of_a_window_has_more_of_a_part_than_another_over_many_windows() {
    let mix = Mix::new(&[0.9, 0.1], None, Stop::Never, &[10, 10]).expect("a mix").per_batch(Some(256));
    let got = rows(&mix, 5, 400 * WINDOW);
    let mut of_batch = [0u64; 4];
    for (batch, rows) in got.chunks(256).enumerate() {
        of_batch[batch % 4] += rows.iter().filter(|row| row.0 == 1).count() as u64;
    }
    assert!(of_batch.iter().all(|count| (10_160..10_320).contains(count)), "{of_batch:?}");
}

/// The order is fixed for ever.
#[test]
fn the_order_is_the_same_for_ever() {
    let mix = Mix::new(&[0.7, 0.3], None, Stop::Never, &[100, 100]).expect("a mix");
    let parts: String = rows(&mix, 7, 32).iter().map(|(part, _)| part.to_string()).collect();
    assert_eq!(parts, GOLDEN);
    let parts = |parts: Vec<u16>| parts.iter().map(u16::to_string).collect::<String>();
    let batches = lay_out(&mix.phases[0].counts(0), Some(8), 7, 0);
    assert_eq!(parts(batches[..32].to_vec()), GOLDEN_OF_BATCHES);
    assert_eq!(parts(lay_out(&[7, 4], Some(4), 7, 3)), GOLDEN_OF_SHORT);
}

const GOLDEN_OF_BATCHES: &str = "10010001010000101000010000011000";
const GOLDEN_OF_SHORT: &str = "10000100110";

const GOLDEN: &str = "11000000111010001000000000010111";
