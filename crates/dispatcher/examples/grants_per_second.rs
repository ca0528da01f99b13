//! Measures how many splits are granted in a second, each durable before its worker hears of it, over a real socket;
//! and how long a restart takes after a million.
//!
//! `cargo run --release -p forebay-dispatcher --example grants_per_second -- [splits] [window]`; the ledger lies in the
//! current folder, whose disk is what is measured.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{Reader, Running, Worker, open, request};
use forebay_core::{Error, Result};

fn main() -> Result<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}

async fn measure() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().map_err(|e| Error::invalid(e.to_string())));
    let splits = arguments.next().transpose()?.unwrap_or(1_000_000);
    let window = arguments.next().transpose()?.unwrap_or(1024).clamp(2, 4096) as u32;
    let dir = tempfile::tempdir_in(".")?;
    let at = Running::start(dir.path(), |_| {})?;
    let job = open(&at, request("grants", 64 * 1000, 0, 1)?).await?;
    let mut reader = Reader::attach(&at, job.job, 0, None, window).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    let start = Instant::now();
    let work = tokio::spawn(async move {
        for granted in 0..splits {
            if granted % 1024 == 0 {
                worker.want(2048.min(splits as u32)).await;
                worker.heartbeat().await;
            }
            worker.lease().await?;
        }
        Ok::<_, Error>(worker)
    });
    let mut at_place = (0, 0);
    for granted in 0..splits {
        let (place, ..) = reader.assigned().await?;
        at_place = (place.0, place.1 + 1);
        if granted % u64::from(window / 2) == 0 {
            reader.ack(at_place.0, at_place.1).await;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{splits} splits granted in {seconds:.1} s: {:.0} durable grants/s, window {window}",
        splits as f64 / seconds
    );
    drop(work.await.map_err(|e| Error::internal(e.to_string()))??);
    drop((reader, at));
    let size = std::fs::metadata(dir.path().join("ledger.redb"))?.len();
    let start = Instant::now();
    let at = Running::start(dir.path(), |_| {})?;
    let bound = start.elapsed();
    let mut reader = Reader::attach(&at, job.job, 0, Some(at_place), window).await?;
    let mut worker = Worker::hello(&at, 1, vec![]).await?;
    worker.want(1).await;
    worker.lease().await?;
    reader.assigned().await?;
    println!("ledger {} KiB; restart {bound:?}, first new grant after {:?}", size >> 10, start.elapsed());
    Ok(())
}
