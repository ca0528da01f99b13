//! `forebay-operator scale`: sets the replicas of a StatefulSet or Deployment of workers to the wanted number.
//!
//! ```text
//! dispatcher   asks the dispatcher for the wanted workers      scaler   decides when to change the replicas
//! workload     reads and scales the workload                   cause    the cause of pods that are not ready
//! ```
//!
//! Kubernetes starts, restarts and schedules the pods, with its own backoff. This process sets the replicas, by the
//! rules of all provisioners (`policy::provision`). Invariants: the replicas are from 1 (0 for a worker type) to
//! `--max-workers`; they stay while the wanted number is unknown; a failure doubles the backoff, up to 60 s; each
//! request has a timeout. The process has no durable state: without it, the replicas stay as they are.

pub(crate) mod cause;
mod dispatcher;
mod scaler;
#[cfg(test)]
mod tests;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use forebay_core::{Clock, Result, SystemClock};
use forebay_proto::{Credentials, Remote, TlsFiles};

use dispatcher::DispatcherClient;
use scaler::{Outcome, Scaler};
use workload::{Kind, WorkloadClient};

pub(crate) use scaler::{CONCURRENT_STARTS, plan};
pub(crate) use workload::Workload;

/// Interval between two steps of the scaler.
const INTERVAL: Duration = Duration::from_secs(5);

/// The arguments of `forebay-operator scale`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("workload").required(true))]
pub(crate) struct Arguments {
    /// Address of the dispatcher: forebay://host:port or host:port; of several, with commas between them
    #[arg(long, env = "FOREBAY_DISPATCHER", value_name = "HOST:PORT")]
    dispatcher: String,
    /// The StatefulSet whose pods are workers
    #[arg(long, value_name = "NAME", group = "workload")]
    statefulset: Option<String>,
    /// The Deployment whose pods are workers
    #[arg(long, value_name = "NAME", group = "workload")]
    deployment: Option<String>,
    /// Namespace of the StatefulSet or Deployment [default: the one of this pod]
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Worker type of these workers, as in the dispatcher's --offer [default: the dispatcher has no worker types]
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,
    /// With --kind: these are its spot workers
    #[arg(long, requires = "kind")]
    spot: bool,
    /// Maximum number of workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_workers: u32,
    /// PEM file of the authority that signed the service's certificates; turns TLS on
    #[arg(long, env = "FOREBAY_TLS_CA", value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file of the caller's certificate chain
    #[arg(long, env = "FOREBAY_TLS_CERT", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// PEM file of the certificate's key
    #[arg(long, env = "FOREBAY_TLS_KEY", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Name that the service's certificates must carry [default: the host of the address]
    #[arg(long, env = "FOREBAY_TLS_NAME", value_name = "NAME")]
    tls_name: Option<String>,
    /// File with an administrator's bearer token [default: the token in FOREBAY_TOKEN]
    #[arg(long, env = "FOREBAY_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    // Of the environment alone: other users see command lines.
    #[arg(long, env = "FOREBAY_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

impl Arguments {
    fn remote(&self) -> Result<Remote> {
        let tls = TlsFiles {
            ca: self.tls_ca.clone(),
            cert: self.tls_cert.clone(),
            key: self.tls_key.clone(),
            name: self.tls_name.clone(),
            client_ca: None,
        };
        let credentials = Credentials::load(&tls, self.token.as_deref(), self.token_file.as_deref())?;
        let remote = Remote { address: self.dispatcher.clone(), credentials };
        remote.addresses()?;
        Ok(remote)
    }

    /// The workload of the arguments: the parser accepts exactly one.
    fn workload(&self) -> (Kind, &str) {
        match &self.statefulset {
            Some(name) => (Kind::StatefulSet, name),
            None => (Kind::Deployment, self.deployment.as_deref().unwrap_or_default()),
        }
    }
}

/// Scales until the process ends.
///
/// # Errors
/// Invalid for an invalid argument, or without a kubeconfig or service account.
pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let (kind, name) = arguments.workload();
    let workload = WorkloadClient::connect(arguments.namespace.clone(), kind, name).await?;
    let (workers_min, kind) = (u32::from(arguments.kind.is_none()), arguments.kind.clone());
    let mut dispatcher = DispatcherClient::new(arguments.remote()?, kind.map(|kind| (kind, arguments.spot)));
    let clock = SystemClock::default();
    let mut scaler = Scaler::new(workload, workers_min, arguments.max_workers);
    tracing::info!(dispatcher = arguments.dispatcher, workload = %scaler.workload, "scaling");
    loop {
        let wanted = dispatcher.wanted().await;
        log(&scaler.step(clock.now(), wanted).await, &scaler.workload);
        tokio::time::sleep(INTERVAL).await;
    }
}

fn log(outcome: &Outcome, workload: &WorkloadClient) {
    match outcome {
        Outcome::Unchanged => {}
        Outcome::Scaled { from, to } => tracing::info!(%workload, from, to, "scaled"),
        Outcome::PodsMissing { missing, why } => tracing::warn!(%workload, missing, why, "workers do not come"),
        Outcome::Failed { error, pause } => {
            let hint = error.get("hint").unwrap_or_default();
            tracing::error!(%workload, error = error.message(), hint, ?pause, "not scaled; tried again after a pause");
        }
    }
}
