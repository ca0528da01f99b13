//! The rows that consumers of one job take and its workers compute, by window: the input of the scaling policy.
//!
//! Pure. `policy::scaling::window` says how long a window is. Nothing is persisted: after a restart it is measured
//! again.
//! Bounds: one sum for each consumer of the job.

use std::collections::BTreeMap;

use forebay_core::Ticks;
use forebay_policy::placement::Objective;
use forebay_policy::scaling::{Limits, Observation, window};
use forebay_proto::{ConsumerHeartbeat, Sent, Spent};

use super::boundary_costs::BoundaryCosts;
use super::hosts::{BatchesMade, SendCost, SpareCapacity, combined};
use super::network_cost::EndpointCost;
use crate::state::limits::REPORTED_MAX;

/// The duration, in milliseconds, of a step that was too short to measure.
const STEP_MIN_MS: f64 = 0.5;
/// The least share of the demand that remains for workers.
const REST_MIN: f64 = 0.01;

/// The reports of one consumer in a window.
#[derive(Debug, Clone, Copy, Default)]
struct ConsumerLoad {
    waited_ms: u64,
    step_ms: u64,
    batches: u64,
    rows: u64,
    /// The sum over heartbeats of the splits that were buffered ahead, and the number of heartbeats.
    ahead: (u64, u64),
    /// The spare capacity of its host, if it reports that.
    spare_capacity: SpareCapacity,
    /// Rows that its local worker computed.
    local_rows: u64,
    /// Bytes that came over a network.
    received: u64,
}

/// The workers and threads that compute for a job.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::state) struct Workforce {
    /// Workers, in the units that the job counts in.
    pub(in crate::state) workers: u32,
    /// Threads of one such worker.
    pub(in crate::state) each: f64,
    /// Threads of all workers.
    pub(in crate::state) threads: f64,
    /// Local threads of consumers that request some.
    pub(in crate::state) local: u32,
}

/// The load of one job.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct JobLoad {
    /// When the window began, and the microseconds that all workers had spent on all jobs by then.
    began: Ticks,
    spent_before: u64,
    consumers: BTreeMap<u32, ConsumerLoad>,
    compute_us: u64,
    rows: u64,
    /// Microseconds of local threads, including the time for which they yielded to the trainer.
    local_us: u64,
    /// The fewest workers in the window, and whether their number changed.
    workforce: Option<Workforce>,
    unsteady: bool,
    /// Seconds of one thread per row, and rows per batch, as last known. If only local workers computed, which run all
    /// ops, the cost of all ops.
    row_cost: Option<RowCost>,
    batch_rows: Option<f64>,
    /// Threads of a worker, as last seen.
    threads: Option<f64>,
    /// Bytes of a row that came over a network, as last known.
    row_received: Option<f64>,
    /// The CPU cost of a byte over the network, at workers and at consumers.
    network: [EndpointCost; 2],
}

/// Seconds of one thread per row.
#[derive(Debug, Clone, Copy)]
enum RowCost {
    /// On a worker, which runs the ops before the placement boundary.
    OfWorkers(f64),
    /// On a local worker, which runs all ops.
    Whole(f64),
}

impl JobLoad {
    /// Begins the first window. `spent` is the microseconds that all workers have spent on all jobs.
    pub(in crate::state) fn new(now: Ticks, spent: u64) -> Self {
        Self { began: now, spent_before: spent, ..Self::default() }
    }

    /// Begins another window and drops this one's sums, which no longer apply.
    pub(in crate::state) fn restart(&mut self, now: Ticks, spent: u64) {
        let Self { row_cost, batch_rows, threads, row_received, network, .. } = *self;
        *self = Self { row_cost, batch_rows, threads, row_received, network, ..Self::new(now, spent) };
    }

