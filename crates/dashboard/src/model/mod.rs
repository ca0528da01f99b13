//! The JSON of a service's jobs, workers and scale: for the HTTP API, and for the commands that print JSON.
//!
//! Pure: each value is made of the dispatcher's messages. Fields are only ever added.

mod alarm;
mod consumer;
mod detail;
mod job;
mod op;
mod optional;
mod overview;
mod page;
mod recent;
mod scale;
mod snapshot;
mod summary;
mod worker;

pub use alarm::{Alarm, alarms};
pub use consumer::Consumer;
pub use detail::{Detail, InFlight, Written};
pub use job::{Caching, Decision, Job, WorkerCost, workers_of};
pub use op::Op;
pub use overview::{Overview, WorkerCounts};
pub use page::Page;
pub use recent::Recent;
pub use scale::{Kind, Scale};
pub use snapshot::Snapshot;
pub use summary::{Summary, cost, progress};
pub use worker::{Differs, Worker};
