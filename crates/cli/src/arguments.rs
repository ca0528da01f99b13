//! Every command and option, with its help: the commands here, what each takes in the files below.

mod cache;
mod checks;
mod demo;
mod jobs;
mod offers;
mod roles;
mod settings;
mod sim;
mod token;

use clap::{Args, Parser, Subcommand};

pub(crate) use cache::{Evict, KeptAction, KeptIn, KeptRows, Warm};
pub(crate) use checks::{Bench, Faults, Ledger, LedgerAction, Selftest, SelftestOf};
pub(crate) use demo::Demo;
pub(crate) use jobs::{EndJob, Explain, Jobs, JobsAction, List, Quarantine, QuarantineAction, Run, ShowJob};
pub(crate) use offers::Imaginable;
pub(crate) use roles::{Dispatcher, Up, Worker, WorkerCount};
pub(crate) use settings::{Access, Aim, Cache, Identity, Process, SourceCache};
pub(crate) use sim::{Imagined, Sim, time};
pub(crate) use token::{Token, TokenAction};

const EXIT_CODES: &str = "\
`forebay quality FILE.py` measures how well the datasets of a Python script are shuffled.

Exit codes:
  0  it worked                      4  no such job or file, or no permission
  1  it failed: the message says    5  the data is corrupt, or changed
  2  the command line is wrong      6  a function of yours raised
  3  something did not answer       7  the two sides are of different versions

Logs go to stderr; FOREBAY_LOG=debug says more. NO_COLOR=1 takes the colours away.";

/// Input data processing as a service for machine learning.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it work: train on data that it makes, through the death of a worker
    Demo(Demo),
    /// Start a whole service on this machine, until Ctrl-C
    Up(Up),
    /// Run a dispatcher
    Dispatcher(Dispatcher),
    /// Run a worker
    Worker(Worker),
    /// List the jobs of a service, show one, cancel it or forget it
    Jobs(Jobs),
    /// List the workers of a service
    Workers(List),
    /// Say how many workers the jobs of a service want, of each kind that can be started
    Scale(List),
    /// Run a Python script; with --service, connect() without an address finds it
    Run(Run),
    /// Show what the datasets of a Python script do, and why
    Explain(Explain),
    /// List, show and retry the samples that were put in quarantine
    Quarantine(Quarantine),
    /// List, verify and remove what `cache()` keeps in a folder or a store
    Cache(KeptRows),
    /// Check, print or repair the state of a dispatcher that does not run
    Ledger(Ledger),
    /// Measure this machine, beside the rivals that are installed
    Bench(Bench),
    /// Say what a job would take and cost, by who decides on its workers
    Sim(Sim),
    /// Prove on this machine what is promised
    Selftest(Selftest),
    /// Make tokens: who may use a service, and as what
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
}
