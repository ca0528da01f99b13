//! The worker as a process sees it: bind, run until told to stop, leave in order.

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

use crate::accept::accept;
use crate::blobs::BlobStore;
use crate::blocks::Blocks;
use crate::engine::Threads;
use crate::flight::Flight;
use crate::lender::Lender;
use crate::membership::Membership;
use crate::options::{LEAVE_MAX, Local, Options};
use crate::peers::Peers;
use crate::pool::Pool;
use crate::session::Session;
use crate::shelf::Shelf;
use crate::talk::Talk;
use crate::transfer::Transfer;
use crate::view::View;

/// How often a worker that leaves looks whether everything was fetched.
const LEAVE_LOOK: std::time::Duration = std::time::Duration::from_millis(20);
/// The longest request of Arrow Flight that is read: a ticket, or the key of a job.
const TICKET_BYTES_MAX: usize = 1 << 20;

/// A worker that listens, and has not begun.
pub struct Worker {
    secret: WorkerSecret,
    listener: TcpListener,
    address: String,
    /// Memory that readers on this machine can map.
    arena: Option<Arc<Arena>>,
    shelf: Arc<Shelf>,
    options: Options,
}

impl Worker {
    /// Listens and starts the threads. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Invalid when the dispatcher's address is none; Conflict when the port is taken.
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
            Some(advertise) => advertise.parse::<Address>()?.to_string(),
            None => dispatchers.first().map_or(listens, |first| reachable(listens, first)).to_string(),
        };
        let blobs = BlobStore::new(options.dispatcher.clone());
        let arena = options.lend.then(Arena::shared).and_then(|arena| arena.ok());
        let memory = arena.clone().map_or_else(Memory::reused, Memory::within).with_budget(options.memory);
        let (bounds, begin) = (options.bounds(), options.local.map_or(at_once as fn(), |local| local.give_way));
        let (pool, functions) = (Pool::new(bounds.threads, begin), options.functions.clone());
        let rent = options.prices.map_or_else(Rent::default, |prices| prices.rent(bounds.threads));
        let cache = options.cache.clone();
        let keeping = cache.clone().map(|cache| CacheContext { rent, ..CacheContext::new(cache) });
        let (blobs, window) = (Arc::new(blobs), Arc::default());
        let sources = options.local.is_none().then(|| Arc::from(&*options.allow_sources));
        let threads = Threads { pool, blobs, functions, sources, memory, keeping, cache, window };
        let shelf = Shelf::new(threads, bounds);
        Ok(Self {
            secret: WorkerSecret::new(uuid::Uuid::new_v4().as_u128()),
            arena,
            listener,
            address,
            shelf: Arc::new(shelf),
            options,
        })
    }

    /// Returns `host:port` that consumers reach it at.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns its id, new at every start.
    pub fn id(&self) -> WorkerId {
        self.secret.id()
    }

    /// Looks for rows at peers from now on, and returns where this worker keeps them itself.
    fn meet(&self, cache: &Cache, membership: &Arc<Membership>) -> Result<String> {
        let tls = self.options.dispatcher.credentials.tls.clone();
        let watch: Arc<dyn Stopwatch> = Arc::new(SystemClock::default());
        let peers = Peers::new(membership.clone(), tls, watch.clone())?;
        cache.meet(Arc::new(peers), watch)?;
        Ok(cache.lent().map_or_else(String::new, |lent| lent.place()))
    }

    /// Returns what says what it does, for as long as it runs.
    pub fn view(&self) -> View {
        View { shelf: self.shelf.clone(), cache: self.options.cache.clone() }
    }

    /// Returns what says how many threads of a local worker compute.
    pub fn throttle(&self) -> Throttle {
        Throttle(self.shelf.clone())
    }

    /// Serves until `shutdown`; then takes nothing new, serves what it holds until it was consumed (at most 10 s), and
    /// returns.
    ///
    /// # Errors
    /// Version when the dispatcher is another version.
    ///
    /// # Cancel safety
    /// Dropping the future ends the worker at once, as a kill would.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let stop = CancellationToken::new();
        let _ended = Ended { stop: stop.clone(), shelf: self.shelf.clone() };
        let (leave, leaving) = watch::channel(false);
        let membership = Arc::<Membership>::default();
        // What a local worker keeps is not for others: they cannot reach it.
        let kept = self.options.cache.as_ref().filter(|_| self.options.local.is_none());
        let place = kept.map(|cache| self.meet(cache, &membership)).transpose()?;
        let only = self.options.local.map(|Local { reader: (job, consumer), .. }| OneReader { job, consumer });
        let talk = Talk::new(self.secret, self.address.clone(), only, self.shelf.clone());
        let talk = talk.started_with(self.options.local.map(|local| local.key).unwrap_or_default());
        let talk = talk.keeping(place.unwrap_or_default(), membership.clone()).on(self.options.machine.clone());
        let session = Session { dispatcher: self.options.dispatcher.clone(), talk, leaving };
        let id = self.secret.id();
        let lender = self.arena.and_then(|arena| {
            let lender = Lender::start(arena, id, stop.clone());
            lender.inspect_err(|error| tracing::info!(%error, "no memory is lent to readers on this machine")).ok()
        });
        let scheme = if self.options.tls.is_some() { "grpc+tls" } else { "grpc" };
        let location = format!("{scheme}://{}", self.address);
        let flight = Flight { shelf: self.shelf.clone(), location, stop: stop.clone() };
        let flight = FlightServiceServer::new(flight)
            .max_decoding_message_size(TICKET_BYTES_MAX)
            .max_encoding_message_size(usize::MAX);
        let blocks = Blocks::new(self.options.cache.as_ref(), membership);
        let transfer = Transfer::new(self.shelf.clone(), lender, blocks, stop.clone());
        let others = accept(self.listener, self.options.tls.as_ref(), transfer);
        let server = forebay_proto::server().add_service(flight).serve_with_incoming(others);
        let shelf = self.shelf;
        let leave_in_order = async move {
            shutdown.await;
            leave.send_replace(true);
            tracing::info!(held = shelf.leases().len(), "leaving");
            let drained = async {
                while !shelf.is_empty() {
                    tokio::time::sleep(LEAVE_LOOK).await;
                }
            };
            if tokio::time::timeout(LEAVE_MAX, drained).await.is_err() {
                tracing::warn!(held = shelf.leases().len(), "left with splits that nobody fetched in time");
            }
        };
        tokio::select! {
            served = server => served.map_err(|e| Error::internal(format!("the flight service ended: {e}"))),
            ended = session.run() => ended,
            () = leave_in_order => Ok(()),
        }
    }
}

/// Says how many threads of a local worker compute, while it runs.
#[derive(Clone)]
pub struct Throttle(Arc<Shelf>);

impl Throttle {
    /// Sets their number. Those that are too many finish the morsel that they are at. With none, the worker takes nothing new,
    /// and one thread finishes what it holds.
    pub fn set_threads(&self, threads: usize) {
        self.0.set_threads(threads);
    }
}

/// What a thread of the fleet does before it computes: nothing.
fn at_once() {}

/// Ends what outlives the future: streams that are being served and threads that wait.
struct Ended {
    stop: CancellationToken,
    shelf: Arc<Shelf>,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.stop.cancel();
        self.shelf.clear();
    }
}
