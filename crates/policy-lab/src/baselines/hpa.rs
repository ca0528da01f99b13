//! A baseline: Kubernetes' HorizontalPodAutoscaler for workers, with a target of 80 % CPU.
//!
//! By its documentation and defaults (kubernetes.io, "Horizontal Pod Autoscaling"): wanted = ceil(there x use /
//! target), no change within a tolerance of 10 %; evaluated every 15 s; up by 4 or to twice as many, whichever is more,
//! in 15 s; down to the largest recommendation within 300 s. It does not know the trainer: this baseline is here to
//! show that.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_core::Ticks;

use forebay_policy::scaling::{Choice, Decision, Gap, Observation, Reason, ScalingPolicy};

const TARGET: f64 = 0.8;
const TOLERANCE: f64 = 0.1;
const EVERY: Duration = Duration::from_secs(15);
const STABLE: Duration = Duration::from_secs(300);
const UP_MIN: u32 = 4;

/// The state between windows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Previous {
    wanted: Option<u32>,
    /// Past recommendations with their times: no older than [`STABLE`], no more often than [`EVERY`].
    recommended: VecDeque<(Ticks, u32)>,
}

/// The name by which a user chooses it.
pub(super) const CHOICE: Choice =
    Choice { usage: "hpa", parse: |text| (text == "hpa").then(|| Previous::default().boxed()) };

impl ScalingPolicy for Previous {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let (decision, next) = decide(seen, self);
        *self = next;
        decision
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(self.clone())
    }
}

/// Decides after one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let wanted = seen.limits.clamp(before.wanted.unwrap_or(seen.workers.max(1)));
    let Some(busy) = seen.busy.filter(|busy| busy.is_finite()) else {
        let reason = Reason::NoFigures { gap: Gap::NotComputed };
        return (Decision { workers: wanted, local: 0, cut: None, reason, figures: None }, next);
    };
    let is_due = next.recommended.back().is_none_or(|(at, _)| seen.at - *at >= EVERY);
    let workers = if is_due { seen.limits.clamp(next.recommend(seen, busy)) } else { wanted };
    next.wanted = Some(workers);
    let reason = Reason::Rule { policy: "hpa", found: "this share of the processors used", figure: busy };
    (Decision { workers, local: 0, cut: None, reason, figures: seen.figures().ok() }, next)
}

impl Previous {
    fn recommend(&mut self, seen: &Observation, busy: f64) -> u32 {
        let there = seen.workers.max(1);
        let ratio = busy / TARGET;
        let asked = if (ratio - 1.0).abs() <= TOLERANCE { there } else { (f64::from(there) * ratio).ceil() as u32 };
        self.recommended.retain(|(at, _)| seen.at - *at < STABLE);
        self.recommended.push_back((seen.at, asked));
        let most = self.recommended.iter().map(|(_, asked)| *asked).max().unwrap_or(asked);
        if asked > there { asked.min((2 * there).max(there + UP_MIN)) } else { most.min(there) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policy::scaling::Limits;

    fn seen(at_s: u64, workers: u32, busy: Option<f64>) -> Observation {
        Observation {
            at: Ticks(at_s * 1000),
            workers,
            local: 0,
            steady: true,
            limits: Limits { min: 1, max: 100 },
            threads: 1.0,
            batches: 0,
            delivered: 0.0,
            demand: None,
            waited: 0.0,
            compute: None,
            busy,
            made: None,
            ahead: None,
            threads_by_kind: Vec::new(),
            beside: 0.0,
            host: None,
        }
    }

    #[test]
    fn up_at_once_but_not_by_much_and_down_after_five_minutes() {
        let mut previous = Previous::default();
        let mut decide = |at, workers, busy| {
            let (decision, next) = decide(&seen(at, workers, busy), &previous);
            previous = next;
            decision.workers
        };
        assert_eq!(decide(0, 10, Some(0.86)), 10, "within the tolerance");
        assert_eq!(decide(2, 10, Some(1.0)), 10, "not every two seconds");
        assert_eq!(decide(15, 10, Some(1.0)), 13);
        assert_eq!(decide(30, 13, None), 13, "a metric gap");
        assert_eq!(decide(45, 13, Some(0.4)), 13, "13 was recommended a moment ago");
        assert_eq!(decide(314, 13, Some(0.4)), 13);
        assert_eq!(decide(345, 13, Some(0.4)), 7);
        assert_eq!(decide(400, 1, Some(80.0)), 5, "no more than four more");
    }
}
