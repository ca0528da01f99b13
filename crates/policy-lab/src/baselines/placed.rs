//! One fixed placement: `static:WORKERS+THREADS@OPS`.

use forebay_policy::placement::Placement;
use forebay_policy::scaling::{Choice, Decision, Observation, Policy, Reason, ScalingPolicy};

/// The name by which a user chooses it. Without `@OPS`, all ops run on the workers.
pub(super) const CHOICE: Choice = Choice {
    usage: "static:WORKERS+THREADS@OPS",
    parse: |text| {
        let placement = placement(text.strip_prefix("static:")?)?;
        Some(Box::new(Placed { placement }))
    },
};

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
struct Placed {
    placement: Placement,
}

/// Returns the policy that always wants this placement.
pub fn placed(placement: Placement) -> Policy {
    let Placement { workers, local, cut } = placement;
    let ops = if cut == u32::MAX { String::new() } else { format!("@{cut}") };
    Policy::new(format!("static:{workers}+{local}{ops}"), Box::new(Placed { placement }))
}

/// Reads `WORKERS+THREADS` or `WORKERS+THREADS@OPS`.
fn placement(text: &str) -> Option<Placement> {
    let (numbers, cut) = match text.split_once('@') {
        Some((numbers, ops)) => (numbers, ops.parse().ok().filter(|&ops: &u32| ops > 0)?),
        None => (text, u32::MAX),
    };
    let (workers, local) = numbers.split_once('+')?;
    Some(Placement { workers: workers.parse().ok()?, local: local.parse().ok()?, cut })
}

impl ScalingPolicy for Placed {
    fn decide(&mut self, seen: &Observation) -> Decision {
        let Placement { workers, local, cut } = self.placement;
        let workers = seen.limits.clamp(workers);
        Decision { workers, local, cut: Some(cut), reason: Reason::Fixed, figures: seen.figures().ok() }
    }

    fn boxed(&self) -> Box<dyn ScalingPolicy> {
        Box::new(*self)
    }

    fn fixed(&self) -> Option<Placement> {
        Some(self.placement)
    }
}
