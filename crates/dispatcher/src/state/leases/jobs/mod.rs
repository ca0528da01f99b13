//! Jobs: how they begin and end, whose they are, and what the ledger keeps of them.
//!
//! - `lifecycle`: creates, finds and cancels jobs.
//! - `retention`: removes jobs that are over or abandoned.
//! - `tenants`: ownership, quotas, and which workers may compute for a consumer.
//! - `epoch_ends`: how many steps of an epoch consumers have that end epochs together. Arithmetic only.
//! - `steps`: their messages, and where epochs ended.
//! - `skipped`: records the samples that consumers left out; `skipped_tally`: what they take in the ledger.

pub(super) mod epoch_ends;
pub(super) mod lifecycle;
mod retention;
mod skipped;
pub(super) mod skipped_tally;
mod steps;
pub(super) mod tenants;
