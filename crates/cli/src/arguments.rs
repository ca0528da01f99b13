//! Every command and option, with its help: the commands here, their options in the files below.

mod cache;
mod checks;
mod csi;
mod dashboard;
mod demo;
mod jobs;
mod mount;
mod offers;
mod roles;
mod settings;
mod sim;
mod token;

use clap::{Args, Parser, Subcommand};

pub(crate) use cache::{Evict, KeptAction, KeptIn, KeptRows, Warm};
pub(crate) use checks::{Bench, Faults, Ledger, LedgerAction, Selftest, SelftestOf};
pub(crate) use csi::Csi;
pub(crate) use dashboard::{DashboardOf, HttpAddress, Top};
pub(crate) use demo::Demo;
pub(crate) use jobs::{EndJob, Explain, Jobs, JobsAction, List, Quarantine, QuarantineAction, Run, ShowJob, TraceJob};
pub(crate) use mount::Mount;
pub(crate) use offers::Imaginable;
pub(crate) use roles::{Dispatcher, Up, Worker, WorkerCount};
pub(crate) use settings::{Access, Aim, Cache, Identity, Process, SourceCache};
pub(crate) use sim::{Imagined, Sim, time};
pub(crate) use token::{Token, TokenAction};

const EXIT_CODES: &str = "\
`forebay info SOURCE` shows what files hold: rows, bytes, columns and their statistics.
`forebay lint FILE.py` finds mistakes and slow parts in the datasets of a Python script.
`forebay preview FILE.py` writes a page with samples before and behind each op of its datasets.
`forebay quality FILE.py` measures how well the datasets of a Python script are shuffled.
`forebay cluster start|status|stop` manages services on a Kubernetes or Ray cluster.

Exit codes:
  0  success                        4  no such job or file, or no permission
  1  failure: the message says why  5  the data is corrupt, or has changed
  2  the command line is wrong      6  a user's function raised
  3  a process does not answer      7  client and service have different versions

Logs go to stderr; FOREBAY_LOG=debug logs more. NO_COLOR=1 turns colours off.";

/// Input data processing as a service for machine learning.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a small model on a service of its own while a worker is killed
    Demo(Demo),
    /// Start a dispatcher and workers on this machine, until Ctrl-C
    Up(Up),
    /// Run a dispatcher, which grants splits to workers and keeps the state of jobs
    Dispatcher(Dispatcher),
    /// Run a worker, which computes splits and sends their rows to consumers
    Worker(Worker),
    /// List the jobs of a service; show, cancel or remove one
    Jobs(Jobs),
    /// List the workers of a service
    Workers(List),
    /// Show how many workers the jobs of a service need, by worker type
    Scale(List),
    /// Watch the jobs and workers of a service in this terminal
    Top(Top),
    /// Serve the dashboard of a service: web pages and an HTTP API
    Dashboard(DashboardOf),
    /// Run a Python script that finds a service with fb.connect()
    Run(Run),
    /// Show how the datasets of a Python script run, and why
    Explain(Explain),
    /// List, show and retry the samples in quarantine files
    Quarantine(Quarantine),
    /// List, verify, remove or fill the contents of a cache folder or store
    Cache(KeptRows),
    /// Mount folders, buckets and web files as a read-only file system
    Mount(Mount),
    /// Run the CSI driver of a Kubernetes node, whose volumes are mounts
    Csi(Csi),
    /// Check, print or repair the ledger of a stopped dispatcher
    Ledger(Ledger),
    /// Measure throughput on this machine, beside tf.data and PyTorch if they are installed
    Bench(Bench),
    /// Simulate the time and cost of a job under several scaling policies
    Sim(Sim),
    /// Test the fault tolerance of a service on this machine
    Selftest(Selftest),
    /// Make the bearer tokens with which callers use a service
    Token(Token),
    /// Print the version
    Version(Version),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  forebay version\n  forebay version --json")]
pub(crate) struct Version {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        use clap::CommandFactory;
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{}", command.get_name());
        }
    }

    #[test]
    fn help_uses_the_words_of_the_glossary() {
        use clap::CommandFactory;
        fn check(command: &mut clap::Command) {
            let help = command.render_long_help().to_string();
            for retired in ["reader", "made small", "given again", "Who decides", " cut "] {
                assert!(!help.contains(retired), "{retired:?} in the help of {}", command.get_name());
            }
            command.get_subcommands_mut().for_each(check);
        }
        check(&mut Arguments::command());
    }
}
