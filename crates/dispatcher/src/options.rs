//! What can be set of a dispatcher. Plain data.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_policy::fleet::Offer;
use forebay_policy::placement::Objective;
use forebay_policy::scaling::Policy;
use forebay_proto::ServerTls;

use crate::store::BlobLimits;

/// Settings of a dispatcher.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens. Default: 127.0.0.1:7070; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The folder of its ledger and blobs. One dispatcher at a time.
    pub state_dir: PathBuf,
    /// Where the ledger is instead, for several dispatchers of which one leads: `etcd://host:2379,host:2379/prefix`. The
    /// state folder is then a cache of this dispatcher's own. Default: none.
    pub store: Option<String>,
    /// With `store`, `host:port` that clients and workers reach it at. Default: `listen`, or where that is every
    /// interface, the address of the one that leads to the store.
    pub advertise: Option<String>,
    /// Where blobs are instead: a folder that all dispatchers share, in which each service has its own. Default: with `store`, in etcd,
    /// up to 64 MiB each.
    pub blob_dir: Option<PathBuf>,
    /// What it listens with. Default: none, in the clear.
    pub tls: Option<ServerTls>,
    /// The file of tokens: who may call, and as what. Default: none, everybody may do everything.
    pub tokens: Option<PathBuf>,
    /// How fast loss is noticed.
    pub timing: Timing,
    /// Who decides how many workers jobs get.
    pub scaling: Scaling,
    /// Which kinds of workers can be started, by whoever does. Default: none, and it is one number of workers that is wanted.
    pub offers: Vec<Offer>,
    /// What is remembered of jobs that are over.
    pub retention: Retention,
    /// What pipelines may read, of tenants that have no list of their own: whole paths, and the beginnings of addresses. Default: empty,
    /// everything.
    pub allow_sources: Vec<String>,
    /// The most bytes of one blob. Default: 16 GiB.
    pub blob_bytes_max: u64,
    /// What blobs may take together.
    pub blobs: BlobLimits,
    /// The most bytes of one request; those of a tenant that are here at once take as many, and those of all twice as many. Default: 64 MiB.
    pub request_bytes_max: u64,
    /// How many files are looked at together while a source is indexed. Default: 8.
    pub index_threads: usize,
}

impl Options {
    /// Returns the defaults for a state folder.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, forebay_proto::PORT)),
            state_dir: state_dir.into(),
            store: None,
            advertise: None,
            blob_dir: None,
            tls: None,
            tokens: None,
            timing: Timing::default(),
            scaling: Scaling::default(),
            offers: Vec::new(),
            retention: Retention::default(),
            allow_sources: Vec::new(),
            blob_bytes_max: 16 << 30,
            blobs: BlobLimits::default(),
            request_bytes_max: forebay_proto::REQUEST_BYTES_MAX as u64,
            index_threads: 8,
        }
    }
}

/// How it is decided how many workers jobs get.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Who decides. Default: [`Policy::Forebay`].
    pub policy: Policy,
    /// What it makes small; only [`Policy::Forebay`] asks. Default: [`Objective::Time`].
    pub objective: Objective,
    /// The most workers that are ever wanted, for one job and for all together. Default: 1024.
    pub workers_max: u32,
}

impl Scaling {
    /// Checks that they go together.
    ///
    /// # Errors
    /// Invalid: a policy that does not ask what is to be made small is told.
    pub fn check(&self) -> Result<()> {
        if self.objective != Objective::Time && self.policy != Policy::Forebay {
            let (policy, objective) = (self.policy, self.objective);
            return Err(Error::invalid(format!("the policy {policy} knows nothing of the objective {objective}"))
                .hint("leave one of them out"));
        }
        self.objective.check()
    }
}

impl Default for Scaling {
    fn default() -> Self {
        Self { policy: Policy::default(), objective: Objective::default(), workers_max: 1024 }
    }
}

/// What is remembered of jobs that are over. What was learned of their datasets stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many jobs that are finished or were cancelled are remembered, of each tenant: the last ones. As many that are neither, and that
    /// nobody has read for an hour. Default: 1000.
    pub jobs: usize,
    /// How long a job is remembered that nobody reads, also one that is not finished, since its last consumer left or since the
    /// dispatcher was started. Default: 7 days.
    pub age: Duration,
    /// How long blobs are kept that no job needs: longer than clients take from handing them in to opening a job. Default: 1 hour.
    pub blobs: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { jobs: 1000, age: Duration::from_secs(7 * 24 * 3600), blobs: Duration::from_secs(3600) }
    }
}

/// How fast loss is noticed. Compared with a monotonic clock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a worker says that it lives. Default: 400 ms.
    pub heartbeat: Duration,
    /// Silence after which a worker's leases go to others. Default: 2 s.
    pub lease: Duration,
    /// How long a worker whose connection broke may take to come back before its leases go to others.
    /// Default: 0, because a broken connection is nearly always a dead process, and splits are cheap to compute again.
    pub reconnect_grace: Duration,
    /// After this, a worker that was lost and has not come back is held to have died, of a split perhaps. Default: 5 s,
    /// longer than most cuts of a network.
    pub presumed_dead: Duration,
    /// How long the splits of a consumer that is gone stay on their workers. Default: 10 s.
    pub consumer_timeout: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(400),
            lease: Duration::from_secs(2),
            reconnect_grace: Duration::ZERO,
            presumed_dead: Duration::from_secs(5),
            consumer_timeout: Duration::from_secs(10),
        }
    }
}
