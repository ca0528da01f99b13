//! Measures how fast a dispatcher grants on this machine: a dispatcher on a port, one simulated worker and one
//! simulated consumer.
//!
//! Why here: `forebay bench` reports it for its machine. The sessions are real ones over a socket, but no split is
//! computed, so only granting is measured. The dispatcher is then ended as by a crash: its tasks are dropped, no
//! session gets an end, and nothing is written. Invariant: a split counts when its worker *and* its consumer were sent
//! it, which is after it was durable.

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::{Graph, Source};
use forebay_proto::{
    Ack, Attach, ConsumerEvent, ConsumerMessage, DispatcherClient, Hello, Link, OpenJobRequest, Remote,
    UNNUMBERED_VERSION, Want, WorkerEvent, WorkerHeartbeat, WorkerMessage, client, consumer_event, consumer_message,
    open_job_event, reach, to_error, worker_event, worker_message,
};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::{Dispatcher, Options};

/// The longest wait of any step.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a folder that a killed predecessor still holds is tried again.
const LOOK: Duration = Duration::from_millis(1);
/// The consumer's window: splits ahead of its frontier.
const WINDOW: u32 = 1024;
/// Rows of an epoch; the job is without end.
const ROWS: i64 = 64_000;

/// The speed of a dispatcher on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrantFigures {
    /// Splits that were granted, each durable before its worker was sent it.
    pub splits: u64,
    /// The duration of that.
    pub granting: Duration,
    /// From starting a dispatcher on the same folder, after a crash, until it listens.
    pub restart: Duration,
    /// The same, until a worker and its consumer have the next split.
    pub restart_to_grant: Duration,
}

/// Grants `splits` splits, ends the dispatcher as a crash does, and starts it again. The ledger lies in `dir`, whose
/// disk affects the result. Must not be called within a runtime.
///
/// # Errors
/// Conflict when `dir` is a dispatcher's already; Unavailable when a session breaks; those of the disk.
pub fn measure_grants(dir: &Path, splits: u64) -> Result<GrantFigures> {
    let ours = runtime()?;
    let first = Running::start(dir)?;
    let (job, granting, at) = ours.block_on(async {
        let job = first.open_job().await?;
        let (granting, at) = grant(&first, job, splits).await?;
        Ok::<_, Error>((job, granting, at))
    })?;
    drop(first);
    let start = Instant::now();
    let second = Running::start(dir)?;
    let restart = start.elapsed();
    ours.block_on(async {
        let mut consumer = Consumer::attach(&second, job, Some(at)).await?;
        let mut worker = Worker::hello(&second).await?;
        worker.want(1).await;
        worker.lease().await?;
        consumer.assigned().await
    })?;
    Ok(GrantFigures { splits, granting, restart, restart_to_grant: start.elapsed() })
}

