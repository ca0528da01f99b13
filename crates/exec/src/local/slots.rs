//! The morsels that are in progress or done, and the next chunk.

use std::collections::VecDeque;

use forebay_core::Result;
use forebay_data::Chunk;
use forebay_plan::Morsel;

use super::cursor::{Cursor, Task};

/// The most morsels from the first undelivered one to the last started one. It matters only with `ordered=False`.
const SPREAD_MAX: usize = 256;

/// One morsel.
pub(super) struct Slot {
    pub(super) task: Task,
    pub(super) chunks: VecDeque<Chunk>,
    taken: u64,
    pub(super) outcome: Option<Result<()>>,
    /// Whether all of it was delivered, while an earlier slot was not.
    is_over: bool,
}

/// The next item of a stream.
pub(super) enum Head {
    /// A chunk, its split and its index.
    Chunk(u64, u64, Chunk),
    /// A split, and the number of its chunks, all of which were returned.
    SplitEnds(u64, u64),
    EpochEnds,
    StreamEnds,
}

/// The state that the threads of a stream share.
pub(super) struct State {
    pub(super) cursor: Cursor,
    slots: VecDeque<Slot>,
    /// The number of the first slot, counted from the start of the stream.
    base: u64,
    slots_max: usize,
    /// The bytes of waiting chunks above which no new morsel is started.
    ready_bytes_max: usize,
    /// Whether morsels are delivered in order.
    ordered: bool,
    pub(super) stop: bool,
}

impl State {
    pub(super) fn new(cursor: Cursor, slots_max: usize, ready_bytes_max: usize, ordered: bool) -> Self {
        Self { cursor, slots: VecDeque::new(), base: 0, slots_max, ready_bytes_max, ordered, stop: false }
    }

    /// Says whether another morsel may be started.
    pub(super) fn has_room(&self) -> bool {
        let open = self.slots.iter().filter(|slot| !slot.is_over).count();
        let ready = || self.slots.iter().flat_map(|s| &s.chunks).map(Chunk::num_bytes).sum::<usize>();
        // One morsel is always in progress, of any size.
        let has_memory = || open == 0 || ready() < self.ready_bytes_max;
        open < self.slots_max && self.slots.len() < SPREAD_MAX && has_memory()
    }

    /// Says whether every started morsel was delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Says whether no thread works on a morsel.
    pub(super) fn is_done(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_over || slot.outcome.is_some())
    }

    /// Makes a slot for a task; returns its number.
    pub(super) fn begin(&mut self, task: Task) -> u64 {
        let number = self.base + self.slots.len() as u64;
        self.slots.push_back(Slot { task, chunks: VecDeque::new(), taken: 0, outcome: None, is_over: false });
        number
    }

    pub(super) fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        let place = number.checked_sub(self.base)?;
        self.slots.get_mut(place as usize)
    }

    /// Skips the rest of an epoch.
    pub(super) fn abandon(&mut self, epoch: u64) {
        while self.slots.pop_front_if(|slot| slot.task.epoch <= epoch).is_some() {
            self.base += 1;
        }
        self.cursor.abandon(epoch);
    }

    /// Takes the next item of an epoch, if it is ready.
    ///
    /// # Errors
    /// The error of a morsel.
    pub(super) fn take(&mut self, epoch: u64) -> Result<Option<Head>> {
        loop {
            let many = if self.ordered { 1 } else { self.slots.len() };
            let mut slots = self.slots.iter_mut().take(many).take_while(|slot| slot.task.epoch <= epoch);
            let Some(slot) = slots.find(|slot| !slot.chunks.is_empty() || slot.outcome.is_some()) else {
                let is_next = self.slots.front().is_some_and(|slot| slot.task.epoch > epoch);
                return Ok(is_next.then_some(Head::EpochEnds));
            };
            let task = slot.task;
            if let Some(chunk) = slot.chunks.pop_front() {
                let index = task.chunk + slot.taken;
                slot.taken += 1;
                return Ok(Some(Head::Chunk(task.split, index, chunk)));
            }
            let chunks = task.chunk + slot.taken;
            slot.is_over = true;
            slot.outcome.take().unwrap_or(Ok(()))?;
            while self.slots.pop_front_if(|slot| slot.is_over).is_some() {
                self.base += 1;
            }
            if let Morsel::Block { .. } = task.morsel {
                return Ok(Some(Head::SplitEnds(task.split, chunks)));
            }
        }
    }
}
