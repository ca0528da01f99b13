//! Jobs: how they begin and end, whose they are, and what the ledger keeps of them.
//!
//! - `lifecycle`: creates, finds and cancels jobs.
//! - `retention`: removes jobs that are over or abandoned.
//! - `tenants`: ownership, quotas, and which workers may compute for a consumer.
//! - `epoch_ends`: lets the consumers of a job end its epochs together.
//! - `skipped`: records the samples that consumers left out.

pub(super) mod epoch_ends;
pub(super) mod lifecycle;
pub(super) mod retention;
pub(super) mod skipped;
pub(super) mod tenants;
