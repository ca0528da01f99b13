//! A pipeline with `autocache()`: runs the variant that the policy chose, and from time to time measures the other
//! variants by a probe.
//!
//! A probe takes rows that this thread has just computed or found, after it has emitted them. It runs each variant in
//! turn, on one thread, and caches and looks up its rows in the probe's own cache. The only estimates are the speed of
//! the local disk, and the speed of peers and the store until the first read from them.
//!
//! Invariants: the variant decides when a row comes, never its bits. An error of a probe reaches no user. A probe
//! touches only rows that were computed for a split. One probe runs at a time, on a bounded number of rows (see
//! `autocache_profile`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use forebay_cache::{Cache, Computed, Elsewhere, Look, Options, Stats};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Memory, Schema};
use forebay_io::Place;
use forebay_plan::{EpochPlan, OnError, Stages};
use forebay_policy::caching::{self, Choice, Observation, Tiers};
use serde_json::{Value, json};

use crate::cached::autocache_profile::PipelineProfile;
use crate::cached::context::CacheContext;
use crate::cached::prefix::Prefix;
use crate::executable::environment::Environment;
use crate::executable::row_source::RowSource;
use crate::executable::variant::PipelineVariant;
use crate::lock::lock;
use crate::ops::compiled_op::CompiledOp;
use crate::ops::scratch::Scratch;
use crate::panic::panicked;
use crate::profile::op_meter::OpMeter;
use crate::skip::isolation::Isolation;
use crate::threads::preemption::own_nanos;

/// Nanoseconds to read or write a byte on a local disk: 1 GB/s, a plain NVMe disk.
const DISK_BYTE_NANOS: f64 = 1.0;
/// Nanoseconds of a row on a local disk besides its bytes: a system call, and the wait for it.
const DISK_ROW_NANOS: f64 = 10_000.0;
/// The cost of a fetch from a peer or the store until one was measured: a request within a data centre, and bytes at
/// 10 Gbit/s.
const FAR_REQUEST_NANOS: f64 = 1e6;
const FAR_BYTE_NANOS: f64 = 1.0;

/// See the module's documentation.
pub(crate) struct AutoCache {
    context: CacheContext,
    /// The candidate cache points, as text.
    names: Vec<String>,
    /// The variant of each candidate, in the same order.
    variants: Vec<PipelineVariant>,
    profile: Arc<Mutex<PipelineProfile>>,
    /// The number of this consumer in the profile.
    consumer: u64,
    /// Held by the thread that probes.
    scratch: Mutex<Scratch>,
    memory: Memory,
    rows: u64,
    /// Passes over the rows in an epoch: several under `repeat`; `None` for an epoch without end.
    epoch_passes: Option<f64>,
}

impl Drop for AutoCache {
    fn drop(&mut self) {
        lock(&self.profile).leave(self.consumer);
    }
}

/// Rows that have just been computed or found.
pub(crate) struct ProbeRows<'a> {
    pub(crate) rows: &'a RowSource,
    pub(crate) places: &'a [Place],
    /// The nanoseconds that reading a row took, if the rows were read.
    pub(crate) read: Option<f64>,
    /// The rows of a batch, where splits are whole batches.
    pub(crate) batch: Option<usize>,
    /// The variant without a cache point.
    pub(crate) uncached: &'a PipelineVariant,
    /// The index of the boundary up to which the ops ran.
    pub(crate) boundary: usize,
}

