//! Events of a world: faults, and decisions in between.

use crate::roles::node::Node;

/// Faults, and decisions in between, which are no faults. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process dies. Its machine notifies its peers, or is gone with it and does not. It starts again after `down`.
    Kill {
        /// The process.
        node: Node,
        /// The time until a new process starts in its place.
        down: u64,
        /// Whether its peers are not notified.
        silent: bool,
    },
    /// A process is stopped (SIGSTOP), and goes on later.
    Pause {
        /// The process.
        node: Node,
        /// The duration.
        time: u64,
    },
    /// A worker leaves in order, and another starts in its place.
    Leave {
        /// The worker.
        worker: usize,
        /// The time until another starts.
        down: u64,
    },
    /// Messages from one process to another do not arrive.
    Partition {
        /// The sender.
        from: Node,
        /// The receiver.
        to: Node,
        /// Whether the other direction is blocked, too.
        both: bool,
        /// The duration.
        time: u64,
    },
    /// Every connection between two processes is reset.
    Reset {
        /// One process.
        a: Node,
        /// The other.
        b: Node,
    },
    /// A worker computes this many times slower (its machine is busy, its disk is bad), for a while.
    SlowWorker {
        /// The worker.
        worker: usize,
        /// The factor.
        factor: u64,
        /// The duration.
        time: u64,
    },
    /// All messages are late by up to `late`, for a while.
    Slow {
        /// The longest delay.
        late: u64,
        /// The duration.
        time: u64,
    },
    /// The dispatcher's disk refuses every write.
    DiskFull {
        /// The duration.
        time: u64,
    },
    /// A write of the dispatcher's disk takes this long.
    DiskSlow {
        /// The time of one write.
        write: u64,
        /// The duration.
        time: u64,
    },
    /// The storage throttles: reads take long, and this percentage fails.
    Store {
        /// The percentage.
        fail: u64,
        /// The duration.
        time: u64,
    },
    /// The placement boundary of a job's splits changes.
    Cut {
        /// The job.
        job: usize,
        /// The index of the boundary, from 1.
        place: u32,
    },
    /// A job is cancelled.
    Cancel {
        /// The job.
        job: usize,
    },
}

impl Fault {
    /// Returns its kind, as it is counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kill { node: Node::Dispatcher, .. } => "kill dispatcher",
            Self::Kill { node: Node::Worker(_), .. } => "kill worker",
            Self::Kill { node: Node::Consumer(_), .. } => "kill consumer",
            Self::Pause { node: Node::Dispatcher, .. } => "pause dispatcher",
            Self::Pause { node: Node::Worker(_), .. } => "pause worker",
            Self::Pause { node: Node::Consumer(_), .. } => "pause consumer",
            Self::Leave { .. } => "leave",
            Self::Partition { .. } => "partition",
            Self::Reset { .. } => "reset",
            Self::SlowWorker { .. } => "slow worker",
            Self::Slow { .. } => "slow",
            Self::DiskFull { .. } => "disk full",
            Self::DiskSlow { .. } => "disk slow",
            Self::Store { .. } => "store",
            Self::Cut { .. } => "cut",
            Self::Cancel { .. } => "cancel",
        }
    }

    /// Every kind.
    pub const NAMES: [&str; 16] = [
        "kill dispatcher",
        "kill worker",
        "kill consumer",
        "pause dispatcher",
        "pause worker",
        "pause consumer",
        "leave",
        "partition",
        "reset",
        "slow worker",
        "slow",
        "disk full",
        "disk slow",
        "store",
        "cut",
        "cancel",
    ];

    /// Returns whether it is a fault.
    pub(crate) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Cut { .. } | Self::Cancel { .. })
    }
}
