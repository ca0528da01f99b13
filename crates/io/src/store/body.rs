//! A long range of a remote object as it comes: one request, and a bounded number of bytes ahead of the reader.
//!
//! A task of the shared runtime takes the answer's chunks and sends them; it takes no more of them while the bytes that wait exceed the
//! bound, so the connection fills up and the store waits. The task ends when its reader does.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use forebay_core::{Error, Result};
use tokio::sync::Semaphore;

/// What a permit stands for.
const PERMIT_BYTES: usize = 1 << 10;

/// The sending end.
#[derive(Debug)]
pub(super) struct Feed {
    send: Sender<Result<Bytes>>,
    room: Arc<Semaphore>,
    permits: u32,
}

impl Feed {
    /// Sends bytes once there is room for them; false if nobody takes them any more.
    pub(super) async fn send(&self, chunk: Bytes) -> bool {
        let permits = permits_of(&chunk, self.permits);
        match self.room.acquire_many(permits).await {
            Ok(permit) => {
                permit.forget();
                self.send.send(Ok(chunk)).is_ok()
            }
            Err(_) => false,
        }
    }

    /// Sends an error, which is the last.
    pub(super) fn fail(&self, error: Error) {
        let _ = self.send.send(Err(error));
    }
}

/// A chunk of more bytes than the bound takes all the room.
fn permits_of(chunk: &Bytes, most: u32) -> u32 {
    (chunk.len().div_ceil(PERMIT_BYTES) as u32).min(most)
}

/// The receiving end: the bytes of a range, in order.
#[derive(Debug)]
pub(crate) struct Body {
    receive: Receiver<Result<Bytes>>,
    room: Arc<Semaphore>,
    permits: u32,
    /// What has come and was not taken.
    part: Bytes,
    rest: Range<u64>,
}

impl Body {
    /// Makes both ends; at most `ahead` bytes wait (or one chunk, if that is more).
    pub(super) fn new(range: Range<u64>, ahead: usize) -> (Feed, Self) {
        let permits = ahead.div_ceil(PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize)) as u32;
        let (send, receive) = channel();
        let room = Arc::new(Semaphore::new(permits as usize));
        let body = Self { receive, room: room.clone(), permits, part: Bytes::new(), rest: range };
        (Feed { send, room, permits }, body)
    }

    /// Returns where in the file the next byte is.
    pub(crate) fn at(&self) -> u64 {
        self.rest.start
    }

    /// Returns where in the file the range ends.
    pub(crate) fn end(&self) -> u64 {
        self.rest.end
    }

    /// Returns the bytes that come next: some, but at most `most`. Waits for the first.
    ///
    /// # Errors
    /// What the store said.
    pub(crate) fn next(&mut self, most: usize) -> Result<Bytes> {
        while self.part.is_empty() {
            let dropped = |_| Err(Error::internal("a read was dropped"));
            let part = self.receive.recv().unwrap_or_else(dropped)?;
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
