//! Connections to workers: one for each, shared by the splits that are fetched from it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_flight::flight_service_client::FlightServiceClient;
use forebay_core::{Error, Result};
use forebay_proto::{UNREACHED, endpoint, innermost};
use tonic::transport::Channel;

use crate::borrower::Borrower;
use crate::lock::lock;
use crate::options::{CONNECTION_BYTES, STREAM_BYTES};

/// A worker that is stopped, or cut off, is noticed after these two: another has its splits before its lease is over.
const KEEPALIVE: Duration = Duration::from_millis(700);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_millis(1300);
/// How long a worker whose connection broke may take to answer the next.
const AGAIN_MAX: Duration = Duration::from_millis(500);
/// Connections that are kept. Beyond, all are made anew: those in use live on with their streams.
const WORKERS_MAX: usize = 256;

/// A worker that is connected.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) flight: FlightServiceClient<Channel>,
    /// Lends its memory, if it is on this machine.
    pub(crate) borrower: Option<Arc<Borrower>>,
}

/// The workers of one stream.
#[derive(Default)]
pub(crate) struct Workers(Mutex<HashMap<String, Peer>>);

impl Workers {
    /// Returns a worker, connected.
    ///
    /// # Errors
    /// Unavailable, at once when nobody listens there: another worker is sooner found than this one waited for.
    pub(crate) async fn peer(&self, address: &str) -> Result<Peer> {
        if let Some(peer) = lock(&self.0).get(address) {
            return Ok(peer.clone());
        }
        let endpoint = endpoint(address)?
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .initial_stream_window_size(STREAM_BYTES)
            .initial_connection_window_size(CONNECTION_BYTES);
        let channel = endpoint.connect().await.map_err(|e| unreachable(address, &innermost(&e)))?;
        let mut flight = FlightServiceClient::new(channel)
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let borrower = Borrower::connect(&mut flight).await;
        let peer = Peer { flight, borrower };
        let mut workers = lock(&self.0);
        if workers.len() >= WORKERS_MAX {
            workers.clear();
        }
        // Splits that began at the same time may each have connected: the last stays.
        workers.insert(address.to_owned(), peer.clone());
        Ok(peer)
    }

    /// As [`Workers::peer`], after a connection to it broke: one that lives answers at once.
    ///
    /// # Errors
    /// Unavailable, after [`AGAIN_MAX`] at the latest.
    pub(crate) async fn peer_again(&self, address: &str) -> Result<Peer> {
        let peer = tokio::time::timeout(AGAIN_MAX, self.peer(address)).await;
        peer.unwrap_or_else(|_| Err(unreachable(address, "it does not answer a new connection")))
    }

    /// Forgets a connection that broke.
    pub(crate) fn forget(&self, address: &str) {
        lock(&self.0).remove(address);
    }
}

fn unreachable(address: &str, cause: &str) -> Error {
    Error::unavailable(format!("the worker at {address} cannot be reached"))
        .with("address", address)
        .with(UNREACHED, address)
        .with("cause", cause)
}
