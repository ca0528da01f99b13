//! The measurements of one job in one window, and the limits on its workers.

use forebay_core::Ticks;

use super::{Figures, Gap, Host};

/// The fewest and the most workers that may be requested; `max` wins over `min`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The fewest.
    pub min: u32,
    /// The most.
    pub max: u32,
}

impl Limits {
    /// Returns the nearest number within the limits.
    pub fn clamp(&self, workers: u32) -> u32 {
        workers.clamp(self.min.min(self.max), self.max)
    }
}

/// The measurements of one job in one window of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// When the window ended.
    pub at: Ticks,
    /// Workers that computed for the job, in processes of their own.
    pub workers: u32,
    /// Threads on the reader's machine that computed for it. (For `pecan`, its workers in the reader's process.)
    pub local: u32,
    /// Whether these numbers held all the time.
    pub steady: bool,
    /// The allowed numbers of workers.
    pub limits: Limits,
    /// Threads of one worker that compute.
    pub threads: f64,
    /// The same by worker type: one worker is the mean of the present ones, so another mix makes another unit. Empty if
    /// all workers are alike.
    pub threads_by_kind: Vec<f64>,
    /// Batches that all readers took.
    pub batches: u64,
    /// Batches a second that they took.
    pub delivered: f64,
    /// Batches a second that they would have taken without any wait; `None` if they took none and waited for none.
    pub demand: Option<f64>,
    /// The share of the readers' time that they waited, 0 to 1.
    pub waited: f64,
    /// Seconds of one thread for a batch; `None` before the first is computed.
    pub compute: Option<f64>,
    /// The share of the workers' threads that computed for any job, 0 to 1; `None` before a worker reports it.
    pub busy: Option<f64>,
    /// Batches a second that workers made, whether their readers have taken them or not; `None` before a worker reports
    /// it.
    pub made: Option<f64>,
    /// Splits that were complete ahead of their readers, on average; `None` before a reader reports it.
    pub ahead: Option<f64>,
    /// Batches a second from threads beside the reader whose number the user set: no decision depends on them, and no
    /// other figure includes them.
    pub beside: f64,
    /// The reader's machine; `None` if nothing is to be placed there.
    pub host: Option<Host>,
}

impl Observation {
    /// Returns the figures, if none is missing or contradicts another.
    ///
    /// # Errors
    /// The figure that is missing or wrong.
    pub fn figures(&self) -> Result<Figures, Gap> {
        let demand = self.demand.ok_or(if self.waited > 0.5 { Gap::NothingYet } else { Gap::Idle })?;
        let compute = self.compute.ok_or(Gap::NotComputed)?;
        // Without any worker so far, the rate of one is unknown.
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
