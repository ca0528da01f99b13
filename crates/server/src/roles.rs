//! The dispatcher's and the worker's process: settings in, serve, leave in order.

#![expect(clippy::disallowed_methods, reason = "a certificate is compared with the clock")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use forebay_cache::{Cache, SourceCounts, SourceStats};
use forebay_client::JobKey;
use forebay_client::{Remote, TlsFiles};
use forebay_core::{Error, Result, SystemClock};
use forebay_dashboard::HttpOptions;
use forebay_dispatcher::{BlobLimits, Dispatcher, FileIndexer, Offer, Retention, Scaling, Timing};
use forebay_worker::{Functions, Local, Worker, WorkerType};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::cache::{CacheConfig, memory_budget};
use crate::children::announce::Announcement;
use crate::dashboard::RunningDashboard;
use crate::indexer::NearIndexer;
use crate::lifetime::{exit_with_parent, stop_on_signal};
use crate::local::{give_way, obey_parent, step_back};
use crate::metrics::{self, Birth, Metrics, Role};
use crate::open_files::allow_files;
use crate::private::keep_private;

/// Threads that drive a process's connections. Compute threads are separate.
const NETWORK_THREADS: usize = 2;
/// How long an ending worker waits for cached rows to be written. Shorter than its parent waits.
const FLUSH_MAX: Duration = Duration::from_secs(2);

/// The relation of a process to its parent.
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
    /// The address on which it listens.
    pub listen: SocketAddr,
    /// The folder of its ledger and blobs.
    pub state_dir: PathBuf,
    /// The ledger's store, if it is not in the folder: `etcd://host:2379,host:2379/prefix`.
    pub store: Option<String>,
    /// The `host:port` for clients and workers.
    pub advertise: Option<String>,
    /// A folder of blobs that several dispatchers share.
    pub blob_dir: Option<PathBuf>,
    /// Its certificates. Default: none, without encryption.
    pub tls: TlsFiles,
    /// The file of tokens. Default: none, every caller may do everything.
    pub tokens: Option<PathBuf>,
    /// How fast the loss of a peer is noticed.
    pub timing: Timing,
    /// The policy for the number of workers.
    pub scaling: Scaling,
    /// The kinds of workers that a provisioner can start.
    pub offers: Vec<Offer>,
    /// How long jobs that are over are kept.
    pub retention: Retention,
    /// The sources that pipelines may read, for tenants without a list of their own; if empty, all.
    pub allow_sources: Vec<String>,
    /// The limits of the blobs of all jobs.
    pub blobs: BlobLimits,
    /// The most bytes of one request.
    pub request_bytes_max: u64,
    /// The address for metrics, without authentication. Default: none.
    pub metrics: Option<SocketAddr>,
    /// The dashboard. Default: none.
    pub http: Option<HttpOptions>,
    /// The cache for the bytes of remote files that it reads to index them: in the folder, if one is named.
    pub cache: CacheConfig,
    /// Whether the state folder belongs to the parent, and is removed when the parent ends for any reason.
    pub is_temporary: bool,
    /// Its relation to its parent.
    pub process: Process,
}

/// Settings of a worker's process.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The dispatcher, or several of one service, and the credentials for them.
    pub dispatcher: Remote,
    /// The certificates that it listens with. Default: none, without encryption.
    pub tls: TlsFiles,
    /// The address on which it serves chunks.
    pub listen: SocketAddr,
    /// The `host:port` for consumers. Default: `listen`.
    pub advertise: Option<String>,
    /// Threads that compute; 0 is one for each core.
    pub threads: usize,
    /// Splits that wait or are being computed; 0 is twice the threads and two.
    pub slots: usize,
    /// The most memory for data. Default: half of the machine's or container's.
    pub memory: Option<u64>,
    /// Whether consumers on this machine may map the memory of chunks.
    pub lend: bool,
    /// The cache for the rows of `cache()`.
    pub cache: CacheConfig,
    /// The type of this worker.
    pub worker_type: WorkerType,
    /// The sources that pipelines may read here; if empty, all.
    pub allow_sources: Vec<String>,
    /// The address for metrics, without authentication. Default: none.
    pub metrics: Option<SocketAddr>,
    /// The only consumer of a local worker, whose process started it: the job, and the consumer's index. Default: none,
    /// it computes for all.
    pub local: Option<(u64, u32)>,
    /// The key that proves that this consumer started it.
    pub local_key: JobKey,
    /// Its relation to its parent.
    pub process: Process,
}

