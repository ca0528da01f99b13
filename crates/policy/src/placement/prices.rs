//! The prices of machines, and the objective to minimise: time, money, or money within a time.

use std::fmt;

use forebay_core::{Error, Result};
use serde::Serialize;

/// The highest price of a machine for an hour.
pub const PRICE_MAX: f64 = 1e6;
/// The most that [`Objective::CostWithin`] may allow.
pub const SLACK_MAX: f64 = 100.0;

/// The prices of machines, for an hour, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prices {
    /// The machine of a trainer.
    pub trainer: f64,
    /// A worker.
    pub worker: f64,
}

impl Default for Prices {
    /// Returns the prices of Pecan (Graur et al., USENIX ATC 2024): a TPU v2-8 and an n2-standard-8, in dollars.
    fn default() -> Self {
        Self { trainer: 4.96, worker: 0.427 }
    }
}

impl Prices {
    /// Checks that the prices are valid.
    ///
    /// # Errors
    /// A price is negative, or no number, or both are 0, so that all placements would cost the same.
    pub fn check(&self) -> Result<()> {
        for (what, price) in [("trainer", self.trainer), ("worker", self.worker)] {
            if !(0.0..=PRICE_MAX).contains(&price) {
                return Err(Error::invalid(format!("the price of a {what} is {price:?}"))
                    .hint("give its price for an hour: 0 to 1000000"));
            }
        }
        if self.trainer == 0.0 && self.worker == 0.0 {
            return Err(Error::invalid("trainer and worker both cost nothing").hint("give one of them a price"));
        }
        Ok(())
    }

    /// Returns the price of an hour of the trainer with so many workers. Its own threads cost nothing more.
    pub fn hour(&self, workers: u32) -> f64 {
        self.trainer + f64::from(workers) * self.worker
    }
}

/// The objective that a policy minimises.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Objective {
    /// Time; for equal times, the fewest workers, then the fewest threads.
    #[default]
    Time,
    /// The price of a batch, however long it takes.
    Cost(Prices),
    /// The price of a batch, among all placements that take at most `slack` times the shortest time.
    CostWithin {
        /// The prices of machines.
        prices: Prices,
        /// From 1 on; 1.05 is 5 % more time.
        slack: f64,
    },
}

impl Objective {
    /// Reads `time`, `cost` or `cost-within:SLACK`; the last two use these prices.
    ///
    /// # Errors
    /// The text is none of these, or an error of [`Objective::check`].
    pub fn parse(text: &str, prices: Prices) -> Result<Self> {
        let within = || text.strip_prefix("cost-within:")?.parse().ok();
        let found = match text {
            "time" => Some(Self::Time),
            "cost" => Some(Self::Cost(prices)),
            _ => within().map(|slack| Self::CostWithin { prices, slack }),
        };
        let unknown = || Error::invalid(format!("{text:?} is no objective")).hint("use time, cost or cost-within:1.05");
        let objective = found.ok_or_else(unknown)?;
        objective.check().map(|()| objective)
    }

    /// Reads an objective as [`Objective::parse`] does, with prices exactly if it needs prices: prices are not guessed.
    ///
    /// # Errors
    /// As [`Objective::parse`]; a price is missing, or there is one too many.
    pub fn priced(text: &str, trainer: Option<f64>, worker: Option<f64>) -> Result<Self> {
        let prices = match (trainer, worker) {
            (Some(trainer), Some(worker)) => Some(Prices { trainer, worker }),
            _ => None,
        };
        let objective = Self::parse(text, prices.unwrap_or_default())?;
        if objective == Self::Time && (trainer.is_some() || worker.is_some()) {
            return Err(Error::invalid("there are prices, and the objective is time")
                .hint("leave the prices out, or use cost or cost-within:1.05"));
        }
        if objective != Self::Time && prices.is_none() {
            return Err(Error::invalid(format!("the objective is {text}, and the price of machines is not known")).hint(
                "give both prices for an hour: --trainer-price and --worker-price, or trainer_price= and worker_price=",
            ));
        }
        Ok(objective)
    }

    /// Checks that the objective is possible.
    ///
    /// # Errors
    /// Errors of [`Prices::check`]; the slack is below 1 (nothing is faster than the fastest) or beyond [`SLACK_MAX`].
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Time => Ok(()),
            Self::Cost(prices) => prices.check(),
            Self::CostWithin { slack, .. } if !(1.0..=SLACK_MAX).contains(slack) => {
                Err(Error::invalid(format!("a cost within {slack} times the shortest time"))
                    .hint(format!("use 1 to {SLACK_MAX}: 1.05 allows 5 % more time")))
            }
            Self::CostWithin { prices, .. } => prices.check(),
        }
    }

    /// Returns the longest allowed time, relative to the shortest.
    pub(super) fn slack(&self) -> f64 {
        match self {
            Self::Time => 1.0,
            Self::Cost(_) => f64::INFINITY,
            Self::CostWithin { slack, .. } => *slack,
        }
    }

    /// Returns the objective for a job of so many trainers, each with a machine.
    #[must_use]
    pub fn with_trainers(self, trainers: u32) -> Self {
        self.with(|prices| Prices { trainer: (prices.trainer * f64::from(trainers)).min(PRICE_MAX), ..prices })
    }

    /// Returns the objective with another price of a worker.
    #[must_use]
    pub fn with_worker(self, worker: f64) -> Self {
        self.with(|prices| Prices { worker, ..prices })
    }

    fn with(self, of: impl Fn(Prices) -> Prices) -> Self {
        match self {
            Self::Time => self,
            Self::Cost(prices) => Self::Cost(of(prices)),
            Self::CostWithin { prices, slack } => Self::CostWithin { prices: of(prices), slack },
        }
    }

    /// Returns the prices of machines. For [`Objective::Time`] any prices do: for equal times, fewer workers cost
    /// less.
    pub fn prices(&self) -> Prices {
        match self {
            Self::Time => Prices::default(),
            Self::Cost(prices) | Self::CostWithin { prices, .. } => *prices,
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time => f.write_str("time"),
            Self::Cost(_) => f.write_str("cost"),
            Self::CostWithin { slack, .. } => write!(f, "cost-within:{slack}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_about_prices_has_them_and_what_is_not_has_none() {
        let (trainer, worker) = (Some(31.2), Some(0.38));
        for text in ["cost", "cost-within:1.05"] {
            let objective = Objective::priced(text, trainer, worker).expect("an objective");
            assert_eq!((objective.to_string(), objective.prices().worker), (text.to_owned(), 0.38));
            assert_eq!(objective.with_trainers(2).prices().hour(1), 62.78);
            assert!(Objective::priced(text, trainer, None).is_err() && Objective::priced(text, None, None).is_err());
        }
        assert_eq!(Objective::priced("time", None, None).expect("an objective"), Objective::Time);
        for (text, trainer) in [
            ("time", trainer),
            ("cost", Some(-1.0)),
            ("cost", Some(f64::NAN)),
            ("cost-within:0.9", trainer),
            ("x", None),
        ] {
            assert!(Objective::priced(text, trainer, worker).is_err(), "{text}");
        }
    }
}
