//! What a reader and whoever runs its local worker say to each other: where that one listens, what the machine has to spare,
//! how many threads are wanted.
//!
//! The reader's session takes what was said last and leaves what it heard; neither waits for the other. Bounds: one value each.

use std::sync::Mutex;

use forebay_proto::Spare;

use crate::lock::lock;

#[derive(Debug, Default)]
struct State {
    address: Option<String>,
    spare: Option<Spare>,
    wanted: u32,
}

/// The place of a local worker beside a reader. Empty where there is none.
#[derive(Debug, Default)]
pub struct Seat(Mutex<State>);

impl Seat {
    /// The local worker listens here: a process of this one's own, on this machine, which is spoken to in the clear.
    pub fn set_address(&self, address: Option<String>) {
        lock(&self.0).address = address;
    }

    /// Asks the dispatcher how many threads there should be, on a machine that has this to spare; with `None`, no more.
    pub fn tell(&self, spare: Option<Spare>) {
        lock(&self.0).spare = spare;
    }

    /// The dispatcher wants so many threads.
    pub fn hear(&self, wanted: u32) {
        lock(&self.0).wanted = wanted;
    }

    /// Returns how many threads the dispatcher wants, as of its last answer; 0 before the first.
    pub fn wanted(&self) -> u32 {
        lock(&self.0).wanted
    }

    pub(crate) fn has(&self, address: &str) -> bool {
        lock(&self.0).address.as_deref() == Some(address)
    }

    /// Returns what was said last of what the machine has to spare.
    pub fn spare(&self) -> Option<Spare> {
        lock(&self.0).spare
    }
}
