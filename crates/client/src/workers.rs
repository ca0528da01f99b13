//! Workers that are connected: what each lends, and its connections that wait for the next split.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_core::Result;
use forebay_proto::ClientTls;
use tokio::sync::OnceCell;

use crate::borrower::Borrower;
use crate::connection::{Connection, unreachable};
use crate::lock::lock;
use crate::options::WINDOW_MAX;
use crate::seat::Seat;

/// Workers that are remembered. Beyond, all are connected anew: connections in use live on with their splits.
const WORKERS_MAX: usize = 256;

/// How long a worker whose connection broke may take to answer the next.
const AGAIN_MAX: Duration = Duration::from_millis(500);

/// A worker that is connected.
pub(crate) struct Peer {
    address: String,
    tls: Option<ClientTls>,
    /// Lends its memory, if it is on this machine.
    pub(crate) borrower: Option<Arc<Borrower>>,
    idle: Mutex<Vec<Connection>>,
}

/// A worker, or why it could not be connected: what one split finds out, those that began with it need not.
type Known = Arc<OnceCell<Result<Arc<Peer>>>>;

/// The workers of one stream.
pub(crate) struct Workers {
    tls: Option<ClientTls>,
    seat: Arc<Seat>,
    known: Mutex<HashMap<String, Known>>,
}

impl Workers {
    /// Knows none yet. Whoever speaks TLS to the dispatcher speaks it to its workers, but for the local one: that is a process
    /// of its own, behind the loopback interface.
    pub(crate) fn new(tls: Option<ClientTls>, seat: Arc<Seat>) -> Self {
        Self { tls, seat, known: Mutex::default() }
    }

    /// Returns a worker, and a connection to it that nobody uses.
    ///
    /// # Errors
    /// Unavailable, at once when nobody listens there: another worker is sooner found than this one waited for.
    pub(crate) async fn connection(&self, address: &str) -> Result<(Arc<Peer>, Connection)> {
        let peer = self.peer(address).await?;
        let connection = peer.connection().await?;
        Ok((peer, connection))
    }

    /// As [`Workers::connection`], after a connection to it broke: one that lives answers at once.
    ///
    /// # Errors
    /// Unavailable, after [`AGAIN_MAX`] at the latest.
    pub(crate) async fn connection_again(&self, address: &str) -> Result<(Arc<Peer>, Connection)> {
        let connection = tokio::time::timeout(AGAIN_MAX, self.connection(address)).await;
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

    /// Returns what is known of a worker, or where it will be.
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
        let tls = self.tls.clone().filter(|_| !self.seat.has(address));
        let mut connection = Connection::open(address, tls.as_ref()).await?;
        let borrower = Borrower::connect(&mut connection).await?;
        Ok(Arc::new(Peer { address: address.to_owned(), tls, borrower, idle: Mutex::new(vec![connection]) }))
    }

    /// Forgets a worker whose connection broke.
    pub(crate) fn forget(&self, address: &str) {
        lock(&self.known).remove(address);
    }
}

impl Peer {
    /// Says whether its process has ended, where that can be told: another may listen at its address.
    fn is_gone(&self) -> bool {
        self.borrower.as_ref().is_some_and(|borrower| borrower.is_gone())
    }

    /// Returns a connection that nobody uses.
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

    /// Takes a connection back whose last frame was read.
    pub(crate) fn give_back(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < WINDOW_MAX as usize {
            idle.push(connection);
        }
    }
}
