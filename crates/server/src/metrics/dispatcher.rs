//! The figures of a dispatcher. A dispatcher that waits to lead reports only that.

use forebay_dispatcher::{Counts, Figures, IndexingFigures, LeaderFigures, LedgerFigures, ScaleFigures, StateFigures};

use super::text::Exposition;

pub(super) fn write(text: &mut Exposition, figures: &Figures) {
    let leads = "Whether this dispatcher leads; of several dispatchers one leads.";
    text.gauge("forebay_dispatcher_leader", leads).is(figures.leader.is_some());
    let refused = "Calls that were refused because they had no valid token.";
    text.counter("forebay_calls_refused_total", refused).is(figures.calls_refused);
    let Some(LeaderFigures { scale, state, ledger, blob_bytes }) = &figures.leader else { return };
    write_scale(text, scale);
    write_state(text, state);
    write_counts(text, &state.counts);
    write_ledger(text, ledger);
    write_indexing(text, &figures.indexing);
    if let Some(bytes) = blob_bytes {
        let help = "Bytes of the functions, arrays and indexes of all jobs; absent until a client has sent one.";
        text.gauge("forebay_blob_bytes", help).is(*bytes);
    }
}

fn write_indexing(text: &mut Exposition, of: &IndexingFigures) {
    let help = "Sources that are being indexed for jobs; detached: the thread hangs in a call of the file system.";
    let mut sources = text.gauge("forebay_sources_indexed", help);
    for (state, count) in [("running", of.running), ("waiting", of.waiting), ("detached", of.detached)] {
        sources.with(&[("state", state)], count as u64);
    }
}

/// Leaves out unknown figures, so that a scaler then changes nothing.
fn write_scale(text: &mut Exposition, scale: &ScaleFigures) {
    if let Some(wanted) = scale.wanted {
        let help = "Workers that all jobs want together; absent while the number is unknown.";
        text.gauge("forebay_workers_wanted", help).is(wanted);
    }
    let known = || scale.kinds.iter().filter_map(|(kind, spot, wanted)| Some((kind, spot, (*wanted)?)));
    if known().next().is_some() {
        let mut kinds = text.gauge(
            "forebay_workers_wanted_by_kind",
            "Wanted workers of each kind that can be started; absent while the number is unknown.",
        );
        for (kind, spot, wanted) in known() {
            kinds.with(&[("kind", kind), ("spot", if *spot { "true" } else { "false" })], wanted);
        }
    }
    text.gauge("forebay_workers", "Workers that are attached, without local ones.").is(scale.workers);
    text.gauge("forebay_workers_max", "The most workers that the dispatcher ever wants.").is(scale.workers_max);
}

fn write_state(text: &mut Exposition, of: &StateFigures) {
    let mut jobs = text.gauge("forebay_jobs", "Jobs by state.");
    of.jobs.iter().for_each(|(state, jobs_of)| _ = jobs.with(&[("state", state)], *jobs_of));
    let mut workers = text.gauge("forebay_workers_by_state", "Workers by kind and state, including local ones.");
    for ((kind, state), count) in &of.workers {
        workers.with(&[("kind", kind), ("state", state)], *count);
    }
    let mut prices =
        text.gauge("forebay_workers_price", "Cost of all workers of a kind per hour; 0 if they report no price.");
    for ((kind, spot), price) in &of.prices {
        prices.with(&[("kind", kind), ("spot", if *spot { "true" } else { "false" })], *price);
    }
    text.gauge("forebay_readers", "Consumers that are attached.").is(of.consumers_attached);
    let wait = "How long the consumer with the longest current wait for rows has waited.";
    text.gauge("forebay_readers_longest_wait_seconds", wait).is(of.longest_wait);
    text.gauge("forebay_splits_leased", "Splits that workers hold for consumers.").is(of.splits_leased);
}

