//! Accepts the connections to a worker's port: Forebay's own protocol is served here, all others are HTTP/2.

use std::sync::Arc;

use forebay_proto::{Incoming, ServerTls};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::serve::transfer::Transfer;

/// Connections of Forebay's own protocol that wait for their task to start.
const WAITING_MAX: usize = 256;

/// Serves connections of Forebay's own protocol, and returns the others as a stream. It accepts until that stream is
/// dropped. Must be called within a runtime.
pub(crate) fn accept(listener: TcpListener, tls: Option<&ServerTls>, transfer: Transfer) -> Incoming {
    let (to_serve, mut connected) = mpsc::channel(WAITING_MAX);
    let transfer = Arc::new(transfer);
    tokio::spawn(async move {
        while let Some((connection, slot)) = connected.recv().await {
            let transfer = transfer.clone();
            tokio::spawn(async move { transfer.serve(connection, slot).await });
        }
    });
    Incoming::new(listener, tls, Some(to_serve))
}
