//! Sorts the connections to a worker's port: Forebay's own readers say so in their first bytes, all others speak HTTP/2.
//!
//! Invariant: a connection that says nothing holds up nobody, and is closed after [`PREFACE_MAX`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use forebay_proto::{Accepted, PREFACE, tune};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::transfer::Transfer;

/// How long a connection may take to say what it is.
const PREFACE_MAX: Duration = Duration::from_secs(5);
/// How long to wait when the system has no more sockets.
const PAUSE: Duration = Duration::from_millis(100);
/// Connections that have not said what they are; more wait in the kernel.
const NEW_MAX: usize = 256;

/// Accepts until `stop`, serves readers of ours, and returns the connections of others. Must be called within a runtime.
pub(crate) fn accept(
    listener: TcpListener,
    transfer: Transfer,
    stop: CancellationToken,
) -> ReceiverStream<io::Result<Accepted>> {
    let (others, incoming) = mpsc::channel(NEW_MAX);
    let transfer = Arc::new(transfer);
    let room = Arc::new(Semaphore::new(NEW_MAX));
    tokio::spawn(async move {
        loop {
            let Ok(place) = room.clone().acquire_owned().await else { return };
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let Ok((socket, _)) = accepted.inspect_err(|error| tracing::warn!(%error, "a connection was not accepted"))
            else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (transfer, others) = (transfer.clone(), others.clone());
            tokio::spawn(async move {
                let ours = tokio::time::timeout(PREFACE_MAX, is_ours(&socket)).await;
                drop(place);
                match ours {
                    Ok(Ok(true)) => serve(&transfer, socket).await,
                    // The server that takes them may have ended.
                    Ok(Ok(false)) => {
                        let _ = socket.set_nodelay(true);
                        let _ = others.send(Ok(Accepted::new(socket))).await;
                    }
                    Ok(Err(_)) | Err(_) => {}
                }
            });
        }
    });
    ReceiverStream::new(incoming)
}

/// Looks at the first bytes without taking them.
async fn is_ours(socket: &TcpStream) -> io::Result<bool> {
    let mut seen = [0; PREFACE.len()];
    loop {
        let n = socket.peek(&mut seen).await?;
        if n == 0 || seen[..n] != PREFACE[..n] {
            return Ok(false);
        }
        if n == PREFACE.len() {
            return Ok(true);
        }
        // Half a preface: the rest is on its way.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn serve(transfer: &Transfer, mut socket: TcpStream) {
    let begun = async {
        tune(&socket)?;
        socket.read_exact(&mut [0; PREFACE.len()]).await
    };
    match begun.await {
        Ok(_) => transfer.serve(socket).await,
        Err(error) => tracing::debug!(%error, "a reader left before it asked"),
    }
}
