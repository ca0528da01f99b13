//! The policy `static:N`: N workers, always.

use super::decision::{Decision, Reason};
use super::{Choice, Observation, ScalingPolicy};
use crate::placement::Placement;

/// The name by which a user chooses it.
pub(super) const CHOICE: Choice = Choice { usage: "static:N with N from 1 on", parse };

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) workers: u32,
}

fn parse(text: &str) -> Option<Box<dyn ScalingPolicy>> {
    let workers = text.strip_prefix("static:")?.parse().ok().filter(|&workers: &u32| workers > 0)?;
    Some(Box::new(Fixed { workers }))
}

impl ScalingPolicy for Fixed {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let workers = seen.limits.clamp(self.workers);
        Decision { workers, local: 0, cut: None, reason: Reason::Fixed, figures: seen.figures().ok() }
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(*self)
    }

    fn fixed(&self) -> Option<Placement> {
        Some(Placement { workers: self.workers, local: 0, cut: u32::MAX })
    }
}
