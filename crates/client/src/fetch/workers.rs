//! The workers that a stream knows: the shared memory of each, and its idle connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::Result;
use forebay_proto::ClientTls;
use tokio::sync::OnceCell;

use crate::fetch::connection::{Connection, unreachable};
use crate::fetch::shm::ShmConnection;
use crate::local_worker::LocalWorkerSlot;
use crate::lock::lock;

/// The most connections to a worker that wait for the next split.
const IDLE_MAX: usize = 64;

/// Workers that a stream keeps. At the bound it drops all of them and connects anew; connections in use live on with
/// their splits.
const WORKERS_MAX: usize = 256;

/// Time for a worker to answer a new connection after one broke.
const RECONNECT_MAX: Duration = Duration::from_millis(500);

/// A worker to which this process is connected.
pub(crate) struct Peer {
    address: String,
    tls: Option<ClientTls>,
    /// The worker's shared memory, if it runs on this host and lends.
    pub(crate) shm: Option<Arc<ShmConnection>>,
    idle: Mutex<Vec<Connection>>,
}

/// A worker, or the error of the attempt to connect to it. All splits that need the worker at that moment share
/// one attempt.
type Known = Arc<OnceCell<Result<Arc<Peer>>>>;

/// The workers of one stream.
pub(crate) struct Workers {
    tls: Option<ClientTls>,
    local_worker: Arc<LocalWorkerSlot>,
    known: Mutex<HashMap<String, Known>>,
}

impl Workers {
    /// Creates an empty set. A consumer that speaks TLS to the dispatcher speaks TLS to the workers, except to its
    /// local worker, which is its child process behind the loopback interface.
    pub(crate) fn new(tls: Option<ClientTls>, local_worker: Arc<LocalWorkerSlot>) -> Self {
        Self { tls, local_worker, known: Mutex::default() }
    }

    /// Returns a worker, and an idle or new connection to it.
    ///
    /// # Errors
    /// Unavailable; at once if no process listens there, since the dispatcher finds another worker sooner than this
    /// one restarts.
    pub(crate) async fn connection(&self, address: &str) -> Result<(Arc<Peer>, Connection)> {
        let peer = self.peer(address).await?;
        let connection = peer.connection().await?;
        Ok((peer, connection))
    }

    /// As [`Workers::connection`], after a connection to the worker broke: a live worker answers at once.
    ///
    /// # Errors
    /// Unavailable, after [`RECONNECT_MAX`] at the latest.
    pub(crate) async fn reconnect(&self, address: &str) -> Result<(Arc<Peer>, Connection)> {
        let connection = tokio::time::timeout(RECONNECT_MAX, self.connection(address)).await;
        connection.unwrap_or_else(|_| Err(unreachable(address, "it does not answer a new connection")))
    }

    async fn peer(&self, address: &str) -> Result<Arc<Peer>> {
        let known = self.known(address);
        let peer = known.get_or_init(|| self.connect(address)).await.clone();
        if peer.is_err() {
            let mut workers = lock(&self.known);
            if workers.get(address).is_some_and(|now| Arc::ptr_eq(now, &known)) {
                workers.remove(address);
            }
        }
        peer
    }

    /// Returns the entry of a worker; a new, empty one if the worker is unknown or gone.
    fn known(&self, address: &str) -> Known {
        let mut workers = lock(&self.known);
        let is_gone = |known: &Known| matches!(known.get(), Some(Ok(peer)) if peer.is_gone());
        if let Some(known) = workers.get(address).filter(|known| !is_gone(known)) {
            return known.clone();
        }
        if workers.len() >= WORKERS_MAX {
            workers.clear();
        }
        let known = Known::default();
        workers.insert(address.to_owned(), known.clone());
        known
    }

    async fn connect(&self, address: &str) -> Result<Arc<Peer>> {
        let tls = self.tls.clone().filter(|_| !self.local_worker.is_at(address));
        let mut connection = Connection::open(address, tls.as_ref()).await?;
        let shm = ShmConnection::connect(&mut connection).await?;
        Ok(Arc::new(Peer { address: address.to_owned(), tls, shm, idle: Mutex::new(vec![connection]) }))
    }

    /// Forgets a worker whose connection broke.
    pub(crate) fn forget(&self, address: &str) {
        lock(&self.known).remove(address);
    }
}

impl Peer {
    /// Returns whether the worker's process is known to have ended. Another process may listen at its address.
    fn is_gone(&self) -> bool {
        self.shm.as_ref().is_some_and(|shm| shm.is_gone())
    }

    /// Returns an idle or new connection.
    ///
    /// # Errors
    /// As [`Connection::open`].
    async fn connection(&self) -> Result<Connection> {
        let idle = || lock(&self.idle).pop();
        while let Some(connection) = idle() {
            if connection.is_alive() {
                return Ok(connection);
            }
        }
        Connection::open(&self.address, self.tls.as_ref()).await
    }

    /// Takes back a connection whose last frame was read.
    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
