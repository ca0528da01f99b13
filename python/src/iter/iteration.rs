//! Where the deliveries of an iterator come from: this process, a service, or a mix of jobs.

use forebay_client::ServiceStream;
use forebay_core::{Error, Result};
use forebay_exec::{Delivery, LocalIteration, MixedStream, Position, SkippedSample};
use forebay_server::LocalWorker;

use crate::sources::indexing::Listing;

/// The source of deliveries.
pub(crate) enum Iteration {
    /// With the listing of its files.
    Local(Box<LocalIteration>, Listing),
    /// With its local worker, if there is one.
    Service(Box<ServiceStream>, Option<LocalWorker>),
    /// A mix whose datasets are jobs of a service.
    Mix(Box<MixedStream>),
}

impl Iteration {
    pub(super) fn next(&mut self, poll: &mut dyn FnMut() -> Result<()>) -> Result<Option<Delivery>> {
        match self {
            Iteration::Local(stream, listing) => stream.next(poll).inspect_err(|_| listing.forget()),
            Iteration::Service(stream, local) => {
                let next = stream.next(poll);
                if !matches!(next, Ok(Some(_))) {
                    *local = None;
                }
                next
            }
            Iteration::Mix(stream) => stream.next(poll),
        }
    }

    /// Returns the costs of ops in this process, and the cache's figures; a service's workers report their own.
    pub(super) fn stats(&self) -> String {
        match self {
            Iteration::Local(stream, _) => stream.stats(),
            Iteration::Service(stream, _) => stream.stats(),
            Iteration::Mix(stream) => stream.stats(),
        }
    }

    /// Returns its number in traces.
    pub(super) fn stream(&self) -> u64 {
        match self {
            Iteration::Local(stream, _) => stream.stream(),
            Iteration::Service(stream, _) => stream.stream(),
            Iteration::Mix(stream) => stream.stream(),
        }
    }

    /// Returns the position of an ended stream, if that is not the end of its last delivery.
    pub(super) fn end_position(&self) -> Option<Position> {
        match self {
            Iteration::Local(..) | Iteration::Mix(_) => None,
            Iteration::Service(stream, _) => stream.end_position(),
        }
    }

    /// Returns the warning for the user, once.
    pub(super) fn news(&self) -> Option<Error> {
        match self {
            Iteration::Service(_, Some(local)) => local.news(),
            _ => None,
        }
    }

    pub(super) fn take_losses(&mut self) -> Vec<SkippedSample> {
        match self {
            Iteration::Local(stream, _) => stream.take_skipped(),
            Iteration::Service(stream, _) => stream.take_losses(),
            Iteration::Mix(stream) => stream.take_skipped(),
        }
    }
}
