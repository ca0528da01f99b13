//! Local workers: each computes for one reader alone, on that reader's machine, with cores that the trainer leaves idle.
//!
//! Such a worker is like any other, and its loss is any worker's loss. What differs: it is given splits of its reader only,
//! whatever the tenant's quota; it is not among the workers that are counted, wanted and paid for; what its threads took says
//! nothing of others, because they give way to the trainer; a split that may end workers is tried there last; and the number of
//! its threads changes while it runs. With none it rests: it is given nothing, and what waits there goes to others.
//!
//! How many threads it has says the user, or, where the reader says what its machine has to spare, [`decide`]. Pure.

use std::collections::HashMap;

use forebay_core::{Result, Ticks, WorkerId};
use forebay_proto::{ConsumerHeartbeat, Spare};

use super::consumers::no_job;
use super::{Effect, SessionId, State};
use crate::records::ConsumerKey;

/// Heartbeats that are looked at together, and the batches that they should have brought, or else more heartbeats.
const LOOK_HEARTBEATS: u32 = 4;
const LOOK_BATCHES: u64 = 4;
const LOOK_HEARTBEATS_MAX: u32 = 20;
/// The share of its time that a trainer may wait before idle cores are used, in thousandths; below the second, fewer will do.
const WAITS: u64 = 50;
const RESTS: u64 = 5;
/// Thousandths of its time that something on the machine waited for memory: more, and the trainer may be next.
const MEMORY_PRESSURE_MAX: u32 = 50;
/// Bytes that must be free before threads are added; half of it before they are kept.
const MEMORY_MIN: u64 = 1 << 30;

/// What a trainer did since it was last looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Waited {
    waited_ms: u64,
    step_ms: u64,
    batches: u64,
    heartbeats: u32,
}

impl Waited {
    fn add(&mut self, said: &ConsumerHeartbeat) {
        self.waited_ms = self.waited_ms.saturating_add(said.batch_wait_ms);
        self.step_ms = self.step_ms.saturating_add(said.step_ms);
        self.batches = self.batches.saturating_add(said.batches);
        self.heartbeats += 1;
    }

    fn is_enough(&self) -> bool {
        let some = self.heartbeats >= LOOK_HEARTBEATS && self.batches >= LOOK_BATCHES;
        some || self.heartbeats >= LOOK_HEARTBEATS_MAX
    }

    /// In thousandths.
    fn share(&self) -> u64 {
        self.waited_ms.saturating_mul(1000) / self.waited_ms.saturating_add(self.step_ms).max(1)
    }
}

/// How many threads a reader's local worker should have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Local {
    threads: u32,
    seen: Waited,
}

impl Local {
    /// Takes a heartbeat; returns the threads that are wanted. None where the reader does not ask.
    pub(super) fn decide(&mut self, said: &ConsumerHeartbeat) -> u32 {
        let Some(spare) = &said.spare else {
            *self = Self::default();
            return 0;
        };
        self.seen.add(said);
        let seen = if self.seen.is_enough() { Some(std::mem::take(&mut self.seen)) } else { None };
        self.threads = decide(spare, seen, self.threads);
        self.threads
    }
}

/// Returns the threads of a local worker that had `threads`, where a trainer did `seen` since it was last decided.
///
/// As many as there are idle cores, while the trainer waits for more than [`WAITS`] of its time; one fewer where it waits for
/// less than [`RESTS`]. Whenever cores or memory are short, that holds at once, whatever was seen.
pub(super) fn decide(spare: &Spare, seen: Option<Waited>, threads: u32) -> u32 {
    let cores = spare.millicores / 1000;
    if spare.memory_pressure > MEMORY_PRESSURE_MAX || spare.memory < MEMORY_MIN / 2 {
        return 0;
    }
    let wanted = match seen.map(|seen| seen.share()) {
        Some(share) if share > WAITS && spare.memory >= MEMORY_MIN => cores,
        Some(share) if share < RESTS => threads.saturating_sub(1),
        _ => threads,
    };
    wanted.min(cores)
}

