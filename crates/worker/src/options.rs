//! What a worker is told at its start, and the bounds that it keeps.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::Cache;
use forebay_data::MemoryBudget;
use forebay_exec::{Functions, NoFunctions, StorePrices};
use forebay_proto::{JobKey, Remote, ServerTls};

/// Splits that a worker holds, whatever their size, before it asks for no more.
pub(crate) const HELD_SPLITS_MAX: usize = 1024;
/// Chunks of a split of unknown length that are computed ahead of its reader before its thread waits.
pub(crate) const AHEAD_BYTES_MAX: usize = 32 << 20;
/// Chunks of splits of unknown length that are kept after they were sent, over all splits, in case a connection
/// breaks. Older ones are computed again when they are asked for.
pub(crate) const SENT_BYTES_MAX: usize = 256 << 20;
/// How often a morsel whose storage does not answer is tried again here before another worker gets the split.
pub(crate) const RETRIES_MAX: u32 = 4;
/// The pause before the first such retry; each next one is twice as long.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Blobs that are kept for the next job that needs them.
pub(crate) const BLOB_CACHE_BYTES_MAX: usize = 1 << 30;
/// How long a worker that leaves waits for its consumers to fetch what it holds.
pub(crate) const LEAVE_MAX: Duration = Duration::from_secs(10);

/// What a worker takes at most.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Threads that compute.
    pub(crate) threads: usize,
    /// Splits that are waiting or being computed.
    pub(crate) slots: usize,
    /// Chunks that it holds before it asks for no more.
    pub(crate) bytes: usize,
}

/// How a worker runs.
#[derive(Clone)]
pub struct Options {
    /// The dispatcher, or several of one service, and what to show them.
    pub dispatcher: Remote,
    /// Where it listens. Default: any free port of the loopback interface.
    pub listen: SocketAddr,
    /// `host:port` that consumers reach it at. Default: `listen`, or where that is every interface, the
    /// address of the one that leads to the dispatcher.
    pub advertise: Option<String>,
    /// Threads that compute. Default: 0, one for each core.
    pub threads: usize,
    /// Splits that are waiting or being computed. Default: 0, twice the threads and two.
    pub slots: usize,
    /// How much memory data may take. Default: as much as is of use.
    pub memory: MemoryBudget,
    /// Whether readers on this machine may map the memory of chunks, instead of being sent copies. Default: true.
    pub lend: bool,
    /// What it listens with. Default: none, in the clear.
    pub tls: Option<ServerTls>,
    /// Runs users' Python.
    pub functions: Arc<dyn Functions>,
    /// Where what is before `cache()` is kept, for all jobs. Default: nowhere.
    pub cache: Option<Arc<Cache>>,
    /// What kind of machine it is on. Default: nothing is said of it.
    pub worker_type: WorkerType,
    /// What pipelines may read here, whatever the dispatcher says: whole paths, and the beginnings of addresses. Default: empty, everything.
    pub allow_sources: Vec<String>,
    /// What the cache's store costs, and a worker. Default: nothing.
    pub prices: Option<StorePrices>,
    /// Where it computes for one reader alone. Default: for everybody.
    pub local: Option<Local>,
}

/// What is said of the machine that a worker is on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkerType {
    /// A name of one's own: `c5.4xlarge`. Empty says nothing.
    pub name: String,
    /// What it costs for an hour, in the currency of the service's other prices; 0 says nothing.
    pub price: f64,
    /// Whether it may be taken back at any time.
    pub spot: bool,
}

/// A local worker: it computes for the reader that started it, on that one's machine, with as many threads as it is told while
/// it runs (see [`Worker::throttle`](crate::Worker::throttle)); none at first. `threads` and `slots` of the options say
/// nothing of it.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// The job, by its number at the dispatcher, and which of its consumers.
    pub consumer: (u64, u32),
    /// What shows that this reader started it.
    pub key: JobKey,
    /// Called in each thread that computes, before it does.
    pub give_way: fn(),
}

/// Splits of a local worker beside those that its threads are at: what waits there waits behind the trainer.
pub(crate) const LOCAL_QUEUE: usize = 1;
/// The most that a local worker holds: the memory is the trainer's machine's.
const LOCAL_HELD_BYTES_MAX: usize = 256 << 20;

impl Options {
    /// Returns the defaults, for the worker of a dispatcher.
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

    /// Returns the bounds that it begins with.
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