    pub(in crate::state) fn add(&mut self, consumer: u32, said: &ConsumerHeartbeat) {
        let load = self.consumers.entry(consumer).or_default();
        let sum = |sum: &mut u64, said: u64| *sum = sum.saturating_add(said.min(REPORTED_MAX));
        sum(&mut load.waited_ms, said.batch_wait_ms);
        sum(&mut load.step_ms, said.step_ms);
        sum(&mut load.batches, said.batches);
        sum(&mut load.rows, said.rows);
        sum(&mut load.received, said.received_bytes);
        sum(&mut load.ahead.0, said.ahead);
        load.ahead.1 += 1;
        self.network[1].add(said.received_bytes, said.receive_ns);
        if let Some(spare) = &said.spare {
            load.spare_capacity.add(spare);
        }
    }

    pub(in crate::state) fn spend(&mut self, spent: &Spent) {
        self.compute_us = self.compute_us.saturating_add(spent.compute_us);
        self.rows = self.rows.saturating_add(spent.rows);
    }

    /// Accepts a worker's report of the bytes that it sent over a network.
    pub(in crate::state) fn send(&mut self, sent: &Sent) {
        self.network[0].add(sent.bytes, sent.nanos);
    }

    /// Accepts a report of a consumer's local worker on the time that it spent.
    pub(in crate::state) fn spend_local(&mut self, consumer: u32, spent: &Spent) {
        let load = self.consumers.entry(consumer).or_default();
        load.local_rows = load.local_rows.saturating_add(spent.rows);
        self.local_us = self.local_us.saturating_add(spent.compute_us);
    }

    /// Notes which workers compute for the job now.
    pub(in crate::state) fn note_workforce(&mut self, workforce: Workforce) {
        let least = *self.workforce.get_or_insert(workforce);
        self.unsteady |= least != workforce;
        self.workforce = Some(if workforce.workers < least.workers {
            workforce
        } else {
            Workforce { local: workforce.local, ..least }
        });
    }

    /// The placement boundary moved: some splits of this window still have the old one.
    pub(in crate::state) fn note_boundary_moved(&mut self) {
        self.unsteady = true;
    }

    /// Returns the rows of a batch, as last known.
    pub(in crate::state) fn batch_rows(&self) -> Option<f64> {
        self.batch_rows.filter(|rows| *rows > 0.0)
    }

    /// Ends the window if it has lasted long enough, and begins the next one. `workers` is how many workers the job can
    /// count on if jobs share them; `spent` is the microseconds that all workers have spent on all jobs; `costs`
    /// returns the cost of rows at each placement boundary.
    pub(in crate::state) fn end(
        &mut self,
        now: Ticks,
        spent: u64,
        workers: u32,
        limits: Limits,
        objective: Objective,
        costs: impl FnOnce() -> BoundaryCosts,
    ) -> Option<Observation> {
        let lasted = now - self.began;
        let batches = self.sum(|t| t.batches);
        let workforce = self.workforce.filter(|_| lasted >= window::lasts(batches))?;
        self.learn(workforce, batches);
        let seconds = lasted.as_secs_f64();
        let all_threads = workforce.threads * seconds * 1e6;
        // The policy does not decide on threads whose number the user set: no other process need make their batches.
        let [local, set] = [true, false].map(|is_asked| self.made_locally(is_asked) / seconds);
        let rest = |rate: f64| (rate - set).max(rate * REST_MIN);
        let (costs, rows) = (costs(), self.batch_rows().unwrap_or(0.0));
        let (after, row_bytes) = costs.current();
        let row = self.row_cost.map(|cost| match cost {
            RowCost::OfWorkers(cost) => cost,
            RowCost::Whole(cost) => (cost - after).max(cost * REST_MIN),
        });
        let worked = row.map(|row| row * rows).filter(|compute| *compute > 0.0);
        let sent = SendCost::new(self.row_received.unwrap_or(0.0), row_bytes, self.network.map(|side| side.of_byte()));
        let spare: Vec<_> = self.consumers.values().map(|t| t.spare_capacity).collect();
        let made =
            BatchesMade { local, remote: (batches as f64 / seconds - local - set).max(0.0), rows, compute: worked };
        let seen = Observation {
            at: now,
            workers: workforce.workers.min(workers),
            local: workforce.local,
            steady: !self.unsteady,
            limits,
            threads: self.threads.unwrap_or(0.0),
            threads_by_kind: Vec::new(),
            batches,
            delivered: rest(batches as f64 / seconds),
            demand: self.demand(seconds).map(rest),
            waited: self.waited(),
            compute: worked.map(|compute| compute + sent.by_worker(row_bytes * rows)),
            busy: (all_threads > 0.0).then(|| spent.saturating_sub(self.spent_before) as f64 / all_threads),
            made: worked.map(|_| self.rows as f64 / rows / seconds),
            ahead: self.ahead(),
            beside: set,
            host: combined(&spare, &made, &costs, &sent, objective),
        };
        self.restart(now, spent);
        Some(seen)
    }

