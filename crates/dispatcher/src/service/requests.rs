//! Bounds the bytes of the requests that are in memory: of one, of a tenant, and of all.
//!
//! Room for a message is taken when its length is read, before its bytes are. It is given back when the next message of
//! the call begins or the call is over, because until then the decoded message is in memory, too. A call without room
//! waits, and is refused after [`WAIT_MAX`]; meanwhile it is not read further. Short messages, such as heartbeats, do
//! not wait.

#![expect(clippy::disallowed_methods, reason = "a request has to arrive in time")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::to_status;
use futures::{StreamExt, stream};
use http_body_util::{BodyExt, BodyStream, StreamBody};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::NamedService;

use crate::access::Principal;

/// Messages up to this length need no room: parts of blobs, and all but extreme messages of sessions, which must not
/// wait behind large pipelines. The number of streams in a connection is bounded, and so are these.
const SHORT_BYTES: u64 = (1 << 20) + (64 << 10);
/// How long a message waits for room: others hold theirs while their sources are indexed.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// How long a message may take to arrive once it has begun.
const ARRIVAL_MAX: Duration = Duration::from_secs(120);
/// The unit of room.
const UNIT_BYTES: u64 = 1 << 10;
/// The head of each message: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

/// The room for requests.
pub(crate) struct Requests {
    /// The longest message.
    each: u64,
    all: Arc<Semaphore>,
    /// Room of tenants with calls under way.
    tenants: Mutex<HashMap<Arc<str>, Weak<Semaphore>>>,
}

/// Room that a call holds.
type Taken = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Requests {
    /// A message has at most `each` bytes; the messages of a tenant have as many together, and those of all tenants
    /// twice as many.
    pub(crate) fn new(each: u64) -> Self {
        let all = Arc::new(Semaphore::new(units(2 * each)));
        Self { each, all, tenants: Mutex::default() }
    }

    fn of(&self, tenant: &Arc<str>) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = tenants.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        tenants.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(units(self.each)));
        tenants.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }

    fn check(&self, bytes: u64) -> Result<()> {
        if bytes <= self.each {
            return Ok(());
        }
        let message = format!("a request has {bytes} bytes, and the dispatcher takes {} at most", self.each);
        Err(Error::new(ErrorKind::Exhausted, message).hint(
            "name files by a pattern instead of one by one, and hand in arrays as files; or start the dispatcher with a larger \
             --request-bytes",
        ))
    }

    async fn take(&self, own: &Arc<Semaphore>, bytes: u64) -> Result<Taken> {
        let wanted = units(bytes.min(self.each)) as u32;
        let closed = |_| Error::internal("there is no room for requests");
        let take = async {
            let of_tenant = own.clone().acquire_many_owned(wanted).await.map_err(closed)?;
            Ok((of_tenant, self.all.clone().acquire_many_owned(wanted).await.map_err(closed)?))
        };
        tokio::time::timeout(WAIT_MAX, take).await.unwrap_or_else(|_| {
            let message = format!("the dispatcher has had no room for a request of {bytes} bytes for {WAIT_MAX:?}");
            Err(Error::new(ErrorKind::Exhausted, message).hint("open fewer jobs with large pipelines at once"))
        })
    }
}

fn units(bytes: u64) -> usize {
    bytes.div_ceil(UNIT_BYTES) as usize
}

/// Finds where messages begin in the bytes of a call.
#[derive(Default)]
struct Lengths {
    head: Vec<u8>,
    /// Bytes of the current message that are still to come.
    left: u64,
}

impl Lengths {
    /// Returns the lengths of the messages that begin in these bytes.
    fn read(&mut self, mut bytes: Bytes) -> Vec<u64> {
        let mut begun = Vec::new();
        while !bytes.is_empty() {
            if self.left > 0 {
                let passed = self.left.min(bytes.len() as u64);
                bytes.advance(passed as usize);
                self.left -= passed;
                continue;
            }
            self.head.push(bytes.get_u8());
            if let [_, length @ ..] = &self.head[..]
                && let Ok(length) = <[u8; HEAD_BYTES - 1]>::try_from(length)
            {
                self.left = u32::from_be_bytes(length).into();
                begun.push(self.left);
                self.head.clear();
            }
        }
        begun
    }
}

/// One call under way.
struct Call {
    requests: Arc<Requests>,
    own: Arc<Semaphore>,
    lengths: Lengths,
    /// When the current message must have arrived.
    due: Option<Instant>,
    taken: Arc<Mutex<Option<Taken>>>,
}

