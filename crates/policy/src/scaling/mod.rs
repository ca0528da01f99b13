//! How many workers a job gets: its trainer should never wait for long, and no worker should be paid for in vain.
//!
//! ```text
//! observation (one window, measured) ──▶ policy ──▶ decision: workers, reason, figures
//!                      previous      ──▶        ──▶ previous, for the next window
//! ```
//!
//! See `README.md` beside this file. Not here: how it is measured and who starts workers (dispatcher, server).

mod decision;
mod fixed;
pub mod forebay;
mod host;
mod policy;
mod share;
pub mod window;

use forebay_core::Ticks;

pub use decision::{Decision, Figures, Gap, Reason};
pub use host::Host;
pub use policy::{CHOICES, Choice, Policy, ScalingPolicy, Start};
pub use share::{Claim, share};

/// The fewest and the most workers that may be asked for; the fewest is never more than the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The fewest.
    pub min: u32,
    /// The most.
    pub max: u32,
}

impl Limits {
    /// Returns the number within the limits that is nearest to one.
    pub fn clamp(&self, workers: u32) -> u32 {
        workers.clamp(self.min.min(self.max), self.max)
    }
}

/// What was measured of one job in one window of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// When the window ended.
    pub at: Ticks,
    /// Workers that computed for the job, in processes of their own.
    pub workers: u32,
    /// Threads on the reader's machine that computed for it. (For `pecan`, its workers in the reader's process.)
    pub local: u32,
    /// Whether there were as many all the time.
    pub steady: bool,
    /// What may be asked for.
    pub limits: Limits,
    /// Threads of one worker that compute.
    pub threads: f64,
    /// The same, of each kind: one worker is the mean of the workers that there are, so another mix makes another unit. Empty where workers
    /// are all alike.
    pub threads_by_kind: Vec<f64>,
    /// Batches that all readers took.
    pub batches: u64,
    /// The same, a second.
    pub delivered: f64,
    /// Batches a second that they would have taken had they never waited; `None` when they took none and waited for none.
    pub demand: Option<f64>,
    /// The share of the readers' time that they waited, 0 to 1.
    pub waited: f64,
    /// Seconds of one thread that a batch takes to compute; `None` while nothing was computed.
    pub compute: Option<f64>,
    /// The share of the workers' threads that computed for any job, 0 to 1; `None` while no worker said.
    pub busy: Option<f64>,
    /// Batches a second that workers made, whether their readers have taken them or not; `None` while no worker said.
    pub made: Option<f64>,
    /// Splits that were complete ahead of their readers, on average; `None` while no reader said.
    pub ahead: Option<f64>,
    /// Batches a second that threads beside the reader made whose number is set: nothing is decided on them, and they are in no other
    /// figure.
    pub beside: f64,
    /// The reader's machine; `None` where nothing is to be placed there.
    pub host: Option<Host>,
}

impl Observation {
    /// Returns the figures, where there are all, and none contradicts another.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn figures(&self) -> Result<Figures, Gap> {
        let demand = self.demand.ok_or(if self.waited > 0.5 { Gap::NothingYet } else { Gap::Idle })?;
        let compute = self.compute.ok_or(Gap::NotComputed)?;
        // Where no worker was ever there, what one would make is not known.
        if self.workers == 0 && (self.local == 0 || self.threads == 0.0) {
            return Err(Gap::NoWorkers);
        }
        let figures = Figures {
            workers: self.workers,
            demand,
            supply: self.threads / compute,
            beside: self.beside,
            compute,
            waited: self.waited,
            delivered: self.delivered,
            made: self.made.unwrap_or(0.0),
            local: self.local,
            spare: self.host.as_ref().map_or(0.0, |host| host.spare),
            pressure: self.host.as_ref().map_or(0.0, |host| host.pressure),
            send: self.host.as_ref().map_or(0.0, |host| host.wire.send),
            receive: self.host.as_ref().map_or(0.0, |host| host.wire.receive),
        };
        if figures.contradict() || !self.host.as_ref().is_none_or(Host::is_sound) {
            Err(Gap::Contradiction)
        } else {
            Ok(figures)
        }
    }
}
