//! The fixed number of workers that is cheapest, found by trying: what policies are measured against.

use forebay_core::Result;

use super::{Outcome, Pool, Scenario, simulate};
use crate::placement::Prices;
use crate::scaling::Policy;

/// Every number up to this is tried; beyond it, numbers that are this part of themselves apart, and then those between.
const ALL_UP_TO: u32 = 32;

/// A number of workers, and what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// How many.
    pub workers: u32,
    /// What comes of it.
    pub outcome: Outcome,
}

/// Finds the pool of one size, from the beginning to the end, that costs least; of two that cost the same, the smaller. Jobs
/// share it by their weights.
///
/// # Errors
/// As [`simulate`]. A number of workers with which the jobs do not end in time is none.
pub fn best(scenario: &Scenario, prices: &Prices) -> Result<Best> {
    let mut found = fixed(scenario, scenario.pool.max)?;
    let mut least = found.outcome.price(prices);
    let mut consider = |workers: u32| {
        if let Ok(other) = fixed(scenario, workers) {
            let price = other.outcome.price(prices);
            if (price, workers) < (least, found.workers) {
                (least, found) = (price, other);
            }
        }
        found.workers
    };
    let mut workers = 1;
    while workers < scenario.pool.max {
        consider(workers);
        workers += step(workers);
    }
    let near = consider(1);
    let apart = step(near);
    (near.saturating_sub(apart).max(1)..=near.saturating_add(apart).min(scenario.pool.max)).for_each(|n| {
        consider(n);
    });
    Ok(found)
}

fn step(workers: u32) -> u32 {
    (workers / ALL_UP_TO).max(1)
}

fn fixed(scenario: &Scenario, workers: u32) -> Result<Best> {
    let pool = Pool { max: workers, ..scenario.pool };
    let outcome = simulate(&Scenario { pool, ..scenario.clone() }, Policy::Static(workers))?;
    Ok(Best { workers, outcome })
}
