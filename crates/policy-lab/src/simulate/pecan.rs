//! Pecan's table (Graur et al., USENIX ATC 2024, Figure 8): its five workloads under its baselines, its policies and
//! Forebay's.
//!
//! The paper gives the price of an epoch, of the trainer and of its workers, for each workload and system; it does not
//! give the cost of a batch for each op. So a workload here has a step, the cost of a batch for a worker as written and
//! reordered, the worth of the trainer's machine, and the part of it that one pipeline in the trainer's process uses.
//! These numbers are fitted to some of the published ones, and predict the others; the comment at each workload says
//! which. [`Row::off`] returns the errors.
//! A run has as many epochs as those of its artifact (8, and 7 of RetinaNet), so that the price of finding a placement
//! counts.

use std::collections::HashMap;

use forebay_core::Result;
use serde::Serialize;

use super::{Host, Job, Op, Pool, Scenario, simulate};
use forebay_policy::placement::{Manners, Objective, Placement, Prices};
use forebay_policy::scaling::Policy;

use crate::baselines::{cachew::cachew, pecan::pecan, placed::placed};

/// Runs of each row, with a seed each: its policy decides on single windows, so their noise decides.
const SEEDS: u64 = 9;
/// The relative noise of figures.
const NOISE: f64 = 0.02;
/// Threads of a worker: an n2-standard-8.
const THREADS: u32 = 8;
/// The most workers in the trainer's process. Together they use all that its machine has for them, and no more.
const CREWS: u32 = 10;

/// The dollars of a trainer and of its workers, for an epoch.
pub type Dollars = (f64, f64);

/// One of its workloads.
#[derive(Debug, Clone, Copy)]
struct Workload {
    name: &'static str,
    /// Seconds of an epoch without waits, its batches, and the epochs of a run.
    epoch: f64,
    batches: u64,
    epochs: u64,
    /// Seconds of one worker for an epoch, as written and reordered.
    work: (f64, f64),
    /// Threads that a worker in the trainer's process is worth, and threads that a single pipeline there uses.
    crew: u32,
    collocated: u32,
    /// The price of the trainer's machine for an hour.
    trainer: f64,
    /// The gain that one more worker must bring, in thousandths.
    gain: u16,
    /// Collocated; Cachew; Pecan's order alone, placement alone, and both.
    published: [Dollars; 5],
}

const WORKLOADS: [Workload; 5] = [
    // Steps of 1024 in the batches of 128 that its client takes. Work: workers x seconds of Cachew's epoch, and of the
    // epoch with the new order, with all useful workers. Collocated: its epoch. Ten workers at the trainer: between the
    // 13.3 and 11.2 workers elsewhere that placement alone and both saved (its machine has 96 cores).
    Workload {
        name: "ResNet50 v2-8",
        epoch: 395.0,
        batches: 1251 * 8,
        epochs: 8,
        work: (19.0 * 405.0, 12.2 * 395.0),
        crew: 10,
        collocated: 19,
        trainer: 4.96,
        gain: 0,
        published: [(4.547, 0.0), (0.558, 0.914), (0.545, 0.572), (0.571, 0.256), (0.545, 0.047)],
    },
    // Work and collocated as above (steps of 512, in 64 for each of 8 cores). Workers at the trainer: as many as both
    // saved (41 cores); by placement alone it would be 62, which no number fits as well.
    Workload {
        name: "SimCLR",
        epoch: 820.0,
        batches: 2502 * 8,
        epochs: 8,
        work: (12.2 * 976.0, 7.6 * 820.0),
        crew: 4,
        collocated: 32,
        trainer: 4.96,
        gain: 30,
        published: [(4.132, 0.0), (1.344, 1.413), (1.130, 0.740), (1.274, 0.571), (1.412, 0.122)],
    },
    // Work: the time of a batch with one worker in the artifact's logs, 637 and 581 ms, with steps of 322.5 ms. Workers
    // at the trainer as for ResNet50: more than enough.
    Workload {
        name: "RetinaNet",
        epoch: 596.0,
        batches: 1848,
        epochs: 7,
        work: (0.637 * 1848.0, 0.581 * 1848.0),
        crew: 10,
        collocated: 16,
        trainer: 4.96,
        gain: 30,
        published: [(0.823, 0.0), (0.823, 0.184), (0.821, 0.184), (0.823, 0.014), (0.821, 0.0)],
    },
    // Work and collocated as for ResNet50. Neither its data nor its batch is published: the number of batches is a
    // guess (960 hours of speech, 64 in each), and the time until its policy decides depends on it.
    Workload {
        name: "ASR Transformer",
        epoch: 725.0,
        batches: 4400,
        epochs: 8,
        work: (2.1 * 737.0, 1.7 * 725.0),
        crew: 10,
        collocated: 11,
        trainer: 4.96,
        gain: 30,
        published: [(1.581, 0.0), (1.015, 0.181), (0.999, 0.146), (1.029, 0.0), (1.001, 0.0)],
    },
    // As for the v2-8, but placement alone and both saved 6 to 7 workers elsewhere, not 12.
    Workload {
        name: "ResNet50 v3-8",
        epoch: 244.0,
        batches: 1251 * 8,
        epochs: 8,
        work: (30.0 * 266.0, 24.0 * 244.0),
        crew: 5,
        collocated: 19,
        trainer: 8.8,
        gain: 0,
        published: [(8.258, 0.0), (0.651, 0.949), (0.597, 0.695), (0.596, 0.781), (0.596, 0.492)],
    },
];

/// The system: its policy, and its order of ops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum System {
    Collocated,
    Cachew,
    Order,
    Placement,
    Pecan,
    Forebay,
    ForebayWithin,
}

