//! The order of a mix whose datasets are not counted: which dataset each place takes its next row from.
//!
//! Windows, shares and permutations are those of a counted mix (`mix`). Which of its rows a dataset gives follows from
//! how many it gave before, so only the end of an epoch depends on how many rows it has.
//!
//! Invariants: the order of a window is a function of (weights, seed, epoch, window) and of the datasets that still take
//! part; several consumers take turns at the windows of one sequence, and each mixes its own share of the datasets' rows.
//! Where weights change, each consumer has its own share of the rows before.

use forebay_core::{ConsumerIndex, Epoch, Seed, rng::op_key};

use crate::epoch::mix::combination::MIX_STREAM;
use crate::epoch::mix::stretches::{Stretch, stretches, taking_part};
use crate::epoch::mix::{Shares, WINDOW, lay_out};
use crate::epoch::sharding::Sharding;
use crate::source::{Changes, Stop};

/// The places of a window in which the shares of a mix hold.
pub const MIX_WINDOW: u64 = WINDOW;

/// The order of one consumer's rows of a mix.
#[derive(Debug, Clone)]
pub struct MixSchedule {
    stretches: Vec<Stretch>,
    seed: Seed,
    /// The number of consumers that take turns, and the turn of this one.
    consumers: u64,
    consumer: u64,
    /// The rows of an epoch, if the user set them.
    rows: Option<u64>,
    /// The rows of a batch, if each batch has the share of each part: a divisor of [`MIX_WINDOW`].
    batch: Option<u64>,
}

impl MixSchedule {
    /// Makes the schedule of a consumer.
    pub fn new(
        (weights, changes): (&[f64], Option<&Changes>),
        stop: Stop,
        seed: Seed,
        sharding: Sharding,
        consumer: ConsumerIndex,
    ) -> Self {
        let (consumers, consumer) = (sharding.parts(), sharding.part(consumer));
        let share = |rows: u64| rows / consumers + u64::from(consumer < rows % consumers);
        let rows = if let Stop::Rows(rows) = stop { Some(share(rows)) } else { None };
        // Weights change where all consumers together have come to the row.
        let changes = changes.cloned().map(|mut changes| {
            changes.points.iter_mut().for_each(|point| point.row = share(point.row));
            changes
        });
        Self { stretches: stretches(weights, changes.as_ref()), seed, consumers, consumer, rows, batch: None }
    }

    /// Gives each batch of `rows` rows the share of each part.
    pub fn per_batch(self, rows: Option<u64>) -> Self {
        Self { batch: rows, ..self }
    }

    /// Returns the dataset of each place of this consumer's window of that number: 1,024 places, or fewer where weights
    /// change or the epoch has a set number of rows. `takes_part` says of each dataset whether it takes part. Where none
    /// of these has a share, they have the shares that come next; `None` if they never have one again.
    pub fn window(&self, epoch: Epoch, window: u64, takes_part: &[bool]) -> Option<Vec<u16>> {
        let stretches = self.from(window);
        let left = self.rows.map_or(WINDOW, |rows| rows.saturating_sub(self.places_before(window)));
        let places = stretches.first()?.places(window).min(left);
        if places == 0 {
            return Some(Vec::new());
        }
        let weights = taking_part(stretches, |part| takes_part[part])?;
        let number = window.wrapping_mul(self.consumers).wrapping_add(self.consumer);
        let counts = Shares::new(&weights, 0).window(number, places);
        Some(lay_out(&counts, self.batch, op_key(self.seed, epoch, MIX_STREAM), number))
    }

    /// Returns whether a dataset has a share in this consumer's window of that number, or behind it.
    pub fn has_turn(&self, part: usize, window: u64) -> bool {
        self.from(window).iter().any(|stretch| stretch.weights[part] > 0.0)
    }

    /// Returns the stretch of a window, and those behind it.
    fn from(&self, window: u64) -> &[Stretch] {
        // Stretches have a window at least.
        let behind = self.stretches.partition_point(|stretch| stretch.first_window <= window);
        &self.stretches[behind.saturating_sub(1)..]
    }

    /// Returns the places of this consumer's windows before one.
    fn places_before(&self, window: u64) -> u64 {
        let lacks = self.stretches.iter().filter_map(Stretch::short_window).filter(|(at, _)| *at < window);
        window.saturating_mul(WINDOW).saturating_sub(lacks.map(|(_, lack)| lack).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoch::mix::{Mix, MixFinder};

    fn schedule(weights: &[f64], stop: Stop, consumers: u32, consumer: u32) -> MixSchedule {
        MixSchedule::new((weights, None), stop, Seed(7), Sharding::from(consumers), ConsumerIndex(consumer))
    }

    #[test]
    fn places_are_those_of_a_counted_mix() {
        let weights = [0.61, 0.3, 0.09];
        for (stop, rows) in [(Stop::Never, 5000), (Stop::Rows(3210), 3210)] {
            let (mix, mut finder) =
                (Mix::new(&weights, None, stop, &[10, 20, 30]).expect("fits"), MixFinder::default());
            let key = op_key(Seed(7), Epoch(3), MIX_STREAM);
            let want: Vec<u16> = (0..rows).map(|place| finder.find(&mix, key, place).0 as u16).collect();
            let of = schedule(&weights, stop, 1, 0);
            let found: Vec<u16> =
                (0..6).flat_map(|window| of.window(Epoch(3), window, &[true; 3]).expect("a share")).collect();
            assert_eq!(found[..rows as usize], want[..]);
            assert!(stop == Stop::Never || found.len() == want.len());
        }
    }

    #[test]
    fn consumers_take_turns_at_windows_and_share_rows() {
        let all = schedule(&[1.0, 2.0], Stop::Never, 1, 0);
        for consumer in 0..3 {
            let own = schedule(&[1.0, 2.0], Stop::Never, 3, consumer);
            for window in 0..4 {
                let global = window * 3 + u64::from(consumer);
                assert_eq!(own.window(Epoch(0), window, &[true; 2]), all.window(Epoch(0), global, &[true; 2]));
            }
        }
        let rows = |consumer| {
            let own = schedule(&[1.0, 2.0], Stop::Rows(5000), 3, consumer);
            (0..9).filter_map(|window| Some(own.window(Epoch(0), window, &[true; 2])?.len())).sum::<usize>()
        };
        assert_eq!([rows(0), rows(1), rows(2)], [1667, 1667, 1666]);
    }

    #[test]
    fn a_dataset_that_left_has_no_place_and_the_others_keep_their_ratio() {
        let own = schedule(&[5.0, 3.0, 2.0], Stop::Once, 1, 0);
        let places = own.window(Epoch(0), 4, &[true, false, true]).expect("a share");
        let of = |part: u16| places.iter().filter(|place| **place == part).count();
        assert_eq!((of(1), places.len()), (0, 1024));
        assert!((731..=732).contains(&of(0)), "{}", of(0));
    }
}