impl AutoCache {
    /// Compiles one variant for each candidate cache point, up to each boundary; `None` without candidates or a cache.
    ///
    /// # Errors
    /// As [`PipelineVariant::new`].
    pub(crate) fn new(
        stages: &Stages,
        boundaries: &[u32],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Option<Self>> {
        let Some(context) = environment.cache_context.clone().filter(|_| !stages.candidates.is_empty()) else {
            return Ok(None);
        };
        let variant = |candidate| {
            let stages = stages.with_cache_at(candidate)?;
            PipelineVariant::new(&stages, boundaries, input, plan, environment, meter)
        };
        let variants = stages.candidates.iter().map(variant).collect::<Result<_>>()?;
        let rows = plan.rows().into_iter().chain(plan.extent().rows).min().unwrap_or(0);
        let profile = context.profiles.of(stages.graph.dataset_id());
        let consumer = lock(&profile).join();
        Ok(Some(Self {
            names: stages.candidates.iter().map(|candidate| candidate.name.clone()).collect(),
            variants,
            profile,
            consumer,
            scratch: Mutex::default(),
            memory: environment.memory.clone(),
            epoch_passes: plan.rows().map(|epoch| epoch as f64 / rows.max(1) as f64),
            rows,
            context,
        }))
    }

    /// Records the epoch before which this consumer ends, if it ends, and how many epochs others read before it began.
    pub(crate) fn expect(&self, end_epoch: Option<u64>, before: u64) {
        let passes = |epochs: u64| self.epoch_passes.map(|passes| epochs as f64 * passes);
        // An epoch without end counts as one pass.
        let before_passes = passes(before).unwrap_or(before as f64);
        lock(&self.profile).expect(self.consumer, end_epoch.and_then(passes), before_passes);
    }

    /// Returns the variant of the cache point that the policy chose; `None` where it chose to cache nothing.
    pub(crate) fn variant(&self) -> Option<&PipelineVariant> {
        let (choice, stores) = lock(&self.profile).choice();
        let Choice::Keep(place) = choice else { return None };
        let variant = self.variants.get(place)?;
        let prefix = variant.prefix.as_ref()?;
        prefix.open(&self.context);
        if !self.context.rent.is_free() {
            prefix.store(stores);
        }
        Some(variant)
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.context.watch.nanos()
    }

    /// Returns the same without the time that this thread has waited for its turn.
    pub(crate) fn own_nanos(&self) -> u64 {
        own_nanos(&*self.context.watch)
    }

    /// Records the time that rows took, until `now`, and, where known, the epoch and the share of it that is complete.
    pub(crate) fn record_work(&self, rows: usize, nanos: u64, now: u64, at: Option<(u64, f64)>) {
        let mut profile = lock(&self.profile);
        profile.record_work(self.consumer, rows, nanos);
        if let Some(((epoch, share), passes)) = at.zip(self.epoch_passes) {
            profile.pass(self.consumer, (epoch as f64 + share) * passes, now);
        }
    }

    /// Measures some of the rows, if a probe is due and no other thread probes, and decides again.
    pub(crate) fn probe(&self, sample: &ProbeRows<'_>) {
        let Ok(mut scratch) = self.scratch.try_lock() else { return };
        let guessed = self.context.cache.elsewhere(1).iter().any(Elsewhere::is_guess);
        let due = {
            let mut profile = lock(&self.profile);
            let passes = profile.passes(self.consumer, self.rows);
            profile.due(passes, guessed)
        };
        let Some(rows) = due.filter(|_| !sample.places.is_empty()) else { return };
        // A per-batch function sees whole batches in a probe, too.
        let rows = sample.batch.map_or(rows, |batch| rows.next_multiple_of(batch));
        let sample = ProbeRows { places: &sample.places[..sample.places.len().min(rows)], ..*sample };
        let (seen, nanos) = self.timed(|| {
            catch_unwind(AssertUnwindSafe(|| self.measure(&sample, &mut scratch))).unwrap_or_else(|panic| {
                scratch.reset();
                Err(panicked(&*panic))
            })
        });
        lock(&self.profile).decide(seen, nanos);
    }

    /// Returns as JSON the cached op, the reason, and the places where lookups found rows.
    pub(crate) fn describe(&self) -> Value {
        let profile = lock(&self.profile);
        let Some(decision) = profile.decision() else {
            return json!({"kept": null, "why": "nothing is measured yet"});
        };
        let place = match decision.choice {
            Choice::Compute => None,
            Choice::Keep(place) => Some(place),
        };
        let kept = place.and_then(|place| self.names.get(place));
        let prefix = place.and_then(|place| self.variants.get(place)?.prefix.as_ref());
        let counts = prefix.map(|prefix| prefix.describe(&self.context));
        json!({"kept": kept, "why": decision.to_string(), "figures": decision, "rows": counts})
    }

    fn timed<T>(&self, run: impl FnOnce() -> T) -> (T, u64) {
        let began = self.own_nanos();
        let done = run();
        (done, self.own_nanos().saturating_sub(began))
    }

    fn measure(&self, sample: &ProbeRows<'_>, scratch: &mut Scratch) -> Result<Observation> {
        let locate = |error: Error| error;
        let rows = sample.places.len() as f64;
        let (read, gathered) = self.timed(|| Isolation::new(OnError::Skip, &locate).gather(sample.rows, sample.places));
        let read = read?.with_losses(Vec::new());
        let read_nanos = sample.read.unwrap_or(gathered as f64 / rows);
        let mut run = |ops: &[&CompiledOp], chunk: &Chunk, batch: Option<usize>| -> Result<(Chunk, f64)> {
            let mut isolation = Isolation::new(OnError::Skip, &locate);
            let (done, nanos) = self.timed(|| {
                ops.iter().try_fold(chunk.clone(), |chunk, op| {
                    isolation.run(&chunk, &mut |chunk| op.run(chunk, batch, scratch))
                })
            });
            Ok((done?, nanos as f64 / rows))
        };
        let (_, computed) = run(&sample.uncached.ops(sample.boundary).collect::<Vec<_>>(), &read, sample.batch)?;
        let mut places = Vec::new();
        let stats = self.context.cache.stats();
        let memory = stats.memory.quota.saturating_sub(stats.index_bytes);
        let disk = disk_room(&stats);
        let [peers, store] = self.context.cache.elsewhere(memory.saturating_add(disk.unwrap_or(0)));
        for (name, variant) in self.names.iter().zip(&self.variants) {
            let prefix = variant.prefix.as_ref().ok_or_else(|| Error::internal("a candidate without a prefix"))?;
            let (before, made) = run(&prefix.ops().iter().collect::<Vec<_>>(), &read, None)?;
            let trip = self.round_trip(prefix, sample, &before)?;
            let (_, after) = run(&variant.ops(sample.boundary).collect::<Vec<_>>(), &before, sample.batch)?;
            let to_disk = DISK_ROW_NANOS + trip.bytes * DISK_BYTE_NANOS;
            let known = stats.prefixes.iter().find(|known| known.key == prefix.key());
            let kept = known.map_or(0, |known| {
                let elsewhere = known.peer_rows.max(known.store_rows);
                known.memory_rows.max(known.disk_rows).max(elsewhere) + known.filtered_out
            });
            places.push(caching::Place {
                name: name.clone(),
                bytes: trip.bytes,
                before: read_nanos + made,
                after,
                found: Tiers {
                    memory: trip.found,
                    disk: trip.found + to_disk,
                    peers: trip.found + far(&peers, trip.bytes, rows),
                    store: trip.found + far(&store, trip.bytes, rows),
                },
                // Another thread writes the row to disk, at the same cost.
                write: trip.written + disk.map_or(0.0, |_| to_disk),
                kept: (kept as f64 / self.rows.max(1) as f64).min(1.0),
            });
        }
        let (passes, pass_nanos) = {
            let profile = lock(&self.profile);
            (profile.passes(self.consumer, self.rows), profile.pass_nanos())
        };
        Ok(Observation {
            rows: self.rows,
            passes,
            pass_nanos,
            compute: read_nanos + computed,
            places,
            room: Tiers { memory, disk: disk.unwrap_or(0), peers: peers.room, store: store.room },
            rent: self.context.rent,
            guessed: peers.is_guess() || store.is_guess(),
        })
    }

    /// Caches rows and looks them up again, in memory.
    fn round_trip(&self, prefix: &Prefix, sample: &ProbeRows<'_>, chunk: &Chunk) -> Result<RoundTrip> {
        // No quota: a probe has few rows.
        let cache = Cache::open(&Options { memory: u64::MAX >> 1, disk: None, store: None })?;
        let kept = cache.prefix(prefix.key(), prefix.schema(), self.rows, "");
        let rows: Vec<u64> = sample.places.iter().map(|place| place.row).collect();
        let keys = sample.rows.keys(&rows);
        let mut left = chunk.ids().iter().peekable();
        let is_there = |row: &u32| {
            let id = sample.rows.sample(sample.places[*row as usize].row);
            left.next_if(|own| own.sample == id).is_some()
        };
        let present: Vec<u32> = (0..rows.len() as u32).filter(is_there).collect();
        let Look { claim, .. } = kept.look(&keys, &self.memory);
        let computed = Computed { rows: &present, columns: chunk.columns(), filtered_out: &[], nanos: 0 };
        let (_, written) = self.timed(|| claim.fulfil(&computed));
        let (found, nanos) = self.timed(|| {
            let keys = sample.rows.keys(&rows);
            let mut found = kept.look(&keys, &self.memory).found;
            found.rows();
            found.columns(&self.memory)
        });
        found?;
        let bytes: u64 = cache.stats().prefixes.iter().map(|kept| kept.memory_bytes).sum();
        let row = |sum: u64| sum as f64 / rows.len() as f64;
        Ok(RoundTrip { bytes: row(bytes), written: row(written), found: row(nanos) })
    }
}

/// Returns the quota of the local disk. A disk that failed counts again when a retry is due, because only caching a row
/// retries it.
fn disk_room(stats: &Stats) -> Option<u64> {
    stats.disk.as_ref().filter(|disk| !disk.left_alone).map(|disk| disk.tier.quota)
}

/// Returns the nanoseconds to fetch a row of that many bytes, when `rows` rows are requested together.
fn far(from: &Elsewhere, bytes: f64, rows: f64) -> f64 {
    from.request_nanos.unwrap_or(FAR_REQUEST_NANOS) / rows + bytes * from.byte_nanos.unwrap_or(FAR_BYTE_NANOS)
}

/// The cost of a row in the cache of a probe.
struct RoundTrip {
    bytes: f64,
    /// Nanoseconds to cache it.
    written: f64,
    /// Nanoseconds to look it up.
    found: f64,
}

#[cfg(test)]
mod tests {
    use forebay_cache::{DiskStats, TierStats};

    use super::*;

    #[test]
    fn a_disk_that_failed_counts_again_when_it_is_to_be_tried() {
        let tier = TierStats { bytes: 0, quota: 7 };
        let room = |stopped: Option<&str>, left_alone| {
            let disk = DiskStats { tier, stopped: stopped.map(str::to_owned), left_alone, ..DiskStats::default() };
            disk_room(&Stats { disk: Some(disk), ..Stats::default() })
        };
        assert_eq!([room(None, false), room(Some("full"), true), room(Some("full"), false)], [Some(7), None, Some(7)]);
        assert_eq!(disk_room(&Stats::default()), None);
    }
}