const SYSTEMS: [(System, &str); 7] = [
    (System::Collocated, "collocated"),
    (System::Cachew, "cachew"),
    (System::Order, "autoorder"),
    (System::Placement, "autoplacement"),
    (System::Pecan, "pecan"),
    (System::Forebay, "forebay"),
    (System::ForebayWithin, "forebay cost-within:1.05"),
];

/// A workload under a system: means over all runs.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// The workload.
    pub workload: &'static str,
    /// The system.
    pub system: &'static str,
    /// Workers at the resting place, and workers that compute at the trainer (threads; for Pecan, its workers there).
    pub workers: f64,
    /// See `workers`.
    pub local: f64,
    /// Seconds of an epoch at the resting place.
    pub epoch_s: f64,
    /// Dollars of an epoch there: of the trainer, and of its workers.
    pub settled: Dollars,
    /// The same, as published; `None` for systems that are not in the paper.
    pub published: Option<Dollars>,
    /// Seconds and dollars of an epoch over the whole run, with the time before the resting place.
    pub run_s: f64,
    /// See `run_s`.
    pub run: f64,
    /// Seconds until it came to rest.
    pub settled_s: f64,
    /// The price of the whole run, relative to Pecan's.
    pub of_pecan: f64,
}

impl Row {
    /// Returns the error of its total against the published one, as a share.
    pub fn off(&self) -> Option<f64> {
        self.published.map(|of| (self.settled.0 + self.settled.1) / (of.0 + of.1) - 1.0)
    }
}

/// Runs all workloads under all systems. Takes a second or two.
///
/// # Errors
/// Errors of [`simulate`], none of which its numbers can cause.
pub fn pecan_table() -> Result<Vec<Row>> {
    let of = |workload: &Workload| {
        let rows = SYSTEMS.iter().zip(0..).map(|(system, place)| workload.row(*system, place));
        let mut rows = rows.collect::<Result<Vec<_>>>()?;
        let pecan = rows.iter().find(|row| row.system == "pecan").map_or(f64::NAN, |row| row.run);
        rows.iter_mut().for_each(|row| row.of_pecan = row.run / pecan);
        Ok(rows)
    };
    WORKLOADS.iter().map(of).collect::<Result<Vec<_>>>().map(|rows| rows.concat())
}

impl Workload {
    fn prices(&self) -> Prices {
        Prices { trainer: self.trainer, ..Prices::default() }
    }

    fn job(&self, system: System) -> Job {
        let is_reordered = !matches!(system, System::Collocated | System::Cachew | System::Placement);
        let work = if is_reordered { self.work.1 } else { self.work.0 };
        let (batches, cost) = (self.batches as f64, work * f64::from(THREADS) / self.batches as f64);
        let objective = match system {
            System::Forebay => Objective::Time,
            System::ForebayWithin => Objective::CostWithin { prices: self.prices(), slack: 1.05 },
            _ => Objective::Cost(self.prices()),
        };
        let cores = f64::from(self.crew * CREWS);
        Job {
            ops: vec![Op { cost, bytes: 0.0 }],
            host: Some(Host { crew: self.crew, ..Host::new(cores, 0.0) }),
            objective,
            noise: NOISE,
            ..Job::new(self.name, self.epoch / batches, cost, self.batches * self.epochs)
        }
    }

    fn policy(&self, system: System) -> Policy {
        match system {
            System::Collocated => placed(Placement { workers: 0, local: self.collocated, cut: 1 }),
            System::Cachew | System::Order => cachew(f64::from(self.gain) / 1000.0),
            System::Placement | System::Pecan => pecan(f64::from(self.gain) / 1000.0),
            System::Forebay | System::ForebayWithin => Policy::default(),
        }
    }

    fn row(&self, (system, name): (System, &'static str), place: usize) -> Result<Row> {
        let (job, policy, prices) = (self.job(system), self.policy(system), self.prices());
        let manners = policy.initial().manners();
        let model = job.model(f64::from(THREADS), manners);
        let crew = if manners == Manners::Fair { self.crew } else { 1 };
        let mut sums: HashMap<&str, f64> = HashMap::new();
        for seed in 0..SEEDS {
            let pool = Pool { max: 100, threads: THREADS, startup: 5.0, lost_every: None };
            let outcome = simulate(&Scenario::new(vec![job.clone()], pool, seed), &policy)?;
            let at = outcome.jobs[0].changes.last().map_or(job.on_workers(1), |change| change.to);
            let epoch_s = model.batch(Placement { local: at.local * crew, ..at }) * self.batches as f64;
            let epochs = self.epochs as f64;
            for (figure, value) in [
                ("workers", f64::from(at.workers)),
                ("local", f64::from(at.local)),
                ("epoch_s", epoch_s),
                ("trainer", epoch_s * prices.trainer / 3600.0),
                ("worker", epoch_s * f64::from(at.workers) * prices.worker / 3600.0),
                ("run_s", outcome.ended_s / epochs),
                ("run", outcome.price(&prices) / epochs),
                ("settled_s", outcome.settled_s()),
            ] {
                *sums.entry(figure).or_default() += value / SEEDS as f64;
            }
        }
        let mean = |figure: &str| sums.get(figure).copied().unwrap_or_default();
        Ok(Row {
            workload: self.name,
            system: name,
            workers: mean("workers"),
            local: mean("local"),
            epoch_s: mean("epoch_s"),
            settled: (mean("trainer"), mean("worker")),
            published: self.published.get(place).copied(),
            run_s: mean("run_s"),
            run: mean("run"),
            settled_s: mean("settled_s"),
            of_pecan: f64::NAN,
        })
    }
}
