//! The settings of a dispatcher. Plain data.

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
    /// The address that it listens on. Default: 127.0.0.1:7070; port 0 takes any free port.
    pub listen: SocketAddr,
    /// The folder of its ledger and blobs, for one dispatcher at a time.
    pub state_dir: PathBuf,
    /// The ledger's store for several dispatchers of which one leads: `etcd://host:2379,host:2379/prefix`. The state
    /// folder is then this dispatcher's own cache. Default: none, the ledger is in the state folder.
    pub store: Option<String>,
    /// With `store`, the `host:port` where clients and workers reach it. Default: `listen`, or if that is every
    /// interface, the address of the interface that leads to the store.
    pub advertise: Option<String>,
    /// A folder for blobs that all dispatchers share; each service has its own folder in it. Default: with `store`,
    /// blobs of up to 64 MiB each are in etcd; else they are in the state folder.
    pub blob_dir: Option<PathBuf>,
    /// The certificates for TLS. Default: none, connections are not encrypted.
    pub tls: Option<ServerTls>,
    /// The file of tokens, with the role of each caller. Default: none, every caller may do everything.
    pub tokens: Option<PathBuf>,
    /// How fast the loss of a peer is noticed.
    pub timing: Timing,
    /// The policy that decides how many workers jobs get.
    pub scaling: Scaling,
    /// The types of workers that a provisioner can start. Default: none, and a single number of workers is wanted.
    pub offers: Vec<Offer>,
    /// How long jobs that are over are kept.
    pub retention: Retention,
    /// The sources that pipelines may read, for tenants without a list of their own: whole paths, and prefixes of
    /// addresses. Default: empty, all sources.
    pub allow_sources: Vec<String>,
    /// The most bytes of one blob. Default: 16 GiB.
    pub blob_bytes_max: u64,
    /// The limits of all blobs together.
    pub blobs: BlobLimits,
    /// The most bytes of one request. The open requests of a tenant may take as many together, those of all tenants
    /// twice as many. Default: 64 MiB.
    pub request_bytes_max: u64,
    /// How many files are read at a time while a source is indexed. Default: 8.
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

/// How many workers jobs get.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The policy. Default: `forebay`.
    pub policy: Policy,
    /// The figure that the policy minimises; only `forebay` has objectives. Default: [`Objective::Time`].
    pub objective: Objective,
    /// The most workers that are ever wanted, for one job and for all together. Default: 1024.
    pub workers_max: u32,
}

impl Scaling {
    /// Checks that the policy and the objective go together.
    ///
    /// # Errors
    /// Invalid when the policy has no objectives.
    pub fn check(&self) -> Result<()> {
        if self.objective != Objective::Time && !self.policy.initial().has_objectives() {
            let (policy, objective) = (&self.policy, self.objective);
            return Err(Error::invalid(format!("the policy {policy} does not support the objective {objective}"))
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

/// How long jobs that are over are kept. The profiles of their datasets stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many finished or cancelled jobs of each tenant are kept: the last ones. The same number is kept of
    /// unfinished jobs without a consumer for an hour. Default: 1000.
    pub jobs: usize,
    /// How long an unread job is kept, finished or not, since its last consumer left or since the dispatcher started.
    /// Default: 7 days.
    pub age: Duration,
    /// How long blobs that no job needs are kept: longer than clients take from the upload to opening the job. Default:
    /// 1 hour.
    pub blobs: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { jobs: 1000, age: Duration::from_secs(7 * 24 * 3600), blobs: Duration::from_secs(3600) }
    }
}

/// How fast the loss of a peer is noticed. Only a monotonic clock is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often a worker sends a heartbeat. Default: 400 ms.
    pub heartbeat: Duration,
    /// Silence after which a worker's leases go to others. Default: 2 s.
    pub lease: Duration,
    /// How long a worker whose connection broke may take to come back before its leases go to others. Default: 0,
    /// because a broken connection is nearly always a dead process, and splits are cheap to compute again.
    pub reconnect_grace: Duration,
    /// After this time a lost worker that did not come back counts as dead, perhaps because of a split. Default: 5 s,
    /// longer than most network partitions.
    pub presumed_dead: Duration,
    /// How long the splits of a consumer without a process stay on their workers. Default: 10 s.
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
