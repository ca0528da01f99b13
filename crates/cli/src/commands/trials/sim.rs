//! `forebay sim`: the simulated time and cost of jobs under each policy, beside the best fixed number of workers.

mod input;
mod kinds;
mod pecan;
mod plot;
mod profile;
mod svg;

use forebay_core::{Error, Result, VERSION};
use forebay_policy::placement::{Placement, Prices};
use forebay_policy::scaling::Policy;
use forebay_policy_lab::baselines;
use forebay_policy_lab::simulate::{JobOutcome, Kind, KindOutcome, Outcome, Pool, Scenario, best, simulate};
use serde::Serialize;

use crate::arguments::Sim;
use crate::output;

/// Numbers of workers that are tried for the job of a profile.
const PROFILED: u32 = 16;

#[derive(Serialize)]
struct Report {
    forebay: &'static str,
    seed: u64,
    prices: Prices,
    best: Row,
    policies: Vec<Row>,
}

/// The results of a policy. Times are in seconds.
#[derive(Serialize)]
struct Row {
    policy: String,
    /// The end of the last job.
    time_s: f64,
    price: f64,
    /// Relative to the best fixed number of workers.
    time_of_best: f64,
    price_of_best: f64,
    changes: usize,
    settled_s: f64,
    /// The share of the trainers' time that they waited.
    waited: f64,
    worker_hours: f64,
    lost: u64,
    /// (seconds, workers): the number of paid workers from this time on.
    workers: Vec<(f64, u32)>,
    /// The same by kind, if there are any.
    kinds: Vec<KindOutcome>,
    jobs: Vec<JobOutcome>,
}

impl Row {
    fn new(outcome: &Outcome, best: &Outcome, prices: &Prices) -> Self {
        Self {
            policy: outcome.policy.clone(),
            time_s: outcome.ended_s,
            price: outcome.price(prices),
            time_of_best: outcome.ended_s / best.ended_s,
            price_of_best: outcome.price(prices) / best.price(prices),
            changes: outcome.changes(),
            settled_s: outcome.settled_s(),
            waited: outcome.waited(),
            worker_hours: outcome.worker_s / 3600.0,
            lost: outcome.lost,
            workers: outcome.workers.clone(),
            kinds: outcome.kinds.clone(),
            jobs: outcome.jobs.clone(),
        }
    }
}

pub(crate) fn run(arguments: &Sim) -> Result<()> {
    if arguments.pecan {
        return pecan::run(arguments.json);
    }
    let default = Prices::default();
    let prices = Prices {
        trainer: arguments.trainer_price.unwrap_or(default.trainer),
        worker: arguments.worker_price.unwrap_or(default.worker),
    };
    prices.check()?;
    let (jobs, threads) = input::jobs(arguments, prices)?;
    let is_placed = jobs.iter().any(|job| job.host.is_some());
    let pool =
        Pool { max: arguments.max_workers, threads, startup: arguments.startup, lost_every: arguments.lost_every };
    let kinds = arguments.offers.iter().map(|offer| offer.kind(arguments.startup, arguments.lost_every)).collect();
    let scenario = Scenario { kinds, ..Scenario::new(jobs, pool, arguments.seed) };
    let mut outcomes = Vec::new();
    for policy in policies(arguments) {
        outcomes.push(simulate(&scenario, &policy)?);
        outcomes.extend(alone(&scenario, &policy));
    }
    let best = best(&scenario, &prices)?.outcome;
    let report = Report {
        forebay: VERSION,
        seed: arguments.seed,
        prices,
        best: Row::new(&best, &best, &prices),
        policies: outcomes.iter().map(|outcome| Row::new(outcome, &best, &prices)).collect(),
    };
    if arguments.json {
        output::json(&report)?;
    } else {
        print(&report, is_placed)?;
        if arguments.plot {
            output::line("")?;
            plot::lines(&plot::series(&outcomes)).iter().try_for_each(|line| output::line(line))?;
        }
    }
    // Last, so that a file that cannot be written loses no results.
    let Some(path) = &arguments.svg else { return Ok(()) };
    let written = std::fs::write(path, svg::draw(&plot::series(&outcomes)));
    written.map_err(|e| Error::from(e).with("file", path.display()).hint("name a file that can be written: --svg FILE"))
}

