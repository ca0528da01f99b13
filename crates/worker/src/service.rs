//! The worker as a process: it binds, runs until `shutdown`, and leaves in order.

#![expect(clippy::disallowed_methods, reason = "a worker has a random secret, and leaves within a bound")]

use std::future::Future;
use std::sync::Arc;

use arrow_flight::flight_service_server::FlightServiceServer;
use forebay_cache::Cache;
use forebay_core::{Error, ErrorKind, Result, Stopwatch, SystemClock, WorkerId};
use forebay_data::{Arena, Memory};
use forebay_exec::{CacheContext, Rent};
use forebay_io::Allowed;
use forebay_proto::{Address, OneReader, WorkerSecret, reachable};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::blobs::BlobStore;
use crate::compute::engine::PoolEngine;
use crate::compute::pool::Pool;
use crate::options::{LEAVE_MAX, Local, Options};
use crate::peers::membership::Membership;
use crate::peers::server::BlockServer;
use crate::peers::store::PeerStore;
use crate::serve::accept::accept;
use crate::serve::flight::FlightServer;
use crate::serve::shm::Lender;
use crate::serve::transfer::Transfer;
use crate::session::protocol::WorkerProtocol;
use crate::session::transport::Session;
use crate::splits::lease_table::LeaseTable;
use crate::view::View;

/// How often a worker that leaves checks whether all its splits were consumed.
const LEAVE_LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// The longest request of Arrow Flight that is read: a ticket, or the key of a job.
const TICKET_BYTES_MAX: usize = 1 << 20;

/// A worker that listens, and does not serve yet.
pub struct Worker {
    secret: WorkerSecret,
    listener: TcpListener,
    address: String,
    /// Memory that consumers on this machine can map.
    arena: Option<Arc<Arena>>,
    lease_table: Arc<LeaseTable>,
    options: Options,
}

impl Worker {
    /// Listens and starts the threads. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Invalid when the dispatcher's address cannot be parsed; Conflict when the port is taken.
    pub async fn bind(options: Options) -> Result<Self> {
        let dispatchers = options.dispatcher.addresses()?;
        Allowed::of(&[&options.allow_sources], true)?;
        let taken = |e: std::io::Error| {
            let kind = match e.kind() {
                std::io::ErrorKind::AddrInUse => ErrorKind::Conflict,
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::Invalid,
            };
            Error::new(kind, format!("cannot listen on {}: {e}", options.listen)).hint("choose another --listen")
        };
        let listener = TcpListener::bind(options.listen).await.map_err(taken)?;
        let listens = listener.local_addr()?;
        let address = match &options.advertise {
            Some(advertise) => Address::with_port(advertise, listens.port())?.to_string(),
            None => dispatchers.first().map_or(listens, |first| reachable(listens, first)).to_string(),
        };
        let blobs = BlobStore::new(options.dispatcher.clone());
        let arena = options.lend.then(Arena::shared).and_then(|arena| arena.ok());
        let memory = arena.clone().map_or_else(Memory::reused, Memory::within).with_budget(options.memory);
        let (bounds, begin) = (options.bounds(), options.local.map_or(at_once as fn(), |local| local.give_way));
        let (pool, functions) = (Pool::new(bounds.threads, begin), options.functions.clone());
        let rent = options.prices.map_or_else(Rent::default, |prices| prices.rent(bounds.threads));
        let cache = options.cache.clone();
        let cache_context = cache.clone().map(|cache| CacheContext { rent, ..CacheContext::new(cache) });
        let (blobs, shared_chunks) = (Arc::new(blobs), Arc::default());
        let sources = options.local.is_none().then(|| Arc::from(&*options.allow_sources));
        let threads = PoolEngine { pool, blobs, functions, sources, memory, cache_context, cache, shared_chunks };
        let lease_table = LeaseTable::new(threads, bounds);
        Ok(Self {
            secret: WorkerSecret::new(uuid::Uuid::new_v4().as_u128()),
            arena,
            listener,
            address,
            lease_table: Arc::new(lease_table),
            options,
        })
    }

    /// Returns `host:port` at which consumers reach it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns its id, new at every start.
    pub fn id(&self) -> WorkerId {
        self.secret.id()
    }

