//! Which policy decides, by name: what a dispatcher is told on its command line.

use std::fmt;
use std::str::FromStr;

use forebay_core::Error;

use super::decision::{Decision, Figures, Reason};
use super::{Limits, Observation, cachew, forebay, hpa, pecan};
use crate::placement::{Model, Objective, Placement};

/// What one more worker must gain for a policy that climbs, in thousandths of the time of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gain(pub u16);

impl Gain {
    fn share(self) -> f64 {
        f64::from(self.0) / 1000.0
    }
}

/// A policy. Written as `forebay`, `cachew`, `hpa` or `static:N`; the others are for simulations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Policy {
    /// [`forebay`]: solve, confirm, watch.
    #[default]
    Forebay,
    /// [`cachew`]: climb by one.
    Cachew,
    /// [`hpa`]: 80 % of the processors.
    Hpa,
    /// So many, whatever happens.
    Static(u32),
    /// [`cachew`] with another gain than its authors' first.
    CachewBy(Gain),
    /// [`pecan`]: workers in the reader's process, too.
    Pecan(Gain),
    /// So many here and there, cut like that, whatever happens.
    Placed(Placement),
}

impl Policy {
    /// Returns what it starts a job with.
    pub fn start(self) -> Previous {
        match self {
            Self::Forebay => Previous::Forebay(forebay::Previous::default()),
            Self::Cachew => Previous::Cachew(cachew::Previous::default()),
            Self::Hpa => Previous::Hpa(hpa::Previous::default()),
            Self::Static(workers) => Previous::Static(workers),
            Self::CachewBy(gain) => Previous::Cachew(cachew::Previous::new(gain.share())),
            Self::Pecan(gain) => Previous::Pecan(pecan::Client::new(gain.share())),
            Self::Placed(at) => Previous::Placed(at),
        }
    }

    /// Returns what it starts a job with on whose samples another one came to rest there; `None` where it starts like any.
    pub fn again(self, rest: &forebay::Rest) -> Option<(Decision, Previous)> {
        let (decision, next) = (self == Self::Forebay).then(|| rest.begin())?;
        Some((decision, Previous::Forebay(next)))
    }

    /// Returns what it starts a job with of which `model` says what it is likely to be, with the `figures` in it; `None` where it
    /// starts like any.
    pub fn begin(
        self,
        model: &Model,
        figures: Figures,
        limits: Limits,
        objective: &Objective,
    ) -> Option<(Decision, Previous)> {
        let is_sound = self == Self::Forebay && model.check().is_ok() && !figures.contradict();
        let (decision, next) = is_sound.then(|| forebay::begin(model, figures, limits, objective))?;
        Some((decision, Previous::Forebay(next)))
    }

    /// Reads one for a simulation: also `cachew:GAIN`, `pecan`, `pecan:GAIN` and `static:WORKERS+THREADS` or
    /// `static:WORKERS+THREADS@OPS`, where a gain is a share of 1 and `OPS` run on the workers.
    ///
    /// # Errors
    /// It is none of these.
    pub fn simulated(text: &str) -> Result<Self, Error> {
        let gain = |text: &str| {
            let share = text.parse::<f64>().ok().filter(|share| (0.0..1.0).contains(share))?;
            Some(Gain((share * 1000.0).round() as u16))
        };
        let found = match text.split_once(':') {
            Some(("cachew", share)) => gain(share).map(Self::CachewBy),
            Some(("pecan", share)) => gain(share).map(Self::Pecan),
            Some(("static", placed)) if placed.contains('+') => placement(placed).map(Self::Placed),
            None if text == "pecan" => Some(Self::Pecan(Gain((pecan::UP * 1000.0).round() as u16))),
            _ => return text.parse().map_err(|e: Error| e.replace("hint", KINDS)),
        };
        found.ok_or_else(|| Error::invalid(format!("{text:?} is no policy")).hint(KINDS))
    }
}

const KINDS: &str =
    "use forebay, cachew, cachew:0.03, pecan, pecan:0, hpa, static:N with N from 1 on, or static:WORKERS+THREADS@OPS";

