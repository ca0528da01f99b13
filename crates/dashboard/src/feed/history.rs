//! Rates of jobs over time, computed from the differences between snapshots. Pure.
//!
//! Bounds: [`JOBS_MAX`] jobs; a further job replaces the one that was not seen for longest. For each job, [`FINE_MAX`]
//! points of [`FINE_S`] seconds (an hour) and [`COARSE_MAX`] points of [`COARSE_S`] seconds (a day): 50 KB for a job,
//! 20 MB in all.

use std::collections::{HashMap, VecDeque};

use forebay_proto::{ConsumerSums, JobStatus};
use serde::Serialize;

const JOBS_MAX: usize = 400;
const FINE_S: u64 = 2;
const FINE_MAX: usize = 1800;
const COARSE_S: u64 = 120;
const COARSE_MAX: usize = 720;
/// A snapshot that follows the last one sooner is ignored.
const APART_MIN_MS: u64 = 1500;
/// Snapshots that are further apart make no point, because the time between them is unknown.
const APART_MAX_MS: u64 = 60_000;
/// The most figures of a spark line.
const SPARK_MAX: usize = 30;

/// The figures of a job at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Point {
    /// Seconds since 1970.
    at: u32,
    /// Batches and rows a second.
    batches_per_s: f32,
    rows_per_s: f32,
    /// The share of its time for which the trainer waited; NaN, in JSON `null`, if it reported nothing.
    waited: f32,
    /// The number of workers, and the wanted number.
    workers: u16,
    wanted: u16,
}

/// The history of one job.
#[derive(Debug, Default)]
struct Track {
    fine: VecDeque<Point>,
    coarse: VecDeque<Point>,
    /// The time of the last snapshot in milliseconds, and the sums of the job in it.
    last: Option<(u64, ConsumerSums)>,
}

/// The tenant and the name of a job.
pub(crate) type JobId = (String, String);

/// The history of all jobs.
#[derive(Debug, Default)]
pub(crate) struct History {
    jobs: HashMap<JobId, Track>,
}

/// The history of a job in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Series {
    /// Seconds between two points of `fine`, and of `coarse`.
    fine_s: u64,
    coarse_s: u64,
    /// The last hour, the oldest first, with gaps for times without a consumer.
    fine: Vec<Point>,
    /// The last day.
    coarse: Vec<Point>,
}

impl History {
    /// Adds a snapshot of jobs, taken `at_ms` milliseconds since 1970. `workers` is the number of all workers.
    pub(crate) fn add(&mut self, at_ms: u64, jobs: &[JobStatus], workers: usize) {
        for job in jobs.iter().filter(|job| job.consumers.iter().any(|c| c.attached)) {
            let id = (job.tenant.clone(), job.name.clone());
            if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&id) {
                self.drop_oldest();
            }
            self.jobs.entry(id).or_default().add(at_ms, job, u16::try_from(workers).unwrap_or(u16::MAX));
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.jobs.iter().min_by_key(|(_, track)| track.last.map_or(0, |(at, _)| at));
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.jobs.remove(&id);
        }
    }

    /// Returns the last rates of a job.
    pub(crate) fn spark(&self, job: &JobStatus) -> Vec<f32> {
        let track = self.jobs.get(&(job.tenant.clone(), job.name.clone()));
        track.map_or_else(Vec::new, |track| {
            let skipped = track.fine.len().saturating_sub(SPARK_MAX);
            track.fine.iter().skip(skipped).map(|point| (point.batches_per_s * 10.0).round() / 10.0).collect()
        })
    }

    /// Returns the history of a job; empty if there is none.
    pub(crate) fn series(&self, id: &JobId) -> Series {
        let of = |points: fn(&Track) -> &VecDeque<Point>| {
            self.jobs.get(id).map_or_else(Vec::new, |track| points(track).iter().copied().collect())
        };
        Series { fine_s: FINE_S, coarse_s: COARSE_S, fine: of(|t| &t.fine), coarse: of(|t| &t.coarse) }
    }
}

impl Track {
    fn add(&mut self, at_ms: u64, job: &JobStatus, workers: u16) {
        let sums = total(job);
        let last = self.last.filter(|(at, _)| at_ms.saturating_sub(*at) <= APART_MAX_MS);
        let Some((at, before)) = last else {
            self.last = Some((at_ms, sums));
            return;
        };
        if at_ms < at + APART_MIN_MS {
            return;
        }
        self.last = Some((at_ms, sums));
        // The sums begin anew: the dispatcher was restarted, or this is another job of the same name.
        if sums.batches < before.batches || sums.waited_ms < before.waited_ms {
            return;
        }
        let seconds = (at_ms - at) as f32 / 1e3;
        let more = |now: u64, then: u64| now.saturating_sub(then) as f32;
        let (waited, step) = (more(sums.waited_ms, before.waited_ms), more(sums.step_ms, before.step_ms));
        let point = Point {
            at: u32::try_from(at_ms / 1000).unwrap_or(u32::MAX),
            batches_per_s: more(sums.batches, before.batches) / seconds,
            rows_per_s: more(sums.rows, before.rows) / seconds,
            waited: if waited + step > 0.0 { waited / (waited + step) } else { f32::NAN },
            workers,
            wanted: u16::try_from(job.workers).unwrap_or(u16::MAX),
        };
        push(&mut self.fine, point, FINE_MAX);
        self.add_coarse(point);
    }

