//! The workers that jobs share: their limit and their types.

use forebay_core::{Error, Result};

use super::Job;
use super::job::{LARGE, positive, within};
use forebay_policy::fleet::{self, Offer};
use forebay_policy::scaling::Limits;

/// The most workers of a pool.
pub const WORKERS_MAX: u32 = 100_000;
/// The least mean life of a worker: if workers were lost faster than the dispatcher misses them, a simulation would
/// never end.
const LASTS_MIN: f64 = 60.0;
/// The bounds of a pace.
const PACES: (f64, f64) = (0.01, 100.0);

/// The workers that jobs share. With worker types, only `max` is used of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// The most workers.
    pub max: u32,
    /// Threads of a worker.
    pub threads: u32,
    /// Seconds from the request for a worker to its first batch.
    pub startup: f64,
    /// Mean seconds until a worker fails or is taken back; `None` is for ever.
    pub lost_every: Option<f64>,
}

impl Default for Pool {
    /// Makes a pool of 64 workers with one thread, ready at once, for ever.
    fn default() -> Self {
        Self { max: 64, threads: 1, startup: 0.0, lost_every: None }
    }
}

impl Pool {
    /// Returns the limits of a job: no worker at all is allowed if its trainer's machine may compute alone.
    pub fn limits(&self, job: &Job) -> Limits {
        let min = u32::from(job.host.as_ref().is_none_or(|host| host.local_max == 0));
        Limits { min, max: self.max }
    }

    pub(super) fn check(&self) -> Result<()> {
        if !(1..=WORKERS_MAX).contains(&self.max) {
            return Err(Error::invalid(format!("a pool of {} workers: there are 1 to {WORKERS_MAX}", self.max)));
        }
        if !(1..=4096).contains(&self.threads) {
            return Err(Error::invalid(format!("a worker of {} threads: there are 1 to 4096", self.threads)));
        }
        within("the start-up time", self.startup, 0.0, LARGE)?;
        lasts(self.lost_every)
    }
}

fn lasts(lost_every: Option<f64>) -> Result<()> {
    lost_every.map_or(Ok(()), |mean| within("the time until a worker is lost", mean, LASTS_MIN, LARGE))
}

/// A worker type, and the result of requests for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// Its offer.
    pub offer: Offer,
    /// The true pace of its threads, relative to the pace that the costs of jobs assume. The policy has to learn it.
    pub pace: f64,
    /// How many the cloud really has, which may be fewer than it offers.
    pub comes: u32,
    /// Seconds from the request for one to its first batch.
    pub startup: f64,
    /// Mean seconds until one fails or is taken back; `None` is for ever.
    pub lost_every: Option<f64>,
    /// The seconds from and until which the cloud has none: workers that are there then are taken back.
    pub away: Option<(f64, f64)>,
}

impl Kind {
    /// Makes a type that is as offered, ready at once, for ever.
    pub fn new(offer: Offer) -> Self {
        Self { pace: 1.0, comes: offer.max, startup: 0.0, lost_every: None, away: None, offer }
    }

    /// Returns how many the cloud has at a time.
    pub(super) fn to_be_had(&self, at: f64) -> u32 {
        if self.away.is_some_and(|(from, to)| (from..to).contains(&at)) { 0 } else { self.comes }
    }

    fn check(&self) -> Result<()> {
        within("how many are to be had", f64::from(self.comes), 1.0, f64::from(u32::MAX))?;
        within("the pace of its threads", self.pace, PACES.0, PACES.1)?;
        within("the start-up time", self.startup, 0.0, LARGE)?;
        lasts(self.lost_every)?;
        let Some((from, to)) = self.away else { return Ok(()) };
        within("when none is to be had any more", from, 0.0, LARGE)?;
        positive("for how long none is to be had", to - from)
    }
}

/// Checks that each type is a different one, and can be simulated.
pub(super) fn kinds_check(kinds: &[Kind]) -> Result<()> {
    let offers: Vec<_> = kinds.iter().map(|kind| kind.offer.clone()).collect();
    fleet::check(&offers)?;
    kinds.iter().try_for_each(|kind| kind.check().map_err(|e| e.with("kind", &kind.offer.kind)))
}
