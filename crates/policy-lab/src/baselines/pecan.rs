//! A baseline: Pecan's AutoPlacement, as published (Graur et al., USENIX ATC 2024): workers elsewhere and in the
//! reader's process.
//!
//! It adds workers elsewhere while batches come faster, then workers in the reader's process until batches become
//! slower, then removes those elsewhere for as long as a batch becomes cheaper, and so on in turns till nothing
//! changes; then it stops for ever. A single window decides each step. The variant is that of its artifact's logs,
//! which `tests/it/golden.rs` replays: if a worker in the reader's process does not leave when asked, the machine goes
//! back to adding them.

use super::gain;
use super::reports::Reports;
use forebay_policy::placement::{Manners, Prices};
use forebay_policy::scaling::{Choice, Decision, Observation, Policy, Reason, ScalingPolicy};

/// The share by which batches may become slower before that counts.
const TOLERANCE: f64 = 0.10;
/// A larger gain than this is a mistake.
const UNSTABLE: f64 = 1.3;
const LOCAL_MAX: u32 = 10;
const REMOTE_MAX: u32 = 100;
/// Batches that its client ignores after a change, and batches of a window.
const DISCARDED: u64 = 150;
const REPORTED: u64 = 500;
/// The gain that more workers must bring, unless the user sets another.
pub const UP: f64 = 0.03;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    OnlyRemote,
    IncreasingLocal,
    DecreasingRemote,
    Stable,
}

/// Workers elsewhere and in the reader's process.
type Placement = (u32, u32);

/// The state between windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// The gain that more workers must bring to go on.
    threshold: f64,
    phase: Phase,
    target: Option<Placement>,
    /// The number that is being changed, as it was at first.
    from: u32,
    /// The last window, and the last one with another placement: seconds for a batch.
    last: Option<(Placement, f64)>,
    other: Option<(Placement, f64)>,
}

impl Previous {
    /// Makes the policy with the gain that more workers must bring; the default is [`UP`].
    pub fn new(threshold: f64) -> Self {
        Self { threshold, phase: Phase::OnlyRemote, target: None, from: 0, last: None, other: None }
    }
}

/// The state of a client: the machine, and the window under way.
#[derive(Debug, Clone, PartialEq)]
pub struct Client {
    previous: Previous,
    reports: Reports,
}

impl Client {
    /// Makes a client as [`Previous::new`] does.
    pub fn new(threshold: f64) -> Self {
        Self { previous: Previous::new(threshold), reports: Reports::new(DISCARDED, REPORTED) }
    }
}

/// The name by which a user chooses it, with the gain of one more worker.
pub(super) const CHOICE: Choice =
    Choice { usage: "pecan or pecan:0", parse: |text| Some(Box::new(Client::new(gain(text, "pecan", UP)?))) };

impl ScalingPolicy for Client {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let (decision, next) = gather(seen, self);
        *self = next;
        Decision { workers: seen.limits.clamp(decision.workers), ..decision }
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(self.clone())
    }

    /// Its threads are threads of the trainer's process, at normal priority.
    fn manners(&self) -> Manners {
        Manners::Fair
    }
}

/// Returns the policy with the gain that more workers must bring.
pub fn pecan(gain: f64) -> Policy {
    Policy::new(format!("pecan:{gain}"), Box::new(Client::new(gain)))
}

/// Decides once windows add up to one of Pecan's: 500 batches, 150 after a change.
pub fn gather(seen: &Observation, before: &Client) -> (Decision, Client) {
    let mut next = before.clone();
    if let Some(seen) = next.reports.add(seen) {
        let (decision, previous) = decide(&seen, &next.previous);
        next.previous = previous;
        return (decision, next);
    }
    let (workers, local) = next.previous.target.unwrap_or((seen.workers.max(1), seen.local));
    let reason = Reason::Rule { policy: "pecan", found: "too few batches yet", figure: next.reports.batches() as f64 };
    (Decision { workers, local, cut: None, reason, figures: seen.figures().ok() }, next)
}

/// Decides after one more of Pecan's windows.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    // An objective with prices has the user's prices.
    let prices = seen.host.as_ref().map(|host| host.objective.prices()).unwrap_or_default();
    let (found, figure) = next.step((seen.workers, seen.local), 1.0 / seen.delivered, prices);
    let (workers, local) = next.target.unwrap_or((seen.workers, seen.local));
    let reason = Reason::Rule { policy: "pecan", found, figure };
    (Decision { workers, local, cut: None, reason, figures: seen.figures().ok() }, next)
}

impl Previous {
    fn step(&mut self, at: Placement, batch: f64, prices: Prices) -> (&'static str, f64) {
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
            Phase::DecreasingRemote => self.decrease_remote(at, gain, prices),
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

    fn decrease_remote(&mut self, (remote, local): Placement, gain: f64, prices: Prices) {
        // The last step was too expensive if the lost time costs more than the worker.
        let hurts = prices.worker <= -gain * prices.hour(remote);
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