    /// Keeps the figures that hold beyond the window, for windows that lack them.
    fn learn(&mut self, workforce: Workforce, batches: u64) {
        if workforce.workers > 0 {
            self.threads = Some(workforce.each);
        }
        if batches > 0 {
            self.batch_rows = Some(self.sum(|t| t.rows) as f64 / batches as f64);
        }
        let local_rows = self.sum(|t| t.local_rows);
        let came = self.sum(|t| t.rows).saturating_sub(local_rows);
        if came > 0 {
            self.row_received = Some(self.sum(|t| t.received) as f64 / came as f64);
        }
        if self.rows > 0 {
            self.row_cost = Some(RowCost::OfWorkers(self.compute_us as f64 / 1e6 / self.rows as f64));
        } else if self.row_cost.is_none() && local_rows > 0 {
            self.row_cost = Some(RowCost::Whole(self.local_us as f64 / 1e6 / local_rows as f64));
        }
    }

    /// Returns the batches that local workers made, for consumers that request threads or for the others.
    fn made_locally(&self, is_asked: bool) -> f64 {
        let made = self.consumers.values().filter(|t| t.spare_capacity.asks() == is_asked);
        let rows = made.map(|t| t.local_rows).fold(0, u64::saturating_add) as f64;
        self.batch_rows.filter(|rows| *rows > 0.0).map_or(0.0, |of_one| rows / of_one)
    }

    fn sum(&self, of: impl Fn(&ConsumerLoad) -> u64) -> u64 {
        self.consumers.values().map(of).fold(0, u64::saturating_add)
    }

    /// Sums up each consumer's batches by the time that it did not wait. A consumer that took none and did not wait
    /// demands less than one.
    fn demand(&self, seconds: f64) -> Option<f64> {
        let of = |t: &ConsumerLoad| match t.batches {
            0 if t.step_ms > t.waited_ms => 1.0 / seconds,
            0 => 0.0,
            batches => batches as f64 * 1000.0 / (t.step_ms as f64).max(STEP_MIN_MS),
        };
        Some(self.consumers.values().map(of).sum::<f64>()).filter(|demand| *demand > 0.0)
    }

    fn waited(&self) -> f64 {
        let (waited, stepped) = (self.sum(|t| t.waited_ms) as f64, self.sum(|t| t.step_ms) as f64);
        if waited + stepped > 0.0 { waited / (waited + stepped) } else { 0.0 }
    }

