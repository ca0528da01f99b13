//! Listens, and bounds connections.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections (a further one closes the oldest); a head of [`HEAD_BYTES_MAX`] that arrives
//! within [`HEAD_MAX`]; a connection ends after [`CONNECTION_MAX`].

#![expect(clippy::disallowed_methods, reason = "a listener that fails is tried again after a pause")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::live::LiveSlots;
use super::route::{Site, respond};
use crate::feed::calls::Calls;
use crate::feed::sampler::sample;
use crate::feed::store::Store;

/// The most connections at a time.
const CONNECTIONS_MAX: usize = 1024;
/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The time limit of a request's head, and of a connection that is idle between two requests.
const HEAD_MAX: Duration = Duration::from_secs(15);
/// The longest life of a connection: a little longer than that of a live stream.
const CONNECTION_MAX: Duration = Duration::from_secs(3700);
/// The pause when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a dashboard listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpOptions {
    /// The address; port 0 is any free port.
    pub listen: SocketAddr,
    /// Whether any free port will do if that of `listen` is taken.
    pub any_port: bool,
    /// The host names that requests may use, besides IP addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// A dashboard that listens.
pub struct Dashboard {
    listener: StdListener,
    address: SocketAddr,
    hosts: Vec<String>,
}

impl Dashboard {
    /// Listens.
    ///
    /// # Errors
    /// Conflict when the port is taken; Invalid when it cannot be opened for another reason.
    pub fn bind(options: HttpOptions) -> Result<Self> {
        let is_taken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::AddrInUse;
        let bound = match StdListener::bind(options.listen) {
            Err(e) if is_taken(&e) && options.any_port => StdListener::bind((options.listen.ip(), 0)),
            bound => bound,
        };
        let failed = |e: std::io::Error| {
            let kind = if is_taken(&e) { ErrorKind::Conflict } else { ErrorKind::Invalid };
            let message = format!("cannot serve the dashboard at {}: {e}", options.listen);
            Error::new(kind, message).hint("choose another --http")
        };
        let listener = bound.map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address, hosts: options.hosts })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// Internal when the runtime cannot take the listener.
    pub async fn run(self, calls: Arc<dyn Calls>) -> Result<Infallible> {
        let listener = TcpListener::from_std(self.listener)?;
        let store = Arc::new(Store::new(calls));
        let site = Arc::new(Site { store: store.clone(), hosts: self.hosts, live: Arc::new(LiveSlots::default()) });
        tokio::select! {
            never = accept(listener, site) => Ok(never),
            never = sample(store) => Ok(never),
        }
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) -> Infallible {
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        let Ok((socket, _)) = listener
            .accept()
            .await
            .inspect_err(|error| tracing::warn!(%error, "the dashboard cannot accept a connection"))
        else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.0.is_finished());
        if open.len() >= CONNECTIONS_MAX {
            open.pop_front();
        }
        open.push_back(Connection(tokio::spawn(serve(socket, site.clone()))));
    }
}

/// A connection, which closes when it is dropped.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(socket: TcpStream, site: Arc<Site>) {
    let answer = service_fn(|request| {
        let site = site.clone();
        async move { Ok::<_, Infallible>(respond(&request, &site).await) }
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(socket), answer);
    // The client notices errors of its connection, so they are ignored here.
    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
}
