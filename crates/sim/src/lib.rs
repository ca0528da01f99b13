//! The real dispatcher, workers and consumers on a virtual clock, network and disk that fail.
//!
//! ```text
//! Scenario    the processes, and each Fault with its time: drawn from the seed
//! World       virtual time, processes, one queue of events; strike: what a fault does
//!   net       streams that break, directions that are blocked, peers that are silent; payload: the messages
//!   dispatcher, worker, consumer   the processes: the roles' own state machines, and checks of their messages
//!   losses, lending   skipped samples, poison splits, cancelled jobs; memory that workers lend
//! Catalogue   the pipelines of jobs, drawn by drawing; Pipeline: the expected output of their consumers
//! Planted     bugs that the simulation must find
//! ```
//!
//! All decisions come from the production code (`simulate` in each role); this crate only replaces the machine.
//! Invariant: a run depends on its seed alone, so that a failure can be replayed by its number.
//!
//! The checks, numbered for the whole crate: I1 no item is lost, I2 no item comes twice, I3 the bytes are those of one
//! process, I4 so is the order, I5 after the faults everything finishes in time, I6 all resources are released, I7
//! every kind of fault had an effect, I8 the same seed has the same history. At every step: SP-1 to SP-6 of the
//! dispatcher's state, W-3 of a worker's split buffers, C-1 and C-3 of a consumer's window; grants are durable before
//! any process is told of them; a worker serves only the lease that it holds; leases name boundaries of their pipeline;
//! and a chunk equals the output of the row ops that it claims. `losses` and `lending` have L-1 to L-5.

mod base_line;
mod faults;
mod losses;
mod net;
mod pipelines;
mod roles;
mod world;

pub use crate::faults::fault::Fault;
pub use crate::faults::planted::Planted;
pub use crate::faults::scenario::{Scenario, Worlds};
pub use crate::roles::node::Node;
pub use world::Outcome;

use crate::faults::scenario::Shape;
use crate::pipelines::catalogue::Catalogue;
use world::World;

/// Runs seeds, one after the other. Keeps computed pipelines, which are the same for every seed.
#[derive(Default)]
pub struct Simulator {
    catalogue: Catalogue,
}

impl Simulator {
    /// Draws the scenario of a seed, from this kind of worlds.
    pub fn scenario(&self, worlds: Worlds, seed: u64) -> Scenario {
        let shape = |pipeline| {
            let pipeline = self.catalogue.get(pipeline);
            Shape { consumers: pipeline.definition.consumers, places: pipeline.places() }
        };
        Scenario::new(worlds, seed, shape)
    }

    /// Runs a scenario. `verbose` records every event in words.
    pub fn run(&self, scenario: &Scenario, planted: Option<Planted>, verbose: bool) -> Outcome {
        World::new(scenario, &self.catalogue, planted, verbose).run()
    }

    /// Removes faults, one after the other, as long as the scenario still fails.
    pub fn shrink(&self, scenario: Scenario, planted: Option<Planted>) -> Scenario {
        let mut least = scenario;
        let mut at = 0;
        while at < least.faults.len() {
            let mut fewer = least.clone();
            fewer.faults.remove(at);
            match self.run(&fewer, planted, false).violation {
                Some(_) => least = fewer,
                None => at += 1,
            }
        }
        least
    }

    /// Describes the pipelines of a scenario's jobs.
    pub fn describe(&self, scenario: &Scenario) -> String {
        let text = |(i, p): (usize, &usize)| {
            let pipeline = self.catalogue.get(*p);
            format!("  job {i}: {}{}\n", pipeline.text, if pipeline.streamed { ", streamed" } else { "" })
        };
        scenario.jobs.iter().enumerate().map(text).collect()
    }
}