    fn ahead(&self) -> Option<f64> {
        let (splits, said) = (self.sum(|t| t.ahead.0), self.sum(|t| t.ahead.1));
        (said > 0).then(|| splits as f64 / said as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { min: 1, max: 8 };

    /// A pipeline without a choice of boundaries.
    fn whole() -> BoundaryCosts {
        BoundaryCosts::default()
    }

    fn workforce(workers: u32, threads: f64) -> Workforce {
        Workforce { workers, each: threads / f64::from(workers), threads, local: 0 }
    }

    fn said(batch_wait_ms: u64, step_ms: u64, batches: u64) -> ConsumerHeartbeat {
        ConsumerHeartbeat {
            batch_wait_ms,
            step_ms,
            batches,
            rows: batches * 32,
            ahead: 2,
            ..ConsumerHeartbeat::default()
        }
    }

    fn close(a: Option<f64>, b: f64) -> bool {
        a.is_some_and(|a| (a - b).abs() < 1e-9)
    }

    #[test]
    fn a_window_says_what_is_asked_for_and_what_a_batch_costs() {
        let mut load = JobLoad::default();
        load.note_workforce(workforce(2, 8.0));
        // Two consumers: one steps for 50 ms, the other for 25; both wait for half of the time.
        for _ in 0..4 {
            load.add(0, &said(250, 250, 5));
            load.add(1, &said(250, 250, 10));
            load.spend(&Spent { job: 1, compute_us: 3_200_000, rows: 480 });
        }
        assert_eq!(load.end(Ticks(1999), 0, 2, LIMITS, Objective::Time, whole), None, "too early");
        let seen = load.end(Ticks(2000), 12_800_000, 2, LIMITS, Objective::Time, whole).expect("long enough");
        assert!(close(seen.demand, 60.0) && close(seen.compute, 12.8 / 1920.0 * 32.0), "{seen:?}");
        assert!(
            close(seen.made, 30.0) && close(Some(seen.delivered), 30.0) && close(Some(seen.waited), 0.5) && seen.steady,
            "{seen:?}"
        );
        assert!(close(seen.busy, 0.8) && close(Some(seen.threads), 4.0) && close(seen.ahead, 2.0), "{seen:?}");
        // The cost of a batch is known from before; the window is marked as unsteady because the number of workers
        // changed.
        load.note_workforce(workforce(3, 12.0));
        load.note_workforce(workforce(1, 4.0));
        load.add(0, &said(0, 6000, 3));
        assert_eq!(load.end(Ticks(7000), 0, 9, LIMITS, Objective::Time, whole), None, "few batches");
        let seen = load.end(Ticks(8000), 0, 9, LIMITS, Objective::Time, whole).expect("long enough");
        assert!(close(seen.demand, 0.5) && close(seen.compute, 12.8 / 1920.0 * 32.0), "{seen:?}");
        assert_eq!((seen.workers, seen.steady), (1, false));
    }

    #[test]
    fn a_trainer_that_rests_asks_for_little_and_one_that_waits_is_not_at_rest() {
        let mut load = JobLoad::default();
        let one = workforce(1, 1.0);
        load.note_workforce(one);
        load.add(0, &said(0, 60_000, 0));
        assert_eq!(load.end(Ticks(59_000), 0, 1, LIMITS, Objective::Time, whole), None);
        let seen = load.end(Ticks(60_000), 0, 1, LIMITS, Objective::Time, whole).expect("long enough");
        assert!(close(seen.demand, 1.0 / 60.0) && seen.waited == 0.0, "{seen:?}");
        load.note_workforce(one);
        load.add(0, &said(60_000, 0, 0));
        let seen = load.end(Ticks(120_000), 0, 1, LIMITS, Objective::Time, whole).expect("long enough");
        assert_eq!((seen.demand, seen.waited), (None, 1.0));
    }

    #[test]
    fn nonsense_that_is_said_overflows_nothing() {
        let mut load = JobLoad::default();
        load.note_workforce(workforce(1, 1.0));
        let most = u64::MAX;
        for _ in 0..4 {
            load.add(
                0,
                &ConsumerHeartbeat {
                    batch_wait_ms: most,
                    step_ms: most,
                    batches: most,
                    rows: most,
                    ahead: most,
                    received_bytes: most,
                    ..ConsumerHeartbeat::default()
                },
            );
            load.spend(&Spent { job: 1, compute_us: most, rows: most });
        }
        assert!(load.end(Ticks(2000), most, 1, LIMITS, Objective::Time, whole).is_some());
    }
}
