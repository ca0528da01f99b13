//! The dispatcher's process: its timers, its disk, and the boundaries that it has granted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use forebay_dispatcher::simulate::{Disk, Dispatcher, Write};
use forebay_proto::JobDefinition;

pub(crate) enum DispatcherTimer {
    Tick,
    Written,
}

#[derive(Default)]
pub(crate) struct DispatcherNode {
    pub(super) machine: Option<Dispatcher>,
    pub(crate) disk: Disk,
    /// Jobs that are being opened.
    pub(super) opening: BTreeMap<u64, JobDefinition>,
    /// The writes under way.
    pub(super) writing: VecDeque<Write>,
    /// The time until which the disk refuses writes.
    pub(crate) full: u64,
    /// The time until which writes are slow, and the time of one.
    pub(crate) slow: (u64, u64),
    pub(super) cuts: Cuts,
}

/// The placement boundaries of leases.
#[derive(Default)]
pub(super) struct Cuts {
    /// The jobs of the scenario, by the dispatcher's numbers.
    pub(super) jobs: BTreeMap<u64, usize>,
    /// The known boundaries of fleet workers' leases, in row ops, by job.
    pub(super) at: BTreeMap<u64, u32>,
    /// Jobs whose boundary an ended dispatcher had changed, without a lease since.
    pub(super) forgotten: BTreeSet<u64>,
}