impl Call {
    /// Waits for room for the messages that begin in these bytes.
    async fn admit(&mut self, bytes: &Bytes) -> Result<()> {
        let begun = self.lengths.read(bytes.clone());
        let is_whole = self.lengths.left == 0 && self.lengths.head.is_empty();
        let due = || Instant::now() + ARRIVAL_MAX;
        if begun.is_empty() {
            self.due = if is_whole { None } else { self.due.or_else(|| Some(due())) };
            return Ok(());
        }
        begun.iter().try_for_each(|bytes| self.requests.check(*bytes))?;
        *self.taken() = None;
        let long = begun.iter().filter(|bytes| **bytes > SHORT_BYTES).sum();
        if long > 0 {
            let taken = self.requests.take(&self.own, long).await?;
            *self.taken() = Some(taken);
        }
        // The wait for room does not count.
        self.due = (!is_whole).then(due);
        Ok(())
    }

    /// Waits until the current message is late; for ever between two messages.
    async fn late(due: Option<Instant>) -> Error {
        match due {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
        Error::unavailable(format!("a request has not arrived within {ARRIVAL_MAX:?}"))
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service whose requests are bounded.
#[derive(Clone)]
pub(crate) struct Bounded<S> {
    pub(crate) inner: S,
    pub(crate) requests: Arc<Requests>,
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Bounded<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let no_tenant = Arc::<str>::default;
        let tenant = request.extensions().get::<Arc<Principal>>().map_or_else(no_tenant, |p| p.tenant.name.clone());
        let (requests, taken) = (self.requests.clone(), Arc::default());
        let call = Call {
            own: requests.of(&tenant),
            requests,
            lengths: Lengths::default(),
            due: None,
            taken: Arc::clone(&taken),
        };
        let answer = self.inner.call(request.map(|body| read(body, call)));
        Box::pin(async move { answer.await.map(|answer| answer.map(|body| holding(body, taken))) })
    }
}

/// Returns the bytes of a request; the bytes of a message follow once there is room for it.
fn read(body: Body, call: Call) -> Body {
    let frames = stream::unfold((BodyStream::new(body), call, false), |(mut frames, mut call, over)| async move {
        let next = tokio::select! {
            biased;
            frame = frames.next() => frame.filter(|_| !over)?,
            late = Call::late(call.due) => Err(to_status(&late)),
        };
        let frame = match next {
            Ok(frame) => frame,
            Err(status) => return Some((Err(status), (frames, call, true))),
        };
        let admitted = match frame.data_ref() {
            Some(bytes) => call.admit(bytes).await,
            None => Ok(()),
        };
        let frame = admitted.map(|()| frame).map_err(|e| to_status(&e));
        let over = frame.is_err();
        Some((frame, (frames, call, over)))
    });
    Body::new(StreamBody::new(frames))
}

/// Returns an answer that holds the room of its request until it is over.
fn holding(body: Body, taken: Arc<Mutex<Option<Taken>>>) -> Body {
    Body::new(
        body.map_frame(move |frame| {
            let _held = &taken;
            frame
        })
        .map_err(|status: Status| status),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize) -> Vec<u8> {
        [&[0][..], &(bytes as u32).to_be_bytes(), &vec![7; bytes]].concat()
    }

    #[test]
    fn lengths_are_found_however_the_bytes_are_cut() {
        let sizes = [0usize, 3, 70_000, 1, 0, 5];
        let bytes: Vec<u8> = sizes.iter().flat_map(|size| message(*size)).collect();
        for cut in [1, 2, 3, 4, 5, 7, 64, 70_001, 1 << 20] {
            let mut lengths = Lengths::default();
            let begun: Vec<_> = bytes.chunks(cut).flat_map(|part| lengths.read(Bytes::copy_from_slice(part))).collect();
            assert_eq!(begun, sizes.map(|size| size as u64), "{cut}");
        }
    }

    #[tokio::test]
    async fn a_tenant_that_takes_all_of_its_room_leaves_others_theirs() -> Result<()> {
        let requests = Arc::new(Requests::new(8 << 20));
        let call = |tenant: &str| {
            let own = requests.of(&tenant.into());
            Call { requests: requests.clone(), own, lengths: Lengths::default(), due: None, taken: Arc::default() }
        };
        let (mut first, mut second, mut other) = (call("a"), call("a"), call("b"));
        let large = Bytes::from(message(8 << 20));
        first.admit(&large.slice(..9)).await?;
        let waits = tokio::time::timeout(Duration::from_millis(20), second.admit(&large.slice(..9))).await;
        assert!(waits.is_err(), "its length alone takes the room");
        other.admit(&large).await?;
        call("a").admit(&Bytes::from(message(1000))).await?;
        // The room of a message is free when the next one begins.
        first.admit(&large.slice(9..)).await?;
        first.admit(&Bytes::from(message(8))).await?;
        let mut third = call("a");
        third.admit(&large).await?;
        drop(third);
        call("a").admit(&large).await?;
        let refused = call("c").admit(&Bytes::from(message(9 << 20))).await.expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::Exhausted);
        Ok(())
    }
}
