//! Which rows of a pipeline are cached: none, or the rows at one of its places.
//!
//! ```text
//! observation (one window, measured) ──▶ policy ──▶ decision: choice, reason, figures
//!                      previous      ──▶        ──▶ previous, for the next window
//! ```
//!
//! See `README.md` beside this file. All times are nanoseconds of one thread for one row. Not here: how they are
//! measured and how a choice is carried out (`exec`).

mod cost;
mod decision;
pub mod forebay;
mod observation;
mod reads;
mod rent;
mod tiers;

pub use cost::Cost;
pub use decision::{Choice, Decision, Reason};
pub use forebay::{Previous, decide};
pub use observation::{Observation, Place};
pub use reads::{AGAIN_MAX, PASSES_UNKNOWN, passes_to_come};
pub use rent::{Rent, StorePrices};
pub use tiers::Tiers;
