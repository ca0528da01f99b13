//! The dispatcher as a component: options in, an address out, and a future that serves until it is cancelled.

use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Clock, Error, ErrorKind, Result, SystemClock};
use forebay_proto::{Address, Incoming, ServerTls, reachable};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::codegen::InterceptedService;

use crate::access::{Access, Guard};
use crate::actor::Actor;
use crate::indexing::{FileIndexer, Indexer};
use crate::leader::elected::Elected;
use crate::leader::election::{Candidate, LEASE};
use crate::leader::leadership::Leadership;
use crate::leader::term::Term;
use crate::local_calls::LocalCalls;
use crate::options::Options;
use crate::recovery::Recovery;
use crate::service::Service;
use crate::service::requests::{Bounded, Requests};
use crate::service::traces::Traces;
use crate::state::check_worker_type;
use crate::store::{BlobStore, Committer, Etcd, EtcdUrl, Keys, LedgerStore, ServiceId};
use crate::view::View;

/// How long open requests may take to end after the sessions were ended.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A dispatcher that listens, ready to run.
pub struct Dispatcher {
    listener: TcpListener,
    tls: Option<ServerTls>,
    access: Arc<Access>,
    leadership: Arc<Leadership>,
    request_bytes_max: u64,
    /// Shared by callers over the network and in this process.
    traces: Arc<Traces>,
    run: Run,
}

enum Run {
    /// The ledger is in a file: this process leads from its start to its end.
    Sole(Box<Actor>),
    /// The ledger is in etcd: the elected dispatcher leads.
    Elected(Box<Elected>),
}

impl Dispatcher {
    /// Loads the state, opens the port, and returns the address that it listens on. Must be called within a runtime.
    ///
    /// # Errors
    /// Conflict when the port or the state folder is in use; Version or Data when the state cannot be read; Invalid
    /// when the store's url is none; those of the disk.
    pub async fn bind(options: Options) -> Result<(SocketAddr, Self)> {
        let indexer = FileIndexer::of(&options);
        Self::bind_with(options, Arc::new(indexer), Arc::new(SystemClock::default())).await
    }

    /// Like [`Dispatcher::bind`], with other components.
    ///
    /// # Errors
    /// Those of [`Dispatcher::bind`].
    pub async fn bind_with(
        options: Options,
        indexer: Arc<dyn Indexer>,
        clock: Arc<dyn Clock>,
    ) -> Result<(SocketAddr, Self)> {
        forebay_policy::fleet::check(&options.offers)?;
        forebay_io::Allowed::of(&[&options.allow_sources], true)?;
        options.offers.iter().try_for_each(|offer| check_worker_type(&offer.kind))?;
        let dir = options.state_dir.clone();
        // The folder holds pickles and keys, so only its owner may read it.
        let make = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        make.map_err(|e| Error::from(e).with("file", dir.display()))?;
        warn_of_others(&dir);
        let access = Arc::new(Access::open(options.tokens.as_deref(), clock.clone())?);
        let listener = TcpListener::bind(options.listen).await.map_err(|e| cannot_listen(options.listen, e))?;
        let address = listener.local_addr().map_err(|e| cannot_listen(options.listen, e))?;
        let (scaling, offers, retention) = (options.scaling.clone(), Arc::from(&*options.offers), options.retention);
        let sources = Arc::from(&*options.allow_sources);
        let (timing, with_keys) = (options.timing, access.asks());
        let recovery = Recovery { timing, clock, indexer, with_keys, scaling, offers, retention, sources };
        let leadership = Arc::new(Leadership::new());
        let run = match &options.store {
            None => Run::Sole(Box::new(sole(&options, &recovery, &leadership)?)),
            Some(url) => Run::Elected(Box::new(elected(&options, url.parse()?, recovery, address)?)),
        };
        tracing::info!(%address, state = %dir.display(), "dispatcher");
        let request_bytes_max = options.request_bytes_max;
        Ok((
            address,
            Self { listener, tls: options.tls, access, leadership, request_bytes_max, traces: Arc::default(), run },
        ))
    }

    /// Returns a view of the dispatcher's figures, which is valid while it serves.
    pub fn view(&self) -> View {
        View { leadership: self.leadership.clone(), access: self.access.clone() }
    }

    /// Returns calls of this process to the dispatcher, which are answered while it serves.
    pub fn local_calls(&self) -> LocalCalls {
        LocalCalls::new(Service::new(self.leadership.clone(), self.traces.clone()), self.access.clone())
    }

