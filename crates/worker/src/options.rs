//! The options of a worker, and its bounds.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::Cache;
use forebay_data::MemoryBudget;
use forebay_exec::{Functions, NoFunctions, StorePrices};
use forebay_proto::{JobKey, Remote, ServerTls};

/// Splits of any size that a worker may hold before it requests no more.
pub(crate) const HELD_SPLITS_MAX: usize = 1024;
/// Bytes of chunks of a split of unknown length that a thread computes ahead of the consumer before it waits.
pub(crate) const AHEAD_BYTES_MAX: usize = 32 << 20;
/// Bytes of chunks of unknown-length splits that are kept after they were sent, over all splits, in case a connection
/// breaks. Chunks beyond this are computed again when they are requested.
pub(crate) const SENT_BYTES_MAX: usize = 256 << 20;
/// How often a morsel is retried here when its storage does not answer, before another worker gets the split.
pub(crate) const RETRIES_MAX: u32 = 4;
/// The pause before the first retry; it doubles each time.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of blobs that are cached for later jobs.
pub(crate) const BLOB_CACHE_BYTES_MAX: usize = 1 << 30;
/// How long a worker that leaves waits for consumers to fetch the splits that it holds.
pub(crate) const LEAVE_MAX: Duration = Duration::from_secs(10);

/// The most work that a worker accepts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Threads that compute.
    pub(crate) threads: usize,
    /// Splits that wait or are being computed.
    pub(crate) slots: usize,
    /// Bytes of chunks that it holds before it requests no more splits.
    pub(crate) bytes: usize,
}

/// The options of a worker.
#[derive(Clone)]
pub struct Options {
    /// The dispatcher, or several of one service, and the credentials for it.
    pub dispatcher: Remote,
    /// The address to listen on. Default: any free port of the loopback interface.
    pub listen: SocketAddr,
    /// `host:port` at which consumers reach it. Default: `listen`; if that is every interface, the address of the
    /// interface that leads to the dispatcher.
    pub advertise: Option<String>,
    /// Threads that compute. Default: 0, one for each core.
    pub threads: usize,
    /// Splits that wait or are being computed. Default: 0, twice the threads and two.
    pub slots: usize,
    /// The most memory for data. Default: as much as is useful.
    pub memory: MemoryBudget,
    /// Whether consumers on this machine may map the memory of chunks instead of getting copies. Default: true.
    pub lend: bool,
    /// The certificate to listen with. Default: none, unencrypted.
    pub tls: Option<ServerTls>,
    /// Runs users' Python.
    pub functions: Arc<dyn Functions>,
    /// The cache of rows before `cache()`, for all jobs. Default: none.
    pub cache: Option<Arc<Cache>>,
    /// The type of this worker. Default: not given.
    pub worker_type: WorkerType,
    /// The sources that pipelines may read here, in addition to the dispatcher's limits: whole paths, and prefixes of
    /// addresses. Default: empty, all sources.
    pub allow_sources: Vec<String>,
    /// The prices of the cache's store and of a worker. Default: free.
    pub prices: Option<StorePrices>,
    /// The consumer that a local worker computes for. Default: none; it computes for all jobs.
    pub local: Option<Local>,
}

/// The type of a worker: the machine that it runs on, and its price.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerType {
    /// A free name, such as `c5.4xlarge`. Empty: not given.
    pub name: String,
    /// The price of one hour, in the currency of the service's other prices; 0: not given.
    pub price: f64,
    /// Whether the provider may take the machine back at any time.
    pub spot: bool,
}

/// A local worker computes for the consumer that started it, on that consumer's machine. The number of its threads is
/// set while it runs (see [`Worker::throttle`](crate::Worker::throttle)) and starts at zero; `threads` and `slots` of
/// the options do not apply.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// The job, by its number at the dispatcher, and the consumer's index.
    pub consumer: (u64, u32),
    /// The key that proves that this consumer started it.
    pub key: JobKey,
    /// Called once in each thread, before it computes.
    pub give_way: fn(),
}

/// Splits of a local worker beyond the ones that its threads compute. Splits that wait there wait behind the trainer.
pub(crate) const LOCAL_QUEUE: usize = 1;
/// The most bytes that a local worker holds, because the memory is that of the trainer's machine.
const LOCAL_HELD_BYTES_MAX: usize = 256 << 20;

impl Options {
    /// Returns the default options for a worker of this dispatcher.
    pub fn new(dispatcher: impl Into<String>) -> Self {
        Self {
            dispatcher: Remote::new(dispatcher),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertise: None,
            threads: 0,
            slots: 0,
            memory: MemoryBudget::default(),
            lend: true,
            tls: None,
            functions: Arc::new(NoFunctions),
            cache: None,
            worker_type: WorkerType::default(),
            allow_sources: Vec::new(),
            prices: None,
            local: None,
        }
    }

    /// Returns the bounds at the start.
    pub(crate) fn bounds(&self) -> Bounds {
        match self.local {
            None => Bounds { threads: self.threads(), slots: self.slots(), bytes: self.memory.held() },
            Some(_) => Bounds { threads: 0, slots: 0, bytes: self.memory.held().min(LOCAL_HELD_BYTES_MAX) },
        }
    }

    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        }
    }

    fn slots(&self) -> usize {
        match self.slots {
            0 => self.threads() * 2 + 2,
            n => n,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("dispatcher", &self.dispatcher)
            .field("listen", &self.listen)
            .field("advertise", &self.advertise)
            .field("threads", &self.threads)
            .field("slots", &self.slots)
            .field("memory", &self.memory)
            .field("lend", &self.lend)
            .field("tls", &self.tls)
            .field("cache", &self.cache)
            .field("worker_type", &self.worker_type)
            .field("prices", &self.prices)
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
