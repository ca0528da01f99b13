//! Live streams: server-sent events, one snapshot every two seconds.
//!
//! Bounds: [`LIVE_MAX`] streams, each without a queue (the server takes the next snapshot when the client has read the
//! last one); a stream ends after [`STREAM_MAX`], and the page opens another.

#![expect(clippy::disallowed_methods, reason = "a stream looks every two seconds, until its end")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_core::{Error, ErrorKind, Result};
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::StatusCode;
use hyper::body::Frame;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::answer::{Answer, Failure, answer};
use super::query::{Query, View};
use super::route;
use crate::feed::calls::Caller;
use crate::feed::store::Store;
use crate::model::Detail;

/// The most streams at a time; further pages send a request every few seconds instead.
const LIVE_MAX: usize = 64;
/// The longest life of a stream.
const STREAM_MAX: Duration = Duration::from_secs(3600);
/// The time between two snapshots.
const EVERY: Duration = Duration::from_secs(2);
const KIND: &str = "text/event-stream; charset=utf-8";

/// The streams that may still be opened.
pub(super) struct LiveSlots(Arc<Semaphore>);

impl Default for LiveSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(LIVE_MAX)))
    }
}

/// The state of an open stream.
struct Live {
    store: Arc<Store>,
    caller: Caller,
    query: Query,
    end: Instant,
    next: Instant,
    _slot: OwnedSemaphorePermit,
}

/// Begins a stream.
///
/// # Errors
/// Exhausted when there are too many.
pub(super) fn stream(store: Arc<Store>, slots: &LiveSlots, caller: Caller, query: Query) -> Result<Answer> {
    let slot = slots.0.clone().try_acquire_owned().map_err(|_| {
        let message = format!("{LIVE_MAX} live streams are open, as many as there may be");
        Error::new(ErrorKind::Exhausted, message).hint("ask for the same figures without a stream, every few seconds")
    })?;
    let now = Instant::now();
    let live = Live { store, caller, query, end: now + STREAM_MAX, next: now, _slot: slot };
    let frames = stream::unfold(live, |mut live| async move {
        tokio::time::sleep_until(live.next).await;
        if Instant::now() >= live.end {
            return None;
        }
        live.next = Instant::now() + EVERY;
        let event = live.look().await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(event))), live))
    });
    Ok(answer(StatusCode::OK, KIND, StreamBody::new(frames).boxed_unsync()))
}

impl Live {
    /// Returns one event.
    async fn look(&self) -> String {
        match self.view().await {
            Ok(event) => event,
            Err(error) => event("failure", &Failure::of(&error)),
        }
    }

    async fn view(&self) -> Result<String> {
        let Self { store, caller, query, .. } = self;
        Ok(match query.view {
            View::Job => {
                let (job, seen) = route::job(store, caller, query).await?;
                event("job", &Detail::of(&job, &seen))
            }
            View::Overview => event("overview", &store.overview(&*store.snapshot(caller).await?, &query.page)),
            View::Workers => event("workers", &route::workers(&*store.snapshot(caller).await?, &query.page)),
            View::Events => {
                let seen = store.snapshot(caller).await?;
                event("events", &store.list_events(&seen, &query.search, query.events))
            }
        })
    }
}

/// Returns an event of a stream. JSON has no line breaks.
fn event(name: &str, data: &impl Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", serde_json::to_string(data).unwrap_or_default())
}
