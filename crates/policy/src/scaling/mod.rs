//! How many workers a job gets: its trainer should never wait for long, and no worker should be paid for in vain.
//!
//! ```text
//! observation (one window, measured) ──▶ policy ──▶ decision: workers, reason, figures
//!                      previous      ──▶        ──▶ previous, for the next window
//! ```
//!
//! See `README.md` beside this file. Not here: the measurements (dispatcher), and starting workers (server).

mod choices;
mod decision;
mod fixed;
pub mod forebay;
mod host;
mod observation;
mod policy;
mod share;
mod steady_state;
pub mod window;

pub use choices::{CHOICES, Policy};
pub use decision::{Decision, Figures, Gap, Reason};
pub use host::Host;
pub use observation::{Limits, Observation};
pub use policy::{Choice, ScalingPolicy, Start};
pub use share::{Claim, share};
pub use steady_state::SteadyState;
