//! The weights of a mix as they change within an epoch: runs of places with the same weights.
//!
//! A line between two points is a stair of runs of whole windows, at most [`STAIRS`], each with the weights of its
//! middle. So a share is off its line by at most half a row in a window, and the rows before any place are sums over
//! runs.
//!
//! Invariant: runs are fixed for ever: changing them changes the order in which users' jobs see their data.

use crate::epoch::mix::{WINDOW, WINDOWS_MAX};
use crate::source::{Between, Changes};

/// The most runs of one line: a run's weights are off the line by 2^-11 of the change at most, half a row of a window.
pub(crate) const STAIRS: u64 = 1024;

/// A run of places with the same weights.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::epoch) struct Stretch {
    pub(in crate::epoch) weights: Vec<f64>,
    /// The number of its first window among those of all stretches.
    pub(super) first_window: u64,
    /// Its full windows.
    pub(in crate::epoch) windows: u64,
    /// The places of a short window at its end; 0 for none.
    pub(in crate::epoch) rest: u64,
    pub(super) is_last: bool,
}

impl Stretch {
    /// Returns the number of its places.
    pub(in crate::epoch) fn rows(&self) -> u64 {
        self.windows * WINDOW + self.rest
    }

    /// Returns the number of the window behind it.
    fn end_window(&self) -> u64 {
        self.first_window + self.windows + u64::from(self.rest > 0)
    }

    /// Returns the places of one of its windows, by its number among those of all stretches.
    pub(in crate::epoch) fn places(&self, window: u64) -> u64 {
        if window - self.first_window < self.windows { WINDOW } else { self.rest }
    }

    /// Returns the number of its short window, and how many places that lacks.
    pub(super) fn short_window(&self) -> Option<(u64, u64)> {
        (self.rest > 0).then(|| (self.first_window + self.windows, WINDOW - self.rest))
    }
}

/// Returns the runs of an epoch. The last one has no end.
pub(in crate::epoch) fn stretches(weights: &[f64], changes: Option<&Changes>) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    let mut push = |weights: Vec<f64>, windows: u64, rest: u64, is_last: bool| {
        let first_window = found.last().map_or(0, Stretch::end_window);
        found.push(Stretch { weights, first_window, windows, rest, is_last });
    };
    let Some(changes) = changes else {
        push(weights.to_vec(), WINDOWS_MAX, 0, true);
        return found;
    };
    let (mut row, mut before) = (0, of_sum_one(weights));
    for point in &changes.points {
        let (rows, after) = (point.row.saturating_sub(row), of_sum_one(&point.weights));
        if rows == 0 {
            before = after;
            continue;
        }
        match changes.between {
            Between::Steps => push(before.clone(), rows / WINDOW, rows % WINDOW, false),
            Between::Linear => {
                let all = rows.div_ceil(WINDOW);
                let stairs = all.min(STAIRS);
                let edge = |stair: u64| (u128::from(all) * u128::from(stair) / u128::from(stairs)) as u64 * WINDOW;
                for stair in 0..stairs {
                    let (from, to) = (edge(stair), edge(stair + 1).min(rows));
                    let share = (from + to) as f64 / 2.0 / rows as f64;
                    let at = before.iter().zip(&after).map(|(before, after)| before + (after - before) * share);
                    push(at.collect(), (to - from) / WINDOW, (to - from) % WINDOW, false);
                }
            }
        }
        (row, before) = (point.row, after);
    }
    push(before, WINDOWS_MAX, 0, true);
    found
}

/// Returns, for each stretch, the weights with which datasets take part in it if only some still do: its own, or those
/// of the first stretch behind it in which one of them has a weight. `None` if there is none.
pub(super) fn taking_part(stretches: &[Stretch], takes_part: impl Fn(usize) -> bool) -> Option<Vec<f64>> {
    let of = |stretch: &Stretch| -> Vec<f64> {
        let weights = stretch.weights.iter().enumerate();
        weights.map(|(part, weight)| if takes_part(part) { *weight } else { 0.0 }).collect()
    };
    stretches.iter().map(of).find(|weights| weights.iter().any(|weight| *weight > 0.0))
}

/// Returns the weights, divided by their sum.
fn of_sum_one(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

#[cfg(test)]
mod tests;
