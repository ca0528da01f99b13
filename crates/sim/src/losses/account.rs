//! The skipped samples and cancelled jobs of a world: the simulation's own account.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_exec::Position;

use crate::pipelines::pipeline::{Due, missing};

/// The state of a job's cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Cancel {
    #[default]
    No,
    /// The job is cancelled, or will be: no consumer starts to read it any more.
    Asked,
    Done,
}

/// The simulation's own account.
#[derive(Default)]
pub(crate) struct Losses {
    /// By consumer: the number of accidentally lost samples for which the expected output was computed.
    pub(super) due: BTreeMap<usize, (usize, Rc<Due>)>,
    pub(super) cancelled: BTreeMap<usize, Cancel>,
    /// Processes that died at a sample.
    pub(super) died: u64,
    /// The skipped samples in the ledger when the dispatcher began.
    pub(super) written: u64,
}

/// The report of a sample that a process does not get: epoch, split, sample, repetition.
pub(crate) type SkippedName = (u64, u64, u64, u64);

/// Returns the names of reported samples.
pub(crate) fn told(lost: &[forebay_exec::SkippedSample]) -> impl Iterator<Item = SkippedName> {
    lost.iter().map(|lost| {
        let ((epoch, split, _), sample, repetition) = missing(lost, 0);
        (epoch, split, sample, repetition)
    })
}

/// The position where a process began, and the samples reported to it since.
pub(crate) type Began<'a> = (&'a Position, &'a [SkippedName]);
