//! Workers of several kinds as a job counts them: as if all were alike.
//!
//! The policies of jobs (`scaling`) count workers, and look whether those that they want are there. Where five large machines do for ten
//! small ones that were wanted, they would wait for ten for ever. So a job counts in units: workers as those were that its number was
//! found with. A unit remembers the kinds of these, so that what is wanted stays right while it is still found out how fast these are.

use crate::scaling::{Claim, share};

/// What rounding alone takes off a number.
const ROUNDING: f64 = 1e-9;

/// Workers that there are.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mix {
    /// How many.
    pub workers: u32,
    /// All of their threads, by kind: of each offer, and then those of all others.
    pub threads: Vec<f64>,
}

/// What a job counts as one worker: threads of each kind, as in a [`Mix`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unit(Vec<f64>);

/// Returns the sum of threads in those of pace 1; those of no offer have it.
fn capacity(threads: &[f64], paces: &[f64]) -> f64 {
    threads.iter().zip(paces.iter().chain(std::iter::repeat(&1.0))).map(|(threads, pace)| threads * pace).sum()
}

impl Mix {
    /// Makes one of so many kinds, without any worker.
    pub fn none(kinds: usize) -> Self {
        Self { workers: 0, threads: vec![0.0; kinds + 1] }
    }

    /// Adds a worker of a kind, or of none.
    pub fn add(&mut self, kind: Option<usize>, threads: f64) {
        self.workers = self.workers.saturating_add(1);
        let last = self.threads.len().saturating_sub(1);
        self.threads.get_mut(kind.unwrap_or(last)).into_iter().for_each(|sum| *sum += threads);
    }

    /// Adds others, of the same kinds.
    pub fn add_all(&mut self, others: &Self) {
        self.workers = self.workers.saturating_add(others.workers);
        self.threads.iter_mut().zip(&others.threads).for_each(|(sum, threads)| *sum += threads);
    }

    /// Returns all threads, in those of pace 1.
    pub fn capacity(&self, paces: &[f64]) -> f64 {
        capacity(&self.threads, paces)
    }

    /// Returns their mean; `None` without any.
    pub fn mean(&self) -> Option<Unit> {
        let workers = f64::from(self.workers);
        (self.workers > 0).then(|| Unit(self.threads.iter().map(|threads| threads / workers).collect()))
    }

    /// Counts them for a job that has a part of their time and wants so many units: as many as it wants, if it has enough for these. Returns
    /// how many it has, and what one of these is.
    pub fn count(&self, part: f64, wanted: u32, unit: &Unit, paces: &[f64]) -> (u32, Unit) {
        let (all, one) = (self.capacity(paces) * part, unit.capacity(paces));
        if wanted == 0 || all <= 0.0 || one <= 0.0 {
            return (0, unit.clone());
        }
        let count = ((all / one * (1.0 + ROUNDING)) as u32).clamp(1, wanted);
        // What is there beyond what is wanted is nothing that it can count on.
        let each = one.min(all / f64::from(count)) / self.capacity(paces);
        (count, Unit(self.threads.iter().map(|threads| threads * each).collect()))
    }
}

impl Unit {
    /// Returns its threads, in those of pace 1.
    pub fn capacity(&self, paces: &[f64]) -> f64 {
        capacity(&self.0, paces)
    }

    /// Returns its threads of each kind.
    pub fn threads(&self) -> &[f64] {
        &self.0
    }
}

/// What a job would have of a mix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Threads of pace 1.
    pub threads: f64,
    /// As in [`Claim`].
    pub priority: u32,
    /// As in [`Claim`].
    pub weight: f64,
}

/// Returns the part of a mix's time that each of some jobs can count on: where there is enough for all, by what it needs; otherwise as
/// whole workers are [shared](share).
pub fn parts(mix: &Mix, paces: &[f64], needs: &[Need]) -> Vec<f64> {
    let (all, need): (f64, f64) = (mix.capacity(paces), needs.iter().map(|need| need.threads).sum());
    if need <= all * (1.0 + ROUNDING) {
        return needs.iter().map(|job| if need > 0.0 { job.threads / need } else { 0.0 }).collect();
    }
    let one = all / f64::from(mix.workers.max(1));
    let claim = |&Need { threads, priority, weight }: &Need| {
        let wanted = if one > 0.0 { (threads / one * (1.0 - ROUNDING)).ceil() as u32 } else { 0 };
        Claim { priority, wanted, weight }
    };
    let given = share(mix.workers, &needs.iter().map(claim).collect::<Vec<_>>());
    given.into_iter().map(|workers| f64::from(workers) / f64::from(mix.workers.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn five_large_ones_are_ten_small_ones() {
        let small = Mix { workers: 2, threads: vec![8.0, 0.0, 0.0] };
        let unit = small.mean().expect("some");
        let paces = [1.0, 1.0];
        assert_eq!(small.count(1.0, 10, &unit, &paces), (2, unit.clone()));
        let large = Mix { workers: 5, threads: vec![0.0, 40.0, 0.0] };
        let (count, one) = large.count(1.0, 10, &unit, &paces);
        assert_eq!((count, one.threads()), (10, &[0.0, 4.0, 0.0][..]));
        // More than is wanted is not counted, and what is less than one is one that is small.
        let (count, one) = large.count(1.0, 3, &unit, &paces);
        assert_eq!((count, one.threads()), (3, &[0.0, 4.0, 0.0][..]));
        let (count, one) = Mix { workers: 1, threads: vec![0.0, 0.0, 1.0] }.count(1.0, 3, &unit, &paces);
        assert_eq!((count, one.threads()), (1, &[0.0, 0.0, 1.0][..]));
        assert_eq!(Mix::default().count(1.0, 3, &unit, &paces).0, 0);
        // Large ones are found to be twice as fast as small ones: ten of these are half as much of them.
        let (count, one) = large.count(0.5, 10, &unit, &[0.75, 1.5]);
        assert_eq!(count, 10);
        assert!(close(one.threads()[1], 2.0), "{one:?}");
    }

    #[test]
    fn where_there_is_enough_each_has_it_in_parts_of_machines() {
        let mix = Mix { workers: 5, threads: vec![40.0, 0.0] };
        let need = |threads: f64, weight: f64| Need { threads, priority: 0, weight };
        assert_eq!(parts(&mix, &[1.0], &[need(20.0, 1.0), need(20.0, 1.0)]), [0.5, 0.5]);
        assert_eq!(parts(&mix, &[1.0], &[need(10.0, 1.0)]), [1.0]);
        assert_eq!(parts(&mix, &[1.0], &[need(80.0, 1.0), need(80.0, 4.0)]), [0.2, 0.8]);
        let urgent = Need { priority: 3, ..need(24.0, 1.0) };
        assert_eq!(parts(&mix, &[1.0], &[need(80.0, 1.0), urgent]), [0.4, 0.6]);
        assert_eq!(parts(&Mix::default(), &[1.0], &[need(1.0, 1.0)]), [0.0]);
    }
}
