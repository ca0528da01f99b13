//! The number of workers that one job wants: the policy's state, and its decisions.
//!
//! Bounds: the last [`DECISIONS_MAX`] decisions of a job. A decision that equals the previous one is not kept.

use std::collections::VecDeque;

use forebay_core::Ticks;
use forebay_policy::fleet::Unit;
use forebay_policy::scaling::{Decision, Observation, ScalingPolicy, SteadyState};
use forebay_proto::ScaleDecision;

use crate::options;

/// Decisions of a job that are kept.
const DECISIONS_MAX: usize = 64;
/// Decisions of each job in a list of all jobs.
const LISTED_MAX: usize = 4;

/// The policy's state and decisions for one job.
#[derive(Debug)]
pub(in crate::state) struct Scale {
    policy: Box<dyn ScalingPolicy>,
    /// `None` before the first decision.
    wanted: Option<u32>,
    /// The size of a worker that counts as one, for the wanted workers and for the present ones. They differ if the
    /// dispatcher decides on worker types.
    unit: Unit,
    counted: Unit,
    decisions: VecDeque<KeptDecision>,
}

/// A decision, when it was made, and how many workers were wanted before.
#[derive(Debug, Clone)]
struct KeptDecision {
    at: Ticks,
    before: u32,
    decision: Decision,
    /// Which ops consumers run with it, in words.
    boundary: String,
}

impl Scale {
    pub(in crate::state) fn new(options: &options::Scaling) -> Self {
        let (unit, counted) = Default::default();
        Self { policy: options.policy.start(), wanted: None, unit, counted, decisions: VecDeque::new() }
    }

    pub(in crate::state) fn wanted(&self) -> Option<u32> {
        self.wanted
    }

    /// Returns how many workers are wanted, and the size of a worker that counts as one.
    pub(in crate::state) fn wants(&self) -> Option<(u32, &Unit)> {
        self.wanted.map(|wanted| (wanted, &self.unit))
    }

    /// Returns whether nothing was decided yet.
    pub(in crate::state) fn is_new(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Begins with the policy of another job, and with the size of a worker that counts as one.
    pub(in crate::state) fn begin(&mut self, policy: Box<dyn ScalingPolicy>, unit: Unit) {
        (self.policy, self.counted) = (policy, unit);
    }

    /// Sets the size of a worker that counts as one among the present ones.
    pub(in crate::state) fn set_counted(&mut self, unit: Unit) {
        self.counted = unit;
    }

    /// Runs the policy on a window of the job. Returns the decision, which is not kept yet (see [`Scale::keep`]), and
    /// the job's steady state, if it is in one.
    pub(in crate::state) fn decide(&mut self, seen: Observation) -> (Decision, Option<SteadyState>) {
        let seen = Observation { threads_by_kind: self.counted.threads().to_vec(), ..seen };
        (self.policy.decide(&seen), self.policy.steady_state())
    }

    /// Keeps a decision, made when `before` workers were wanted, with a description of its `boundary`.
    pub(in crate::state) fn keep(&mut self, at: Ticks, before: u32, decision: Decision, boundary: String) {
        // While workers are replaced by others of another type, an equal number is the same need.
        if self.wanted != Some(decision.workers) {
            (self.wanted, self.unit) = (Some(decision.workers), self.counted.clone());
        }
        if self.decisions.back().is_some_and(|last| last.decision.says_the_same(&decision)) {
            return;
        }
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(KeptDecision { at, before, decision, boundary });
    }

    /// Returns all decisions, or the last few, the oldest first.
    pub(in crate::state) fn decisions(&self, now: Ticks, all: bool) -> Vec<ScaleDecision> {
        let skipped = if all { 0 } else { self.decisions.len().saturating_sub(LISTED_MAX) };
        let of = |kept: &KeptDecision| ScaleDecision {
            ago_ms: (now - kept.at).as_millis() as u64,
            before: kept.before,
            workers: kept.decision.workers,
            reason: kept.decision.to_string(),
            // Finite numbers and names always serialise.
            json: serde_json::to_string(&kept.decision).unwrap_or_default(),
            cut: kept.boundary.clone(),
        };
        self.decisions.iter().skip(skipped).map(of).collect()
    }
}
