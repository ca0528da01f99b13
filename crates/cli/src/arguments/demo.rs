//! The options of `forebay demo`.

use std::path::PathBuf;

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  forebay demo
  forebay demo --workers 4 --epochs 20
  forebay demo --shards digits        a folder that fb.examples.digits() wrote, or your own train-*.tar and test.tar

The demo starts a service, trains a small classifier on digits, and kills a worker with SIGKILL in the second epoch. It
compares the stream with that of an undisturbed run in one process. Then it runs a second job, which uses the rows that
the first job cached. The exit code is 1 if one of its checks fails.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Demo {
    /// Number of epochs
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub(crate) epochs: u32,
    /// Number of workers; one of them is killed
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) workers: u32,
    /// Folder of train-*.tar and test.tar, whose samples have a grey png and a cls [default: the demo draws digits]
    #[arg(long)]
    pub(crate) shards: Option<PathBuf>,
    /// Folder in which to make a folder for the data, which is removed at the end [default: the system's temporary folder]
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