    /// Serves until `shutdown` is cancelled; then ends the sessions, writes the last batch, and returns. Dropping the
    /// future is like a crash: nothing that was acknowledged is lost.
    ///
    /// # Errors
    /// Unavailable when the listener fails; Version or Data when a ledger in etcd cannot be read; Internal when the
    /// ledger's writer died.
    pub async fn run(self, shutdown: CancellationToken) -> Result<()> {
        let requests = Arc::new(Requests::new(self.request_bytes_max));
        let most = usize::try_from(self.request_bytes_max).unwrap_or(usize::MAX);
        let inner = forebay_proto::service(Service::new(self.leadership.clone(), self.traces.clone()), most);
        let guarded = InterceptedService::new(Bounded { inner, requests }, Guard(self.access.clone()));
        let server = forebay_proto::server().add_service(guarded);
        let incoming = Incoming::new(self.listener, self.tls.as_ref(), None);
        let serve = server.serve_with_incoming_shutdown(incoming, shutdown.clone().cancelled_owned());
        tokio::pin!(serve);
        let run = async move {
            match self.run {
                Run::Sole(actor) => actor.run(shutdown).await.map(drop),
                Run::Elected(elected) => elected.run(&self.leadership, shutdown).await,
            }
        };
        tokio::pin!(run);
        let failed = |e: tonic::transport::Error| Error::unavailable(format!("the dispatcher's listener failed: {e}"));
        tokio::select! {
            done = &mut run => {
                done?;
                // Long requests, such as indexing, do not delay the end of the process.
                tokio::time::timeout(DRAIN_MAX, serve).await.unwrap_or(Ok(())).map_err(failed)
            }
            done = &mut serve => {
                done.map_err(failed)?;
                run.await
            }
            never = self.access.watch() => match never {},
        }
    }
}

fn sole(options: &Options, recovery: &Recovery, leadership: &Leadership) -> Result<Actor> {
    let dir = &options.state_dir;
    let store = LedgerStore::open(dir)?;
    let blobs = match &options.blob_dir {
        Some(blob_dir) => BlobStore::shared(blob_dir, &ServiceId::of_folder(dir)?, options.blob_bytes_max)?,
        None => BlobStore::open(dir, options.blob_bytes_max)?,
    };
    let blobs = blobs.limited(options.blobs);
    let ledger = store.load()?;
    tracing::info!(jobs = ledger.jobs.len(), leases = ledger.grants.len(), "the ledger was read");
    let committer = Committer::start(dir.clone(), store)?;
    let (actor, leading) =
        recovery.begin(&ledger, committer, blobs, Arc::new(Term::endless(recovery.clock.clone())))?;
    leadership.lead(leading);
    Ok(actor)
}

fn elected(options: &Options, url: EtcdUrl, recovery: Recovery, listens: SocketAddr) -> Result<Elected> {
    let address = match &options.advertise {
        Some(advertise) => advertise.parse::<Address>()?.to_string(),
        None => url.members.first().map_or(listens, |member| reachable(listens, member)).to_string(),
    };
    let (etcd, keys) = (Arc::new(Etcd::new(&url)?), Keys::new(&url.prefix));
    let candidate = Candidate::new(etcd.clone(), keys.clone(), recovery.clock.clone(), LEASE, address);
    Ok(Elected {
        etcd,
        keys,
        candidate,
        state_dir: options.state_dir.clone(),
        blob_dir: options.blob_dir.clone(),
        blob_bytes_max: options.blob_bytes_max,
        blobs: options.blobs,
        recovery,
    })
}

/// A folder that existed before may be readable for others.
fn warn_of_others(dir: &Path) {
    let open = std::fs::metadata(dir).is_ok_and(|of| of.permissions().mode() & 0o077 != 0);
    if open {
        let hint = format!("chmod 700 {}", dir.display());
        tracing::warn!(
            state = %dir.display(),
            hint,
            "other users of this machine may read the state folder, with the keys and functions of jobs"
        );
    }
}

fn cannot_listen(at: SocketAddr, e: std::io::Error) -> Error {
    match e.kind() {
        std::io::ErrorKind::AddrInUse => Error::new(ErrorKind::Conflict, format!("something else listens on {at}"))
            .hint("end it, or use another port"),
        _ => {
            let message = format!("cannot listen on {at}: {e}");
            Error::new(Error::from(e).kind(), message)
        }
    }
}
