//! Records a trace that the dispatcher requests, and sends it there.
//!
//! It is recorded in this process as `Tracer` does, so batches and errors of the stream do not depend on it. The call
//! that sends it is open from the begin of the recording: the dispatcher sees when this process dies, and this process
//! sees when no caller waits any more. Bounds: [`SPANS`] spans, [`SECONDS_MAX`] seconds, one attempt to send, and
//! [`LAST_SENT_MAX`] once the stream has ended.

use std::sync::Mutex;
use std::time::Duration;

use forebay_core::{Error, Keep, Result, to_chrome_json, tracer};
use forebay_proto::{Remote, StartTrace, TracePart, attempt, client};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use crate::lock::lock;
use crate::runtime::wait;

/// The most spans of a trace: about 50 MB of file.
const SPANS: usize = 200_000;
/// The longest trace, even if the dispatcher wants a longer one.
const SECONDS_MAX: u32 = 300;
/// Bytes of a part of the file.
const PART_BYTES: usize = 256 << 10;
/// Parts that wait to be sent.
const PARTS_MAX: usize = 4;
/// How long a stream that ends waits until its trace is sent.
const LAST_SENT_MAX: Duration = Duration::from_secs(5);

/// The recordings of a stream.
#[derive(Default)]
pub(crate) struct Recordings {
    ended: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Recordings {
    /// Begins to record, on the runtime of this process.
    pub(crate) fn begin(&self, dispatcher: Remote, start: StartTrace) {
        let task = tokio::spawn(record(dispatcher, start, self.ended.clone()));
        let mut tasks = lock(&self.tasks);
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Ends the recordings, and waits until they are sent.
    pub(crate) fn end(&self) {
        self.ended.cancel();
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        if !tasks.is_empty() {
            let sent = async {
                let _ = tokio::time::timeout(LAST_SENT_MAX, futures::future::join_all(tasks)).await;
                Ok(())
            };
            // The trace of a process that cannot wait is lost.
            let _ = wait(sent, &mut || Ok(()));
        }
    }
}

/// Records for some seconds, or until the stream has ended, and sends the file, or the reason why there is none.
async fn record(dispatcher: Remote, start: StartTrace, ended: CancellationToken) {
    let (send, parts) = mpsc::channel(PARTS_MAX);
    let empty = TracePart { trace: start.trace, ..TracePart::default() };
    let sending = async {
        let parts = ReceiverStream::new(parts);
        client(attempt(&dispatcher).await?).put_trace(parts).await.map_err(|s| Error::unavailable(s.message()))
    };
    let recording = async move {
        let mut next = send.send(empty.clone()).await;
        match file(start.seconds.min(SECONDS_MAX), &ended).await {
            Ok((file, ended_ms)) => {
                for data in file.as_bytes().chunks(PART_BYTES) {
                    if next.is_ok() {
                        next = send.send(TracePart { data: data.to_vec(), ended_ms, ..empty.clone() }).await;
                    }
                }
            }
            Err(error) => drop(send.send(TracePart { error: error.to_json(), ..empty }).await),
        }
    };
    let mut sending = std::pin::pin!(sending);
    let sent = tokio::select! {
        // No caller waits any more.
        sent = &mut sending => sent,
        () = recording => sending.await,
    };
    if let Err(error) = sent {
        tracing::warn!(error = error.message(), "a trace could not be sent");
    }
}

/// Returns the file, and the milliseconds that were recorded if the stream ended before.
async fn file(seconds: u32, ended: &CancellationToken) -> Result<(String, Option<u64>)> {
    tracer().start(Keep::First(SPANS))?;
    let recording = Recording;
    let is_short = tokio::time::timeout(Duration::from_secs(seconds.into()), ended.cancelled()).await.is_ok();
    let write = move || {
        let recorded = tracer().stop();
        std::mem::forget(recording);
        let recorded = recorded.ok_or_else(|| Error::internal("the recording has ended"))?;
        let ended_ms = is_short.then(|| recorded.until.saturating_sub(recorded.from) / 1_000_000);
        Ok((to_chrome_json(&recorded, &format!("trainer {}", std::process::id())), ended_ms))
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|e| Err(Error::internal(format!("writing a trace failed: {e}"))))
}

/// Ends the recording of this process when it is dropped.
struct Recording;

impl Drop for Recording {
    fn drop(&mut self) {
        drop(tracer().stop());
    }
}