    /// Makes the cache look for rows at peers, and returns the address at which this worker serves its own.
    fn join_peers(&self, cache: &Cache, membership: &Arc<Membership>) -> Result<String> {
        let tls = self.options.dispatcher.credentials.tls.clone();
        let watch: Arc<dyn Stopwatch> = Arc::new(SystemClock::default());
        let peers = PeerStore::new(membership.clone(), tls, watch.clone())?;
        cache.meet(Arc::new(peers), watch)?;
        Ok(cache.exports().map_or_else(String::new, |exports| exports.place()))
    }

    /// Returns a view of its state, for as long as it runs.
    pub fn view(&self) -> View {
        View { lease_table: self.lease_table.clone(), cache: self.options.cache.clone() }
    }

    /// Returns a handle that sets how many threads of a local worker compute.
    pub fn throttle(&self) -> Throttle {
        Throttle(self.lease_table.clone())
    }

    /// Serves until `shutdown`; then requests nothing new, serves the splits that it holds until they were consumed (at
    /// most 10 s), and returns.
    ///
    /// # Errors
    /// Version when the dispatcher has another version.
    ///
    /// # Cancel safety
    /// Dropping the future ends the worker at once, as a kill would.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let stop = CancellationToken::new();
        let _ended = Ended { stop: stop.clone(), lease_table: self.lease_table.clone() };
        let (leave, leaving) = watch::channel(false);
        let membership = Arc::<Membership>::default();
        // A local worker's cache is not shared: other workers cannot reach it.
        let cache = self.options.cache.as_ref().filter(|_| self.options.local.is_none());
        let cache_address = cache.map(|cache| self.join_peers(cache, &membership)).transpose()?;
        let only = self.options.local.map(|Local { consumer: (job, consumer), .. }| OneReader { job, consumer });
        let protocol = WorkerProtocol::new(self.secret, self.address.clone(), only, self.lease_table.clone());
        let protocol = protocol.with_local_key(self.options.local.map(|local| local.key).unwrap_or_default());
        let protocol = protocol
            .with_cache(cache_address.unwrap_or_default(), membership.clone())
            .with_type(self.options.worker_type.clone());
        let session = Session { dispatcher: self.options.dispatcher.clone(), protocol, leaving };
        let id = self.secret.id();
        let lender = self.arena.and_then(|arena| {
            let lender = Lender::start(arena, id, stop.clone());
            lender.inspect_err(|error| tracing::info!(%error, "no memory is lent to consumers on this machine")).ok()
        });
        let scheme = if self.options.tls.is_some() { "grpc+tls" } else { "grpc" };
        let location = format!("{scheme}://{}", self.address);
        let flight = FlightServer { lease_table: self.lease_table.clone(), location, stop: stop.clone() };
        let flight = FlightServiceServer::new(flight)
            .max_decoding_message_size(TICKET_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let blocks = BlockServer::new(self.options.cache.as_ref(), membership);
        let transfer = Transfer::new(self.lease_table.clone(), lender, blocks, stop.clone());
        let http_connections = accept(self.listener, self.options.tls.as_ref(), transfer);
        let server = forebay_proto::server().add_service(flight).serve_with_incoming(http_connections);
        let lease_table = self.lease_table;
        let leave_in_order = async move {
            shutdown.await;
            leave.send_replace(true);
            tracing::info!(held = lease_table.leases().len(), "leaving");
            let drained = async {
                while !lease_table.is_empty() {
                    tokio::time::sleep(LEAVE_LOOK).await;
                }
            };
            if tokio::time::timeout(LEAVE_MAX, drained).await.is_err() {
                tracing::warn!(held = lease_table.leases().len(), "left with splits that no consumer fetched in time");
            }
        };
        tokio::select! {
            served = server => served.map_err(|e| Error::internal(format!("the flight service ended: {e}"))),
            ended = session.run() => ended,
            () = leave_in_order => Ok(()),
        }
    }
}

/// Sets how many threads of a local worker compute, while it runs.
#[derive(Clone)]
pub struct Throttle(Arc<LeaseTable>);

impl Throttle {
    /// Sets the number of threads. Surplus threads finish their morsel. With none, the worker requests nothing new, and
    /// one thread finishes the splits that it holds.
    pub fn set_threads(&self, threads: usize) {
        self.0.set_threads(threads);
    }
}

/// The start of a thread of a worker that is not local: nothing to do.
fn at_once() {}

/// Ends the tasks and threads that would outlive the future: streams that are being served, and threads that wait.
struct Ended {
    stop: CancellationToken,
    lease_table: Arc<LeaseTable>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.stop.cancel();
        self.lease_table.clear();
    }
}
