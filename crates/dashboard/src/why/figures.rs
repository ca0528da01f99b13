//! The figures behind the sentence.

use std::collections::BTreeSet;

use forebay_proto::{AvoidedWorker, JobStatus, WorkerStatus};
use serde_json::Value;

use crate::model::{Op, Recent};

/// The figures of one job.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Figures {
    /// As in a job.
    pub state: String,
    /// Consumers that a process is attached to.
    pub attached: usize,
    /// The last minute.
    pub recent: Recent,
    /// The longest current wait of a trainer, in seconds.
    pub waiting_s: f64,
    /// Workers that compute now, without local workers.
    pub workers: u32,
    /// The price of one such worker for an hour; `None` if they report no price.
    pub price: Option<f64>,
    /// How many workers are needed.
    pub need: Need,
    /// Why more workers would not help; `None` if they would.
    pub hold: Option<Hold>,
    /// The costliest op.
    pub op: Option<TopOp>,
    /// The causes for which consumers avoid workers now; each names its worker.
    pub avoided: BTreeSet<String>,
}

/// How many workers a job needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Need {
    /// No decision and no measurement exists yet.
    #[default]
    Unknown,
    /// The service's policy measured the job and wants this many.
    Wanted(u32),
    /// The user fixed the number of workers; by the rates, the job needs about this many.
    Estimated(u32),
}

/// Why more workers would not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The workers share a bottleneck.
    Shared,
    /// The workers produce enough; single splits are late.
    Ahead,
    /// The limit is reached: the number of needed workers, and of allowed workers.
    AtMost(u32, u32),
    /// The policy has tried more workers, up to its limit of trials, without success.
    Unmet,
    /// There are no workers: all ops run in the trainer's process.
    InProcess,
}

/// The costliest op of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct TopOp {
    /// Its title.
    pub name: String,
    /// Its share of the time of all ops, 0 to 1.
    pub share: f64,
    /// Whether it runs in the trainer's process.
    pub is_at_trainer: bool,
}

/// The most characters of an op's title in a sentence.
const TITLE_CHARS_MAX: usize = 60;
/// A demand is unmet if it exceeds the rate by this factor.
const UNMET_FACTOR: f64 = 1.05;
/// The most workers of an estimate, as a factor of the present ones: beyond that, another bottleneck comes first.
const ESTIMATE_FACTOR_MAX: f64 = 16.0;

impl Figures {
    /// Reads the figures of a job, among all workers that the caller sees.
    pub fn of(job: &JobStatus, workers: &[WorkerStatus]) -> Self {
        let attached = job.consumers.iter().filter(|c| c.attached);
        let recent = Recent::of(&job.consumers);
        let live: Vec<_> = workers.iter().filter(|w| !w.local && w.state != "lost" && w.state != "leaving").collect();
        let price = live.iter().map(|w| w.price).sum::<f64>() / live.len().max(1) as f64;
        let count = live.len() as u32;
        let (need, hold) = decided(job).unwrap_or((Need::Unknown, None));
        let need = if need == Need::Unknown { estimated(&recent, count) } else { need };
        let ops = Op::all(&job.ops);
        let top = Op::costliest(&ops).map(|op| TopOp {
            name: op.op.chars().take(TITLE_CHARS_MAX).collect(),
            share: op.share.unwrap_or(0.0),
            is_at_trainer: op.at != "workers",
        });
        Self {
            state: job.state.clone(),
            attached: attached.clone().count(),
            recent,
            waiting_s: attached.map(|c| c.waiting_ms).max().unwrap_or(0) as f64 / 1e3,
            workers: count,
            price: Some(price).filter(|price| *price > 0.0),
            need,
            hold,
            op: top,
            avoided: job.avoided.iter().map(avoided).collect(),
        }
    }
}

/// Returns why a consumer avoids a worker, in words.
fn avoided(of: &AvoidedWorker) -> String {
    let AvoidedWorker { address, cause, .. } = of;
    if cause.contains(address) { cause.clone() } else { format!("the worker at {address} failed: {cause}") }
}

impl Figures {
    /// Takes the figures of a trainer that computes its batches itself.
    ///
    /// `waited_s` and `step_s` are the seconds of the last minute for which it waited and trained, `batches` is the
    /// number of batches that it took, and `ops` has the thread-seconds of each op.
    pub fn in_process(waited_s: f64, step_s: f64, batches: u64, ops: &[(String, f64)]) -> Self {
        let seconds = waited_s + step_s;
        let all: f64 = ops.iter().map(|(_, seconds)| seconds).sum();
        let most = ops.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, seconds)| *seconds > 0.0);
        Self {
            state: "running".to_owned(),
            attached: 1,
            recent: Recent {
                seconds,
                waited: (seconds > 0.0).then(|| waited_s / seconds),
                batches_per_s: if seconds > 0.0 { batches as f64 / seconds } else { 0.0 },
                ..Recent::default()
            },
            hold: Some(Hold::InProcess),
            op: most.map(|(op, seconds)| TopOp {
                name: op.chars().take(TITLE_CHARS_MAX).collect(),
                share: seconds / all,
                is_at_trainer: false,
            }),
            ..Self::default()
        }
    }
}

/// Reads the last decision of the service's policy; `None` if it has no measurement, or the user fixed the number.
fn decided(job: &JobStatus) -> Option<(Need, Option<Hold>)> {
    let last: Value = serde_json::from_str(&job.decisions.last()?.json).ok()?;
    let number = |name: &str| last[name].as_u64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    let hold = match last["rule"].as_str()? {
        "fixed" | "measuring" | "no_figures" => return None,
        "shared" => Some(Hold::Shared),
        "ahead" => Some(Hold::Ahead),
        "unmet" => Some(Hold::Unmet),
        "at_most" => Some(Hold::AtMost(number("needed"), number("limit"))),
        _ => None,
    };
    Some((Need::Wanted(job.workers), hold))
}

/// Estimates how many workers would meet the demand, if each keeps its present rate.
fn estimated(recent: &Recent, workers: u32) -> Need {
    let Some(demand) = recent.demand_per_s.filter(|_| recent.batches_per_s > 0.0 && workers > 0) else {
        return Need::Unknown;
    };
    let factor = demand / recent.batches_per_s;
    match factor {
        f if f <= UNMET_FACTOR || f > ESTIMATE_FACTOR_MAX => Need::Unknown,
        f => Need::Estimated((f64::from(workers) * f).ceil() as u32),
    }
}
