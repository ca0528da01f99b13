//! The real dispatcher, workers and consumers on a virtual clock, network and disk that fail.
//!
//! ```text
//! Scenario    who takes part, and each Fault with its time: drawn from the seed
//! World       virtual time, processes, one queue of events
//!   net       streams that break, ways that are blocked, peers that are silent; payload: what is sent
//!   dispatcher, worker, consumer   the processes: the roles' own state machines, and the checks of what they say
//!   losses, lending   what is left out, ends workers or is cancelled; memory that workers lend
//! Catalogue   what jobs compute; Pipeline: what their consumers must get
//! Planted     bugs that must be found
//! ```
//!
//! Everything that decides is the code that production runs (`simulate` in each role); here is only what stands for the
//! machine. Invariant: a run depends on its seed alone, so that a failure is replayed by its number.
//!
//! What is checked, in numbers as everywhere in this crate: I1 nothing is lost, I2 nothing comes twice, I3 the bytes are
//! those of one process, I4 so is the order, I5 once all is well everything finishes in time, I6 what was held is given
//! back, I7 every kind of fault was felt, I8 the same seed gives the same history. And at every step: SP-1 to SP-6 of
//! the dispatcher's state, W-3 of a worker's shelf, C-1 and C-3 of a consumer's window, that grants are durable before
//! they are told, that a worker serves only the lease it holds, that leases name places where their pipeline may be cut, and that
//! chunks are what the row ops give that are said to have run on them. L-1 to L-5 are in `losses` and `lending`.

mod base_line;
mod catalogue;
mod consumer;
mod dice;
mod digest;
mod dispatcher;
mod fault;
mod lending;
mod losses;
mod net;
mod payload;
mod pipeline;
mod planted;
mod scenario;
mod worker;
mod world;

pub use fault::{Fault, Node};
pub use planted::Planted;
pub use scenario::{Scenario, Worlds};
pub use world::Outcome;

use catalogue::Catalogue;
use scenario::Shape;
use world::World;

/// Runs seeds, one after the other. Keeps what pipelines compute, which is the same for every seed.
#[derive(Default)]
pub struct Simulator {
    catalogue: Catalogue,
}

impl Simulator {
    /// Draws the scenario of a seed, of one of these worlds.
    pub fn scenario(&self, worlds: Worlds, seed: u64) -> Scenario {
        let shape = |pipeline| {
            let pipeline = self.catalogue.get(pipeline);
            Shape { consumers: pipeline.definition.consumers, places: pipeline.places() }
        };
        Scenario::new(worlds, seed, shape)
    }

    /// Runs a scenario. `verbose` keeps every event in words.
    pub fn run(&self, scenario: &Scenario, planted: Option<Planted>, verbose: bool) -> Outcome {
        World::new(scenario, &self.catalogue, planted, verbose).run()
    }

    /// Leaves out faults, one after the other, as long as the scenario still fails.
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