/// Runs a dispatcher until a signal ends it.
///
/// # Errors
/// Conflict when a port or the state folder is in use; errors of the disk.
pub fn dispatcher_main(config: DispatcherConfig) -> Result<()> {
    allow_files()?;
    keep_private();
    if config.state_dir.is_file() {
        return Err(Error::invalid("the state is kept in a folder, and this is a file")
            .with("file", config.state_dir.display())
            .hint("name a folder, which is created if it does not exist: --state-dir DIR"));
    }
    let (birth, certificate_ends) = (Birth::now(), certificate_ends(&config.tls)?);
    let cache = config.cache.for_sources().map(|cache| cache.open(&|error| tracing::warn!("{error}"))).transpose()?;
    let kept = cache.clone();
    let runtime = runtime("forebay-dispatcher")?;
    let served = runtime.block_on(async {
        let stop = stop_on_signal()?;
        let temporary = config.is_temporary.then(|| config.state_dir.clone());
        let mut options = forebay_dispatcher::Options::new(config.state_dir);
        (options.listen, options.timing, options.scaling) = (config.listen, config.timing, config.scaling);
        (options.store, options.advertise, options.blob_dir) = (config.store, config.advertise, config.blob_dir);
        (options.offers, options.retention) = (config.offers, config.retention);
        (options.blobs, options.request_bytes_max) = (config.blobs, config.request_bytes_max);
        options.allow_sources = config.allow_sources;
        (options.tls, options.tokens) = (config.tls.server()?, config.tokens);
        warn_of(config.listen, options.tls.is_some(), options.tokens.is_some());
        let indexer = NearIndexer { files: FileIndexer::of(&options), cache };
        let bound = Dispatcher::bind_with(options, Arc::new(indexer), Arc::new(SystemClock::default())).await?;
        let (address, dispatcher) = bound;
        let listener = listen(config.metrics).await?;
        let metrics = Metrics { role: Role::Dispatcher(dispatcher.view()), certificate_ends, birth };
        // The parent, which would remove the folder, was killed.
        let leave = || temporary.into_iter().for_each(|folder| _ = std::fs::remove_dir_all(folder));
        let calls = dispatcher.local_calls();
        let dashboard = config.http.map(|options| RunningDashboard::of_dispatcher(options, calls)).transpose()?;
        let http = dashboard.as_ref().map(|dashboard| dashboard.address().to_string());
        settle(config.process, &address.to_string(), http, leave)?;
        tokio::select! {
            served = dispatcher.run(stop) => served,
            never = metrics::serve(listener, metrics) => match never {},
        }
    });
    runtime.shutdown_background();
    kept.into_iter().for_each(|kept| _ = kept.flush(FLUSH_MAX));
    served
}

/// Runs a worker until a signal ends it; then it serves the splits that it holds, for 10 s at most.
///
/// # Errors
/// Conflict when the port is taken; Version when the dispatcher is another version.
pub fn worker_main(config: WorkerConfig, functions: Arc<dyn Functions>) -> Result<()> {
    allow_files()?;
    let (birth, certificate_ends) = (Birth::now(), certificate_ends(&config.tls)?);
    if config.local.is_some() {
        step_back();
    }
    let cache = config.cache.open(&|error| tracing::warn!("{error}"))?;
    let kept = cache.clone();
    let flush = move || {
        kept.flush(FLUSH_MAX);
        tell_sources(&kept);
    };
    let runtime = runtime("forebay-worker")?;
    let served = runtime.block_on(async {
        let stop = stop_on_signal()?;
        let tls = config.tls.server()?;
        warn_of(config.listen, tls.is_some(), config.dispatcher.credentials.token.is_some());
        let options = forebay_worker::Options {
            dispatcher: config.dispatcher,
            tls,
            listen: config.listen,
            advertise: config.advertise,
            threads: config.threads,
            slots: config.slots,
            memory: memory_budget(config.memory),
            lend: config.lend,
            functions,
            cache: Some(cache),
            worker_type: config.worker_type,
            allow_sources: config.allow_sources,
            prices: config.cache.prices,
            local: config.local.map(|reader| Local { consumer: reader, key: config.local_key, give_way }),
        };
        let worker = Worker::bind(options).await?;
        let listener = listen(config.metrics).await?;
        let metrics = Metrics { role: Role::Worker(worker.view()), certificate_ends, birth };
        if config.local.is_some() {
            obey_parent(worker.throttle(), flush.clone())?;
        }
        settle(config.process, worker.address(), None, flush.clone())?;
        tokio::select! {
            served = worker.run(stop.cancelled_owned()) => served,
            never = metrics::serve(listener, metrics) => match never {},
        }
    });
    runtime.shutdown_background();
    flush();
    served
}

/// Logs the bytes that were read of remote files.
fn tell_sources(cache: &Cache) {
    for SourceStats { what, counts, .. } in cache.stats().sources {
        let SourceCounts { asked, from_disk, fetched, corrupt, not_kept } = counts;
        tracing::info!(files = what, asked, from_disk, fetched, corrupt, not_kept, "bytes read of remote files");
    }
}

/// Listens for metrics requests, if there is an address for them.
async fn listen(metrics: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    match metrics {
        Some(at) => metrics::bind(at).await.map(Some),
        None => Ok(None),
    }
}

/// Returns when the own certificate expires, if there is one. A process with an invalid certificate does not start.
fn certificate_ends(tls: &TlsFiles) -> Result<Option<i64>> {
    let Some(validity) = tls.validity()? else { return Ok(None) };
    let file = tls.cert.as_deref().unwrap_or(Path::new("")).display();
    if let Some(soon) = validity.check(SystemTime::now()).map_err(|e| e.with("file", &file))? {
        tracing::warn!(%file, "{soon}: renew it, and restart this process");
    }
    Ok(Some(validity.ends))
}

/// Warns if the process can be reached from other machines without encryption or tokens.
fn warn_of(listen: SocketAddr, tls: bool, tokens: bool) {
    if listen.ip().is_loopback() || (tls && tokens) {
        return;
    }
    let open = match (tls, tokens) {
        (false, false) => "anyone who reaches this port can read and write everything, and run code on the workers",
        (false, true) => "tokens and data travel unencrypted",
        (true, _) => "anyone who reaches this port can use it, unless --tls-client-ca is set",
    };
    tracing::warn!(%listen, "NOT SECURED: {open}; see docs/security.md");
}

fn settle(process: Process, address: &str, http: Option<String>, leave: impl FnOnce() + Send + 'static) -> Result<()> {
    if process.exit_with_parent {
        exit_with_parent(leave)?;
    }
    tracing::info!(address, "listening");
    if process.announce { Announcement::print(address, http) } else { Ok(()) }
}

fn runtime(name: &str) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(NETWORK_THREADS).thread_name(name).enable_all().build()?)
}
