//! Where a job's batches are computed: by workers, by threads on the reader's own machine, or by both, op by op.
//!
//! ```text
//! Model (ops, wire, cores, step) + Objective + Bounds ──solve──▶ Placement: workers, local threads, cut
//! ```
//!
//! A split may be computed by a worker or by the reader's own threads, whole; or a worker runs the ops before the *cut* and
//! the reader's threads those after it. [`Model`] says what each placement brings and costs, [`solve`] which is best.
//! Invariants: pure arithmetic; the simulator works with the same model, so what it leaves out is left out in both.
//! Who decides, confirms and watches is [`scaling::forebay`](crate::scaling::forebay). See `README.md` beside this file.

mod model;
mod prices;
mod solve;

use serde::{Deserialize, Serialize};

pub use model::{CUTS_MAX, Cut, Finishing, Machine, Manners, Model, Wire};
pub use prices::{Objective, PRICE_MAX, Prices, SLACK_MAX};
pub use solve::{Bounds, solve};

/// How many compute, and which ops where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Workers, in processes of their own.
    pub workers: u32,
    /// Threads on the reader's machine.
    pub local: u32,
    /// Ops that run on the workers, from 1 to all of them; the reader's threads run the rest of what workers send.
    pub cut: u32,
}
