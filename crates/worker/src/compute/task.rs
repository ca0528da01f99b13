//! The entries of the queue, and the tasks that threads take from it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::Epoch;
use forebay_exec::ThreadCpuTime;
use forebay_io::WindowAnnouncement;
use forebay_plan::Morsel;

use crate::compute::turn::Paused;
use crate::compute::watchdog::WatchedThread;
use crate::splits::jobs::Prepared;
use crate::splits::split_buffer::SplitBuffer;

/// An entry of the queue.
pub(super) enum Queued {
    Split(QueuedSplit),
    /// A task whose thread waits for its turn.
    Paused(Paused),
}

impl Queued {
    /// Returns a function that tells whether an entry comes before those of this order. Order 0 goes to the front.
    pub(super) fn comes_before(order: u64) -> impl Fn(&Self) -> bool {
        move |entry| {
            let own = match entry {
                Self::Split(split) => split.order,
                Self::Paused(paused) => paused.order,
            };
            own < order
        }
    }
}

/// A split to compute: morsel by morsel, or as a whole where its morsels must come in order.
pub(super) struct QueuedSplit {
    pub(super) split: Arc<SplitBuffer>,
    pub(super) job: Arc<Prepared>,
    pub(super) run: u64,
    pub(super) morsels: Box<dyn Iterator<Item = (u64, Morsel)> + Send>,
    pub(super) counted: bool,
    /// Threads help the split with the lowest number first.
    pub(super) order: u64,
}

impl QueuedSplit {
    /// Makes the split one task. Until the announcement is dropped, no later window of the same lanes is read in this
    /// process: threads take the windows of a shuffle in order.
    pub(super) fn into_block(mut self) -> Task {
        let mut morsels = self.morsels.peekable();
        let epoch = Epoch(self.split.key.epoch);
        let announced = morsels.peek().and_then(|(_, morsel)| self.job.executable.announce(epoch, *morsel));
        self.morsels = Box::new(morsels);
        Task::Block(self, announced)
    }
}

/// The work that a thread takes at a time.
pub(super) enum Task {
    Morsel(Arc<SplitBuffer>, Arc<Prepared>, u64, (u64, Morsel), u64),
    Block(QueuedSplit, Option<WindowAnnouncement>),
    /// The thread of a task goes on; this thread takes other work.
    Resume(Paused),
    /// Rows of a morsel that another thread has begun.
    Help,
}

/// Takes the next task from a flow's entries.
pub(super) fn next_task(entries: &mut VecDeque<Queued>) -> Option<Task> {
    loop {
        match entries.front_mut()? {
            Queued::Split(entry) if entry.split.is_stale(entry.run) => {}
            Queued::Split(entry) if entry.counted => {
                if let Some(next) = entry.morsels.next() {
                    return Some(Task::Morsel(entry.split.clone(), entry.job.clone(), entry.run, next, entry.order));
                }
            }
            _ => {
                return Some(match entries.pop_front()? {
                    Queued::Split(block) => block.into_block(),
                    Queued::Paused(paused) => Task::Resume(paused),
                });
            }
        }
        entries.pop_front();
    }
}

/// A thread with a task; `split` is `None` if it helps another.
pub(super) struct BusyThread {
    pub(super) processor: ThreadCpuTime,
    pub(super) split: Option<(Arc<SplitBuffer>, u64)>,
}

impl WatchedThread for BusyThread {
    fn is_stale(&self) -> bool {
        self.split.as_ref().is_some_and(|(split, run)| split.is_stale(*run))
    }

    fn used(&self) -> Option<Duration> {
        self.processor.used()
    }
}
