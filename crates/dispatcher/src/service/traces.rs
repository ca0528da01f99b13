//! Traces of consumers, passed on from the consumer that records one to the caller that requested it.
//!
//! They are no part of the dispatcher's state: nothing is kept, and a trace that breaks off is requested again. Bounds:
//! [`TRACES_MAX`] traces at a time, [`SECONDS_MAX`] seconds and [`PARTS_MAX`] parts of a trace, [`QUEUE_MAX`] parts that
//! wait for their reader. Invariant: a caller gets traces of its own tenant's sessions alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_core::{Error, ErrorKind, Result};
use forebay_proto::consumer_event::Event;
use forebay_proto::{Attach, ConsumerEvent, StartTrace, TraceJobRequest, TracePart};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::refuse;

/// Traces that are recorded at a time.
const TRACES_MAX: usize = 16;
/// The longest trace.
const SECONDS_MAX: u32 = 300;
/// Parts of a trace, of at most 512 KiB each.
const PARTS_MAX: usize = 1024;
/// Parts that wait for the caller.
const QUEUE_MAX: usize = 8;
const PART_BYTES_MAX: usize = 512 << 10;

type Events = mpsc::WeakSender<Result<ConsumerEvent, Status>>;
type Parts = mpsc::Sender<Result<TracePart, Status>>;

/// The sessions that can record, and the traces that are on their way.
#[derive(Default)]
pub(crate) struct Traces(Mutex<State>);

#[derive(Default)]
struct State {
    last: u64,
    sessions: BTreeMap<u64, Session>,
    wanted: BTreeMap<u64, Wanted>,
}

/// A consumer that is attached.
struct Session {
    tenant: Arc<str>,
    job: String,
    consumer: u32,
    events: Events,
}

/// A trace that a caller waits for.
struct Wanted {
    tenant: Arc<str>,
    /// The consumer and its job, for people.
    of: String,
    parts: Parts,
}

/// The way of a trace to its caller. If it is dropped before the end, the caller gets an error: the consumer's process
/// has died.
struct TraceRelay {
    of: String,
    parts: Parts,
    is_over: bool,
}

impl Drop for TraceRelay {
    fn drop(&mut self) {
        if !self.is_over {
            let gone = Error::unavailable(format!("{} sent no trace: its process has ended", self.of));
            let parts = self.parts.clone();
            // The caller may have parts to read first; without a caller it ends at once.
            tokio::spawn(async move { drop(parts.send(Err(refuse(gone))).await) });
        }
    }
}

/// Keeps a session known until it is dropped.
pub(super) struct Registration {
    traces: Arc<Traces>,
    number: u64,
}

impl Traces {
    /// Registers the session of a consumer.
    pub(super) fn register(self: &Arc<Self>, tenant: Arc<str>, attach: &Attach, events: Events) -> Registration {
        let mut state = self.lock();
        state.last += 1;
        let number = state.last;
        state
            .sessions
            .insert(number, Session { tenant, job: attach.job_name.clone(), consumer: attach.consumer, events });
        Registration { traces: self.clone(), number }
    }

    /// Requests a trace from a consumer.
    ///
    /// # Errors
    /// NotFound if no process reads as that consumer; Invalid for a time out of range; Exhausted while too many traces
    /// are recorded.
    pub(super) fn request(
        &self,
        tenant: Arc<str>,
        request: &TraceJobRequest,
    ) -> Result<ReceiverStream<Result<TracePart, Status>>> {
        let TraceJobRequest { name, consumer, seconds, .. } = request;
        if !(1..=SECONDS_MAX).contains(seconds) {
            return Err(Error::invalid(format!("a trace takes 1 to {SECONDS_MAX} seconds, not {seconds}")));
        }
        let mut state = self.lock();
        state.wanted.retain(|_, wanted| !wanted.parts.is_closed());
        if state.wanted.len() >= TRACES_MAX {
            let message = format!("{TRACES_MAX} traces are being recorded");
            return Err(Error::new(ErrorKind::Exhausted, message).hint("try again when one has ended"));
        }
        let is_of =
            |session: &&Session| session.tenant == tenant && session.job == *name && session.consumer == *consumer;
        // The last session of a consumer is the one that is open.
        let events = state.sessions.values().rev().find(is_of).and_then(|session| session.events.upgrade());
        let Some(events) = events else {
            let message = format!("no process reads job {name:?} as consumer {consumer}");
            return Err(Error::new(ErrorKind::NotFound, message)
                .hint("`forebay jobs` lists jobs; a job can be traced while it is read"));
        };
        let (parts, stream) = mpsc::channel(QUEUE_MAX);
        state.last += 1;
        let trace = state.last;
        let event = Event::StartTrace(StartTrace { trace, seconds: *seconds });
        let sent = events.try_send(Ok(ConsumerEvent { event: Some(event) }));
        sent.map_err(|_| Error::unavailable(format!("consumer {consumer} of job {name:?} does not answer")))?;
        let of = format!("consumer {consumer} of job {name:?}");
        state.wanted.insert(trace, Wanted { tenant, of, parts });
        Ok(ReceiverStream::new(stream))
    }