/// Returns the duration, and the first split that was not granted, as (epoch, ordinal).
async fn grant(dispatcher: &Running, job: u64, splits: u64) -> Result<(Duration, (u64, u64))> {
    let mut consumer = Consumer::attach(dispatcher, job, None).await?;
    let mut worker = Worker::hello(dispatcher).await?;
    let start = Instant::now();
    let work = tokio::spawn(async move {
        for granted in 0..splits {
            if granted % u64::from(WINDOW) == 0 {
                worker.want(2 * WINDOW).await;
                worker.heartbeat().await;
            }
            worker.lease().await?;
        }
        Ok::<_, Error>(())
    });
    let mut at = (0, 0);
    for granted in 1..=splits {
        let (epoch, ordinal) = consumer.assigned().await?;
        at = (epoch, ordinal + 1);
        if granted % u64::from(WINDOW / 2) == 0 {
            consumer.ack(at).await;
        }
    }
    let granting = start.elapsed();
    work.await.map_err(|e| Error::internal(e.to_string()))??;
    Ok((granting, at))
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// A dispatcher in this process, on a runtime of its own, which ends all of it when dropped.
struct Running {
    address: String,
    runtime: Option<Runtime>,
}

impl Running {
    fn start(dir: &Path) -> Result<Self> {
        let options = Options { listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), ..Options::new(dir) };
        let runtime = runtime()?;
        let end = Instant::now() + PATIENCE;
        let (address, dispatcher) = loop {
            match runtime.block_on(Dispatcher::bind(options.clone())) {
                Err(e) if e.kind() == ErrorKind::Conflict && Instant::now() < end => std::thread::sleep(LOOK),
                bound => break bound?,
            }
        };
        runtime.spawn(dispatcher.run(CancellationToken::new()));
        Ok(Self { address: address.to_string(), runtime: Some(runtime) })
    }

    async fn client(&self) -> Result<DispatcherClient<Link>> {
        Ok(client(reach(&Remote::new(&*self.address), PATIENCE).await?))
    }

    fn failed(&self, status: &tonic::Status) -> Error {
        to_error(status, &self.address)
    }

    async fn open_job(&self) -> Result<u64> {
        let graph = Graph::new(Source::Range { start: 0, stop: ROWS, step: 1 }, None)?;
        let request = OpenJobRequest {
            version: UNNUMBERED_VERSION.to_owned(),
            name: "bench".to_owned(),
            graph: graph.to_json(),
            seed: 0,
            epochs: 0,
            consumers: 1,
            even: false,
            coordinated: false,
            weight: 1,
            priority: 0,
            ending: 0,
            build: None,
        };
        let opened = self.client().await?.open_job(request).await;
        let mut events = opened.map_err(|s| self.failed(&s))?.into_inner();
        while let Some(event) = events.message().await.map_err(|s| self.failed(&s))? {
            if let Some(open_job_event::Event::Opened(job)) = event.event {
                return Ok(job.job);
            }
        }
        Err(Error::internal("the dispatcher ended without opening the job"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the next event of a session.
async fn event<T>(events: &mut Streaming<T>) -> Result<T> {
    let message = tokio::time::timeout(PATIENCE, events.message()).await;
    let message = message.map_err(|_| Error::unavailable("the dispatcher said nothing in time"))?;
    message.map_err(|s| to_error(&s, "the dispatcher"))?.ok_or_else(|| Error::unavailable("the session ended"))
}

/// A worker that takes leases and computes nothing.
struct Worker {
    out: mpsc::Sender<WorkerMessage>,
    events: Streaming<WorkerEvent>,
}

impl Worker {
    async fn hello(dispatcher: &Running) -> Result<Self> {
        let (out, outbox) = mpsc::channel(64);
        let (version, secret) = (UNNUMBERED_VERSION.to_owned(), 1u128.to_be_bytes().to_vec());
        let hello = Hello { version, secret, address: "127.0.0.1:1".to_owned(), threads: 1, ..Hello::default() };
        send(&out, WorkerMessage { message: Some(worker_message::Message::Hello(hello)) }).await;
        let events = dispatcher.client().await?.work(ReceiverStream::new(outbox)).await;
        Ok(Self { out, events: events.map_err(|s| dispatcher.failed(&s))?.into_inner() })
    }

    async fn want(&self, splits: u32) {
        send(&self.out, WorkerMessage { message: Some(worker_message::Message::Want(Want { splits })) }).await;
    }

    async fn heartbeat(&self) {
        let beat = worker_message::Message::Heartbeat(WorkerHeartbeat::default());
        send(&self.out, WorkerMessage { message: Some(beat) }).await;
    }

    /// Waits for the next lease, and ignores all other events of a worker.
    async fn lease(&mut self) -> Result<()> {
        loop {
            if let Some(worker_event::Event::Lease(_)) = event(&mut self.events).await?.event {
                return Ok(());
            }
        }
    }
}

/// A consumer that reads no data.
struct Consumer {
    out: mpsc::Sender<ConsumerMessage>,
    events: Streaming<ConsumerEvent>,
}

impl Consumer {
    async fn attach(dispatcher: &Running, job: u64, from: Option<(u64, u64)>) -> Result<Self> {
        let (out, outbox) = mpsc::channel(64);
        let (epoch, ordinal) = from.unwrap_or_default();
        let version = UNNUMBERED_VERSION.to_owned();
        let attach = Attach {
            version,
            job,
            consumer: 0,
            epoch,
            ordinal,
            resume: from.is_some(),
            window: WINDOW,
            ..Attach::default()
        };
        send(&out, ConsumerMessage { message: Some(consumer_message::Message::Attach(attach)) }).await;
        let events = dispatcher.client().await?.consume(ReceiverStream::new(outbox)).await;
        Ok(Self { out, events: events.map_err(|s| dispatcher.failed(&s))?.into_inner() })
    }

    async fn ack(&self, (epoch, ordinal): (u64, u64)) {
        let ack = consumer_message::Message::Ack(Ack { epoch, ordinal });
        send(&self.out, ConsumerMessage { message: Some(ack) }).await;
    }

    /// Waits for the next assignment and returns its (epoch, ordinal).
    async fn assigned(&mut self) -> Result<(u64, u64)> {
        loop {
            if let Some(consumer_event::Event::Assigned(a)) = event(&mut self.events).await?.event {
                return Ok((a.epoch, a.ordinal));
            }
        }
    }
}

/// The wait for the next event notices a session that is gone.
async fn send<T>(out: &mpsc::Sender<T>, message: T) {
    let _ = out.send(message).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_are_counted_and_a_crashed_dispatcher_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let figures = measure_grants(dir.path(), 3000).expect("measured");
        assert_eq!(figures.splits, 3000);
        assert!(figures.restart <= figures.restart_to_grant);
    }
}
