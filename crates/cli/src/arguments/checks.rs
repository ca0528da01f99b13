//! What is checked and measured on this machine: states, speed, promises.

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
    /// The state folder, or the ledger's file in it
    pub(crate) path: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum LedgerAction {
    /// Say what it has, or what is wrong with it
    Check,
    /// Every row of it, as a line of JSON; the keys of jobs are among them
    Dump,
    /// Keep what can be read of one that is corrupt, and the old file beside
    Repair,
}

const BENCH_EXAMPLES: &str = "\
Examples:
  forebay bench
  forebay bench --json > figures.json
  forebay bench --dir /mnt/nvme       the ledger's disk is a part of what is measured

With tensorflow or torch (and torchvision) in the same Python, their pipelines run in turns with ours.";

#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub(crate) struct Bench {
    /// How long each rate is measured, in seconds, after a second at most of warming up
    #[arg(long, default_value_t = 2.0, value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How often each figure is measured; medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// JPEG files to make, 500 by 375 pixels
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) images: u32,
    /// Records of four numbers to make
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    pub(crate) records: u32,
    /// Splits to grant
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) splits: u64,
    /// Where to make the data and the ledger, in a folder that is removed at the end [default: the temporary folder]
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
    /// Kill and stop real processes, and compare every batch with what it must be
    Faults(Faults),
}

const FAULTS_EXAMPLES: &str = "\
Examples:
  forebay selftest faults --quick                  a minute or two
  forebay selftest faults                          every scenario at every place, with 1, 2, 3 and 8 workers
  forebay selftest faults --scenario killall --workers 3
  forebay selftest faults --json > faults.json

Every sample has an id and a checksum. What must come out is computed without the service: ids and records by NumPy,
pictures and the order by one thread. A run is good when every sample came once, with its bytes, in its place; when the
pause and what was computed again are within their bounds; and when nothing is left behind. The exit code is 1 where
one is not.";

#[derive(Debug, Args)]
#[command(after_help = FAULTS_EXAMPLES)]
pub(crate) struct Faults {
    /// Fewer samples, two workers, fewer places
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this scenario, and the undisturbed run before it; may be given again
    #[arg(long, value_name = "NAME")]
    pub(crate) scenario: Vec<String>,
    /// Only so many workers, with every place; may be given again [default: 1, 2, 3, 8; with --quick, 2]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: Vec<u32>,
    /// Records to make [default: 100003; with --quick, 20011]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1_000..=100_000_000))]
    pub(crate) samples: Option<u32>,
    /// What the data, the order and the places of successive faults follow from
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u32,
    /// Report pauses and what was computed again, and do not judge them: for a machine that is busy with other things
    #[arg(long)]
    pub(crate) no_timing: bool,
    /// Where to make the data and the state, in a folder that is removed at the end [default: the temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
