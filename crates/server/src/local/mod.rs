//! A worker beside a reader: a child of the reader's process that computes for that reader alone, on cores that its trainer
//! leaves idle.
//!
//! ```text
//! recipe    how to start it                        priority   how it gives way to the trainer
//! worker    starts it, says how many threads,      files      what Linux says of this machine
//!           starts it again                        group      limits of control groups
//! obey      the child's side of that               machine    what there is to spare
//! ```
//!
//! A process, and not threads of the trainer's: users' functions do not fight for the trainer's interpreter, what crashes
//! crashes there, and the kernel can tell the two apart. Invariants: it never outlives its parent; it costs no job anything but
//! the splits that it held, which others compute again; nothing of a reader waits for it. How many threads are wanted where the
//! user does not say, the dispatcher decides (`dispatcher/state/scaling/local_workers.rs`); what the machine cannot spare is never used. What that is, a
//! reader without a local worker says, too (`machine`): which ops its own process runs is decided by it.

mod files;
mod group;
mod machine;
mod obey;
mod priority;
mod recipe;
mod worker;

pub use machine::look_at_machine;
pub(crate) use obey::obey_parent;
pub(crate) use priority::{give_way, step_back};
pub use recipe::{LocalRecipe, local_key};
pub use worker::{LocalThreads, LocalWorker};
