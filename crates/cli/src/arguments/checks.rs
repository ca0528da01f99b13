//! Commands that check and measure this machine: ledgers, throughput, fault tolerance.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const LEDGER_EXAMPLES: &str = "\
Examples:
  forebay ledger check /var/lib/forebay
  forebay ledger dump /var/lib/forebay | grep '\"job\"'
  forebay ledger repair /var/lib/forebay";

#[derive(Debug, Args)]
#[command(after_help = LEDGER_EXAMPLES)]
pub(crate) struct Ledger {
    /// What to do
    #[arg(value_enum)]
    pub(crate) action: LedgerAction,
    /// The state folder, or the ledger file in it
    pub(crate) path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum LedgerAction {
    /// Show the content of the ledger, or its damage
    Check,
    /// Print every row as a line of JSON, the secret keys of jobs included
    Dump,
    /// Rewrite a corrupt ledger with the rows that can be read; the old file is kept beside it
    Repair,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  forebay bench
  forebay bench --json > figures.json
  forebay bench --dir /mnt/nvme       the figures include the disk of the ledger

With tensorflow or torch (and torchvision) in the same Python, their pipelines are measured alternately with Forebay's.";

#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct Bench {
    /// Time for which each rate is measured, in seconds, after a warm-up of at most a second
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// Repetitions of each measurement; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Number of JPEG files to make, of 500 by 375 pixels
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) images: u32,
    /// Number of records of four numbers to make
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) records: u32,
    /// Number of splits to grant
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) splits: u64,
    /// Folder in which to make a folder for data and ledger, which is removed at the end [default: the system's temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    let found = text.parse::<f64>().map_err(|e| e.to_string())?;
    if (0.01..=3600.0).contains(&found) { Ok(found) } else { Err("use 0.01 to 3600".to_owned()) }
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  forebay selftest faults --quick\n  forebay selftest faults --help")]
pub(crate) struct Selftest {
    #[command(subcommand)]
    pub(crate) what: SelftestOf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SelftestOf {
    /// Kill and stop real processes of a service, and compare every batch with the expected one
    Faults(Faults),
}

const FAULTS_EXAMPLES: &str = "\
Examples:
  forebay selftest faults --quick                  a minute or two
  forebay selftest faults                          every scenario at every point of the run, with 1, 2, 3 and 8 workers
  forebay selftest faults --scenario killall --workers 3
  forebay selftest faults --json > faults.json

Every sample has an id and a checksum. The expected output is computed without the service: ids and records by NumPy,
images and their order by one thread. A run passes if every sample arrived once, with its bytes and in its place, if the
pause and the recomputed splits are within their bounds, and if no process, file or memory is left behind. The exit code
is 1 if a run does not pass.";

#[derive(Debug, Args)]
#[command(after_help = FAULTS_EXAMPLES)]
pub(crate) struct Faults {
    /// Fewer samples, two workers, and faults at fewer points of the run
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this scenario, and the undisturbed run before it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Number of workers, with faults at every point of the run; may be repeated [default: 1, 2, 3, 8; with --quick, 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: Vec<u32>,
    /// Number of records to make [default: 100003; with --quick, 20011]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub(crate) samples: Option<u32>,
    /// Seed of the data, of their order and of the points at which faults happen
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u32,
    /// Report pauses and recomputed splits without judging them, for a machine that is busy
    #[arg(long)]
    pub(crate) no_timing: bool,
    /// Folder in which to make a folder for data and state, which is removed at the end [default: the system's temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
