//! Which jobs have the same samples: those of one stream compute the same chunks, split by split.

use crate::JobDefinition;

/// What the samples of a job follow from: pipeline, source, seed, how its epochs are dealt, and whose it is. Jobs of one stream may
/// differ in their names, in how many epochs they read, in how many were read before, and in what they weigh.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SampleStreamKey(JobDefinition);

impl SampleStreamKey {
    /// Returns the stream of a job.
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
