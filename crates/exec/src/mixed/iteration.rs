//! The iterator over any pipeline in this process.

use std::sync::Arc;

use forebay_core::Result;

use super::local_parts::LocalParts;
use super::stream::MixedStream;
use crate::executable::Executable;
use crate::local::options::LocalOptions;
use crate::local::stream::LocalStream;
use crate::skip::skip_log::SkippedSample;
use crate::tail::delivery::Delivery;

/// An iterator over a pipeline of any source in this process. Dropping it stops and joins its threads.
pub struct LocalIteration(Kind);

enum Kind {
    One(Box<LocalStream>),
    Mixed(Box<MixedStream>),
}

impl LocalIteration {
    /// Starts computing.
    ///
    /// # Errors
    /// As [`LocalStream::start`]; of a mix, also those of its datasets.
    pub fn start(executable: Arc<Executable>, options: LocalOptions) -> Result<Self> {
        Ok(Self(match executable.stages().source.is_streamed_mix() {
            true => {
                let streams = Box::new(LocalParts::new(&executable, &options));
                Kind::Mixed(Box::new(MixedStream::over(executable, options, streams)?))
            }
            false => Kind::One(Box::new(LocalStream::start(executable, options)?)),
        }))
    }

    /// As [`LocalStream::next`].
    ///
    /// # Errors
    /// As [`LocalStream::next`].
    pub fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        match &mut self.0 {
            Kind::One(stream) => stream.next(poll),
            Kind::Mixed(stream) => stream.next(poll),
        }
    }

    /// As [`LocalStream::stats`].
    pub fn stats(&self) -> String {
        match &self.0 {
            Kind::One(stream) => stream.stats(),
            Kind::Mixed(stream) => stream.stats(),
        }
    }

    /// As [`LocalStream::stream`].
    pub fn stream(&self) -> u64 {
        match &self.0 {
            Kind::One(stream) => stream.stream(),
            Kind::Mixed(stream) => stream.stream(),
        }
    }

    /// As [`LocalStream::take_skipped`].
    pub fn take_skipped(&mut self) -> Vec<SkippedSample> {
        match &mut self.0 {
            Kind::One(stream) => stream.take_skipped(),
            Kind::Mixed(stream) => stream.take_skipped(),
        }
    }
}
