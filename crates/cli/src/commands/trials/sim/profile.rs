//! The description of a past job: the measurements of its trainer and of its ops.

use std::path::Path;

use forebay_core::{Error, Result};
use forebay_policy::scaling::forebay::SATURATED;
use forebay_policy_lab::simulate::Op;
use serde::Deserialize;

use super::input::read;

/// See the module's documentation.
pub(super) struct Profile {
    pub(super) figures: Figures,
    ops: Vec<Shared>,
}

impl Profile {
    /// Returns the ops in their order, by batches: the workers' ops together take the measured time of a batch on
    /// workers, and a consumer's ops follow them, for the same rows.
    ///
    /// # Errors
    /// Invalid when the ops have no figures.
    pub(super) fn ops(&self) -> Result<Vec<Op>> {
        let of = |at: &str| self.ops.iter().filter(|op| op.at == at).collect::<Vec<_>>();
        let (workers, reader) = (of("workers"), of("reader"));
        let all: f64 = workers.iter().map(|op| op.us()).sum();
        let last = workers.last().map_or(0.0, |op| op.rows_out);
        if all <= 0.0 || last <= 0.0 {
            return Err(
                Error::invalid("it has no measurements of ops").hint("ask again once the job has run for a while")
            );
        }
        // The part of a batch in all work of the workers, and in all rows that consumers have received from them.
        let part = self.figures.compute / (all / 1e6);
        let first = reader.first().map_or(last, |op| op.rows_in.max(1.0));
        let op = |part: f64| move |op: &Shared| Op { cost: part * op.us() / 1e6, bytes: part * op.bytes_out };
        let (of_workers, of_reader) = (op(part), op(part * last / first));
        Ok(workers.into_iter().map(of_workers).chain(reader.into_iter().map(of_reader)).collect())
    }
}

/// A job in the form of `forebay jobs show NAME --json`; other fields are ignored.
#[derive(Deserialize)]
struct JobProfile {
    decisions: Vec<Decision>,
    #[serde(default)]
    ops: Vec<Shared>,
}

/// The totals of an op, and the recent cost of a row.
#[derive(Deserialize)]
struct Shared {
    at: String,
    rows_in: f64,
    rows_out: f64,
    bytes_out: f64,
    row_us: f64,
}

impl Shared {
    fn us(&self) -> f64 {
        self.row_us * self.rows_in
    }
}

#[derive(Deserialize)]
struct Decision {
    figures: Decided,
}

#[derive(Deserialize)]
struct Decided {
    figures: Option<Figures>,
}

/// The measurements at the time of the decision.
#[derive(Deserialize, Clone, Copy)]
pub(super) struct Figures {
    workers: u32,
    demand: f64,
    #[serde(default)]
    beside: f64,
    supply: f64,
    /// Seconds of one thread for a batch.
    pub(super) compute: f64,
    waited: f64,
    delivered: f64,
    #[serde(default)]
    made: f64,
}

impl Figures {
    /// Returns the seconds that the trainer takes for a batch.
    pub(super) fn step(&self) -> f64 {
        1.0 / (self.demand + self.beside)
    }

    pub(super) fn threads(&self) -> u32 {
        (self.supply * self.compute).round() as u32
    }

    /// Returns the share of the workers' time that reached the trainer if they could not keep up: delivered batches,
    /// and batches made ahead.
    pub(super) fn efficiency(&self) -> f64 {
        let most = f64::from(self.workers) * self.supply;
        if self.waited > SATURATED && most > 0.0 { (self.delivered.max(self.made) / most).min(1.0) } else { 1.0 }
    }
}

/// Reads the output of `forebay jobs show NAME --json`.
pub(super) fn profiled(path: &Path) -> Result<Profile> {
    let mut shown: Vec<JobProfile> = read(path)?;
    let told = |message: String, hint: &str| Err(Error::invalid(message).with("file", path.display()).hint(hint));
    let [job] = shown.as_mut_slice() else {
        return told(
            format!("it has {} jobs", shown.len()),
            "give the output of `forebay jobs show NAME --json` for one job",
        );
    };
    let Some(figures) = job.decisions.iter().rev().find_map(|decision| decision.figures.figures) else {
        return told("no decision has measurements".to_owned(), "ask again once the job has run for a while");
    };
    if figures.demand > 0.0 && figures.threads() > 0 {
        return Ok(Profile { figures, ops: std::mem::take(&mut job.ops) });
    }
    told("its measurements contradict each other".to_owned(), "ask again once the job has run for a while")
}
