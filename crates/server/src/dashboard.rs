//! The dashboard: in a dispatcher's process, beside an `up`, or by itself.
//!
//! It has a runtime of its own with one thread, so that the threads that serve workers and consumers never wait for a
//! page. In a dispatcher's process it calls the dispatcher without a connection; otherwise it is a client like others.

use std::net::SocketAddr;
use std::sync::Arc;

use forebay_client::Remote;
use forebay_core::Result;
use forebay_dashboard::{Caller, Calls, Dashboard, HttpOptions, RemoteCalls};
use forebay_dispatcher::{LocalCaller, LocalCalls};
use forebay_proto::{GetScaleResponse, JobStatus, WorkerStatus};
use tokio::runtime::Runtime;

use crate::children::announce::Announcement;
use crate::lifetime::{exit_with_parent, stop_on_signal};
use crate::roles::Process;

/// A dashboard that serves until it is dropped.
pub struct RunningDashboard {
    address: SocketAddr,
    /// `None` once it is over.
    runtime: Option<Runtime>,
}

impl RunningDashboard {
    /// Starts a dashboard of a service. Its pages have the rights of their visitors; `service` has the credentials with
    /// which it samples the history.
    ///
    /// # Errors
    /// Conflict when the port is taken; Invalid when it cannot be opened; errors of starting a thread.
    pub fn of_service(options: HttpOptions, service: Remote) -> Result<Self> {
        Self::start(options, Arc::new(RemoteCalls::new(service)))
    }

    /// Starts the dashboard of a dispatcher in this process.
    ///
    /// # Errors
    /// As [`RunningDashboard::of_service`].
    pub(crate) fn of_dispatcher(options: HttpOptions, calls: LocalCalls) -> Result<Self> {
        if !calls.needs_token() && !options.listen.ip().is_loopback() {
            tracing::warn!(
                listen = %options.listen,
                "NOT SECURED: anyone who reaches the dashboard sees all jobs and workers; see docs/dashboard.md"
            );
        }
        Self::start(options, Arc::new(OwnDispatcher(calls)))
    }

    fn start(options: HttpOptions, calls: Arc<dyn Calls>) -> Result<Self> {
        let listen = options.listen;
        let dashboard = Dashboard::bind(options)?;
        let address = dashboard.address();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).thread_name("forebay-dashboard").enable_all().build()?;
        runtime.spawn(async move {
            let Err(error) = dashboard.run(calls).await;
            tracing::error!(%error, "the dashboard has ended");
        });
        if !listen.ip().is_loopback() {
            tracing::warn!(%address, "the dashboard is not encrypted: tokens and figures travel in the clear");
        }
        tracing::info!(address = format!("http://{address}/"), "dashboard");
        Ok(Self { address, runtime: Some(runtime) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for RunningDashboard {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs a dashboard until a signal ends it.
///
/// # Errors
/// As [`RunningDashboard::of_service`].
pub fn dashboard_main(options: HttpOptions, service: Remote, process: Process) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stop = stop_on_signal()?;
        let running = RunningDashboard::of_service(options, service)?;
        if process.exit_with_parent {
            exit_with_parent(|| ())?;
        }
        if process.announce {
            Announcement::print(&running.address().to_string(), None)?;
        }
        stop.cancelled().await;
        Ok(())
    })
}

/// The dispatcher of this process.
struct OwnDispatcher(LocalCalls);

fn local(caller: &Caller) -> LocalCaller<'_> {
    match caller {
        Caller::Own => LocalCaller::Process,
        Caller::Visitor(token) => LocalCaller::Bearer(token.as_ref()),
    }
}

#[tonic::async_trait]
impl Calls for OwnDispatcher {
    async fn jobs(&self, caller: &Caller, name: &str) -> Result<Vec<JobStatus>> {
        self.0.jobs(local(caller), name).await
    }

    async fn workers(&self, caller: &Caller) -> Result<Vec<WorkerStatus>> {
        self.0.workers(local(caller)).await
    }

    async fn scale(&self, caller: &Caller) -> Result<GetScaleResponse> {
        self.0.scale(local(caller)).await
    }

    fn as_seen(&self, caller: &Caller) -> Caller {
        // Without tokens all callers see the same, so they share answers.
        if self.0.needs_token() { caller.clone() } else { Caller::Own }
    }
}
