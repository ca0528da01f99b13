//! Measures a dispatcher that gets only the heartbeats of many workers: `heartbeats HOST:PORT WORKERS SECONDS [PID]`.
//!
//! Opens a Work session on a connection of its own for each worker, beats once a second on each, evenly spread, and
//! prints how many answers came and, with the dispatcher's process id, its CPU time (Linux).

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};
use forebay_proto::{
    Hello, Remote, UNNUMBERED_VERSION, WorkerHeartbeat, WorkerMessage, attempt, client, to_error, worker_event,
    worker_message,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

const BEAT: Duration = Duration::from_secs(1);
/// The kernel's unit of a process's CPU time.
const TICKS_PER_S: f64 = 100.0;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, workers, seconds, pid @ ..] = &arguments[..] else {
        return Err(Error::invalid("heartbeats HOST:PORT WORKERS SECONDS [PID]"));
    };
    let number = |text: &str| text.parse::<u64>().map_err(|e| Error::invalid(format!("{text}: {e}")));
    let (workers, seconds) = (number(workers)?, number(seconds)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let answers = Arc::new(AtomicU64::new(0));
        for worker in 0..workers {
            session(address, worker, BEAT.mul_f64(worker as f64 / workers as f64), answers.clone()).await?;
        }
        println!("{workers} workers");
        tokio::time::sleep(BEAT * 2).await;
        let (start, before, spent) = (Instant::now(), answers.load(Relaxed), cpu(pid));
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (took, heard) = (start.elapsed().as_secs_f64(), answers.load(Relaxed) - before);
        println!("{:.0} heartbeats answered a second", heard as f64 / took);
        if let (Some(before), Some(after)) = (spent, cpu(pid)) {
            println!("{:.1} % of a core", 100.0 * (after - before) / took);
        }
        Ok(())
    })
}

/// Seconds of CPU time of the process named by `pid`.
fn cpu(pid: &[String]) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.first()?)).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_S)
}

async fn session(address: &str, worker: u64, phase: Duration, answers: Arc<AtomicU64>) -> Result<()> {
    let (out, outbox) = mpsc::channel(4);
    let message = |message| WorkerMessage { message: Some(message) };
    let hello = worker_message::Message::Hello(Hello {
        version: UNNUMBERED_VERSION.to_owned(),
        secret: u128::from(worker + 1).to_be_bytes().to_vec(),
        address: format!("127.0.0.1:{}", 1024 + worker % 60_000),
        threads: 1,
        ..Hello::default()
    });
    let _ = out.send(message(hello)).await;
    let events = client(attempt(&Remote::new(address)).await?).work(ReceiverStream::new(outbox)).await;
    let mut events = events.map_err(|status| to_error(&status, address))?.into_inner();
    tokio::spawn(async move {
        let mut beat = tokio::time::interval_at(tokio::time::Instant::now() + phase, BEAT);
        loop {
            tokio::select! {
                _ = beat.tick() => {
                    let beat = worker_message::Message::Heartbeat(WorkerHeartbeat::default());
                    if out.send(message(beat)).await.is_err() {
                        return;
                    }
                }
                event = events.message() => match event {
                    Ok(Some(event)) => {
                        let heard = matches!(event.event, Some(worker_event::Event::Heartbeat(_)));
                        answers.fetch_add(u64::from(heard), Relaxed);
                    }
                    _ => return eprintln!("a session ended"),
                }
            }
        }
    });
    Ok(())
}