impl State {
    /// Refuses a local worker of a reader that there is not, or that is another tenant's.
    ///
    /// # Errors
    /// NotFound.
    pub(super) fn check_reader(&self, serves: Option<&str>, only: Option<ConsumerKey>) -> Result<()> {
        let Some(key) = only else { return Ok(()) };
        let own = self.jobs.get(&key.0).is_some_and(|job| serves.is_none_or(|serves| serves == job.record.tenant));
        if own && self.consumer(key).is_some() { Ok(()) } else { Err(no_job(key.0)) }
    }

    /// A local worker computes with so many threads from now on.
    pub(super) fn set_threads(&mut self, now: Ticks, session: SessionId, threads: u32, out: &mut Vec<Effect>) {
        let Some(id) = self.sessions.get(&session).copied() else { return };
        let Some(worker) = self.workers.get_mut(&id).filter(|w| w.is_local()) else { return };
        (worker.heard, worker.threads) = (now, threads);
        worker.note_begun(now);
        if threads == 0 {
            self.free_waiting(id, out);
        }
    }

    /// Returns the threads that compute for each job on its readers' machines.
    pub(super) fn local_threads(&self) -> HashMap<u64, u32> {
        let mut threads = HashMap::new();
        for worker in self.workers.values().filter(|w| w.is_live()) {
            if let Some((job, _)) = worker.only {
                let sum: &mut u32 = threads.entry(job).or_default();
                *sum = sum.saturating_add(worker.threads);
            }
        }
        threads
    }

    pub(super) fn is_local(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|w| w.is_local())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(millicores: u32) -> Spare {
        Spare { millicores, memory: 8 << 30, ..Spare::default() }
    }

    fn seen(waited_ms: u64) -> Option<Waited> {
        Some(Waited { waited_ms, step_ms: 2000 - waited_ms, batches: 9, heartbeats: 4 })
    }

    #[test]
    fn idle_cores_are_used_while_the_trainer_waits_and_given_back_at_once() {
        assert_eq!(decide(&spare(3900), seen(200), 0), 3, "whole cores");
        assert_eq!(decide(&spare(900), seen(2000), 0), 0);
        assert_eq!(decide(&spare(3900), None, 0), 0, "not known yet");
        // What is right stays; what is too much goes thread by thread.
        assert_eq!(decide(&spare(3900), seen(40), 2), 2);
        assert_eq!(decide(&spare(3900), seen(0), 2), 1);
        assert_eq!(decide(&spare(3900), seen(0), 0), 0);
        // The trainer takes its cores: that waits for no window.
        assert_eq!(decide(&spare(1200), None, 3), 1);
        assert_eq!(decide(&spare(0), seen(2000), 3), 0);
        assert_eq!(decide(&Spare { memory_pressure: 51, ..spare(4000) }, seen(2000), 3), 0);
        let little = Spare { memory: MEMORY_MIN - 1, ..spare(4000) };
        assert_eq!((decide(&little, seen(2000), 0), decide(&little, seen(2000), 2)), (0, 2), "no more, and no fewer");
        assert_eq!(decide(&Spare { memory: MEMORY_MIN / 2 - 1, ..spare(4000) }, seen(2000), 2), 0);
    }

    #[test]
    fn a_window_has_batches_or_lasts() {
        let said = |batches| ConsumerHeartbeat {
            batch_wait_ms: 250,
            step_ms: 250,
            batches,
            spare: Some(spare(2000)),
            ..ConsumerHeartbeat::default()
        };
        let mut local = Local::default();
        assert_eq!([1, 1, 1, 1].map(|batches| local.decide(&said(batches))), [0, 0, 0, 2]);
        let mut local = Local::default();
        let answers: Vec<_> = (0..LOOK_HEARTBEATS_MAX).map(|_| local.decide(&said(0))).collect();
        assert_eq!((answers[18], answers[19]), (0, 2), "one whose first batch takes long");
        // Who does not ask is told nothing, and begins anew.
        assert_eq!(local.decide(&ConsumerHeartbeat { spare: None, ..said(1) }), 0);
        assert_eq!(local.decide(&said(9)), 0);
    }
}
