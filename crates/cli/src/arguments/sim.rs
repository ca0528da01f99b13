//! The options of `forebay sim`: simulated jobs and worker types.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use forebay_policy::scaling::Policy;
use forebay_policy_lab::baselines;
use forebay_policy_lab::simulate::WORKERS_MAX;

use super::Imaginable;

const SIM_EXAMPLES: &str = "\
Examples:
  forebay sim --step 50ms --batch-cost 230ms --batches 100000
  forebay sim --step 50ms --then 600s:150ms --batch-cost 230ms --batches 100000 --plot
  forebay sim --step 50ms --batch-cost 230ms --batches 100000 --policy forebay --policy static:5 \\
    --trainer-price 31.2 --worker-price 0.38
  forebay sim --job tenants.json --max-workers 10 --json
  forebay sim --job placement.json --threads 8 --policy forebay --policy pecan --policy static:4+24@2
  forebay jobs show resnet50 --json > figures.json && forebay sim --profile figures.json --batches 100000
  forebay sim --step 50ms --batch-cost 1900ms --batches 100000 --trainer-price 31.2 --startup 60s \
    --offer kind=c5.2xlarge,price=0.38,threads=8 --offer kind=c5.2xlarge,price=0.11,threads=8,spot,lasts=2h,away=20m:1h
  forebay sim --pecan

Times have a unit: 50ms, 2s, 10m, 1h. Prices are for an hour, in any one currency; the defaults are those of Pecan (USENIX ATC
2024), in dollars: a TPU v2-8 and an n2-standard-8. BEST is the cheapest fixed number of workers, found by trying each. The
price of a policy includes the time in which it searches.

With --offer, as a dispatcher takes it, the policy also decides how many workers of each type there are; each type alone is
simulated, too. An offer may also say how its workers behave: comes=N (only N are available), pace=0.8 (relative speed of a
thread), startup=TIME, lasts=TIME (as --lost-every), away=FROM:TO (all are taken back at FROM, and none is available until TO).

