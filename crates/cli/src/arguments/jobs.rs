//! Commands on the jobs of a service, and on scripts that use it.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_server::Remote;

use super::Access;

const LIST_EXAMPLES: &str = "\
Examples:
  forebay jobs
  forebay workers --service forebay://10.0.0.5:7070 --json";

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    /// Address of the service: forebay://host:port or host:port; of several dispatchers, with commas between them
    #[arg(long, env = "FOREBAY_SERVICE", default_value = "forebay://127.0.0.1:7070", value_name = "ADDRESS", value_parser = address)]
    pub(crate) service: String,
    /// Time to wait for an answer, in seconds
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = timeout, allow_negative_numbers = true)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) access: Access,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Checks the addresses of dispatchers.
pub(super) fn address(text: &str) -> Result<String, String> {
    Remote::new(text).addresses().map(|_| text.to_owned()).map_err(|e| e.to_string())
}

fn timeout(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "a time is a number of seconds, 0 or more".to_owned())
}

const JOBS_EXAMPLES: &str = "\
Examples:
  forebay jobs
  forebay jobs show resnet50          how many workers it has, and why
  forebay jobs why resnet50           what holds it back, in one sentence
  forebay jobs trace resnet50 --seconds 10 --out run.json
                                      what happens to its batches; open it at ui.perfetto.dev
  forebay jobs cancel resnet50        ends it for good
  forebay jobs forget resnet50        removes it, once it is finished or cancelled
  forebay jobs --service forebay://10.0.0.5:7070 --json";

#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Jobs {
    #[command(subcommand)]
    pub(crate) what: Option<JobsAction>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JobsAction {
    /// Show one job, with each scaling decision and the measurements behind it
    Show(ShowJob),
    /// Say in one sentence what holds a job back: data or training
    Why(ShowJob),
    /// Record for some seconds what happens to the batches of a job, as a file for Perfetto
    Trace(TraceJob),
    /// End a job for good: its consumers get an error, and its name is free
    Cancel(EndJob),
    /// Remove a finished or cancelled job; the profile of its dataset stays
    Forget(EndJob),
}

#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub(crate) struct EndJob {
    /// Name of the job
    pub(crate) name: String,
    /// Tenant of the job, for administrators [default: the caller's]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub(crate) struct ShowJob {
    /// Name of the job
    pub(crate) name: String,
    /// Tenant of the job, for administrators [default: all tenants that have a job of this name]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) list: List,
}

#[derive(Debug, Args)]
#[command(after_help = JOBS_EXAMPLES)]
pub(crate) struct TraceJob {
    /// Name of the job
    pub(crate) name: String,
    /// Time to record, in seconds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=300))]
    pub(crate) seconds: u32,
    /// The consumer whose process records
    #[arg(long, default_value_t = 0)]
    pub(crate) consumer: u32,
    /// The file to write
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Tenant of the job, for administrators [default: the caller's]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) list: List,
}

const RUN_EXAMPLES: &str = "\
Examples:
  forebay run train.py --epochs 3
  forebay run --service forebay://10.0.0.5:7070 train.py
  forebay run --workers 2 train.py    on a service that ends with the script";

#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Address of the service, which the script gets as FOREBAY_SERVICE
    #[arg(long, value_name = "ADDRESS", conflicts_with = "workers", value_parser = address)]
    pub(crate) service: Option<String>,
    /// Number of workers of a service that is started for the script
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) workers: Option<u32>,
    /// The Python script
    pub(crate) file: PathBuf,
    /// Arguments of the script
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) args: Vec<String>,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  forebay explain train.py               the datasets at the top level of the script
  forebay explain train.py:make_dataset  the datasets that its function make_dataset returns
  forebay explain train.py --json";

#[derive(Debug, Args)]
#[command(after_help = EXPLAIN_EXAMPLES)]
pub(crate) struct Explain {
    /// FILE: the datasets at the top level of this Python script. FILE:NAME: the dataset NAME, or the datasets that the
    /// function NAME returns
    pub(crate) file: PathBuf,
    /// Also show how an epoch is divided into splits, which indexes the source
    #[arg(long)]
    pub(crate) splits: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

const QUARANTINE_EXAMPLES: &str = "\
Examples:
  forebay quarantine ls                               the samples of quarantine-*.jsonl in this folder
  forebay quarantine show bad.jsonl --sample 'row 7'  its error and its record
  forebay quarantine retry bad.jsonl                  runs the pipeline's row ops on each record, in this process

`retry` loads the functions in the file: use it on files that you trust. It exits with 1 while samples fail.";

#[derive(Debug, Args)]
#[command(after_help = QUARANTINE_EXAMPLES)]
pub(crate) struct Quarantine {
    /// What to do with the samples
    #[arg(value_enum)]
    pub(crate) action: QuarantineAction,
    /// Quarantine files [default: quarantine-*.jsonl in this folder]
    pub(crate) files: Vec<PathBuf>,
    /// Only the sample with this name or number
    #[arg(long)]
    pub(crate) sample: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum QuarantineAction {
    /// List the samples, one line each
    Ls,
    /// Show errors and records in full
    Show,
    /// Run the pipeline on the samples again
    Retry,
}
