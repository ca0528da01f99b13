//! What of a pipeline is kept: nothing, or what one of its places makes of each row.
//!
//! ```text
//! observation (one window, measured) ──▶ policy ──▶ decision: choice, reason, figures
//!                      previous      ──▶        ──▶ previous, for the next window
//! ```
//!
//! See `README.md` beside this file. All times are nanoseconds of one thread for one row. Not here: how they are measured and
//! what a choice does (exec).

mod cost;
mod decision;
pub mod forebay;
mod reads;
mod rent;
mod tiers;

pub use cost::Cost;
pub use decision::{Choice, Decision, Reason};
pub use forebay::{Previous, decide};
pub use reads::{AGAIN_MAX, PASSES_UNKNOWN, passes_to_come};
pub use rent::{Rent, StorePrices};
pub use tiers::Tiers;

/// What was measured of one pipeline in one process, in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The rows that are asked for in a pass.
    pub rows: u64,
    /// Passes over them that are to come, this one too: see [`passes_to_come`].
    pub passes: f64,
    /// After how many nanoseconds by the clock another of these passes is made, whoever makes it; 0 while that is not known.
    pub pass_nanos: f64,
    /// What a row costs from its source to the end, with nothing kept.
    pub compute: f64,
    /// The places where rows may be kept, in the order of the pipeline.
    pub places: Vec<Place>,
    /// Bytes that rows of this pipeline may take.
    pub room: Tiers<u64>,
    /// What the store costs; all other room is paid for anyway.
    pub rent: Rent,
    /// Whether what fetching from others takes is a guess: they have room, and hardly anything was read there yet.
    pub guessed: bool,
}

/// A place in a pipeline, and what keeping its rows would cost and bring.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// What is kept there, for people.
    pub name: String,
    /// Bytes of a row.
    pub bytes: f64,
    /// What a row costs from its source to here.
    pub before: f64,
    /// What it costs from here to the end.
    pub after: f64,
    /// What it costs to find one.
    pub found: Tiers<f64>,
    /// What it costs to keep one.
    pub write: f64,
    /// The share of the rows that is kept already, 0 to 1.
    pub kept: f64,
}
