//! Which jobs read the same samples: jobs with equal keys compute the same chunks, split by split.

use crate::JobDefinition;

/// The fields of a job that determine its samples: pipeline, source, seed, sharding and tenant. Jobs with equal keys
/// may differ in name, number of epochs, epochs read before, weight and priority.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampleStreamKey(JobDefinition);

impl SampleStreamKey {
    /// Returns the key of a job.
    pub fn of(job: &JobDefinition) -> Self {
        Self(JobDefinition {
            job: 0,
            name: String::new(),
            epochs: 0,
            key: Vec::new(),
            weight: 0,
            priority: 0,
            read_before: 0,
            ..job.clone()
        })
    }
}
