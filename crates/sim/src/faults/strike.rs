//! Applies faults, and decisions in between, to a world.

use crate::faults::fault::Fault;
use crate::roles::node::Node;
use crate::world::World;

impl World<'_> {
    /// Applies the event.
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
