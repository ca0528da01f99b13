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
use forebay_dispatcher::{BlobLimits, Dispatcher, FileIndexer, Offer, Retention, Scaling, Timing};
use forebay_worker::{Functions, Local, Worker, WorkerType};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::announce::Announcement;
use crate::cache::{CacheConfig, memory_budget};
use crate::indexer::NearIndexer;
use crate::lifetime::{exit_with_parent, stop_on_signal};
use crate::local::{give_way, obey_parent, step_back};
use crate::metrics::{self, Birth, Metrics, Role};
use crate::open_files::allow_files;
use crate::private::keep_private;

/// Threads that drive a process's connections. Computing has its own.
const NETWORK_THREADS: usize = 2;
/// How long a worker that ends waits for rows to be written that a later one would find. Shorter than its parent waits.
const FLUSH_MAX: Duration = Duration::from_secs(2);

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
    /// Its certificates. Default: none, in the clear.
    pub tls: TlsFiles,
    /// The file of tokens. Default: none, everybody may do everything.
    pub tokens: Option<PathBuf>,
    /// How fast loss is noticed.
    pub timing: Timing,
    /// Who decides how many workers jobs get.
    pub scaling: Scaling,
    /// Which kinds of workers can be started, by whoever does.
    pub offers: Vec<Offer>,
    /// What is remembered of jobs that are over.
    pub retention: Retention,
    /// What pipelines may read, of tenants that have no list of their own; empty is everything.
    pub allow_sources: Vec<String>,
    /// What the blobs of all jobs may take.
    pub blobs: BlobLimits,
    /// The most bytes of one request.
    pub request_bytes_max: u64,
    /// Where it serves metrics, to whoever reaches it. Default: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Where it keeps the bytes of remote files that it reads to index them: in the folder, if one is named.
    pub cache: CacheConfig,
    /// Whether the state folder is the parent's alone, and goes with it, however it ends.
    pub is_temporary: bool,
    /// How it relates to its parent.
    pub process: Process,
}

/// Settings of a worker's process.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// The dispatcher, or several of one service, and what to show them.
    pub dispatcher: Remote,
    /// The certificates that it listens with. Default: none, in the clear.
    pub tls: TlsFiles,
    /// Where it serves chunks.
    pub listen: SocketAddr,
    /// `host:port` that consumers reach it at. Default: where it listens.
    pub advertise: Option<String>,
    /// Threads that compute; 0 is one for each core.
    pub threads: usize,
    /// Splits that are waiting or being computed; 0 is twice the threads and two.
    pub slots: usize,
    /// How much memory data may take. Default: half of the machine's or container's.
    pub memory: Option<u64>,
    /// Whether readers on this machine may map the memory of chunks.
    pub lend: bool,
    /// Where it keeps what `cache()` keeps.
    pub cache: CacheConfig,
    /// The type of this worker.
    pub worker_type: WorkerType,
    /// What pipelines may read here; empty is everything.
    pub allow_sources: Vec<String>,
    /// Where it serves metrics, to whoever reaches it. Default: nowhere.
    pub metrics: Option<SocketAddr>,
    /// Where it computes for one reader alone, whose process started it: the job, and which of its consumers. Default: for
    /// everybody.
    pub local: Option<(u64, u32)>,
    /// What shows that this reader started it.
    pub local_key: JobKey,
    /// How it relates to its parent.
    pub process: Process,
}

/// Runs a dispatcher until it is told to stop.
///
/// # Errors
/// Conflict when a port or the state folder is in use; what the disk says.
pub fn dispatcher_main(config: DispatcherConfig) -> Result<()> {
    allow_files()?;
    keep_private();
    if config.state_dir.is_file() {
        return Err(Error::invalid("the state is kept in a folder, and this is a file")
            .with("file", config.state_dir.display())
            .hint("name a folder, which is made where it is not there: --state-dir DIR"));
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
        // Whoever else could, was killed.
        let leave = || temporary.into_iter().for_each(|folder| _ = std::fs::remove_dir_all(folder));
        settle(config.process, &address.to_string(), leave)?;
        tokio::select! {
            served = dispatcher.run(stop) => served,
            never = metrics::serve(listener, metrics) => match never {},
        }
    });
    runtime.shutdown_background();
    kept.into_iter().for_each(|kept| _ = kept.flush(FLUSH_MAX));
    served
}

/// Runs a worker until it is told to stop; then it serves what it holds, for 10 s at most.
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
        settle(config.process, worker.address(), flush.clone())?;
        tokio::select! {
            served = worker.run(stop.cancelled_owned()) => served,
            never = metrics::serve(listener, metrics) => match never {},
        }
    });
    runtime.shutdown_background();
    flush();
    served
}

/// Says what was read of remote files.
fn tell_sources(cache: &Cache) {
    for SourceStats { what, counts, .. } in cache.stats().sources {
        let SourceCounts { asked, from_disk, fetched, corrupt, not_kept } = counts;
        tracing::info!(files = what, asked, from_disk, fetched, corrupt, not_kept, "bytes of remote files");
    }
}

/// Listens for those who read metrics, if they may.
async fn listen(metrics: Option<SocketAddr>) -> Result<Option<TcpListener>> {
    match metrics {
        Some(at) => metrics::bind(at).await.map(Some),
        None => Ok(None),
    }
}

/// Returns when the own certificate ends, where there is one: a process that nobody would trust does not start.
fn certificate_ends(tls: &TlsFiles) -> Result<Option<i64>> {
    let Some(validity) = tls.validity()? else { return Ok(None) };
    let file = tls.cert.as_deref().unwrap_or(Path::new("")).display();
    if let Some(soon) = validity.check(SystemTime::now()).map_err(|e| e.with("file", &file))? {
        tracing::warn!(%file, "{soon}: renew it, and start this process again");
    }
    Ok(Some(validity.ends))
}

/// Warns who can be reached from other machines and is open to them.
fn warn_of(listen: SocketAddr, tls: bool, tokens: bool) {
    if listen.ip().is_loopback() || (tls && tokens) {
        return;
    }
    let open = match (tls, tokens) {
        (false, false) => "whoever reaches it may read and write everything, and run code on the workers",
        (false, true) => "tokens and data travel in the clear",
        (true, _) => "whoever reaches it may use it, unless --tls-client-ca keeps strangers out",
    };
    tracing::warn!(%listen, "NOT SECURED: {open}; see docs/security.md");
}

fn settle(process: Process, address: &str, leave: impl FnOnce() + Send + 'static) -> Result<()> {
    if process.exit_with_parent {
        exit_with_parent(leave)?;
    }
    tracing::info!(address, "listening");
    if process.announce { Announcement::print(address) } else { Ok(()) }
}

fn runtime(name: &str) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(NETWORK_THREADS).thread_name(name).enable_all().build()?)
}
