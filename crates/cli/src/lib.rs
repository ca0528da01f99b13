//! The `forebay` command line: arguments in, an exit code out.
//!
//! Data goes to stdout, everything else to stderr; commands that print data have `--json`; every option can be set by
//! the `FOREBAY_*` variable that its help names. [`Host`] runs everything that needs Python.
//!
//! Not here: the work of the commands (`server`, `client`, `policy`). Each command has a file under `commands`.

#![expect(clippy::disallowed_methods, reason = "empty environment variables count as not set")]

mod arguments;
mod commands;
mod exit;
mod host;
mod machine;
mod output;
mod progress;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches};

use arguments::{Arguments, Command};
use exit::Failure;

pub use exit::Exit;
pub use host::{
    BenchSizes, Benched, DemoOptions, DemoRow, FaultRow, FaultsFound, FaultsOptions, Figure, Host, Native, RivalFigure,
    WarmOptions, Warmed,
};
pub use progress::{NotebookWriter, Progress, find_notebook_by};

/// Runs a command line (without the program's name) and returns the exit code: see [`Exit`].
pub fn run(args: Vec<OsString>, host: &dyn Host) -> i32 {
    let words = std::iter::once(OsString::from("forebay")).chain(args.iter().cloned());
    let parsed = without_empty_variables(Arguments::command()).try_get_matches_from(words);
    let command = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments.command,
        Err(help) => {
            // Help and version are data, and go to stdout; errors of the arguments to stderr. Clap separates the two.
            let _ = help.print();
            return if help.use_stderr() { Exit::Usage as i32 } else { Exit::Ok as i32 };
        }
    };
    let outcome = match command {
        Command::Up(up) => return code(commands::roles::up::run(up, host)),
        Command::Dispatcher(dispatcher) => return code(commands::roles::dispatcher::run(dispatcher)),
        Command::Worker(worker) => return code(commands::roles::worker::run(worker, host)),
        Command::Mount(mount) => return code(commands::roles::mount::run(mount, &args, host)),
        Command::Csi(csi) => return code(commands::roles::csi::run(csi, host)),
        Command::Demo(demo) => commands::trials::demo::run(&demo, host),
        Command::Jobs(jobs) => commands::service::jobs::run(&jobs),
        Command::Top(top) => commands::service::top::run(&top),
        Command::Dashboard(dashboard) => return code(commands::roles::dashboard::run(dashboard)),
        Command::Workers(workers) => commands::service::workers::run(&workers),
        Command::Scale(scale) => commands::service::scale::run(&scale),
        Command::Run(script) => return commands::run::run(&script, host).unwrap_or_else(|e| exit::report(&e)),
        Command::Explain(explain) => commands::explain::run(&explain, host),
        Command::Quarantine(of) => {
            return commands::service::quarantine::run(&of, host).unwrap_or_else(|e| exit::report(&e));
        }
        Command::Cache(kept) => commands::cache::run(kept, host),
        Command::Ledger(ledger) => commands::ledger::run(&ledger),
        Command::Bench(bench) => commands::trials::bench::run(&bench, host),
        Command::Sim(sim) => commands::trials::sim::run(&sim),
        Command::Selftest(selftest) => commands::trials::selftest::run(&selftest, host),
        Command::Token(token) => commands::token::run(&token),
        Command::Version(version) => commands::version::run(&version),
    };
    outcome.map_or_else(|e| exit::report(&e), |()| Exit::Ok as i32)
}

/// Returns the command line, in which an empty environment variable counts as not set.
fn without_empty_variables(command: clap::Command) -> clap::Command {
    let is_empty = |arg: &clap::Arg| {
        let variable = arg.get_env();
        variable.and_then(std::env::var_os).is_some_and(|value| value.is_empty())
    };
    let unset = |arg: clap::Arg| if is_empty(&arg) { arg.env(None::<&str>) } else { arg };
    command.mut_args(unset).mut_subcommands(without_empty_variables)
}

/// Returns the exit code of a command that checks its arguments.
fn code(outcome: Result<(), Failure>) -> i32 {
    outcome.map_or_else(|failure| failure.report(), |()| Exit::Ok as i32)
}
