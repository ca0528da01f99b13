//! Jobs: their begin and end, their tenants, and their records in the ledger.
//!
//! - `lifecycle`: creates, finds and cancels jobs.
//! - `retention`: removes jobs that are over or abandoned.
//! - `tenants`: ownership, quotas, and which workers may compute for a consumer.
//! - `epoch_ends`: the steps of an epoch of consumers that end epochs together. Arithmetic only.
//! - `steps`: the messages of these consumers, and the ends of epochs.
//! - `skipped`: records the samples that consumers left out; `skipped_tally`: their room in the ledger.

pub(super) mod epoch_ends;
pub(super) mod lifecycle;
mod retention;
mod skipped;
pub(super) mod skipped_tally;
mod steps;
pub(super) mod tenants;
