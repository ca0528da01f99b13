//! Hand-made workers and readers over a real socket, and a dispatcher that can be dropped as a crash drops it.

#![expect(clippy::disallowed_methods, reason = "tests poll services")]
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result, SystemClock};
use forebay_dispatcher::{Allowed, Dispatcher, Indexed, Indexer, Options};
use forebay_plan::{Extent, Graph, Source};
use forebay_proto::{
    Ack, Attach, ConsumerEvent, ConsumerHeartbeat, ConsumerMessage, DispatcherClient, Hello, JobDefinition, Lease,
    Link, OpenJobRequest, Remote, UNNUMBERED_VERSION, Want, WorkerEvent, WorkerHeartbeat, WorkerMessage, client,
    consumer_event, consumer_message, open_job_event, reach, to_error, worker_event, worker_message,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Counts a range without looking at any file.
pub(crate) struct RangeIndexer;

impl Indexer for RangeIndexer {
    fn index(
        &self,
        source: &Source,
        _: &Allowed,
        _: bool,
        progress: &(dyn Fn(u64, u64) -> Result<()> + Sync),
    ) -> Result<Indexed> {
        progress(1, 1)?;
        let rows = source.rows();
        Ok(Indexed {
            bytes: b"an index".to_vec(),
            extent: Extent { rows, blocks: 1, bytes: rows.unwrap_or(0) * 8, is_compressed: false, parts: Vec::new() },
        })
    }
}

/// A running dispatcher. Dropping it acts like SIGKILL: nothing is written, and no session gets an end.
pub(crate) struct Running {
    pub(crate) address: String,
    pub(crate) shutdown: CancellationToken,
    /// A runtime of its own: dropping it drops every task of the dispatcher and closes every connection.
    runtime: Option<tokio::runtime::Runtime>,
    pub(crate) task: tokio::task::JoinHandle<Result<()>>,
}

impl Running {
    pub(crate) fn start(dir: &Path, set: impl FnOnce(&mut Options)) -> Result<Self> {
        let mut options = Options::new(dir);
        options.listen.set_port(0);
        set(&mut options);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let shutdown = CancellationToken::new();
        let until = Instant::now() + PATIENCE;
        loop {
            let bind = Dispatcher::bind_with(options.clone(), Arc::new(RangeIndexer), Arc::new(SystemClock::default()));
            let bound = std::thread::scope(|s| s.spawn(|| runtime.block_on(bind)).join());
            match bound.map_err(|_| Error::internal("bind panicked"))? {
                Ok((address, dispatcher)) => {
                    let task = runtime.spawn(dispatcher.run(shutdown.clone()));
                    return Ok(Self { address: address.to_string(), shutdown, runtime: Some(runtime), task });
                }
                // A killed predecessor may take a moment to let go of its files.
                Err(e) if e.kind() == ErrorKind::Conflict && Instant::now() < until => std::thread::yield_now(),
                Err(e) => return Err(e),
            }
        }
    }

    pub(crate) async fn client(&self) -> Result<DispatcherClient<Link>> {
        Ok(client(reach(&Remote::new(&*self.address), PATIENCE).await?))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn graph(rows: i64) -> Result<Graph> {
    Graph::new(Source::Range { start: 0, stop: rows, step: 1 }, None)
}

pub(crate) fn request(name: &str, rows: i64, epochs: u64, consumers: u32) -> Result<OpenJobRequest> {
    Ok(OpenJobRequest {
        version: UNNUMBERED_VERSION.to_owned(),
        name: name.to_owned(),
        graph: graph(rows)?.to_json(),
        seed: 7,
        epochs,
        consumers,
        even: false,
        coordinated: false,
        weight: 1,
        priority: 0,
        ending: 0,
        build: None,
    })
}

pub(crate) async fn open(at: &Running, request: OpenJobRequest) -> Result<JobDefinition> {
    let failed = |s: tonic::Status| to_error(&s, &at.address);
    let mut events = at.client().await?.open_job(request).await.map_err(failed)?.into_inner();
    while let Some(event) = events.message().await.map_err(failed)? {
        if let Some(open_job_event::Event::Opened(job)) = event.event {
            return Ok(job);
        }
    }
    Err(Error::internal("the stream ended without a job"))
}

async fn event<T>(events: &mut Streaming<T>) -> Result<T> {
    let message = tokio::time::timeout(PATIENCE, events.message()).await;
    let message = message.map_err(|_| Error::internal("nothing was said in time"))?;
    message.map_err(|s| to_error(&s, "the dispatcher"))?.ok_or_else(|| Error::unavailable("the session ended"))
}

pub(crate) struct Worker {
    out: mpsc::Sender<WorkerMessage>,
    events: Streaming<WorkerEvent>,
}

impl Worker {
    pub(crate) async fn hello(at: &Running, id: u128, held: Vec<Lease>) -> Result<Self> {
        let (out, outbox) = mpsc::channel(1024);
        let hello = Hello {
            version: UNNUMBERED_VERSION.to_owned(),
            secret: id.to_be_bytes().to_vec(),
            address: format!("worker-{id}:1"),
            threads: 1,
            held,
            ..Hello::default()
        };
        let first = WorkerMessage { message: Some(worker_message::Message::Hello(hello)) };
        out.send(first).await.map_err(|_| Error::internal("closed"))?;
        let events = at.client().await?.work(ReceiverStream::new(outbox)).await;
        let mut worker = Self { out, events: events.map_err(|s| to_error(&s, &at.address))?.into_inner() };
        match worker.next().await? {
            worker_event::Event::Welcome(_) => Ok(worker),
            other => Err(Error::internal(format!("{other:?} and no welcome"))),
        }
    }

    pub(crate) async fn say(&self, message: worker_message::Message) {
        // The dispatcher may be gone, which the next event shows.
        let _ = self.out.send(WorkerMessage { message: Some(message) }).await;
    }

    pub(crate) async fn want(&self, splits: u32) {
        self.say(worker_message::Message::Want(Want { splits })).await;
    }

    pub(crate) async fn heartbeat(&self) {
        self.say(worker_message::Message::Heartbeat(WorkerHeartbeat::default())).await;
    }

    /// Returns the next event that is no heartbeat.
    pub(crate) async fn next(&mut self) -> Result<worker_event::Event> {
        loop {
            match event(&mut self.events).await?.event {
                Some(worker_event::Event::Heartbeat(_)) | None => {}
                Some(event) => return Ok(event),
            }
        }
    }

    /// Returns the next lease, and ignores job definitions and consumed splits.
    pub(crate) async fn lease(&mut self) -> Result<Lease> {
        loop {
            match self.next().await? {
                worker_event::Event::Lease(lease) => return Ok(lease),
                worker_event::Event::Job(_) | worker_event::Event::Consumed(_) => {}
                other => return Err(Error::internal(format!("{other:?} and no lease"))),
            }
        }
    }

    pub(crate) async fn leases(&mut self, count: usize) -> Result<Vec<Lease>> {
        let mut leases = Vec::new();
        while leases.len() < count {
            leases.push(self.lease().await?);
        }
        Ok(leases)
    }
}

pub(crate) struct Consumer {
    out: mpsc::Sender<ConsumerMessage>,
    events: Streaming<ConsumerEvent>,
}

impl Consumer {
    pub(crate) async fn attach(
        at: &Running,
        job: u64,
        consumer: u32,
        from: Option<(u64, u64)>,
        window: u32,
    ) -> Result<Self> {
        let (out, outbox) = mpsc::channel(1024);
        let (epoch, ordinal) = from.unwrap_or_default();
        let version = UNNUMBERED_VERSION.to_owned();
        let attach =
            Attach { version, job, consumer, epoch, ordinal, resume: from.is_some(), window, ..Attach::default() };
        let first = ConsumerMessage { message: Some(consumer_message::Message::Attach(attach)) };
        out.send(first).await.map_err(|_| Error::internal("closed"))?;
        let events = at.client().await?.consume(ReceiverStream::new(outbox)).await;
        let mut consumer = Self { out, events: events.map_err(|s| to_error(&s, &at.address))?.into_inner() };
        match consumer.next().await? {
            consumer_event::Event::Attached(_) => Ok(consumer),
            other => Err(Error::internal(format!("{other:?} and not attached"))),
        }
    }

    pub(crate) async fn say(&self, message: consumer_message::Message) {
        // The dispatcher may be gone, which the next event shows.
        let _ = self.out.send(ConsumerMessage { message: Some(message) }).await;
    }

    pub(crate) async fn ack(&self, epoch: u64, ordinal: u64) {
        self.say(consumer_message::Message::Ack(Ack { epoch, ordinal })).await;
    }

    pub(crate) async fn heartbeat(&self) {
        self.say(consumer_message::Message::Heartbeat(ConsumerHeartbeat::default())).await;
    }

    /// Returns the next event that is no heartbeat.
    pub(crate) async fn next(&mut self) -> Result<consumer_event::Event> {
        loop {
            match event(&mut self.events).await?.event {
                Some(consumer_event::Event::Heartbeat(_)) | None => {}
                Some(event) => return Ok(event),
            }
        }
    }

    /// Returns the next assignment: (epoch, ordinal), token, address.
    pub(crate) async fn assigned(&mut self) -> Result<((u64, u64), u64, String)> {
        match self.next().await? {
            consumer_event::Event::Assigned(a) => Ok(((a.epoch, a.ordinal), a.token, a.address)),
            other => Err(Error::internal(format!("{other:?} and no assignment"))),
        }
    }
}