fn policies(arguments: &Sim) -> Vec<Policy> {
    if !arguments.policy.is_empty() {
        return arguments.policy.clone();
    }
    if !arguments.offers.is_empty() {
        return vec![Policy::default()];
    }
    if arguments.profile.is_none() {
        return ["forebay", "cachew", "hpa"].into_iter().filter_map(|name| baselines::policy(name).ok()).collect();
    }
    let fixed = (1..=PROFILED.min(arguments.max_workers)).map(Policy::fixed);
    std::iter::once(Policy::default()).chain(fixed).collect()
}

/// Simulates each of several kinds as the only one. A kind with which jobs do not end is left out.
fn alone(scenario: &Scenario, policy: &Policy) -> Vec<Outcome> {
    let kinds = scenario.kinds.iter().filter(|_| scenario.kinds.len() > 1);
    let one = |kind: &Kind| {
        let outcome = simulate(&Scenario { kinds: vec![kind.clone()], ..scenario.clone() }, policy).ok()?;
        Some(Outcome {
            policy: format!("{policy}, {} alone", kinds::name(&kind.offer.kind, kind.offer.spot)),
            ..outcome
        })
    };
    kinds.filter_map(one).collect()
}

/// `is_placed`: whether a job has more to decide than a number of workers.
fn print(report: &Report, is_placed: bool) -> Result<()> {
    let cells = |row: &Row, name: String| {
        [
            name,
            clock(row.time_s),
            format!("{:.2}", row.price),
            format!("{:.3}", row.time_of_best),
            format!("{:.3}", row.price_of_best),
            row.changes.to_string(),
            format!("{:.0} s", row.settled_s),
            format!("{:.1} %", 100.0 * row.waited),
            format!("{:.2}", row.worker_hours),
        ]
    };
    let rows = report.policies.iter().map(|row| cells(row, row.policy.clone()));
    let best = cells(&report.best, format!("best: {}", report.best.policy));
    let headings =
        ["POLICY", "TIME", "PRICE", "TIME/BEST", "PRICE/BEST", "CHANGES", "SETTLED", "WAITED", "WORKER-HOURS"];
    output::table(headings, &rows.chain([best]).collect::<Vec<_>>())?;
    kinds::print(&report.policies)?;
    if report.best.jobs.len() == 1 && !is_placed {
        return Ok(());
    }
    output::line("")?;
    let rows = report.policies.iter().flat_map(|row| row.jobs.iter().map(move |job| (row, job)));
    if is_placed {
        let rows: Vec<_> = rows.map(|(row, job)| of_placed(row, job)).collect();
        let headings = ["POLICY", "JOB", "TIME", "WORKERS", "LOCAL", "BOUNDARY", "CHANGES", "SETTLED", "WAITED"];
        return output::table(headings, &rows);
    }
    let rows: Vec<_> = rows.map(|(row, job)| of_job(row, job)).collect();
    output::table(["POLICY", "JOB", "TIME", "WORKERS", "CHANGES", "SETTLED", "WAITED"], &rows)
}

fn of_job(row: &Row, job: &JobOutcome) -> [String; 7] {
    [
        row.policy.clone(),
        job.name.clone(),
        clock(job.took_s),
        job.changes.last().map_or(0, |change| change.to.workers).to_string(),
        job.changes.len().saturating_sub(1).to_string(),
        format!("{:.0} s", job.settled_s),
        format!("{:.1} %", 100.0 * job.waited_s / job.took_s),
    ]
}

/// As `of_job`, with the place of computation: threads at the trainer (for Pecan, its workers there), and ops that run
/// on the workers.
fn of_placed(row: &Row, job: &JobOutcome) -> [String; 9] {
    let [policy, name, time, workers, changes, settled, waited] = of_job(row, job);
    let at = job.changes.last().map_or(Placement { workers: 0, local: 0, cut: 0 }, |change| change.to);
    [policy, name, time, workers, at.local.to_string(), at.cut.to_string(), changes, settled, waited]
}

/// Formats a time as hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
}
