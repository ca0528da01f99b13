//! The figures of a worker.

use forebay_cache::{Counts, DiskStats, PrefixStats, Stats, StoreStats};
use forebay_worker::Figures;

use super::text::Exposition;

pub(super) fn write(text: &mut Exposition, of: &Figures) {
    text.gauge("forebay_worker_connected", "Whether the worker has a session with a dispatcher.").is(of.is_connected);
    text.gauge("forebay_worker_threads", "Threads that compute.").is(of.threads);
    let held_up = "Threads that hang, mostly in a read; other threads compute in their place.";
    text.gauge("forebay_worker_threads_held_up", held_up).is(of.threads_held_up);
    text.gauge("forebay_worker_splits_held", "Splits that the worker computes or holds for consumers.")
        .is(of.splits_held);
    text.gauge("forebay_worker_held_bytes", "Bytes of chunks that the worker holds for consumers.").is(of.bytes_held);
    let busy = "Time that the threads computed, summed over threads.";
    text.counter("forebay_worker_busy_seconds_total", busy).is(of.busy);
    text.counter("forebay_worker_splits_computed_total", "Splits that were computed.").is(of.splits_computed);
    text.counter("forebay_worker_rows_computed_total", "Rows of these splits.").is(of.rows_computed);
    let shared = "Those of these rows that were computed before for another job with the same samples.";
    text.counter("forebay_worker_rows_shared_total", shared).is(of.rows_shared);
    text.counter("forebay_worker_sent_bytes_total", "Bytes of chunks that went to consumers, sent or lent.")
        .with(&[("way", "sent")], of.bytes_sent)
        .with(&[("way", "lent")], of.bytes_lent);
    let send = "Processor time of sending bytes, including encryption; lent bytes take none.";
    text.counter("forebay_worker_send_cpu_seconds_total", send).is(of.send);
    of.cache.iter().for_each(|cache| write_cache(text, cache));
}

fn write_cache(text: &mut Exposition, of: &Stats) {
    let sum = |count: fn(&Counts) -> u64| of.prefixes.iter().map(|prefix| count(&prefix.counts)).sum::<u64>();
    let rows = |count: fn(&PrefixStats) -> u64| of.prefixes.iter().map(count).sum::<u64>();
    let (disk, store) = (of.disk.as_ref(), of.store.as_ref());
    let [memory_tier, disk_tier, peers_tier, store_tier] =
        ["memory", "disk", "peers", "store"].map(|tier| [("tier", tier)]);
    text.counter("forebay_cache_hits_total", "Rows that were found in a tier.")
        .with(&memory_tier, sum(|c| c.memory_hits))
        .with(&disk_tier, sum(|c| c.disk_hits))
        .with(&peers_tier, sum(|c| c.peer_hits))
        .with(&store_tier, sum(|c| c.store_hits));
    text.counter("forebay_cache_misses_total", "Rows that no tier had, so that they were computed.")
        .is(sum(|c| c.misses));
    text.counter("forebay_cache_refused_total", "Rows that were computed and not kept in the tier.")
        .with(&memory_tier, sum(|c| c.memory_refused))
        .with(&disk_tier, sum(|c| c.disk_refused))
        .with(&store_tier, sum(|c| c.store_refused));
    text.counter("forebay_cache_evicted_total", "Rows that a tier evicted for others.")
        .with(&memory_tier, sum(|c| c.memory_evicted))
        .with(&disk_tier, sum(|c| c.disk_evicted))
        .with(&store_tier, sum(|c| c.store_evicted));
    text.counter("forebay_cache_corrupt_blocks_total", "Damaged blocks that were removed from a tier.")
        .with(&disk_tier, disk.map_or(0, |disk| disk.corrupt_blocks))
        .with(&store_tier, store.map_or(0, |store| store.corrupt_blocks));
    let unreadable = "Requested rows in blocks that could not be read.";
    text.counter("forebay_cache_unreadable_rows_total", unreadable).is(sum(|c| c.unreadable));
    text.gauge("forebay_cache_rows", "Rows in a tier, of pipelines that were used.")
        .with(&memory_tier, rows(|p| p.memory_rows))
        .with(&disk_tier, rows(|p| p.disk_rows))
        .with(&peers_tier, rows(|p| p.peer_rows))
        .with(&store_tier, rows(|p| p.store_rows));
    write_tiers(text, of);
    write_sources(text, of);
}

/// How full each tier is, and whether it is used.
fn write_tiers(text: &mut Exposition, of: &Stats) {
    let of_disk = |disk: &DiskStats| ("disk", disk.tier, disk.stopped.is_none());
    let of_store = |store: &StoreStats| ("store", store.tier, store.unread.is_none() && store.unwritten.is_none());
    let tiers: Vec<_> = std::iter::once(("memory", of.memory, true))
        .chain(of.disk.as_ref().map(of_disk))
        .chain(of.store.as_ref().map(of_store))
        .collect();
    let mut bytes = text.gauge("forebay_cache_bytes", "Bytes in a tier.");
    tiers.iter().for_each(|(tier, full, _)| _ = bytes.with(&[("tier", tier)], full.bytes));
    let mut quota = text.gauge("forebay_cache_quota_bytes", "The most bytes that the tier may keep.");
    tiers.iter().for_each(|(tier, full, _)| _ = quota.with(&[("tier", tier)], full.quota));
    let help = "Whether the tier is used: a full disk or a store that failed is not used for a while.";
    let mut is_on = text.gauge("forebay_cache_tier_up", help);
    tiers.iter().for_each(|(tier, _, on)| _ = is_on.with(&[("tier", tier)], *on));
}

fn write_sources(text: &mut Exposition, of: &Stats) {
    let sum = |count: fn(&forebay_cache::SourceCounts) -> u64| of.sources.iter().map(|s| count(&s.counts)).sum::<u64>();
    text.counter("forebay_source_read_bytes_total", "Bytes of remote files, read from the disk or from their store.")
        .with(&[("from", "disk")], sum(|c| c.from_disk))
        .with(&[("from", "store")], sum(|c| c.fetched));
    let corrupt = "Damaged pages of remote files on disk, which were fetched again.";
    text.counter("forebay_source_corrupt_pages_total", corrupt).is(sum(|c| c.corrupt));
}
