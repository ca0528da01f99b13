//! Reads the jobs: from the command line, from a file of jobs, or from the figures of a past job.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use forebay_core::{Error, Result};
use forebay_policy::placement::{Objective, Prices, Wire};
use forebay_policy_lab::simulate::{Host, Job, Op};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::profile::{Profile, profiled};
use crate::arguments::{Imagined, Sim, time};

/// The most bytes of a file.
const FILE_MAX: u64 = 16 << 20;
/// Bytes of a GB.
const GB: f64 = 1e9;
/// The default error of figures.
const NOISE: f64 = 0.02;

/// Returns the jobs, and the threads of a worker. `prices` are those of the objective.
pub(super) fn jobs(arguments: &Sim, prices: Prices) -> Result<(Vec<Job>, u32)> {
    if let Some(path) = &arguments.jobs {
        let file: JobsFile = read(path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let jobs = file.jobs.into_iter().map(|entry| entry.job(folder, prices)).collect::<Result<_>>();
        return Ok((jobs.map_err(|e| e.with("file", path.display()))?, arguments.threads));
    }
    let of = &arguments.job;
    if let Some(path) = &arguments.profile {
        let Profile { figures, .. } = profiled(path)?;
        let batch = (figures.step(), figures.compute);
        let job = Job { efficiency: of.efficiency.unwrap_or(figures.efficiency()), ..imagined(of, batch, prices)? };
        return Ok((vec![job], figures.threads()));
    }
    let (Some(step), Some(cost)) = (of.step, of.batch_cost) else {
        return Err(Error::invalid("no job").hint("give --step and --batch-cost, or --job, or --profile"));
    };
    Ok((vec![imagined(of, (step, cost), prices)?], arguments.threads))
}

/// `step` and `cost` are seconds of the trainer and of one thread, for a batch.
fn imagined(of: &Imagined, (step, cost): (f64, f64), prices: Prices) -> Result<Job> {
    let batches = of.batches.ok_or_else(|| Error::invalid("how many batches?").hint("give --batches"))?;
    let plain = Job::new("job", step, cost, batches);
    Ok(Job {
        then: of.then.clone(),
        ahead: of.ahead.unwrap_or(plain.ahead),
        noise: of.noise.unwrap_or(NOISE),
        efficiency: of.efficiency.unwrap_or(plain.efficiency),
        shared_limit: of.shared_limit,
        objective: Objective::parse(&of.objective, prices)?,
        ..plain
    })
}

/// The content of the file of `--job`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsFile {
    jobs: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    step: Option<Seconds>,
    #[serde(default)]
    then: Vec<Then>,
    batch_cost: Option<Seconds>,
    #[serde(default)]
    ops: Vec<OpEntry>,
    /// The output of `forebay jobs show NAME --json` for a past job, beside this file: its step, and its ops.
    profile: Option<PathBuf>,
    machine: Option<Machine>,
    objective: Option<String>,
    batches: u64,
    ahead: Option<u32>,
    noise: Option<f64>,
    efficiency: Option<f64>,
    shared_limit: Option<f64>,
    weight: Option<f64>,
    begins: Option<Seconds>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Then {
    at: Seconds,
    step: Seconds,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpEntry {
    cost: Seconds,
    bytes: f64,
}

/// The trainer's machine.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    cores: f64,
    used: f64,
    #[serde(default)]
    then: Vec<Used>,
    #[serde(default)]
    interference: f64,
    local_max: Option<u32>,
    crew: Option<u32>,
    /// Core-seconds for a GB, and bytes a second.
    #[serde(default)]
    send: f64,
    #[serde(default)]
    receive: f64,
    bandwidth: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Used {
    at: Seconds,
    used: f64,
}

impl Machine {
    fn host(self) -> Host {
        let plain = Host::new(self.cores, self.used);
        Host {
            then: self.then.iter().map(|then| (then.at.0, then.used)).collect(),
            interference: self.interference,
            local_max: self.local_max.unwrap_or(plain.local_max),
            crew: self.crew.unwrap_or(plain.crew),
            wire: Wire { send: self.send / GB, receive: self.receive / GB, bandwidth: self.bandwidth },
            ..plain
        }
    }
}

/// Written as on the command line.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Seconds(f64);

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        time(&text).map(Self)
    }
}

impl Entry {
    fn job(self, folder: &Path, prices: Prices) -> Result<Job> {
        let place = |e: Error| e.with("job", &self.name);
        let profile = self.profile.as_ref().map(|path| profiled(&folder.join(path))).transpose().map_err(place)?;
        let ops: Vec<_> = match &profile {
            Some(profile) => profile.ops().map_err(place)?,
            None => self.ops.iter().map(|op| Op { cost: op.cost.0, bytes: op.bytes }).collect(),
        };
        let cost = match (&self.batch_cost, ops.is_empty(), profile.is_none() || self.ops.is_empty()) {
            (Some(cost), true, true) => cost.0,
            (None, false, true) => ops.iter().map(|op| op.cost).sum(),
            _ => {
                let error = Error::invalid("what does a batch cost?");
                return Err(place(
                    error.hint("give one of batch_cost, ops with the cost and the bytes of each, and profile"),
                ));
            }
        };
        let step = self.step.as_ref().map(|step| step.0).or(profile.map(|profile| profile.figures.step()));
        let step = step.ok_or_else(|| place(Error::invalid("what does a step take?").hint("give step")))?;
        let plain = Job::new(self.name.clone(), step, cost, self.batches);
        let objective = self.objective.as_deref().map_or(Ok(plain.objective), |text| Objective::parse(text, prices));
        Ok(Job {
            ops: if ops.is_empty() { plain.ops } else { ops },
            host: self.machine.map(Machine::host),
            objective: objective.map_err(place)?,
            then: self.then.iter().map(|then| (then.at.0, then.step.0)).collect(),
            ahead: self.ahead.unwrap_or(plain.ahead),
            noise: self.noise.unwrap_or(NOISE),
            efficiency: self.efficiency.unwrap_or(plain.efficiency),
            shared_limit: self.shared_limit,
            weight: self.weight.unwrap_or(plain.weight),
            begins: self.begins.map_or(plain.begins, |begins| begins.0),
            ..plain
        })
    }
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let place = |e: Error| e.with("file", path.display());
    let mut text = String::new();
    let mut file = File::open(path).map_err(|e| place(e.into()))?.take(FILE_MAX + 1);
    file.read_to_string(&mut text).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => {
            place(Error::invalid("this is no text, and a job is described in JSON").hint("see `forebay sim --help`"))
        }
        _ => place(e.into()),
    })?;
    if text.len() as u64 > FILE_MAX {
        return Err(place(Error::invalid(format!("it is larger than {FILE_MAX} bytes"))));
    }
    let wrong = |e: serde_json::Error| place(Error::invalid(e.to_string()).hint("see `forebay sim --help`"));
    serde_json::from_str(&text).map_err(wrong)
}
