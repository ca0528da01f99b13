//! Which policy decides, by name: what a dispatcher is told on its command line.

use std::fmt;
use std::str::FromStr;

use forebay_core::Error;

use super::decision::{Decision, Reason};
use super::{Observation, cachew, forebay, hpa};

/// A policy. Written as `forebay`, `cachew`, `hpa` or `static:N`.
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
}

impl Policy {
    /// Returns what it starts a job with.
    pub fn start(self) -> Previous {
        match self {
            Self::Forebay => Previous::Forebay(forebay::Previous::default()),
            Self::Cachew => Previous::Cachew(cachew::Previous::default()),
            Self::Hpa => Previous::Hpa(hpa::Previous::default()),
            Self::Static(workers) => Previous::Static(workers),
        }
    }
}

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
            (Decision { workers, local: 0, reason: Reason::Fixed, figures }, before.clone())
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
        for name in ["", "static", "static:", "static:0", "static:-1", "static:x", "pecan", "Forebay"] {
            assert!(name.parse::<Policy>().is_err(), "{name:?}");
        }
    }
}
