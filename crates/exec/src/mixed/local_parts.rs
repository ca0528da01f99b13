//! The datasets of a mix as streams of this process.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Result};

use super::part::{PartStream, PartStreams};
use crate::executable::Executable;
use crate::local::stream::{LocalOptions, LocalStream};
use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::{Budget, SkippedSample};
use crate::tail::delivery::Delivery;
use crate::tail::position::Position;

/// The datasets of a mix in this process.
pub(super) struct LocalParts {
    /// Each dataset, and the samples of it that must be skipped.
    pub(super) parts: Vec<(Arc<Executable>, KnownSkips)>,
    /// The threads of each.
    pub(super) threads: usize,
    pub(super) consumer: ConsumerIndex,
    pub(super) budget: Budget,
}

impl PartStreams for LocalParts {
    fn start(&self, part: usize, from: &Position, end_epoch: Option<u64>) -> Result<Box<dyn PartStream>> {
        let (executable, known_skips) = &self.parts[part];
        let options = LocalOptions {
            threads: self.threads,
            end_epoch,
            until_empty: end_epoch.is_none(),
            consumer: self.consumer,
            from: from.clone(),
            budget: self.budget,
            known_skips: known_skips.clone(),
            ..LocalOptions::default()
        };
        Ok(Box::new(LocalStream::start(executable.clone(), options)?))
    }
}

impl PartStream for LocalStream {
    fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        Self::next(self, poll)
    }

    fn take_skipped(&mut self) -> Vec<SkippedSample> {
        Self::take_skipped(self)
    }
}
