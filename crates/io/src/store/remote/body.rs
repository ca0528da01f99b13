//! A long range of a remote object as a stream: one request, and a bounded number of bytes ahead of the reader.
//!
//! A task of the shared runtime receives the answer's chunks and sends them to the reader. It stops receiving while the
//! waiting bytes exceed the bound, so the connection fills up and the store waits (backpressure). The task ends when
//! its reader does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use forebay_core::{Error, Result, WaitsFor, waiting};
use tokio::sync::Semaphore;

/// The bytes that one permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// The sending end.
#[derive(Debug)]
pub(in crate::store) struct Feed {
    send: Sender<Result<Bytes>>,
    room: Arc<Semaphore>,
    permits: u32,
}

impl Feed {
    /// Sends bytes once there is room for them; returns false if the reader is gone.
    pub(in crate::store) async fn send(&self, chunk: Bytes) -> bool {
        let permits = permits_of(&chunk, self.permits);
        match self.room.acquire_many(permits).await {
            Ok(permit) => {
                permit.forget();
                self.send.send(Ok(chunk)).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Sends an error, which is the last message.
    pub(in crate::store) fn fail(&self, error: Error) {
        let _ = self.send.send(Err(error));
    }
}

/// Returns the permits of a chunk. A chunk larger than the bound takes all permits.
fn permits_of(chunk: &Bytes, most: u32) -> u32 {
    (chunk.len().div_ceil(PERMIT_BYTES) as u32).min(most)
}

/// The receiving end: the bytes of a range, in order.
#[derive(Debug)]
pub(crate) struct Body {
    receive: Receiver<Result<Bytes>>,
    room: Arc<Semaphore>,
    permits: u32,
    /// Received bytes that were not returned yet.
    part: Bytes,
    rest: Range<u64>,
}

impl Body {
    /// Makes both ends; at most `ahead` bytes wait (or one chunk, if that is more).
    pub(in crate::store) fn new(range: Range<u64>, ahead: usize) -> (Feed, Self) {
        let permits = ahead.div_ceil(PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize)) as u32;
        let (send, receive) = channel();
        let room = Arc::new(Semaphore::new(permits as usize));
        let body = Self { receive, room: room.clone(), permits, part: Bytes::new(), rest: range };
        (Feed { send, room, permits }, body)
    }

    /// Returns the file offset of the next byte.
    pub(crate) fn at(&self) -> u64 {
        self.rest.start
    }

    /// Returns the file offset of the range's end.
    pub(crate) fn end(&self) -> u64 {
        self.rest.end
    }

    /// Returns the next bytes: at least one, at most `most`. Waits for the first.
    ///
    /// # Errors
    /// The error of the store.
    pub(crate) fn next(&mut self, most: usize) -> Result<Bytes> {
        while self.part.is_empty() {
            let dropped = |_| Err(Error::internal("a read was dropped"));
            let part = self
                .receive
                .try_recv()
                .unwrap_or_else(|_| waiting(WaitsFor::Store, || self.receive.recv()).unwrap_or_else(dropped))?;
            self.room.add_permits(permits_of(&part, self.permits) as usize);
            self.part = part;
        }
        let taken = self.part.split_to(most.min(self.part.len()));
        self.rest.start += taken.len() as u64;
        Ok(taken)
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        self.room.close();
    }
}
