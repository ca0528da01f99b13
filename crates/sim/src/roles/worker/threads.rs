//! A worker's threads: their chunks, and the computing time in virtual time.

use std::time::Duration;

use forebay_core::Error;
use forebay_data::Chunk;
use forebay_exec::KnownSkips;
use forebay_worker::simulate::{Computing, Decision, Task, Todo, WAIT_MAX};

use super::node::{Computed, Entry, Parked, WorkerTimer};
use crate::faults::planted::Planted;
use crate::roles::node::Node;
use crate::world::World;

/// The additional time of a read while the storage throttles, and of a read that fails.
const THROTTLED: u64 = 200;
const TRIED: u64 = 1_500;
/// The time until a process starts in the place of one that a poison split has ended.
const DOWN: std::ops::Range<u64> = 100..2_500;

impl World<'_> {
    pub(super) fn todo(&mut self, i: usize, todo: Todo) {
        match todo {
            Todo::Prepare(job) => {
                let (late, failed) = self.storage();
                let time = self.dice.within(1..40) + late;
                self.worker_later(i, time, WorkerTimer::Prepared(job, failed));
            }
            Todo::Compute(task, first) => {
                let job = self.job(&task.job().name);
                let streamed = job.streamed;
                // The number of chunks is the same for every boundary.
                let chunks = job.chunks(task.place(), job.worker.resolve_boundary(task.ops_on_worker()));
                let Some(chunks) = self.expect(Node::Worker(i), chunks).map(|chunks| chunks.len()) else { return };
                match streamed {
                    true => task.set_streamed(),
                    false => task.set_total(chunks as u64),
                }
                let entry = Entry { task, chunks, next: 0, streamed };
                let entries = &mut self.workers[i].entries;
                match first {
                    true => entries.push_front(entry),
                    false => entries.push_back(entry),
                }
            }
        }
    }

    /// Returns the additional time of the storage now, and whether a read fails.
    fn storage(&mut self) -> (u64, bool) {
        let (until, fail) = self.store;
        if self.now >= until {
            return (0, false);
        }
        self.felt("store");
        let failed = self.dice.percent(fail);
        (if failed { TRIED } else { self.dice.within(0..THROTTLED) }, failed)
    }

    /// Lets free threads take the next chunks.
    pub(super) fn compute(&mut self, i: usize) {
        while self.workers[i].free > 0 {
            let entries = &mut self.workers[i].entries;
            let Some(entry) = entries.front_mut() else { return };
            if entry.task.is_stale() || (entry.next >= entry.chunks && !entry.streamed) {
                entries.pop_front();
                continue;
            }
            let (index, taken) = (entry.next, entry.clone());
            match entry.streamed {
                true => drop(entries.pop_front()),
                false => entry.next += 1,
            }
            self.workers[i].free -= 1;
            if taken.streamed {
                self.compute_one(i, taken, index, Computing::default());
                continue;
            }
            match taken.task.decide(index as u64) {
                Decision::Compute(computing) => self.compute_one(i, taken, index, computing),
                Decision::Done => {
                    self.felt("chunks of twins taken");
                    self.workers[i].free += 1;
                }
                Decision::Wait => {
                    self.felt("chunks of twins waited for");
                    let wait = WAIT_MAX.as_millis() as u64;
                    self.workers[i].parked.push(Parked { entry: taken, index, until: self.now + wait });
                    self.worker_later(i, wait, WorkerTimer::Waited);
                    // Another thread computes meanwhile.
                    self.workers[i].free += 1;
                }
            }
        }
    }

    /// Lets waiting threads check whether their chunks are there.
    pub(super) fn look_again(&mut self, i: usize) {
        for parked in std::mem::take(&mut self.workers[i].parked) {
            let computing = match parked.entry.task.decide(parked.index as u64) {
                Decision::Compute(computing) => computing,
                Decision::Wait if self.now >= parked.until => Computing::default(),
                Decision::Wait => {
                    self.workers[i].parked.push(parked);
                    continue;
                }
                Decision::Done => continue,
            };
            self.workers[i].free -= 1;
            self.compute_one(i, parked.entry, parked.index, computing);
        }
    }

    fn compute_one(&mut self, i: usize, entry: Entry, index: usize, computing: Computing) {
        let ops = self.job(&entry.task.job().name).worker.resolve_boundary(entry.task.ops_on_worker());
        let (late, failed) = self.storage();
        let chunk = self.scenario.workers[i].chunk;
        let (until, factor) = self.workers[i].slow;
        let factor = if self.now < until {
            self.felt("slow worker");
            factor
        } else {
            1
        };
        let time = self.dice.within(chunk..2 * chunk) * factor + late;
        self.worker_later(i, time, WorkerTimer::Computed(Computed { entry, index, ops, time, failed, computing }));
    }

    pub(super) fn computed(&mut self, i: usize, computed: Computed) {
        let Computed { entry, index, ops, time, failed, computing } = computed;
        self.workers[i].free += 1;
        entry.task.spend(Duration::from_millis(time));
        if entry.streamed && entry.task.is_stale() {
            return;
        }
        if self.is_poisoned(&entry.task) {
            self.felt("workers ended by a split");
            let (silent, down) = (self.dice.percent(30), self.dice.within(DOWN));
            return self.end(Node::Worker(i), silent, Some(down));
        }
        if failed {
            entry.task.fail(index as u64, Error::unavailable("the storage does not answer"));
        } else if index < entry.chunks && (!entry.streamed || entry.task.wants(index as u64)) {
            self.put(i, &entry.task, index, ops, computing);
        }
        if entry.streamed && !failed {
            match index + 1 < entry.chunks {
                true => {
                    self.workers[i].free -= 1;
                    self.compute_one(i, entry, index + 1, Computing::default());
                }
                false => entry.task.set_total(entry.chunks as u64),
            }
        }
    }

    fn put(&mut self, i: usize, task: &Task, index: usize, ops: u32, computing: Computing) {
        let job = self.job(&task.job().name);
        let known = match self.planted {
            Some(Planted::KnownForgotten) => KnownSkips::default(),
            _ => (*task.known()).clone(),
        };
        let chunk = job.chunk(task.place(), ops, index, &known);
        let Some(chunk) = self.expect(Node::Worker(i), chunk).flatten() else { return };
        let chunk = self.maybe_lose(i, task, index, ops, chunk);
        let chunk = self.tamper(chunk);
        let chunk = self.make(chunk);
        task.put(index as u64, chunk, ops, computing);
    }

    fn tamper(&mut self, chunk: Chunk) -> Chunk {
        if self.planted == Some(Planted::WrongBytes) && chunk.num_rows() > 1 && self.dice.percent(2) {
            let mut rows: Vec<u32> = (0..chunk.num_rows() as u32).collect();
            rows.swap(0, 1);
            return chunk.take(&rows).unwrap_or(chunk);
        }
        chunk
    }
}
