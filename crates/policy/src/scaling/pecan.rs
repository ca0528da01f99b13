//! A baseline: Pecan's AutoPlacement, as published (Graur et al., USENIX ATC 2024): workers elsewhere and in the reader's process.
//!
//! Workers elsewhere are added while batches come faster, then workers in the reader's process until they hurt, then those
//! elsewhere are taken away until that hurts, and so on in turns till nothing changes; then never again. A single window decides
//! each step. The variant is the one that the logs of its artifact show, which `tests/golden.rs` replays: a worker in the
//! reader's process that was to go and did not puts the machine back to adding them.

use super::Observation;
use super::decision::{Decision, Reason};

/// What batches may take longer before it hurts.
const TOLERANCE: f64 = 0.10;
/// A gain beyond this is a mistake.
const UNSTABLE: f64 = 1.3;
const LOCAL_MAX: u32 = 10;
const REMOTE_MAX: u32 = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    OnlyRemote,
    IncreasingLocal,
    DecreasingRemote,
    Stable,
}

/// Workers elsewhere and in the reader's process.
type Placement = (u32, u32);

/// What is remembered from window to window.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// What more workers must gain to go on.
    threshold: f64,
    phase: Phase,
    target: Option<Placement>,
    /// The number that is being changed, when that began.
    from: u32,
    /// The last window, and the last one with another placement: seconds for a batch.
    last: Option<(Placement, f64)>,
    other: Option<(Placement, f64)>,
}

impl Previous {
    /// Starts with the gain that more workers must bring: 0.03 unless its user said otherwise.
    pub fn new(threshold: f64) -> Self {
        Self { threshold, phase: Phase::OnlyRemote, target: None, from: 0, last: None, other: None }
    }
}

/// Decides on one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let (found, figure) = next.step((seen.workers, seen.local), 1.0 / seen.delivered);
    let (workers, local) = next.target.unwrap_or((seen.workers, seen.local));
    let reason = Reason::Rule { policy: "pecan", found, figure };
    (Decision { workers, local, reason, figures: seen.figures().ok() }, next)
}

impl Previous {
    fn step(&mut self, at: Placement, batch: f64) -> (&'static str, f64) {
        let first = self.last.is_none();
        if let Some(last) = self.last.replace((at, batch))
            && last.0 != at
        {
            self.other = Some(last);
        }
        if let Some(target) = self.target.filter(|target| *target != at) {
            if target.0 != at.0 {
                return ("workers on their way", batch);
            }
            self.phase = Phase::IncreasingLocal;
        }
        if first {
            self.target = Some((at.0 + 1, at.1));
            return ("nothing to compare with", batch);
        }
        let Some((then, before)) = self.other else {
            (self.target, self.phase) = (Some(at), Phase::Stable);
            return ("one placement alone", batch);
        };
        let gain = 1.0 - batch / before;
        if gain.abs() > UNSTABLE {
            return ("a figure that is not stable", gain);
        }
        match self.phase {
            Phase::OnlyRemote => self.only_remote(at, then, gain),
            Phase::IncreasingLocal => self.increase_local(at, gain),
            Phase::DecreasingRemote => self.decrease_remote(at, gain),
            Phase::Stable => {}
        }
        ("this gain", gain)
    }

    fn go(&mut self, target: Placement, phase: Phase) {
        (self.target, self.phase) = (Some(target), phase);
    }

    fn only_remote(&mut self, (remote, local): Placement, then: Placement, gain: f64) {
        if gain > self.threshold && remote < REMOTE_MAX {
            return self.go((remote + 1, local), Phase::OnlyRemote);
        }
        self.from = 0;
        let remote = if remote >= REMOTE_MAX { REMOTE_MAX } else { then.0 };
        self.go((remote, then.1 + 1), Phase::IncreasingLocal);
    }

    fn increase_local(&mut self, (remote, local): Placement, gain: f64) {
        let hurts = gain < -TOLERANCE;
        if !hurts && local != LOCAL_MAX {
            return self.go((remote, local + 1), Phase::IncreasingLocal);
        }
        let local = if hurts { local.saturating_sub(1) } else { local };
        if local == self.from || remote == 0 {
            return self.go((remote, local), Phase::Stable);
        }
        self.from = remote;
        self.go((remote - 1, local), Phase::DecreasingRemote);
    }

    fn decrease_remote(&mut self, (remote, local): Placement, gain: f64) {
        let hurts = gain < -TOLERANCE;
        if !hurts && remote > 0 {
            return self.go((remote - 1, local), Phase::DecreasingRemote);
        }
        let remote = if hurts { remote + 1 } else { remote };
        if remote == self.from || local >= LOCAL_MAX {
            return self.go((remote, local), Phase::Stable);
        }
        self.from = local;
        self.go((remote, local + 1), Phase::IncreasingLocal);
    }
}
