//! All decisions of the dispatcher, without I/O and without a clock: inputs and the time come in, effects come out.
//!
//! [`State`] is four machines. Each keeps its fields to itself. None can change another one, or refers to the state:
//!
//! ```text
//!       inputs: attach, acknowledge, hello, want, heartbeats, tick      requests: create, cancel, forget, list
//!                   |                                                      |
//!                   v                                                      v
//!   State:  router (each input to its machine)   reports   policy   tick   inspect   figures
//!                   |
//!        +----------+----------+--------------------+--------------------+
//!        |                     |                    |                    |
//!        v                     v                    v                    v
//!   +----------+  notices  +--------+  windows  +---------+  mixes  +---------+
//!   |  leases  | --------> |  load  | --------> | scaling | <------ |  fleet  |
//!   +----------+   views   +--------+   costs   +---------+         +---------+
//!   jobs, splits,          windows, op          how many            worker types,
//!   consumers,             costs, spare         workers, boundary,  their mix, peers,
//!   workers, tokens        cores, profiles      local threads       cost of jobs
//!        |   ^                 |                    |
//!        |   +-----------------|---- boundary ------+
//!        v                     v
//!   Persist, Remember,    Remember
//!   messages              (profiles)
//! ```
//!
//! - `leases`: all that is durable, except dataset profiles. Jobs and tenants belong to it: the ledger removes a job's
//!   leases with the job, a job's record holds where its epochs ended, and a tenant's quota decides which worker gets a
//!   split. Only this machine can make an [`Effect::Persist`]: the constructor of its content is private to the folder.
//! - `load`: the reports of workers and consumers, summed up per job and per dataset. It decides nothing.
//! - `scaling`: the policy's decisions on each job. The router sets a job's placement boundary in leases when it moves.
//! - `fleet`: the types of workers, the cost of jobs, the workers that request cached rows from each other.
//!
//! Above the machines, and used by none of them:
//! - `router`: the state itself. It passes each input to a machine, and the notices of leases to the others.
//! - `reports`: heartbeats; `policy`: runs the policies; `tick`: the clock.
//! - `inspect`, `figures`: views for display and metrics; `lost_workers`: the workers that were lost lately.
//!
//! Beside them, as plain data: `input`, `effect`, `counts`, `limits`. The other machines see `leases::views` of leases,
//! and nothing else.
//!
//! Effects are ordered: no process may see an effect behind an [`Effect::Persist`] before that update is durable.
//!
//! Invariants, checked once a second by a running dispatcher ([`State::check`]: SP-1 to SP-4, SP-8, SP-9), and after
//! every step of the property tests and of the simulation:
//! SP-1 a split has at most one current token, or two of two workers while it has a backup lease, and its workers know
//!      them;
//! SP-2 tokens only rise;
//! SP-3 no split before a consumer's frontier is leased;
//! SP-4 a consumer's leases lie within its window;
//! SP-5 while a worker has room, and a consumer that reaches it has room, splits are granted (where hints are strict, at
//!      least the split that the consumer needs next);
//! SP-6 replaying the persisted updates yields the same jobs, frontiers, leases (without backup leases), skipped
//!      samples and dataset profiles;
//! SP-7 a skipped sample is durable before the dispatcher confirms it to the consumer, and each worker that gets the
//!      split later is sent it;
//! SP-8 a silent worker is noticed when its lease ends;
//! SP-9 a worker that serves one tenant holds nothing of another tenant's, and a local worker nothing of another
//!      consumer's;
//! SP-10 a consumer with a session, leases or trouble is in the set of active consumers.

mod counts;
mod effect;
mod figures;
mod fleet;
mod input;
mod inspect;
mod leases;
mod limits;
mod load;
mod lost_workers;
mod policy;
mod reports;
mod router;
mod scaling;
#[cfg(test)]
mod tests;
mod tick;

pub use counts::Counts;
pub(crate) use effect::Effect;
pub use figures::StateFigures;
pub(crate) use fleet::worker_types::WorkerType;
pub use fleet::worker_types::{check_price, check_worker_type};
pub(crate) use input::{Arrival, Attachment, Input, SessionId};
pub(crate) use leases::consumers::consumer::WHOLE_SPLIT;
pub(crate) use leases::consumers::messages::cancelled;
pub(crate) use router::State;