    /// Passes a trace on to its caller, part by part. It ends when either side does.
    ///
    /// # Errors
    /// NotFound if no caller waits for it; Exhausted if it is too long.
    pub(super) async fn put(
        &self,
        tenant: &str,
        mut inbound: impl Stream<Item = Result<TracePart, Status>> + Unpin,
    ) -> Result<(), Status> {
        let mut relay: Option<TraceRelay> = None;
        for _ in 0..PARTS_MAX {
            let next = match &relay {
                None => inbound.next().await,
                Some(relay) => tokio::select! {
                    next = inbound.next() => next,
                    () = relay.parts.closed() => None,
                },
            };
            let Some(part) = next.transpose()? else {
                relay.iter_mut().for_each(|relay| relay.is_over = true);
                return Ok(());
            };
            if part.data.len() > PART_BYTES_MAX {
                return Err(refuse(Error::invalid(format!("a part of a trace has at most {PART_BYTES_MAX} bytes"))));
            }
            let relay = match &mut relay {
                Some(relay) => relay,
                None => relay.insert(self.take(tenant, part.trace).map_err(refuse)?),
            };
            // Without a caller, the next turn ends.
            let _ = relay.parts.send(Ok(part)).await;
        }
        Err(refuse(Error::new(ErrorKind::Exhausted, format!("a trace has at most {PARTS_MAX} parts"))))
    }

    fn take(&self, tenant: &str, trace: u64) -> Result<TraceRelay> {
        let mut state = self.lock();
        let is_own = state.wanted.get(&trace).is_some_and(|wanted| *wanted.tenant == *tenant);
        let wanted = is_own.then(|| state.wanted.remove(&trace)).flatten();
        wanted
            .map(|Wanted { of, parts, .. }| TraceRelay { of, parts, is_over: false })
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no caller waits for this trace"))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.traces.lock().sessions.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    fn attach(job: &str, consumer: u32) -> Attach {
        Attach { job_name: job.to_owned(), consumer, ..Attach::default() }
    }

    fn request(name: &str, seconds: u32) -> TraceJobRequest {
        TraceJobRequest { name: name.to_owned(), seconds, ..TraceJobRequest::default() }
    }

    #[tokio::test]
    async fn a_trace_goes_to_its_caller_and_to_no_other_tenant() {
        let traces = Arc::new(Traces::default());
        let (events, mut received) = mpsc::channel(4);
        let registered = traces.register("us".into(), &attach("a", 0), events.downgrade());
        for (tenant, name, seconds) in [("them", "a", 1), ("us", "b", 1), ("us", "a", 0), ("us", "a", 301)] {
            assert!(traces.request(tenant.into(), &request(name, seconds)).is_err(), "{tenant} {name} {seconds}");
        }
        let mut answer = traces.request("us".into(), &request("a", 5)).expect("the consumer is there");
        let Some(Ok(ConsumerEvent { event: Some(Event::StartTrace(StartTrace { trace, seconds: 5 })) })) =
            received.recv().await
        else {
            panic!("the consumer is asked")
        };
        let part = |data: &[u8]| TracePart { trace, data: data.to_vec(), ..TracePart::default() };
        let sent = || stream::iter([Ok(part(b"{")), Ok(part(b"}"))]);
        assert!(traces.put("them", sent()).await.is_err(), "it is not theirs");
        traces.put("us", sent()).await.expect("it is passed on");
        let mut bytes = Vec::new();
        while let Some(part) = answer.next().await {
            bytes.extend(part.expect("a part").data);
        }
        assert_eq!(bytes, b"{}");
        assert!(traces.put("us", sent()).await.is_err(), "it was taken");
        let mut broken = traces.request("us".into(), &request("a", 5)).expect("the consumer is there");
        let Some(Ok(ConsumerEvent { event: Some(Event::StartTrace(StartTrace { trace, .. })) })) =
            received.recv().await
        else {
            panic!("the consumer is asked")
        };
        let begun = TracePart { trace, ..TracePart::default() };
        let breaks = stream::iter([Ok(begun), Err(Status::cancelled("the connection broke"))]);
        assert!(traces.put("us", breaks).await.is_err());
        assert!(broken.next().await.is_some_and(|part| part.is_ok_and(|part| part.data.is_empty())));
        let gone = broken.next().await.expect("the caller is told").expect_err("there is no trace");
        assert!(gone.message().contains("consumer 0 of job \"a\" sent no trace"), "{gone}");
        drop(registered);
        assert!(traces.request("us".into(), &request("a", 5)).is_err(), "the consumer has gone");
    }

    #[tokio::test]
    async fn traces_at_a_time_are_bounded_and_given_up_with_their_callers() {
        let traces = Arc::new(Traces::default());
        let (events, _received) = mpsc::channel(1000);
        let _registered = traces.register("us".into(), &attach("a", 0), events.downgrade());
        let request = || traces.request("us".into(), &request("a", 5));
        let open: Vec<_> = (0..TRACES_MAX).map(|_| request().expect("there is room")).collect();
        assert_eq!(request().err().map(|e| e.kind()), Some(ErrorKind::Exhausted));
        drop(open);
        assert!(request().is_ok());
    }
}
