//! What machines cost, and what is to be made small: time, money, or money within a time.

use forebay_core::{Error, Result};
use serde::Serialize;

/// More than any machine costs for an hour.
const PRICE_MAX: f64 = 1e6;
/// The most that [`Objective::CostWithin`] may allow.
pub const SLACK_MAX: f64 = 100.0;

/// What machines cost, for an hour, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prices {
    /// The machine of a trainer.
    pub trainer: f64,
    /// A worker.
    pub worker: f64,
}

impl Default for Prices {
    /// Those of Pecan (Graur et al., USENIX ATC 2024): a TPU v2-8 and an n2-standard-8, in dollars.
    fn default() -> Self {
        Self { trainer: 4.96, worker: 0.427 }
    }
}

impl Prices {
    /// Checks that they are prices.
    ///
    /// # Errors
    /// One is negative, or no number, or both are 0: nothing would be better than anything else.
    pub fn check(&self) -> Result<()> {
        for (what, price) in [("trainer", self.trainer), ("worker", self.worker)] {
            if !(0.0..=PRICE_MAX).contains(&price) {
                return Err(Error::invalid(format!("the price of a {what} is {price}"))
                    .hint("give what it costs for an hour: 0 to 1000000"));
            }
        }
        if self.trainer == 0.0 && self.worker == 0.0 {
            return Err(Error::invalid("trainer and worker both cost nothing").hint("give one of them a price"));
        }
        Ok(())
    }

    /// Returns what an hour of the trainer with so many workers costs. Its own threads cost nothing more.
    pub fn hour(&self, workers: u32) -> f64 {
        self.trainer + f64::from(workers) * self.worker
    }
}

/// What is to be made small.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Objective {
    /// Time; of what is equally fast, the fewest workers, then the fewest threads.
    #[default]
    Time,
    /// The price of a batch, however long it takes.
    Cost(Prices),
    /// The price of a batch, among all that takes at most `slack` times the shortest.
    CostWithin {
        /// What machines cost.
        prices: Prices,
        /// From 1 on; 1.05 is 5 % more time.
        slack: f64,
    },
}

impl Objective {
    /// Checks that it can be aimed at.
    ///
    /// # Errors
    /// [`Prices::check`]'s; the slack is below 1 (nothing is faster than the fastest) or beyond [`SLACK_MAX`].
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

    /// Returns the times that are allowed, relative to the shortest.
    pub(super) fn slack(&self) -> f64 {
        match self {
            Self::Time => 1.0,
            Self::Cost(_) => f64::INFINITY,
            Self::CostWithin { slack, .. } => *slack,
        }
    }

    /// Returns what machines cost. Without a price any would do: of what takes the same time, fewer workers are less.
    pub fn prices(&self) -> Prices {
        match self {
            Self::Time => Prices::default(),
            Self::Cost(prices) | Self::CostWithin { prices, .. } => *prices,
        }
    }
}
