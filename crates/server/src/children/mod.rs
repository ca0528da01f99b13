//! The child processes of a service on this machine.
//!
//! - `child`: one process; `announce`: its one line on stdout, with the address where it listens
//! - `fleet`: all processes of one `up`; `provision`: starts and ends workers, as many as the dispatcher wants
//! - `patience`: how long to wait for processes that start; `ended`: errors about processes that ended

pub(super) mod announce;
pub(super) mod child;
mod ended;
pub(super) mod fleet;
pub(super) mod patience;
pub(super) mod provision;
