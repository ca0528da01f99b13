//! The datasets of a mix as streams of this process.
//!
//! Bounds: all datasets together have at most [`THREADS_MAX`] threads, or one for each dataset; the ready rows of each
//! dataset have a part of the memory budget.

use std::sync::Arc;

use forebay_core::{ConsumerIndex, Result};

use super::part::{PartStream, PartStreams};
use super::run_rows::Samples;
use crate::executable::Executable;
use crate::local::options::LocalOptions;
use crate::local::stream::LocalStream;
use crate::skip::known_skips::KnownSkips;
use crate::skip::skip_log::{Budget, SkippedSample};
use crate::tail::delivery::Delivery;
use crate::tail::position::Position;

/// The most threads of all datasets, if each has more than one.
const THREADS_MAX: usize = 64;

/// The datasets of a mix in this process.
pub(super) struct LocalParts {
    /// Each dataset, and the samples of it that must be skipped.
    parts: Vec<(Arc<Executable>, KnownSkips)>,
    /// The threads of each dataset.
    threads: usize,
    consumer: ConsumerIndex,
    budget: Budget,
}

impl LocalParts {
    /// Prepares the datasets of a mix for one consumer.
    pub(super) fn new(mix: &Executable, options: &LocalOptions) -> Self {
        let samples = Samples::new(&mix.plan().extent().parts);
        let threads = options.threads_of(mix.stages().graph.source());
        let known = |number| options.known_skips.of_part(|sample| samples.own(number, sample));
        let parts: Vec<_> = mix.parts().iter().enumerate().map(|(number, of)| (of.clone(), known(number))).collect();
        let own = mix.plan().sharding().part(options.consumer);
        Self {
            threads: threads.min((THREADS_MAX.max(threads) / parts.len().max(1)).max(1)),
            parts,
            consumer: ConsumerIndex(u32::try_from(own).unwrap_or(0)),
            budget: options.budget,
        }
    }
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
