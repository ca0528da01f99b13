//! What `forebay demo` takes.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  forebay demo
  forebay demo --workers 4 --epochs 20
  forebay demo --shards digits        a folder that fb.examples.digits() wrote, or your own train-*.tar and test.tar

It trains a small classifier on digits, on a service of its own; kills a worker with SIGKILL in the second epoch; compares
the stream with that of an undisturbed run in one process; and runs a second job, which finds the rows that the first job
computed. The exit code is 1 when a promise was not kept.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Epochs to train for
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) epochs: u32,
    /// Workers to start; one of them is killed
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: u32,
    /// A folder of train-*.tar and test.tar whose samples have a grey png and a cls [default: digits that are drawn]
    #[arg(long)]
    pub(crate) shards: Option<PathBuf>,
    /// Where to write, in a folder that is removed at the end [default: the temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