fn write_counts(text: &mut Exposition, of: &Counts) {
    let mut count = |name: &'static str, help: &str, value: u64| text.counter(name, help).is(value);
    count("forebay_splits_granted_total", "Splits that the dispatcher granted to workers.", of.splits_granted);
    count("forebay_splits_accepted_total", "Granted splits that their consumer has consumed.", of.splits_accepted);
    let again = "Splits that were granted again: their worker was lost, or their consumer could not fetch them.";
    count("forebay_splits_recomputed_total", again, of.splits_recomputed);
    let raced = "Splits that a second worker got because the first was late, or had other splits to compute.";
    count("forebay_splits_raced_total", raced, of.splits_raced);
    let gave_way = "Waiting splits whose place at a worker went to a consumer that had none.";
    count("forebay_splits_gave_way_total", gave_way, of.splits_gave_way);
    count("forebay_rows_delivered_total", "Rows that consumers received.", of.rows_delivered);
    count(
        "forebay_bytes_delivered_total",
        "Bytes of the rows that consumers received, as transferred.",
        of.bytes_delivered,
    );
    let forgotten =
        "Jobs that the dispatcher removed: finished, cancelled or abandoned ones, and those of forget requests.";
    count("forebay_jobs_forgotten_total", forgotten, of.jobs_forgotten);
    let skipped = "Samples that were skipped because they failed.";
    count("forebay_samples_skipped_total", skipped, of.samples_skipped);
    let lost = "Workers that fell silent, or whose connection broke while they were not leaving.";
    count("forebay_workers_lost_total", lost, of.workers_lost);
    count("forebay_leases_lapsed_total", "Leases of splits that lost workers held.", of.leases_lapsed);
    text.counter("forebay_heartbeats_refused_total", "Heartbeats of workers and consumers whose session was over.")
        .with(&[("from", "worker")], of.worker_heartbeats_refused)
        .with(&[("from", "reader")], of.consumer_heartbeats_refused);
}

fn write_ledger(text: &mut Exposition, of: &LedgerFigures) {
    text.counter("forebay_ledger_writes_total", "Batches that were written to the ledger.").is(of.writes);
    let failures = "Failed attempts to write to the ledger; no split is granted until a write succeeds.";
    text.counter("forebay_ledger_write_failures_total", failures).is(of.failures);
    let since =
        "Time since the last successful write, or since this dispatcher leads. An idle dispatcher writes nothing.";
    text.gauge("forebay_ledger_last_write_age_seconds", since).is(of.since_write);
    let pending = "How long the current write has taken; 0 if there is none.";
    text.gauge("forebay_ledger_pending_write_seconds", pending).is(of.pending);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_waits_to_lead_says_so_and_what_is_not_known_is_left_out() {
        let text = |figures: &Figures| {
            let mut text = Exposition::default();
            write(&mut text, figures);
            String::from(text)
        };
        let mut figures = Figures { calls_refused: 3, leader: None, indexing: IndexingFigures::default() };
        let waits = text(&figures);
        assert!(waits.contains("\nforebay_dispatcher_leader 0\n") && waits.contains("_refused_total 3\n"), "{waits}");
        assert!(!waits.contains("forebay_workers"), "{waits}");
        let scale = ScaleFigures {
            wanted: None,
            workers: 3,
            workers_max: 8,
            kinds: vec![("big".to_owned(), true, Some(0)), ("new".to_owned(), false, None)],
        };
        let state = StateFigures {
            jobs: vec![("running", 2)],
            workers: [(("fleet".into(), "idle"), 3)].into(),
            prices: [(("fleet".into(), true), 0.5)].into(),
            consumers_attached: 1,
            longest_wait: std::time::Duration::from_millis(2500),
            splits_leased: 4,
            counts: Counts::default(),
        };
        let (writes, failures) = (5, 6);
        let (since_write, pending) = (std::time::Duration::from_secs(7), std::time::Duration::from_secs(8));
        let ledger = LedgerFigures { writes, failures, since_write, pending };
        figures.leader = Some(LeaderFigures { scale, state, ledger, blob_bytes: Some(9) });
        let leads = text(&figures);
        for line in [
            "forebay_dispatcher_leader 1",
            "forebay_workers 3",
            "forebay_workers_wanted_by_kind{kind=\"big\",spot=\"true\"} 0",
            "forebay_jobs{state=\"running\"} 2",
            "forebay_workers_by_state{kind=\"fleet\",state=\"idle\"} 3",
            "forebay_readers_longest_wait_seconds 2.5",
            "forebay_workers_price{kind=\"fleet\",spot=\"true\"} 0.5",
            "forebay_ledger_write_failures_total 6",
            "forebay_ledger_pending_write_seconds 8",
            "forebay_blob_bytes 9",
        ] {
            assert!(leads.lines().any(|l| l == line), "{line}: {leads}");
        }
        assert!(!leads.contains("forebay_workers_wanted ") && !leads.contains("kind=\"new\""), "{leads}");
        figures.leader.as_mut().expect("it leads").scale.wanted = Some(2);
        assert!(text(&figures).contains("\nforebay_workers_wanted 2\n"));
    }
}
