//! Conversions between the messages and the plan: how epochs are divided among consumers, and how they end.

use forebay_plan::Ending as PlanEnding;
use forebay_plan::Sharding;

use crate::{Ending, JobDefinition, OpenJobRequest};

impl JobDefinition {
    /// Returns how the job's epochs are divided among its consumers.
    pub fn sharding(&self) -> Sharding {
        Sharding { consumers: self.consumers, even: self.even, coordinated: self.coordinated }
    }
}

impl OpenJobRequest {
    /// Returns the requested division of epochs among consumers.
    pub fn sharding(&self) -> Sharding {
        Sharding { consumers: self.consumers, even: self.even, coordinated: self.coordinated }
    }
}

impl From<PlanEnding> for Ending {
    fn from(ends: PlanEnding) -> Self {
        match ends {
            PlanEnding::Apart => Self::Apart,
            PlanEnding::Drop => Self::Drop,
            PlanEnding::Pad => Self::Pad,
            PlanEnding::Error => Self::Error,
        }
    }
}

impl From<Ending> for PlanEnding {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Apart => Self::Apart,
            Ending::Drop => Self::Drop,
            Ending::Pad => Self::Pad,
            Ending::Error => Self::Error,
        }
    }
}
