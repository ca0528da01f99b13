//! What a reader and whoever runs its local worker say to each other: where that one listens, what the machine has to spare,
//! how many threads are wanted.
//!
//! The reader's session takes what was said last and leaves what it heard; neither waits for the other. Where nobody runs a local
//! worker, the session looks itself what there is to spare, as often as it tells of it: so that takes no thread. Who looks is a seam:
//! in the simulation nobody does. Bounds: one value each.

use std::fmt;
use std::sync::Mutex;

use forebay_core::Ticks;
use forebay_proto::{JobKey, Spare};

use crate::lock::lock;

#[derive(Debug, Default)]
struct State {
    address: Option<String>,
    spare: Option<Spare>,
    wanted: u32,
}

/// Looks what a machine has to spare; `None` where it does not say, or not yet. Takes a moment: files of the system are read.
pub type Look = Box<dyn FnMut(Ticks) -> Option<Spare> + Send>;

/// The place of a local worker beside a reader. Empty where there is none.
#[derive(Default)]
pub struct Seat {
    key: JobKey,
    state: Mutex<State>,
    look: Mutex<Option<Look>>,
}

impl Seat {
    /// A seat without a local worker; `look` tells the reader what its machine has to spare.
    pub fn looking(look: Look) -> Self {
        Self { look: Mutex::new(Some(look)), ..Self::default() }
    }

    /// The place of a local worker that shows this key, which nobody else knows.
    pub fn beside(key: JobKey) -> Self {
        Self { key, ..Self::default() }
    }

    /// Returns what a local worker shows; none where there is no place for one.
    pub fn key(&self) -> JobKey {
        self.key
    }

    /// The local worker listens here: a process of this one's own, on this machine, which is spoken to in the clear.
    pub fn set_address(&self, address: Option<String>) {
        lock(&self.state).address = address;
    }

    /// Tells the dispatcher what the machine has to spare; with `None`, no more.
    pub fn tell(&self, spare: Option<Spare>) {
        lock(&self.state).spare = spare;
    }

    /// The dispatcher wants so many threads.
    pub fn hear(&self, wanted: u32) {
        lock(&self.state).wanted = wanted;
    }

    /// Returns how many threads the dispatcher wants, as of its last answer; 0 before the first.
    pub fn wanted(&self) -> u32 {
        lock(&self.state).wanted
    }

    pub(crate) fn has(&self, address: &str) -> bool {
        lock(&self.state).address.as_deref() == Some(address)
    }

    /// Looks what the machine has to spare, where nobody else tells.
    pub(crate) fn look(&self, now: Ticks) {
        if let Some(look) = &mut *lock(&self.look) {
            let spare = look(now);
            self.tell(spare);
        }
    }

    /// Returns what was said last of what the machine has to spare.
    pub fn spare(&self) -> Option<Spare> {
        lock(&self.state).spare
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("state", &self.state).finish_non_exhaustive()
    }
}
