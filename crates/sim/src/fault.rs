//! What happens to a world: what goes wrong, and what is decided in between.

use crate::world::World;

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// The dispatcher.
    Dispatcher,
    /// A worker, by number.
    Worker(usize),
    /// One consumer of a job, by number over all jobs.
    Consumer(usize),
}

/// What goes wrong; and what is decided in between, which is no fault. Times in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process dies. Its machine says so to its peers, or is gone with it and does not. It starts again after `down`.
    Kill {
        /// Which.
        node: Node,
        /// How long until a new process starts in its place.
        down: u64,
        /// Whether nothing tells its peers.
        silent: bool,
    },
    /// A process stands still (SIGSTOP), and goes on.
    Pause {
        /// Which.
        node: Node,
        /// For how long.
        time: u64,
    },
    /// A worker leaves in order, and another starts in its place.
    Leave {
        /// Which worker.
        worker: usize,
        /// How long until another starts.
        down: u64,
    },
    /// What one sends to the other does not arrive.
    Partition {
        /// From here.
        from: Node,
        /// To here.
        to: Node,
        /// Whether the other way is blocked, too.
        both: bool,
        /// For how long.
        time: u64,
    },
    /// Every connection between two is reset.
    Reset {
        /// One.
        a: Node,
        /// The other.
        b: Node,
    },
    /// A worker computes this many times slower (its machine is busy, its disk is bad), for a while.
    SlowWorker {
        /// Which worker.
        worker: usize,
        /// How many times.
        factor: u64,
        /// For how long.
        time: u64,
    },
    /// Everything is late by up to `late`, for a while.
    Slow {
        /// How late at most.
        late: u64,
        /// For how long.
        time: u64,
    },
    /// The dispatcher's disk refuses every write.
    DiskFull {
        /// For how long.
        time: u64,
    },
    /// The dispatcher's disk takes this long for a write.
    DiskSlow {
        /// How long for one.
        write: u64,
        /// For how long.
        time: u64,
    },
    /// The storage throttles: reads take long, and this many in a hundred fail.
    Store {
        /// Of a hundred.
        fail: u64,
        /// For how long.
        time: u64,
    },
    /// It is decided that the splits of a job are cut elsewhere between workers and readers from now on.
    Cut {
        /// Which job.
        job: usize,
        /// At which of its places, the first being 1.
        place: u32,
    },
    /// A job is cancelled.
    Cancel {
        /// Which job.
        job: usize,
    },
}

impl Fault {
    /// Its kind, as it is counted.
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

    /// Says whether anything goes wrong.
    pub(crate) fn is_trouble(&self) -> bool {
        !matches!(self, Self::Cut { .. } | Self::Cancel { .. })
    }
}

impl World<'_> {
    /// It happens.
    pub(crate) fn strike(&mut self, fault: Fault) {
        let heals = self.scenario.heals;
        let until = |now: u64, time: u64| (now + time).min(heals);
        let now = self.now;
        self.note(0xfa, || format!("FAULT {fault:?}"));
        match fault {
            Fault::Kill { node, down, silent } => {
                if self.process(node).alive {
                    self.felt(fault.name());
                    self.end(node, silent, Some(until(now, down) - now));
                }
            }
            Fault::Pause { node, time } => {
                if self.process(node).alive {
                    self.felt(fault.name());
                    let process = self.process_mut(node);
                    process.paused = process.paused.max(until(now, time));
                    self.stalled(node);
                }
            }
            Fault::Leave { worker, down } => {
                if self.process(Node::Worker(worker)).alive {
                    self.felt(fault.name());
                    self.worker_leaves(worker, down);
                }
            }
            Fault::Partition { from, to, both, time } => {
                self.block(from, to, until(now, time));
                if both {
                    self.block(to, from, until(now, time));
                }
            }
            Fault::Reset { a, b } => self.reset_between(a, b),
            Fault::SlowWorker { worker, factor, time } => self.workers[worker].slow = (until(now, time), factor),
            Fault::Slow { late, time } => self.net.slow = (until(now, time), late),
            Fault::DiskFull { time } => self.dispatcher.full = until(now, time),
            Fault::DiskSlow { write, time } => self.dispatcher.slow = (until(now, time), write),
            Fault::Store { fail, time } => self.store = (until(now, time), fail),
            Fault::Cut { job, place } => self.dispatcher_cuts(job, place),
            Fault::Cancel { job } => self.cancel(job),
        }
    }
}
