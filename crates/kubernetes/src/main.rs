//! `forebay-operator` runs Forebay inside a Kubernetes cluster, with one subcommand for each task.
//!
//! ```text
//! operate   the controllers and the admission webhook      scale   sets the replicas that a dispatcher wants
//! wait      an init container that waits for a cache       crd     prints the CustomResourceDefinitions
//! ```
//!
//! `operate` runs all controllers in one process, and only in the elected leader. Each controller has its own folder.
//! README.md shows the path from a watch event to a reconcile.

mod api;
mod caches;
mod cluster;
mod engines;
mod operate;

mod scale;
mod services;
mod wait;
mod webhook;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use forebay_core::Result;
use tokio::signal::unix::{SignalKind, signal};

/// Run Forebay on Kubernetes: caches for jobs, and workers as a service needs them
#[derive(Debug, Parser)]
#[command(name = "forebay-operator", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the caches that jobs name, before their pods run, and keep services
    Operate(operate::Arguments),
    /// Scale a StatefulSet or Deployment to the number of workers that a service needs
    Scale(Box<scale::Arguments>),
    /// Wait until a file of the pod's annotations says that its cache is ready
    Wait(wait::Arguments),
    /// Print the CustomResourceDefinitions as YAML
    Crd {
        /// That of caches, with rules that the API server checks from Kubernetes 1.25 on
        #[arg(long)]
        rules: bool,
    },
}

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_env("FOREBAY_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(run(Arguments::parse().command))
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command until it ends, or until a signal arrives.
async fn run(command: Command) -> Result<()> {
    let stop = stopped()?;
    let command = match command {
        // On SIGTERM the operator releases its Lease before it exits.
        Command::Operate(arguments) => return operate::run(arguments, stop).await,
        other => other,
    };
    let work = async {
        match command {
            Command::Operate(_) => Ok(()),
            Command::Scale(arguments) => scale::run(*arguments).await,
            Command::Wait(arguments) => wait::run(&arguments).await,
            Command::Crd { rules } => {
                let yaml = if rules { api::definition::yaml_with_rules } else { api::definition::yaml };
                print!("{}", yaml());
                Ok(())
            }
        }
    };
    tokio::select! {
        done = work => done,
        () = stop => Ok(()),
    }
}

/// Returns a future that completes on SIGTERM or SIGINT.
fn stopped() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
