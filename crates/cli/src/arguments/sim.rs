//! Jobs that are imagined.

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

Times are written with a unit: 50ms, 2s, 10m, 1h. Prices are for an hour, in any one currency; by default those of Pecan (USENIX
ATC 2024), in dollars: a TPU v2-8 and an n2-standard-8. BEST is the fixed number of workers that is cheapest, found by
trying. What it costs to find the number is in every price.

With --offer, as a dispatcher takes it, the policy of kinds decides how many workers there are of each, and each kind alone is simulated,
too. An offer may also say what comes of it: comes=N (so many are really to be had), pace=0.8 (how fast its threads are), startup=TIME,
lasts=TIME (as --lost-every), away=FROM:TO (those that there are then are taken back, and none comes until TO).

A file for --job:
  {\"jobs\": [{\"name\": \"one\", \"step\": \"100ms\", \"batch_cost\": \"190ms\", \"batches\": 10000},
            {\"name\": \"two\", \"step\": \"50ms\", \"batch_cost\": \"190ms\", \"batches\": 10000, \"begins\": \"60s\",
             \"then\": [{\"at\": \"2m\", \"step\": \"80ms\"}], \"weight\": 2}]}
A job may also have ahead, noise, efficiency and shared_limit, as the options of these names. In place of batch_cost it may
have ops, and with them the trainer's machine, where threads may compute what nobody else wants the cores for:
  \"ops\": [{\"cost\": \"80ms\", \"bytes\": 38e6}, {\"cost\": \"15ms\", \"bytes\": 154e6}], \"objective\": \"time\",
  \"machine\": {\"cores\": 32, \"used\": 6, \"then\": [{\"at\": \"10m\", \"used\": 28}], \"interference\": 0.02, \"bandwidth\": 1.2e9}
Costs are of one thread for a batch, bytes those of a batch after the op, bandwidth in bytes/s; a machine may also have local_max
(threads at most), send and receive (core-seconds for a GB) and crew (threads of a worker of Pecan's at the trainer). An
objective is time, cost, or cost-within:1.05 (the cheapest that takes at most 1.05 times the shortest time).";

#[derive(Debug, Args)]
#[command(after_help = SIM_EXAMPLES, group(ArgGroup::new("prices_of_workers").args(["worker_price", "offers"]).multiple(true)))]
pub(crate) struct Sim {
    #[command(flatten)]
    pub(crate) job: Imagined,
    /// Pecan's table (USENIX ATC 2024): its five workloads under collocation, Cachew, Pecan and Forebay
    #[arg(long, conflicts_with_all = ["Imagined", "jobs", "profile", "policy", "plot", "svg", "offers"])]
    pub(crate) pecan: bool,
    /// One or several jobs that share the workers, from a file of JSON
    #[arg(long = "job", value_name = "FILE", conflicts_with_all = ["Imagined", "profile"])]
    pub(crate) jobs: Option<PathBuf>,
    /// Step, cost of a batch and threads of a job that ran, from what `forebay jobs show NAME --json` printed
    #[arg(long, value_name = "FILE", conflicts_with_all = ["step", "then", "batch_cost", "threads"])]
    pub(crate) profile: Option<PathBuf>,
    /// Who decides: forebay, cachew, hpa, static:N, and with a trainer's machine pecan and static:WORKERS+THREADS@OPS; may be
    /// given again [default: forebay, cachew, hpa; with --profile forebay and each number up to 16]
    #[arg(long, value_parser = baselines::policy)]
    pub(crate) policy: Vec<Policy>,
    /// A kind of workers that can be started: kind=NAME,price=P,threads=N[,max=N][,spot], and what comes of it (see below); may be given
    /// again
    #[arg(long = "offer", value_name = "KIND", conflicts_with_all = ["threads", "worker_price"])]
    pub(crate) offers: Vec<Imaginable>,
    /// Threads of a worker
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: u32,
    /// The most workers that there may be
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(WORKERS_MAX)))]
    pub(crate) max_workers: u32,
    /// From asking for a worker to its first batch; paid, too
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = time)]
    pub(crate) startup: f64,
    /// How long a worker lasts, on average, before it fails or is taken back, as spot machines are
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) lost_every: Option<f64>,
    /// What the trainer's machine costs, for an hour [default: 4.96]
    #[arg(long, value_name = "PRICE", requires = "prices_of_workers", allow_negative_numbers = true)]
    pub(crate) trainer_price: Option<f64>,
    /// What a worker costs, for an hour [default: 0.427]
    #[arg(long, value_name = "PRICE", requires = "trainer_price", allow_negative_numbers = true)]
    pub(crate) worker_price: Option<f64>,
    /// What noise and losses follow from
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Also draw the workers over time, in text
    #[arg(long, conflicts_with = "json")]
    pub(crate) plot: bool,
    /// Also draw them into a file of SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One job.
#[derive(Debug, Args)]
pub(crate) struct Imagined {
    /// What a step of the trainer takes, when it does not wait
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["jobs", "profile", "pecan"])]
    pub(crate) step: Option<f64>,
    /// From when on a step takes how long, counted from the beginning; may be given again
    #[arg(long, value_name = "WHEN:TIME", value_parser = change)]
    pub(crate) then: Vec<(f64, f64)>,
    /// What a batch takes one thread to compute
    #[arg(long, value_name = "TIME", value_parser = time, required_unless_present_any = ["jobs", "profile", "pecan"])]
    pub(crate) batch_cost: Option<f64>,
    /// Batches, of all epochs
    #[arg(long, required_unless_present_any = ["jobs", "pecan"])]
    pub(crate) batches: Option<u64>,
    /// Batches that may be ready before they are asked for [default: 8]
    #[arg(long)]
    pub(crate) ahead: Option<u32>,
    /// What a measured figure may be off by, either way, as a share of it [default: 0.02]
    #[arg(long, value_name = "SHARE")]
    pub(crate) noise: Option<f64>,
    /// What of a worker's computing time reaches the trainer, as a share of it [default: 1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) efficiency: Option<f64>,
    /// Batches a second that all workers together can bring, where they share a storage or a network [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub(crate) shared_limit: Option<f64>,
    /// What a policy that can makes small: time, cost, or cost-within:1.05 (the cheapest that takes at most 1.05 times the shortest
    /// time)
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