/// Reads `WORKERS+THREADS` or `WORKERS+THREADS@OPS`; without `OPS`, all of them run on the workers.
fn placement(text: &str) -> Option<Placement> {
    let (numbers, cut) = text.split_once('@').unwrap_or((text, ALL_OPS));
    let (workers, local) = numbers.split_once('+')?;
    let cut = if cut == ALL_OPS { u32::MAX } else { cut.parse().ok().filter(|&ops: &u32| ops > 0)? };
    Some(Placement { workers: workers.parse().ok()?, local: local.parse().ok()?, cut })
}

const ALL_OPS: &str = "all";

impl FromStr for Policy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let number = |text: &str| text.parse().ok().filter(|&n: &u32| n > 0).map(Self::Static);
        let found = match text {
            "forebay" => Some(Self::Forebay),
            "cachew" => Some(Self::Cachew),
            "hpa" => Some(Self::Hpa),
            _ => text.strip_prefix("static:").and_then(number),
        };
        found.ok_or_else(|| {
            Error::invalid(format!("{text:?} is no policy"))
                .hint("use forebay, cachew, hpa, or static:N with N from 1 on")
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forebay => f.write_str("forebay"),
            Self::Cachew => f.write_str("cachew"),
            Self::Hpa => f.write_str("hpa"),
            Self::Static(workers) => write!(f, "static:{workers}"),
            Self::CachewBy(gain) => write!(f, "cachew:{}", gain.share()),
            Self::Pecan(gain) => write!(f, "pecan:{}", gain.share()),
            Self::Placed(Placement { workers, local, cut: u32::MAX }) => write!(f, "static:{workers}+{local}"),
            Self::Placed(Placement { workers, local, cut }) => write!(f, "static:{workers}+{local}@{cut}"),
        }
    }
}

/// What a policy remembers of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Previous {
    /// Of [`forebay`].
    Forebay(forebay::Previous),
    /// Of [`cachew`].
    Cachew(cachew::Previous),
    /// Of [`hpa`].
    Hpa(hpa::Previous),
    /// The number.
    Static(u32),
    /// Of [`pecan`].
    Pecan(pecan::Client),
    /// The placement.
    Placed(Placement),
}

impl Previous {
    /// Returns where the job is at rest; `None` while it is not, and of policies that begin every job alike.
    pub fn rest(&self) -> Option<forebay::Rest> {
        if let Self::Forebay(before) = self { before.rest() } else { None }
    }
}

/// Decides on one more window of a job.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    match before {
        Previous::Forebay(before) => {
            let (decision, next) = forebay::decide(seen, before);
            (decision, Previous::Forebay(next))
        }
        Previous::Cachew(before) => {
            let (decision, next) = cachew::decide(seen, before);
            (decision, Previous::Cachew(next))
        }
        Previous::Hpa(before) => {
            let (decision, next) = hpa::decide(seen, before);
            (decision, Previous::Hpa(next))
        }
        Previous::Static(workers) => {
            let workers = seen.limits.clamp(*workers);
            let figures = seen.figures().ok();
            (Decision { workers, local: 0, cut: None, reason: Reason::Fixed, figures }, before.clone())
        }
        Previous::Pecan(before) => {
            let (decision, next) = pecan::gather(seen, before);
            (decision, Previous::Pecan(next))
        }
        Previous::Placed(Placement { workers, local, cut }) => {
            let (workers, figures) = (seen.limits.clamp(*workers), seen.figures().ok());
            (Decision { workers, local: *local, cut: Some(*cut), reason: Reason::Fixed, figures }, before.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_others_are_refused() {
        for name in ["forebay", "cachew", "hpa", "static:7"] {
            assert_eq!(name.parse::<Policy>().expect("a policy").to_string(), name);
        }
        for name in ["forebay", "cachew:0.03", "pecan:0", "static:7", "static:0+40", "static:2+40@3"] {
            assert_eq!(Policy::simulated(name).expect("a policy").to_string(), name);
        }
        assert_eq!(Policy::simulated("pecan").expect("a policy"), Policy::Pecan(Gain(30)));
        for name in ["cachew:2", "pecan:-1", "static:+", "static:1+1@0", "static:1@2", "pecans"] {
            assert!(Policy::simulated(name).is_err(), "{name:?}");
        }
        for name in ["", "static", "static:", "static:0", "static:-1", "static:x", "pecan", "Forebay"] {
            assert!(name.parse::<Policy>().is_err(), "{name:?}");
        }
    }
}
