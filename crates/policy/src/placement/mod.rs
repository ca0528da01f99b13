//! Where a job's batches are computed: by workers, by threads on the reader's own machine, or by both, op by op.
//!
//! ```text
//! Model (ops, wire, cores, step) + Objective + Bounds ──solve──▶ Placement: workers, local threads, cut
//! ```
//!
//! A worker or the reader's own threads compute a whole split; or a worker runs the ops before the *cut* and the
//! reader's side runs the ops after it. [`Model`] predicts the rates and costs of each placement, [`solve`] returns the
//! best.
//! Invariant: pure arithmetic; the simulator works with the same model, so both leave out the same effects.
//! [`scaling::forebay`](crate::scaling::forebay) decides, confirms and watches. See `README.md` beside this file.

mod assignment;
mod model;
mod prices;
mod solve;

pub use assignment::Placement;
pub use model::{CUTS_MAX, Cut, Finishing, Machine, Manners, Model, Wire};
pub use prices::{Objective, PRICE_MAX, Prices, SLACK_MAX};
pub use solve::{Bounds, solve};
