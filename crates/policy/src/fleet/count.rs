//! Workers of several types in units of one job, as if all were alike.
//!
//! The policies of jobs (`scaling`) count workers, and compare wanted workers with present ones. If five large machines
//! replace ten wanted small ones, such a policy would wait for ten for ever. So a job counts in units: one unit is a
//! worker as it was when the job's number was found. A unit remembers the types of these workers, so that the wanted
//! number stays right while their paces are still being measured.

use crate::scaling::{Claim, share};

/// The most that rounding alone takes off a number.
const ROUNDING: f64 = 1e-9;

/// Workers that are present.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Mix {
    /// Their number.
    pub workers: u32,
    /// The sum of their threads by type: of each offer, and last of all other types.
    pub threads: Vec<f64>,
}

/// The worker that a job counts as one: threads of each type, as in a [`Mix`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Unit(Vec<f64>);

/// Returns the capacity in threads of pace 1; threads of no offer have pace 1.
fn capacity(threads: &[f64], paces: &[f64]) -> f64 {
    threads.iter().zip(paces.iter().chain(std::iter::repeat(&1.0))).map(|(threads, pace)| threads * pace).sum()
}

impl Mix {
    /// Makes a mix of so many types, without any worker.
    pub fn none(kinds: usize) -> Self {
        Self { workers: 0, threads: vec![0.0; kinds + 1] }
    }

    /// Adds a worker of a type, or of no offered type.
    pub fn add(&mut self, kind: Option<usize>, threads: f64) {
        self.workers = self.workers.saturating_add(1);
        let last = self.threads.len().saturating_sub(1);
        self.threads.get_mut(kind.unwrap_or(last)).into_iter().for_each(|sum| *sum += threads);
    }

    /// Adds other workers of the same types.
    pub fn add_all(&mut self, others: &Self) {
        self.workers = self.workers.saturating_add(others.workers);
        self.threads.iter_mut().zip(&others.threads).for_each(|(sum, threads)| *sum += threads);
    }

    /// Returns the capacity of all threads, in threads of pace 1.
    pub fn capacity(&self, paces: &[f64]) -> f64 {
        capacity(&self.threads, paces)
    }

    /// Returns the mean worker; `None` without any.
    pub fn mean(&self) -> Option<Unit> {
        let workers = f64::from(self.workers);
        (self.workers > 0).then(|| Unit(self.threads.iter().map(|threads| threads / workers).collect()))
    }

    /// Counts the workers for a job that has the share `part` of their time and wants `wanted` units. Returns how many
    /// units it has, `wanted` at most, and the unit.
    pub fn count(&self, part: f64, wanted: u32, unit: &Unit, paces: &[f64]) -> (u32, Unit) {
        let (all, one) = (self.capacity(paces) * part, unit.capacity(paces));
        if wanted == 0 || all <= 0.0 || one <= 0.0 {
            return (0, unit.clone());
        }
        let count = ((all / one * (1.0 + ROUNDING)) as u32).clamp(1, wanted);
        // The job cannot count on workers beyond the wanted ones.
        let each = one.min(all / f64::from(count)) / self.capacity(paces);
        (count, Unit(self.threads.iter().map(|threads| threads * each).collect()))
    }
}

impl Unit {
    /// Returns its capacity, in threads of pace 1.
    pub fn capacity(&self, paces: &[f64]) -> f64 {
        capacity(&self.0, paces)
    }

    /// Returns its threads of each type.
    pub fn threads(&self) -> &[f64] {
        &self.0
    }
}

/// The need of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Need {
    /// Threads of pace 1.
    pub threads: f64,
    /// As in [`Claim`].
    pub priority: u32,
    /// As in [`Claim`].
    pub weight: f64,
}

/// Returns the share of a mix's time that each job can count on: by their needs if there is enough for all; otherwise
/// as whole workers are [shared](share).
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
        // Units beyond the wanted number are not counted, and less than one unit counts as one small unit.
        let (count, one) = large.count(1.0, 3, &unit, &paces);
        assert_eq!((count, one.threads()), (3, &[0.0, 4.0, 0.0][..]));
        let (count, one) = Mix { workers: 1, threads: vec![0.0, 0.0, 1.0] }.count(1.0, 3, &unit, &paces);
        assert_eq!((count, one.threads()), (1, &[0.0, 0.0, 1.0][..]));
        assert_eq!(Mix::default().count(1.0, 3, &unit, &paces).0, 0);
        // Large workers are measured to be twice as fast as small ones: ten units are half as many of them.
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
