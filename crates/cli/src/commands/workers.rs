//! `forebay workers`

use forebay_client::WorkerStatus;
use forebay_core::Result;
use serde::Serialize;

use super::{connect, go_on};
use crate::arguments::List;
use crate::output;

#[derive(Serialize)]
struct Worker<'a> {
    worker: &'a str,
    address: &'a str,
    state: &'a str,
    threads: u32,
    leases: u32,
    /// `null` from here to `rows_shared` if the worker computes for other tenants, too.
    splits_done: Option<u64>,
    rows_done: Option<u64>,
    rows_shared: Option<u64>,
    silent_ms: u64,
    /// Whether it computes for one consumer alone, on that consumer's machine.
    local: bool,
    /// The kind of its machine; `fleet` if it reports none.
    kind: &'a str,
    /// The price of the machine for an hour; 0 if it reports none.
    price: f64,
    /// Whether it may be preempted.
    spot: bool,
    /// Why it writes nothing to its cache folder; empty if it writes, or has none.
    disk_off: &'a str,
}

fn of(worker: &WorkerStatus) -> Worker<'_> {
    Worker {
        worker: &worker.worker,
        address: &worker.address,
        state: &worker.state,
        threads: worker.threads,
        leases: worker.leases,
        splits_done: worker.splits_done,
        rows_done: worker.rows_done,
        rows_shared: worker.rows_shared,
        silent_ms: worker.silent_ms,
        local: worker.local,
        kind: &worker.kind,
        price: worker.price,
        spot: worker.spot,
        disk_off: &worker.disk_off,
    }
}

pub(crate) fn run(arguments: &List) -> Result<()> {
    let workers = connect(arguments)?.workers(&mut go_on)?;
    let workers: Vec<_> = workers.iter().map(of).collect();
    if arguments.json {
        return output::json(&workers);
    }
    if workers.is_empty() {
        eprintln!("no workers");
        return Ok(());
    }
    let row = |w: &Worker<'_>| {
        let id = w.worker.get(..8).unwrap_or(w.worker).to_owned();
        let done = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
        let (threads, leases) = (w.threads.to_string(), w.leases.to_string());
        let (splits, rows) = (done(w.splits_done), done(w.rows_done));
        let address = if w.local { "local" } else { w.address };
        let kind = if w.spot { format!("{} (spot)", w.kind) } else { w.kind.to_owned() };
        [id, address.to_owned(), kind, w.state.to_owned(), threads, leases, splits, rows]
    };
    let headings = ["WORKER", "ADDRESS", "KIND", "STATE", "THREADS", "LEASES", "SPLITS", "ROWS"];
    output::table(headings, &workers.iter().map(row).collect::<Vec<_>>())?;
    for worker in workers.iter().filter(|w| !w.disk_off.is_empty()) {
        let id = worker.worker.get(..8).unwrap_or(worker.worker);
        output::line(&format!("{id} keeps nothing on disk now: {}", worker.disk_off))?;
    }
    Ok(())
}
