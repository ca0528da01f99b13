//! The workers that jobs share: how many there may be, and of which kinds.

use forebay_core::{Error, Result};

use super::Job;
use super::job::{LARGE, positive, within};
use forebay_policy::fleet::{self, Offer};
use forebay_policy::scaling::Limits;

/// Workers of a pool.
pub const WORKERS_MAX: u32 = 100_000;
/// Sooner lost than missed, it would never end.
const LASTS_MIN: f64 = 60.0;
/// How much faster or slower threads of a kind may be.
const PACES: (f64, f64) = (0.01, 100.0);

/// The workers that jobs share. All but `max` is said by their kinds, where there are any.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pool {
    /// The most that there may be.
    pub max: u32,
    /// Threads of a worker.
    pub threads: u32,
    /// Seconds from asking for a worker to its first batch.
    pub startup: f64,
    /// Seconds that a worker lasts, on average, before it fails or is taken back; `None` is for ever.
    pub lost_every: Option<f64>,
}

impl Default for Pool {
    /// 64 workers with one thread, there at once, for ever.
    fn default() -> Self {
        Self { max: 64, threads: 1, startup: 0.0, lost_every: None }
    }
}

impl Pool {
    /// Returns what a job may ask for: no worker at all, where its trainer's machine may do without.
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

/// A kind of workers, and what comes of asking for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// As it is offered.
    pub offer: Offer,
    /// How fast its threads are, relative to those that the costs of jobs are about. The policy has to find out.
    pub pace: f64,
    /// How many there really are to be had, whatever is offered.
    pub comes: u32,
    /// Seconds from asking for one to its first batch.
    pub startup: f64,
    /// Seconds that one lasts, on average, before it fails or is taken back; `None` is for ever.
    pub lost_every: Option<f64>,
    /// From when to when, in seconds, none is to be had: those that there are then are taken back.
    pub away: Option<(f64, f64)>,
}

impl Kind {
    /// Makes a kind that is what is offered, there at once, for ever.
    pub fn new(offer: Offer) -> Self {
        Self { pace: 1.0, comes: offer.max, startup: 0.0, lost_every: None, away: None, offer }
    }

    /// Returns how many there may be at a time.
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

/// Checks that each is a kind of its own, and can be simulated.
pub(super) fn kinds_check(kinds: &[Kind]) -> Result<()> {
    let offers: Vec<_> = kinds.iter().map(|kind| kind.offer.clone()).collect();
    fleet::check(&offers)?;
    kinds.iter().try_for_each(|kind| kind.check().map_err(|e| e.with("kind", &kind.offer.kind)))
}
