//! The processes of a world, by number.

/// A process of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Node {
    /// The dispatcher.
    Dispatcher,
    /// A worker, by number.
    Worker(usize),
    /// One consumer of a job, by number over all jobs.
    Consumer(usize),
}
