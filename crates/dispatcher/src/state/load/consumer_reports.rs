//! The heartbeats of a job's consumers, summed up for display: since the dispatcher started, and of the last minute.
//!
//! Pure; nothing here decides anything.
//! Bounds: one sum and [`SLOTS`] slots for each consumer of the job.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forebay_core::Ticks;
use forebay_proto::{ConsumerHeartbeat, ConsumerStatus, ConsumerSums};

use crate::state::limits::REPORTED_MAX;

/// The time that one slot covers.
const SLOT: Duration = Duration::from_secs(5);
/// Slots that are kept: together a minute.
const SLOTS: usize = 12;
const RECENT: Duration = Duration::from_secs(SLOT.as_secs() * SLOTS as u64);

/// The reports of all consumers of one job.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct ConsumerReports(BTreeMap<u32, Reports>);

/// The reports of one consumer.
#[derive(Debug, Clone, Default)]
struct Reports {
    total: ConsumerSums,
    /// The oldest first, each with the time of its first heartbeat.
    recent: VecDeque<(Ticks, ConsumerSums)>,
    ahead: u64,
    waiting_ms: u64,
}

impl ConsumerReports {
    pub(in crate::state) fn add(&mut self, now: Ticks, consumer: u32, said: &ConsumerHeartbeat) {
        let reports = self.0.entry(consumer).or_default();
        reports.ahead = said.ahead.min(REPORTED_MAX);
        reports.waiting_ms = said.waiting_ms.min(REPORTED_MAX);
        add_to(&mut reports.total, said);
        match reports.recent.back_mut() {
            Some((began, sums)) if now - *began < SLOT => add_to(sums, said),
            _ => {
                let mut sums = ConsumerSums::default();
                add_to(&mut sums, said);
                reports.recent.push_back((now, sums));
                while reports.recent.len() > SLOTS {
                    reports.recent.pop_front();
                }
            }
        }
    }

    /// Fills in the sums of a consumer's reports.
    pub(in crate::state) fn describe(&self, now: Ticks, status: &mut ConsumerStatus) {
        let Some(reports) = self.0.get(&status.consumer) else { return };
        let is_recent = |(began, _): &&(Ticks, ConsumerSums)| now - *began < RECENT;
        let mut recent = ConsumerSums::default();
        reports.recent.iter().filter(is_recent).for_each(|(_, sums)| merge(&mut recent, sums));
        status.recent_ms = (recent.waited_ms + recent.step_ms).min(RECENT.as_millis() as u64);
        status.total = Some(reports.total);
        status.recent = Some(recent);
        (status.ahead, status.waiting_ms) = (reports.ahead, reports.waiting_ms);
    }
}

fn add_to(sums: &mut ConsumerSums, said: &ConsumerHeartbeat) {
    let &ConsumerHeartbeat { batch_wait_ms: waited_ms, step_ms, batches, rows, bytes, .. } = said;
    let said = [waited_ms, step_ms, batches, rows, bytes].map(|said| said.min(REPORTED_MAX));
    let [waited_ms, step_ms, batches, rows, bytes] = said;
    merge(sums, &ConsumerSums { waited_ms, step_ms, batches, rows, bytes });
}

fn merge(sums: &mut ConsumerSums, more: &ConsumerSums) {
    let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
    add(&mut sums.waited_ms, more.waited_ms);
    add(&mut sums.step_ms, more.step_ms);
    add(&mut sums.batches, more.batches);
    add(&mut sums.rows, more.rows);
    add(&mut sums.bytes, more.bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(batch_wait_ms: u64, step_ms: u64, batches: u64) -> ConsumerHeartbeat {
        ConsumerHeartbeat { batch_wait_ms, step_ms, batches, ahead: batches, ..ConsumerHeartbeat::default() }
    }

    #[test]
    fn a_minute_is_kept_and_everything_is_summed() {
        let mut reports = ConsumerReports::default();
        // Two minutes of heartbeats; the trainer waits only in the first one.
        for half in 0..240u64 {
            let waited = if half < 120 { 500 } else { 0 };
            reports.add(Ticks(half * 500), 1, &said(waited, 500 - waited, 2));
        }
        let mut status = ConsumerStatus { consumer: 1, ..ConsumerStatus::default() };
        reports.describe(Ticks(120_000), &mut status);
        let (total, recent) = (status.total.expect("reported"), status.recent.expect("reported"));
        assert_eq!((total.waited_ms, total.step_ms, total.batches), (60_000, 60_000, 480));
        assert_eq!((recent.waited_ms, recent.batches, status.ahead), (0, 220, 2), "the oldest slot has just ended");
        assert_eq!(status.recent_ms, 55_000);
        // A consumer that is silent has no recent figures; one that never reported has none.
        reports.describe(Ticks(900_000), &mut status);
        assert_eq!((status.recent, status.recent_ms), (Some(ConsumerSums::default()), 0));
        let mut other = ConsumerStatus::default();
        reports.describe(Ticks(900_000), &mut other);
        assert_eq!(other, ConsumerStatus::default());
    }

    #[test]
    fn nonsense_that_is_said_overflows_nothing() {
        let mut reports = ConsumerReports::default();
        for second in 0..200 {
            reports.add(Ticks(second * 1000), 0, &said(u64::MAX, u64::MAX, u64::MAX));
        }
        let mut status = ConsumerStatus::default();
        reports.describe(Ticks(200_000), &mut status);
        assert!(status.recent_ms <= 60_000);
    }
}
