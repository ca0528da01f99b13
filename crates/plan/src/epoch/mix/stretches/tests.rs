//! Shares follow the points of a schedule, in windows and over any run of places, for counted mixes and streamed ones.

use forebay_core::{ConsumerIndex, Epoch, Seed, rng::op_key};
use proptest::prelude::*;

use super::*;
use crate::epoch::mix::combination::MIX_STREAM;
use crate::epoch::mix::streamed_mix::MixSchedule;
use crate::epoch::mix::{Mix, MixFinder, NoPlan};
use crate::epoch::sharding::Sharding;
use crate::source::{Stop, WeightsFrom};

fn changes(between: Between, points: &[(u64, Vec<f64>)]) -> Changes {
    let point = |(row, weights): &(u64, Vec<f64>)| WeightsFrom { row: *row, weights: weights.clone() };
    Changes { between, points: points.iter().map(point).collect() }
}

/// Returns the share of each dataset at a place, by the definition.
fn shares_at(first: &[f64], changes: &Changes, place: f64) -> Vec<f64> {
    let norm = |weights: &[f64]| {
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect::<Vec<_>>()
    };
    let (mut row, mut now) = (0.0, norm(first));
    for point in &changes.points {
        let (to, next) = (point.row as f64, norm(&point.weights));
        if place < to {
            let by = if changes.between == Between::Linear { (place - row) / (to - row) } else { 0.0 };
            return now.iter().zip(&next).map(|(now, next)| now + (next - now) * by).collect();
        }
        (row, now) = (to, next);
    }
    now
}

fn schedule() -> impl Strategy<Value = (Vec<f64>, Changes)> {
    (2usize..5).prop_flat_map(|parts| {
        let weights = || prop::collection::vec(prop_oneof![1 => Just(0u32), 4 => 1u32..50], parts);
        let points = prop::collection::vec((1u64..9000, weights()), 0..4);
        let between = prop::sample::select(vec![Between::Steps, Between::Linear]);
        (prop::collection::vec(1u32..50, parts), points, between).prop_map(|(first, points, between)| {
            let real = |weights: &[u32]| weights.iter().map(|weight| f64::from(*weight)).collect::<Vec<_>>();
            let mut row = 0;
            let points: Vec<(u64, Vec<f64>)> = points
                .iter()
                .filter(|(_, weights)| weights.iter().any(|weight| *weight > 0))
                .map(|(rows, weights)| {
                    row += rows;
                    (row, real(weights))
                })
                .collect();
            (real(&first), changes(between, &points))
        })
    })
}

fn places(mix: &Mix, rows: u64) -> Vec<(usize, u64)> {
    let (mut finder, key) = (MixFinder::default(), op_key(Seed(7), Epoch(3), MIX_STREAM));
    (0..rows).map(|place| finder.find(mix, key, place)).collect()
}

