//! The dispatcher's and the worker's process: settings in, serve, leave in order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_core::Result;
use forebay_dispatcher::{Dispatcher, Timing};
use forebay_worker::{Functions, Worker};
use tokio::runtime::Runtime;

use crate::announce::Announcement;
use crate::lifetime::{exit_with_parent, stop_on_signal};

/// Threads that drive a process's connections. Computing has its own.
const NETWORK_THREADS: usize = 2;

/// How a process relates to the one that started it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Process {
    /// Print an [`Announcement`] once it listens.
    pub announce: bool,
    /// End at once when stdin ends.
    pub exit_with_parent: bool,
}

/// Settings of a dispatcher's process.
#[derive(Debug, Clone)]
pub struct DispatcherConfig {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The folder of its ledger and blobs.
    pub state_dir: PathBuf,
    /// Where the ledger is instead: `etcd://host:2379,host:2379/prefix`.
    pub store: Option<String>,
    /// `host:port` that others reach it at.
    pub advertise: Option<String>,
    /// A folder of blobs that several dispatchers share.
    pub blob_dir: Option<PathBuf>,
    /// How fast loss is noticed.
    pub timing: Timing,
    /// How it relates to its parent.
    pub process: Process,
}

/// Settings of a worker's process.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The dispatcher: `forebay://host:port` or `host:port`; several of one service with commas between them.
    pub dispatcher: String,
    /// Where it serves chunks.
    pub listen: SocketAddr,
    /// `host:port` that consumers reach it at. Default: where it listens.
    pub advertise: Option<String>,
    /// Threads that compute; 0 is one for each core.
    pub threads: usize,
    /// Splits that are waiting or being computed; 0 is twice the threads and two.
    pub slots: usize,
    /// Whether readers on this machine may map the memory of chunks.
    pub lend: bool,
    /// How it relates to its parent.
    pub process: Process,
}

/// Runs a dispatcher until it is told to stop.
///
/// # Errors
/// Conflict when the port or the state folder is in use; what the disk says.
pub fn dispatcher_main(config: DispatcherConfig) -> Result<()> {
    let runtime = runtime("forebay-dispatcher")?;
    let served = runtime.block_on(async {
        let stop = stop_on_signal()?;
        let mut options = forebay_dispatcher::Options::new(config.state_dir);
        (options.listen, options.timing) = (config.listen, config.timing);
        (options.store, options.advertise, options.blob_dir) = (config.store, config.advertise, config.blob_dir);
        let (address, dispatcher) = Dispatcher::bind(options).await?;
        settle(config.process, &address.to_string())?;
        dispatcher.run(stop).await
    });
    runtime.shutdown_background();
    served
}

/// Runs a worker until it is told to stop; then it serves what it holds, for 10 s at most.
///
/// # Errors
/// Conflict when the port is taken; Version when the dispatcher is another version.
pub fn worker_main(config: WorkerConfig, functions: Arc<dyn Functions>) -> Result<()> {
    let runtime = runtime("forebay-worker")?;
    let served = runtime.block_on(async {
        let stop = stop_on_signal()?;
        let options = forebay_worker::Options {
            listen: config.listen,
            advertise: config.advertise,
            threads: config.threads,
            slots: config.slots,
            lend: config.lend,
            functions,
            ..forebay_worker::Options::new(config.dispatcher)
        };
        let worker = Worker::bind(options).await?;
        settle(config.process, worker.address())?;
        worker.run(stop.cancelled_owned()).await
    });
    runtime.shutdown_background();
    served
}

fn settle(process: Process, address: &str) -> Result<()> {
    if process.exit_with_parent {
        exit_with_parent()?;
    }
    tracing::info!(address, "listening");
    if process.announce { Announcement::print(address) } else { Ok(()) }
}

fn runtime(name: &str) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(NETWORK_THREADS).thread_name(name).enable_all().build()?)
}