A file for --job:
  {\"jobs\": [{\"name\": \"one\", \"step\": \"100ms\", \"batch_cost\": \"190ms\", \"batches\": 10000},
            {\"name\": \"two\", \"step\": \"50ms\", \"batch_cost\": \"190ms\", \"batches\": 10000, \"begins\": \"60s\",
             \"then\": [{\"at\": \"2m\", \"step\": \"80ms\"}], \"weight\": 2}]}
A job may also have ahead, noise, efficiency and shared_limit, as the options of these names. In place of batch_cost it may
have ops and the trainer's machine, whose idle cores may run local workers:
  \"ops\": [{\"cost\": \"80ms\", \"bytes\": 38e6}, {\"cost\": \"15ms\", \"bytes\": 154e6}], \"objective\": \"time\",
  \"machine\": {\"cores\": 32, \"used\": 6, \"then\": [{\"at\": \"10m\", \"used\": 28}], \"interference\": 0.02, \"bandwidth\": 1.2e9}
A cost is the time of one thread for a batch, bytes is the size of a batch after the op, bandwidth is in bytes/s. A machine may
also have local_max (maximum number of local threads), send and receive (core-seconds for a GB) and crew (threads of a local
worker under Pecan). An objective is time, cost, or cost-within:1.05 (the lowest cost at 1.05 times the shortest time or less).";

#[derive(Debug, Args)]
#[command(after_help = SIM_EXAMPLES, group(ArgGroup::new("prices_of_workers").args(["worker_price", "offers"]).multiple(true)))]
pub(crate) struct Sim {
    #[command(flatten)]
    pub(crate) job: Imagined,
    /// Reproduce the table of Pecan (USENIX ATC 2024): its five workloads under collocation, Cachew, Pecan and Forebay
    #[arg(long, conflicts_with_all = ["Imagined", "jobs", "profile", "policy", "plot", "svg", "offers"])]
    pub(crate) pecan: bool,
    /// JSON file of one or several jobs that share the workers
    #[arg(long = "job", value_name = "FILE", conflicts_with_all = ["Imagined", "profile"])]
    pub(crate) jobs: Option<PathBuf>,
    /// Output of `forebay jobs show NAME --json`, for the step, the batch cost and the threads of a job that ran
    #[arg(long, value_name = "FILE", conflicts_with_all = ["step", "then", "batch_cost", "threads"])]
    pub(crate) profile: Option<PathBuf>,
    /// Scaling policy: forebay, cachew, hpa, static:N, and with a trainer's machine pecan and static:WORKERS+THREADS@OPS; may be
    /// repeated [default: forebay, cachew, hpa; with --profile forebay and each number up to 16]
    #[arg(long, value_parser = baselines::policy)]
    pub(crate) policy: Vec<Policy>,
    /// Worker type that can be started: kind=NAME,price=P,threads=N[,max=N][,spot], and how its workers behave (see below); may be
    /// repeated
    #[arg(long = "offer", value_name = "KIND", conflicts_with_all = ["threads", "worker_price"])]
    pub(crate) offers: Vec<Imaginable>,
    /// Compute threads of a worker
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: u32,
    /// Maximum number of workers
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(WORKERS_MAX)))]
    pub(crate) max_workers: u32,
    /// Time from the request for a worker to its first batch, which is paid
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(crate) startup: f64,
    /// Mean time until a worker fails or, as a spot machine, is taken back
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) lost_every: Option<f64>,
    /// Price of the trainer's machine for an hour [default: 4.96]
    #[arg(long, value_name = "PRICE", requires = "prices_of_workers", allow_negative_numbers = true)]
    pub(crate) trainer_price: Option<f64>,
    /// Price of a worker for an hour [default: 0.427]
    #[arg(long, value_name = "PRICE", requires = "trainer_price", allow_negative_numbers = true)]
    pub(crate) worker_price: Option<f64>,
    /// Seed of noise and losses
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Also plot the number of workers over time, in text
    #[arg(long, conflicts_with = "json")]
    pub(crate) plot: bool,
    /// Also plot it into an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct Imagined {
    /// Time of a step of the trainer that does not wait for data
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["jobs", "profile", "pecan"])]
    pub(crate) step: Option<f64>,
    /// Time of a step from WHEN on, counted from the start of the job; may be repeated
    #[arg(long, value_name = "WHEN:TIME", value_parser = change)]
    pub(crate) then: Vec<(f64, f64)>,
    /// Time in which one thread computes a batch
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["jobs", "profile", "pecan"])]
    pub(crate) batch_cost: Option<f64>,
    /// Number of batches of all epochs
    #[arg(long, required_unless_present_any = ["jobs", "pecan"])]
    pub(crate) batches: Option<u64>,
    /// Maximum number of batches that are computed ahead of the trainer [default: 8]
    #[arg(long)]
    pub(crate) ahead: Option<u32>,
    /// Relative error of measurements, either way [default: 0.02]
    #[arg(long, value_name = "SHARE")]
    pub(crate) noise: Option<f64>,
    /// Share of a worker's compute time that reaches the trainer [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) efficiency: Option<f64>,
    /// Maximum batches per second of all workers together, where they share storage or a network [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) shared_limit: Option<f64>,
    /// Optimisation objective of the policies that have one: time, cost, or cost-within:1.05 (the lowest cost at 1.05 times the
    /// shortest time or less)
    #[arg(long, default_value = "time")]
    pub(crate) objective: String,
}

/// Reads a time, as `50ms`; returns seconds.
pub(crate) fn time(text: &str) -> Result<f64, String> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let read = |&(unit, seconds): &(&str, f64)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * seconds);
    let found = units.iter().find_map(read).filter(|seconds| *seconds >= 0.0 && seconds.is_finite());
    found.ok_or_else(|| format!("{text:?} is no time: write 50ms, 2s, 10m or 1h"))
}

fn change(text: &str) -> Result<(f64, f64), String> {
    let (when, step) = text.split_once(':').ok_or("write WHEN:TIME, as 600s:150ms")?;
    Ok((time(when)?, time(step)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let close = |text: &str, seconds: f64| time(text).is_ok_and(|found| (found - seconds).abs() < 1e-12);
        assert!(close("50ms", 0.05) && close("2 s", 2.0) && close("1.5h", 5400.0) && close("10m", 600.0));
        assert!(close("250us", 0.00025) && close("0s", 0.0));
        assert!(["", "5", "ms", "-1s", "infs", "nans", "1d"].iter().all(|text| time(text).is_err()));
        assert_eq!(change("600s:150ms"), Ok((600.0, 0.15)));
        assert!(change("600s").is_err());
    }
}