    /// Adds a coarse point, the mean of its fine points, once `point` is of the next coarse period.
    fn add_coarse(&mut self, point: Point) {
        let slot = |point: &Point| u64::from(point.at) / COARSE_S;
        let Some(before) = self.fine.len().checked_sub(2).map(|i| slot(&self.fine[i])) else { return };
        if slot(&point) == before {
            return;
        }
        let all: Vec<_> = self.fine.iter().rev().skip(1).take_while(|p| slot(p) == before).copied().collect();
        let mean = |of: fn(&Point) -> f32| {
            let known: Vec<_> = all.iter().map(of).filter(|x| x.is_finite()).collect();
            known.iter().sum::<f32>() / known.len() as f32
        };
        let (batches_per_s, rows_per_s) = (mean(|p| p.batches_per_s), mean(|p| p.rows_per_s));
        let at = u32::try_from(before * COARSE_S).unwrap_or(u32::MAX);
        let waited = mean(|p| p.waited);
        let Some(&Point { workers, wanted, .. }) = all.first() else { return };
        push(&mut self.coarse, Point { at, batches_per_s, rows_per_s, waited, workers, wanted }, COARSE_MAX);
    }
}

fn push(points: &mut VecDeque<Point>, point: Point, most: usize) {
    if points.len() >= most {
        points.pop_front();
    }
    points.push_back(point);
}

/// Sums up the reports of the consumers of a job since the dispatcher started.
fn total(job: &JobStatus) -> ConsumerSums {
    job.consumers.iter().filter_map(|c| c.total).fold(ConsumerSums::default(), |sum, of| ConsumerSums {
        waited_ms: sum.waited_ms.saturating_add(of.waited_ms),
        step_ms: sum.step_ms.saturating_add(of.step_ms),
        batches: sum.batches.saturating_add(of.batches),
        rows: sum.rows.saturating_add(of.rows),
        bytes: sum.bytes.saturating_add(of.bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::ConsumerStatus;

    fn job(name: &str, batches: u64, waited_ms: u64, step_ms: u64) -> JobStatus {
        let total = ConsumerSums { waited_ms, step_ms, batches, rows: 10 * batches, bytes: 0 };
        let consumer = ConsumerStatus { attached: true, total: Some(total), ..ConsumerStatus::default() };
        JobStatus { name: name.to_owned(), consumers: vec![consumer], workers: 3, ..JobStatus::default() }
    }

    #[test]
    fn rates_are_differences_and_a_day_is_kept_in_bounds() {
        let mut history = History::default();
        // Two days of snapshots, one every two seconds: five batches a second, a quarter of the time waiting.
        for look in 0..2 * 86_400 / FINE_S {
            let now = [job("a", 10 * look, 500 * look, 1500 * look)];
            history.add(2000 * look + 1000, &now, 2);
            // A visitor's snapshot in between adds no point.
            history.add(2000 * look + 1400, &now, 2);
        }
        let series = history.series(&(String::new(), "a".to_owned()));
        assert_eq!((series.fine.len(), series.coarse.len()), (FINE_MAX, COARSE_MAX));
        let is_right =
            |p: &Point| (p.batches_per_s, p.rows_per_s, p.waited, p.workers, p.wanted) == (5.0, 50.0, 0.25, 2, 3);
        assert!(series.fine.iter().chain(&series.coarse).all(is_right), "{:?}", series.coarse.first());
        assert_eq!(history.spark(&job("a", 0, 0, 0)), [5.0; SPARK_MAX]);
    }

    #[test]
    fn a_restart_of_the_dispatcher_and_a_long_gap_make_no_point() {
        let mut history = History::default();
        history.add(0, &[job("a", 100, 10, 10)], 1);
        history.add(2000, &[job("a", 3, 0, 0)], 1);
        history.add(4000, &[job("a", 5, 0, 2000)], 1);
        history.add(400_000, &[job("a", 5000, 0, 2000)], 1);
        history.add(402_000, &[job("a", 5001, 0, 2000)], 1);
        let rates: Vec<_> = history.spark(&job("a", 0, 0, 0));
        assert_eq!(rates, [1.0, 0.5]);
    }

    #[test]
    fn the_number_of_jobs_is_bounded_and_the_longest_unseen_leaves() {
        let mut history = History::default();
        for n in 0..JOBS_MAX as u64 + 5 {
            history.add(n, &[job(&format!("job {n}"), 0, 0, 0)], 1);
        }
        let has = |n: usize| history.jobs.contains_key(&(String::new(), format!("job {n}")));
        assert_eq!(history.jobs.len(), JOBS_MAX);
        assert!(!has(4) && has(5) && has(JOBS_MAX + 4));
    }
}
