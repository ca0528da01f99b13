//! Finds the cheapest fixed number of workers (for a job with a machine at its trainer, the cheapest fixed placement)
//! by trying: the measure for policies.

use forebay_core::{Error, Result};

use super::{Outcome, Pool, Scenario, simulate};
use forebay_policy::placement::{Placement, Prices};
use forebay_policy::scaling::Policy;

use crate::baselines::placed::placed;

/// Every number up to this is tried; above it, numbers at distances of this part of themselves, and then those between.
const ALL_UP_TO: u32 = 32;

/// A number of workers, and its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Best {
    /// The workers.
    pub workers: u32,
    /// The outcome.
    pub outcome: Outcome,
}

/// Finds the fixed pool size that costs least; at the same price, the smaller. Jobs share the pool by their weights. A
/// single job with a machine is placed in every way: cut after each op, with all allowed threads there, or none
/// (threads beyond the useful ones cost nothing).
///
/// # Errors
/// Errors of [`simulate`]. A number of workers with which the jobs do not end in time is left out.
pub fn best(scenario: &Scenario, prices: &Prices) -> Result<Best> {
    let mut found = fixed(scenario, scenario.pool.max, prices)?;
    let mut least = found.outcome.price(prices);
    let mut consider = |workers: u32| {
        if let Ok(other) = fixed(scenario, workers, prices) {
            let price = other.outcome.price(prices);
            if (price, workers) < (least, found.workers) {
                (least, found) = (price, other);
            }
        }
        found.workers
    };
    let mut workers = u32::from(placements(scenario, 0).is_empty());
    while workers < scenario.pool.max {
        consider(workers);
        workers += step(workers);
    }
    let near = consider(1);
    let apart = step(near);
    (near.saturating_sub(apart)..=near.saturating_add(apart).min(scenario.pool.max)).for_each(|n| {
        consider(n);
    });
    Ok(found)
}

fn step(workers: u32) -> u32 {
    (workers / ALL_UP_TO).max(1)
}

fn fixed(scenario: &Scenario, workers: u32, prices: &Prices) -> Result<Best> {
    // While types replace each other, there are more workers for a while.
    let is_bounded = scenario.kinds.is_empty() || scenario.jobs.len() > 1;
    let pool = Pool { max: if is_bounded { workers.max(1) } else { scenario.pool.max }, ..scenario.pool };
    let scenario = Scenario { pool, ..scenario.clone() };
    let placements = placements(&scenario, workers);
    if placements.is_empty() {
        return simulate(&scenario, &Policy::fixed(workers)).map(|outcome| Best { workers, outcome });
    }
    let tried: Vec<_> = placements.into_iter().map(|at| simulate(&scenario, &placed(at))).collect();
    // If none ends in time, returns the error of the first.
    let cheaper = |a: Result<Outcome>, b: Result<Outcome>| match (&a, &b) {
        (Ok(one), Ok(other)) if other.price(prices) < one.price(prices) => b,
        (Err(_), Ok(_)) => b,
        _ => a,
    };
    let nothing = || Err(Error::invalid("no placement"));
    tried.into_iter().reduce(cheaper).unwrap_or_else(nothing).map(|outcome| Best { workers, outcome })
}

/// Returns the placements, with so many workers, of a single job with a machine; none for other scenarios.
fn placements(scenario: &Scenario, workers: u32) -> Vec<Placement> {
    let [job] = scenario.jobs.as_slice() else { return Vec::new() };
    let Some(host) = &job.host else { return Vec::new() };
    let of_cut = |cut| [host.local_max, 0].map(|local| Placement { workers, local, cut });
    (1..=job.ops.len() as u32).rev().flat_map(of_cut).collect()
}
