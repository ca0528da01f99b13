//! `forebay workers`

use forebay_core::Result;
use forebay_dashboard::model::Worker;

use crate::arguments::List;
use crate::commands::{connect, go_on};
use crate::output;

pub(crate) fn run(arguments: &List) -> Result<()> {
    let workers = connect(arguments)?.workers(&mut go_on)?;
    let workers: Vec<_> = workers.iter().map(Worker::of).collect();
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
    for worker in workers.iter().filter(|w| w.state == "lost") {
        let (id, address) = (worker.worker.get(..8).unwrap_or(worker.worker), worker.address);
        let ago = worker.lost_ms.map_or_else(String::new, |ms| format!(" {} s ago", ms / 1000));
        output::line(&output::harmless(&format!("{id} at {address} was lost{ago}: {}", worker.lost)))?;
    }
    for worker in workers.iter().filter(|w| !w.disk_off.is_empty()) {
        let id = worker.worker.get(..8).unwrap_or(worker.worker);
        output::line(&format!("{id} keeps nothing on disk now: {}", worker.disk_off))?;
    }
    for worker in workers.iter().filter(|w| w.state != "lost") {
        let id = worker.worker.get(..8).unwrap_or(worker.worker);
        for differs in &worker.differs {
            let (job, difference) = (differs.job, differs.difference);
            output::line(&format!("{id} gets no splits of job {job:?}, which began with other bits: {difference}"))?;
        }
    }
    Ok(())
}
