//! Local workers: a child of the consumer's process that computes for that consumer alone, on cores that its trainer
//! leaves idle.
//!
//! ```text
//! recipe    its command                            priority   makes it yield to the trainer
//! worker    starts it, sets its threads,           files      Linux's figures of this machine
//!           restarts it                            group      limits of control groups
//! obey      the child's side of that               machine    its spare capacity
//! ```
//!
//! It is a process, and not threads of the trainer's: users' functions do not compete for the trainer's interpreter, a
//! crash ends only the worker, and the kernel can prioritise the two. Invariants: it never outlives its parent; its
//! loss costs a job only the splits that it held, which others compute again; no part of a consumer waits for it. If
//! the user does not set the number of threads, the dispatcher decides it
//! (`dispatcher/state/scaling/local_threads.rs`), but it never exceeds the machine's spare capacity. A consumer without
//! a local worker reports the spare capacity, too (`machine`), because the placement boundary depends on it.

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
