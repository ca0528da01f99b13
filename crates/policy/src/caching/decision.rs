//! A decision with its reason, for programs (serialised) and for people (in words).

use std::fmt;

use serde::Serialize;

use super::{Cost, Tiers};

/// Which rows are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// Nothing.
    #[default]
    Compute,
    /// The rows of a place, by its number.
    Keep(usize),
}

/// The reason of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Reason {
    /// There are too few windows yet.
    Measuring {
        /// Windows seen so far.
        windows: u32,
        /// Windows that the first choice needs.
        needed: u32,
    },
    /// A figure is invalid, so nothing changes.
    NoFigures,
    /// The choice costs least.
    Cheapest,
    /// The choice stays: its loss against every other is still below the limit.
    Stays,
    /// The loss of the previous choice has reached the limit.
    Lost {
        /// The cost of the previous choice, in nanoseconds of one thread for a row.
        before: f64,
    },
    /// Another policy's rule (see its module).
    Rule {
        /// The name of the policy.
        policy: &'static str,
    },
}

/// Which rows are cached, and the reason.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The choice.
    pub choice: Choice,
    /// Its reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// The remaining passes that the costs are averaged over.
    pub passes: f64,
    /// The costs compared: without cached rows, then of each place; empty without figures.
    pub costs: Vec<Cost>,
}

impl Choice {
    /// Returns the index of the cost of this choice in [`Decision::costs`].
    pub(crate) fn at(self) -> usize {
        match self {
            Self::Compute => 0,
            Self::Keep(place) => place + 1,
        }
    }

    pub(crate) fn of(at: usize) -> Self {
        at.checked_sub(1).map_or(Self::Compute, Self::Keep)
    }
}

impl Decision {
    /// Returns the cost of the choice.
    pub fn cost(&self) -> Option<&Cost> {
        self.costs.get(self.choice.at())
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.choice, self.cost()) {
            (Choice::Keep(place), None) => write!(f, "place {} is kept", place + 1)?,
            (Choice::Keep(_), Some(cost)) => {
                write!(f, "{} is kept: {}", cost.name, Nanos(cost.nanos))?;
                write!(f, " a row of {:.0} bytes, {}", cost.bytes, Shares(cost.share))?;
                if cost.rent > 0.0 {
                    write!(f, ", {} of it for the store", Nanos(cost.rent))?;
                }
            }
            (Choice::Compute, None) => f.write_str("nothing is kept")?,
            (Choice::Compute, Some(cost)) => write!(f, "nothing is kept: {} a row computed", Nanos(cost.nanos))?,
        }
        match self.reason {
            Reason::Measuring { windows, needed } => return write!(f, "; measuring: {windows} of {needed} windows"),
            Reason::NoFigures => return f.write_str("; there are no figures"),
            Reason::Lost { before } => write!(f, "; the earlier choice costs {}", Nanos(before))?,
            Reason::Cheapest | Reason::Stays | Reason::Rule { .. } => {}
        }
        for (_, cost) in self.costs.iter().enumerate().filter(|(at, _)| *at != self.choice.at()) {
            let name = if cost.name.is_empty() { "computing all" } else { &cost.name };
            write!(f, "; {name}: {}", Nanos(cost.nanos))?;
        }
        write!(f, "; {} to come", Passes(self.passes))
    }
}

/// The share of each tier, for people: always of memory, and of each other tier that has some.
struct Shares(Tiers<f64>);

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_told = |(at, (_, share)): &(usize, (&str, f64))| *at == 0 || *share > 0.0;
        let told: Vec<_> = self.0.named().into_iter().enumerate().filter(is_told).map(|(_, told)| told).collect();
        for (at, (name, share)) in told.iter().enumerate() {
            let between = if at == 0 {
                ""
            } else if at + 1 == told.len() {
                " and "
            } else {
                ", "
            };
            write!(f, "{between}{:.0} % {name}", 100.0 * share)?;
        }
        Ok(())
    }
}

/// A number of passes, for people.
struct Passes(f64);

impl fmt::Display for Passes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.max(1.0) {
            one if one < 1.05 => f.write_str("1 pass"),
            few if few < 9.95 => write!(f, "{few:.1} passes"),
            many => write!(f, "{many:.0} passes"),
        }
    }
}

/// A time, for people.
struct Nanos(f64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ns if ns < 1e3 => write!(f, "{ns:.0} ns"),
            ns if ns < 1e6 => write!(f, "{:.1} µs", ns / 1e3),
            ns => write!(f, "{:.2} ms", ns / 1e6),
        }
    }
}
