//! Records a trace that the dispatcher requests, and sends it there.
//!
//! It is recorded in this process as `Tracer` does, so batches and errors of the stream do not depend on it. Bounds:
//! [`SPANS`] spans, [`SECONDS_MAX`] seconds, one attempt to send.

#![expect(clippy::disallowed_methods, reason = "a trace takes some seconds")]

use std::time::Duration;

use forebay_core::{Error, Keep, Result, to_chrome_json, tracer};
use forebay_proto::{Remote, StartTrace, TracePart, attempt, client};

/// The most spans of a trace: about 50 MB of file.
const SPANS: usize = 200_000;
/// The longest trace, even if the dispatcher wants a longer one.
const SECONDS_MAX: u32 = 300;
/// Bytes of a part of the file.
const PART_BYTES: usize = 256 << 10;

/// Records for some seconds, and sends the file, or the reason why there is none.
pub(crate) async fn record(dispatcher: Remote, start: StartTrace) {
    let trace = start.trace;
    let part = |data: &[u8]| TracePart { trace, data: data.to_vec(), error: String::new() };
    let parts: Vec<_> = match file(start.seconds.min(SECONDS_MAX)).await {
        Ok(file) => file.as_bytes().chunks(PART_BYTES).map(part).collect(),
        Err(error) => vec![TracePart { trace, data: Vec::new(), error: error.to_json() }],
    };
    let sent = async {
        let stream = tokio_stream::iter(parts);
        client(attempt(&dispatcher).await?).put_trace(stream).await.map_err(|s| Error::unavailable(s.message()))
    };
    if let Err(error) = sent.await {
        tracing::warn!(error = error.message(), "a trace could not be sent");
    }
}

async fn file(seconds: u32) -> Result<String> {
    tracer().start(Keep::First(SPANS))?;
    tokio::time::sleep(Duration::from_secs(seconds.into())).await;
    let write = || {
        let recorded = tracer().stop().ok_or_else(|| Error::internal("the recording has ended"))?;
        Ok(to_chrome_json(&recorded, &format!("trainer {}", std::process::id())))
    };
    let written = tokio::task::spawn_blocking(write).await;
    written.unwrap_or_else(|e| Err(Error::internal(format!("writing a trace failed: {e}"))))
}