fn check_shares((first, changes): &(Vec<f64>, Changes), got: &[(usize, u64)]) -> Result<(), TestCaseError> {
    for part in 0..first.len() {
        let (mut want, mut has) = (0.0, 0u64);
        for (place, (of, row)) in got.iter().enumerate() {
            if *of == part {
                prop_assert_eq!(*row, has, "rows of a dataset come in order, each once");
                has += 1;
            }
            want += shares_at(first, changes, place as f64 + 0.5)[part];
            // A window ends at a point, and 1,024 places behind the last one.
            let behind = changes.points.iter().rev().map(|point| point.row).find(|row| *row <= place as u64 + 1);
            if (place as u64 + 1 - behind.unwrap_or(0)).is_multiple_of(WINDOW) {
                prop_assert!((has as f64 - want).abs() < 8.0, "{has} of {want} rows of {part} before {place}");
            }
        }
        // Within a window, a share on a line is that of its middle.
        let off = if changes.between == Between::Linear { 128.0 } else { 0.0 };
        prop_assert!((has as f64 - want).abs() < 8.0 + off, "{has} of {want} rows of {part}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn shares_follow_the_points(schedule in schedule(), extra in 1u64..5000) {
        let rows = schedule.1.points.last().map_or(0, |point| point.row) + extra;
        let mix = Mix::new(&schedule.0, Some(&schedule.1), Stop::Rows(rows), &vec![10; schedule.0.len()]).expect("a mix");
        prop_assert_eq!(mix.len(), Some(rows));
        let got = places(&mix, rows);
        check_shares(&schedule, &got)?;
        let endless = Mix::new(&schedule.0, Some(&schedule.1), Stop::Never, &vec![10; schedule.0.len()]).expect("a mix");
        // A short last window aside, it has the same places.
        let whole = (rows - extra + extra / WINDOW * WINDOW) as usize;
        prop_assert_eq!(&places(&endless, rows)[..whole], &got[..whole]);
        // Any place by itself.
        let (mut finder, key) = (MixFinder::default(), op_key(Seed(7), Epoch(3), MIX_STREAM));
        for place in (0..got.len()).rev().step_by(331) {
            prop_assert_eq!(finder.find(&mix, key, place as u64), got[place]);
        }
        // A streamed mix has the datasets at the same places.
        let of = |consumers: u32, consumer: u32| {
            let weights = (schedule.0.as_slice(), Some(&schedule.1));
            MixSchedule::new(weights, Stop::Rows(rows), Seed(7), Sharding::from(consumers), ConsumerIndex(consumer))
        };
        let takes_part = vec![true; schedule.0.len()];
        let window = |of: &MixSchedule, window| of.window(Epoch(3), window, &takes_part).expect("a share");
        let streamed: Vec<u16> = (0..40).flat_map(|number| window(&of(1, 0), number)).collect();
        prop_assert!(streamed.iter().map(|part| usize::from(*part)).eq(got.iter().map(|(part, _)| *part)));
        // Each of several consumers has its share of the rows, under the weights of the same part of the run.
        let mut all = 0;
        for consumer in 0..3 {
            let share = |row: u64| row / 3 + u64::from(u64::from(consumer) < row % 3);
            let mut own = schedule.clone();
            own.1.points.iter_mut().for_each(|point| point.row = share(point.row));
            let mut counts = vec![0; own.0.len()];
            let taken = (0..40).flat_map(|number| window(&of(3, consumer), number)).map(|part| {
                counts[usize::from(part)] += 1;
                (usize::from(part), counts[usize::from(part)] - 1)
            });
            let taken: Vec<(usize, u64)> = taken.collect();
            prop_assert_eq!(taken.len() as u64, share(rows));
            all += taken.len() as u64;
            if own.1.points.first().is_none_or(|point| point.row > 0) {
                check_shares(&own, &taken)?;
            }
        }
        prop_assert_eq!(all, rows);
    }

    #[test]
    fn a_schedule_ends_where_its_rule_says(schedule in schedule(), lens in prop::collection::vec(1u64..12_000, 4)) {
        let lens = &lens[..schedule.0.len()];
        let of = |stop| Mix::new(&schedule.0, Some(&schedule.1), stop, lens);
        let counts = |mix: &Mix| {
            let got = places(mix, mix.len().expect("an end"));
            let counts: Vec<u64> =
                (0..lens.len()).map(|part| got.iter().filter(|(of, _)| *of == part).count() as u64).collect();
            assert!((0..lens.len()).all(|part| mix.count(part) == Some(counts[part])));
            (got, counts)
        };
        let (got, first) = counts(&of(Stop::First).expect("a mix"));
        check_shares(&schedule, &got)?;
        prop_assert!(first.iter().zip(lens).all(|(count, len)| count <= len));
        prop_assert!(first.iter().zip(lens).any(|(count, len)| count == len), "{first:?} of {lens:?}");
        let last = schedule.1.points.last().map_or(&schedule.0, |point| &point.weights);
        match of(Stop::All) {
            Ok(mix) => {
                let (got, all) = counts(&mix);
                check_shares(&schedule, &got)?;
                prop_assert!(all.iter().zip(lens).all(|(count, len)| count >= len), "{all:?} of {lens:?}");
                prop_assert!(all.iter().zip(lens).any(|(count, len)| *count <= len + 8), "{all:?} of {lens:?}");
            }
            Err(why) => prop_assert!(matches!(why, NoPlan::NeverRead(part) if last[part] == 0.0)),
        }
        match of(Stop::Once) {
            Ok(mix) => prop_assert_eq!(&counts(&mix).1[..], lens),
            Err(why) => prop_assert!(matches!(why, NoPlan::NeverRead(_)) && last.contains(&0.0)),
        }
    }
}

/// The runs are fixed for ever.
#[test]
fn a_line_is_a_stair_of_whole_windows() {
    let line = |rows| changes(Between::Linear, &[(rows, vec![0.0, 2.0])]);
    let short = stretches(&[1.0, 0.0], Some(&line(100)));
    assert_eq!((short.len(), short[0].rest, &short[0].weights), (2, 100, &vec![0.5, 0.5]));
    let long = stretches(&[1.0, 0.0], Some(&line(5_000_000_000)));
    assert_eq!(long.len() as u64, STAIRS + 1);
    assert_eq!(long.iter().take(STAIRS as usize).map(Stretch::rows).sum::<u64>(), 5_000_000_000);
    assert!(long.windows(2).all(|pair| pair[1].weights[1] > pair[0].weights[1] && pair[0].windows > 4000));
    let two = stretches(&[1.0, 1.0], Some(&line(2048 + 10)));
    let runs: Vec<(u64, u64, u64)> = two.iter().map(|run| (run.first_window, run.windows, run.rest)).collect();
    assert_eq!(runs, [(0, 1, 0), (1, 1, 0), (2, 0, 10), (3, WINDOWS_MAX, 0)]);
}
