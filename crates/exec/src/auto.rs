//! A pipeline with `autocache()`: runs the way that the policy chose, and measures now and then what the others would cost.
//!
//! Measured are rows that this thread has just computed or found, after it gave them out: each way in turn, on one thread, and
//! what it takes to keep and to find its rows, with a cache of the measurement's own. So nothing is guessed but the
//! local disk, and what others give until something was read from them.
//!
//! Invariants: which way runs decides when a row comes, never what it is; an error of a measurement is nobody's; a row that was not
//! computed for a split is not touched; one measurement at a time, of a bounded number of rows (see `learned`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use forebay_cache::{Cache, Computed, Elsewhere, Look, Options, Stats};
use forebay_core::{Error, Result};
use forebay_data::{Chunk, Memory, Schema};
use forebay_io::Place;
use forebay_plan::{EpochPlan, OnError, Stages};
use forebay_policy::caching::{self, Choice, Observation, Tiers};
use serde_json::{Value, json};

use crate::executable::Environment;
use crate::isolate::Isolation;
use crate::learned::{Pipeline, lock};
use crate::meter::OpMeter;
use crate::prefix::{Keeping, Prefix};
use crate::rows::Rows;
use crate::way::Way;
use crate::work::{Compiled, Scratch};

/// What a byte takes from or to a local disk, in nanoseconds, where it is not in memory: 1 GB/s, a plain NVMe disk.
const DISK_BYTE_NANOS: f64 = 1.0;
/// What a row takes, besides its bytes: a system call, and the wait for it.
const DISK_ROW_NANOS: f64 = 10_000.0;
/// What is fetched from others takes, until some was: a request within a data centre, and bytes at 10 Gbit/s.
const FAR_REQUEST_NANOS: f64 = 1e6;
const FAR_BYTE_NANOS: f64 = 1.0;

/// See the module's documentation.
pub(crate) struct Auto {
    keeping: Keeping,
    names: Vec<String>,
    /// One for each place, in the same order.
    ways: Vec<Way>,
    pipeline: Arc<Mutex<Pipeline>>,
    /// Who this is among those that run it.
    reader: u64,
    /// Held by whoever measures.
    scratch: Mutex<Scratch>,
    memory: Memory,
    rows: u64,
    /// Passes over the rows in an epoch: several where they are repeated. `None` of one without end.
    epoch_passes: Option<f64>,
}

impl Drop for Auto {
    fn drop(&mut self) {
        lock(&self.pipeline).leave(self.reader);
    }
}

/// Rows that have just been computed or found.
pub(crate) struct Sample<'a> {
    pub(crate) rows: &'a Rows,
    pub(crate) places: &'a [Place],
    /// What reading one took, in nanoseconds, if they were read.
    pub(crate) read: Option<f64>,
    /// Rows of a batch, where splits are whole batches.
    pub(crate) batch: Option<usize>,
    /// The way with nothing kept.
    pub(crate) way: &'a Way,
    /// The number of the cut up to which they were.
    pub(crate) cut: usize,
}

impl Auto {
    /// Prepares each way of a pipeline that may be kept at several places, up to each cut, if this process keeps anything.
    ///
    /// # Errors
    /// As [`Way::new`].
    pub(crate) fn new(
        stages: &Stages,
        cuts: &[u32],
        input: &Arc<Schema>,
        plan: &EpochPlan,
        environment: &Environment,
        meter: &OpMeter,
    ) -> Result<Option<Self>> {
        let Some(keeping) = environment.keeping.clone().filter(|_| !stages.candidates.is_empty()) else {
            return Ok(None);
        };
        let way = |candidate| {
            let stages = stages.keeping(candidate)?;
            Way::new(&stages, cuts, input, plan, environment, meter)
        };
        let ways = stages.candidates.iter().map(way).collect::<Result<_>>()?;
        let rows = plan.rows().into_iter().chain(plan.extent().rows).min().unwrap_or(0);
        let pipeline = keeping.learned.of(stages.graph.dataset_id());
        let reader = lock(&pipeline).join();
        Ok(Some(Self {
            names: stages.candidates.iter().map(|candidate| candidate.name.clone()).collect(),
            ways,
            pipeline,
            reader,
            scratch: Mutex::default(),
            memory: environment.memory.clone(),
            epoch_passes: plan.rows().map(|epoch| epoch as f64 / rows.max(1) as f64),
            rows,
            keeping,
        }))
    }

    /// Takes note of which epoch this reader ends before, if it ends, and how many epochs others read before it began.
    pub(crate) fn expect(&self, end_epoch: Option<u64>, before: u64) {
        let passes = |epochs: u64| self.epoch_passes.map(|passes| epochs as f64 * passes);
        // Of epochs without end, as many as were begun.
        let before_passes = passes(before).unwrap_or(before as f64);
        lock(&self.pipeline).expect(self.reader, end_epoch.and_then(passes), before_passes);
    }

    /// Returns the way of the place that is kept; `None` where nothing is.
    pub(crate) fn way(&self) -> Option<&Way> {
        let (choice, stores) = lock(&self.pipeline).choice();
        let Choice::Keep(place) = choice else { return None };
        let way = self.ways.get(place)?;
        let prefix = way.prefix.as_ref()?;
        prefix.open(&self.keeping);
        if !self.keeping.rent.is_free() {
            prefix.store(stores);
        }
        Some(way)
    }

    pub(crate) fn nanos(&self) -> u64 {
        self.keeping.watch.nanos()
    }

    /// Notes what rows took to come, until `now`, and how much of which epoch they end, where that is known.
    pub(crate) fn work(&self, rows: usize, nanos: u64, now: u64, at: Option<(u64, f64)>) {
        let mut pipeline = lock(&self.pipeline);
        pipeline.work(self.reader, rows, nanos);
        if let Some(((epoch, share), passes)) = at.zip(self.epoch_passes) {
            pipeline.pass(self.reader, (epoch as f64 + share) * passes, now);
        }
    }

    /// Measures some of the rows, if it is time and nobody else does, and decides anew.
    pub(crate) fn learn(&self, sample: &Sample<'_>) {
        let Ok(mut scratch) = self.scratch.try_lock() else { return };
        let guessed = self.keeping.cache.elsewhere(1).iter().any(Elsewhere::is_guess);
        let due = {
            let mut pipeline = lock(&self.pipeline);
            let passes = pipeline.passes(self.reader, self.rows);
            pipeline.due(passes, guessed)
        };
        let Some(rows) = due.filter(|_| !sample.places.is_empty()) else { return };
        // Functions of batches see whole ones, here too.
        let rows = sample.batch.map_or(rows, |batch| rows.next_multiple_of(batch));
        let sample = Sample { places: &sample.places[..sample.places.len().min(rows)], ..*sample };
        let (seen, nanos) = self.timed(|| {
            catch_unwind(AssertUnwindSafe(|| self.measure(&sample, &mut scratch))).unwrap_or_else(|panic| {
                scratch.reset();
                Err(crate::panicked(&*panic))
            })
        });
        lock(&self.pipeline).take(seen, nanos);
    }

    /// Says what is kept and why, and what was found.
    pub(crate) fn describe(&self) -> Value {
        let pipeline = lock(&self.pipeline);
        let Some(decision) = pipeline.decision() else {
            return json!({"kept": null, "why": "nothing is measured yet"});
        };
        let place = match decision.choice {
            Choice::Compute => None,
            Choice::Keep(place) => Some(place),
        };
        let kept = place.and_then(|place| self.names.get(place));
        let prefix = place.and_then(|place| self.ways.get(place)?.prefix.as_ref());
        let counts = prefix.map(|prefix| prefix.describe(&self.keeping));
        json!({"kept": kept, "why": decision.to_string(), "figures": decision, "rows": counts})
    }

    fn timed<T>(&self, run: impl FnOnce() -> T) -> (T, u64) {
        let began = self.nanos();
        let done = run();
        (done, self.nanos() - began)
    }

    fn measure(&self, sample: &Sample<'_>, scratch: &mut Scratch) -> Result<Observation> {
        let locate = |error: Error| error;
        let rows = sample.places.len() as f64;
        let (read, gathered) = self.timed(|| Isolation::new(OnError::Skip, &locate).gather(sample.rows, sample.places));
        let read = read?.with_losses(Vec::new());
        let read_nanos = sample.read.unwrap_or(gathered as f64 / rows);
        let mut run = |works: &[&Compiled], chunk: &Chunk, batch: Option<usize>| -> Result<(Chunk, f64)> {
            let mut isolation = Isolation::new(OnError::Skip, &locate);
            let (done, nanos) = self.timed(|| {
                works.iter().try_fold(chunk.clone(), |chunk, work| {
                    isolation.run(&chunk, &mut |chunk| work.run(chunk, batch, scratch))
                })
            });
            Ok((done?, nanos as f64 / rows))
        };
        let (_, computed) = run(&sample.way.works(sample.cut).collect::<Vec<_>>(), &read, sample.batch)?;
        let mut places = Vec::new();
        let stats = self.keeping.cache.stats();
        let memory = stats.memory.quota.saturating_sub(stats.index_bytes);
        let disk = disk_room(&stats);
        let [peers, store] = self.keeping.cache.elsewhere(memory.saturating_add(disk.unwrap_or(0)));
        for (name, way) in self.names.iter().zip(&self.ways) {
            let prefix = way.prefix.as_ref().ok_or_else(|| Error::internal("a place without a prefix"))?;
            let (before, made) = run(&prefix.works().iter().collect::<Vec<_>>(), &read, None)?;
            let trip = self.keep(prefix, sample, &before)?;
            let (_, after) = run(&way.works(sample.cut).collect::<Vec<_>>(), &before, sample.batch)?;
            let to_disk = DISK_ROW_NANOS + trip.bytes * DISK_BYTE_NANOS;
            let known = stats.prefixes.iter().find(|known| known.key == prefix.key());
            let kept = known.map_or(0, |known| {
                let elsewhere = known.peer_rows.max(known.store_rows);
                known.memory_rows.max(known.disk_rows).max(elsewhere) + known.without
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
                // Another thread writes, and takes as long.
                write: trip.written + disk.map_or(0.0, |_| to_disk),
                kept: (kept as f64 / self.rows.max(1) as f64).min(1.0),
            });
        }
        let (passes, pass_nanos) = {
            let pipeline = lock(&self.pipeline);
            (pipeline.passes(self.reader, self.rows), pipeline.pass_nanos())
        };
        Ok(Observation {
            rows: self.rows,
            passes,
            pass_nanos,
            compute: read_nanos + computed,
            places,
            room: Tiers { memory, disk: disk.unwrap_or(0), peers: peers.room, store: store.room },
            rent: self.keeping.rent,
            guessed: peers.is_guess() || store.is_guess(),
        })
    }

    /// Keeps rows and finds them again, in memory.
    fn keep(&self, prefix: &Prefix, sample: &Sample<'_>, chunk: &Chunk) -> Result<Trip> {
        // So few rows always fit.
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
        let computed = Computed { rows: &present, columns: chunk.columns(), without: &[], nanos: 0 };
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
        Ok(Trip { bytes: row(bytes), written: row(written), found: row(nanos) })
    }
}

/// Returns what the local disk has room for. One that failed counts again when it is to be tried: only who keeps rows tries it.
fn disk_room(stats: &Stats) -> Option<u64> {
    stats.disk.as_ref().filter(|disk| !disk.left_alone).map(|disk| disk.tier.quota)
}

/// Returns what fetching a row of so many bytes takes, of `rows` that are asked for together.
fn far(from: &Elsewhere, bytes: f64, rows: f64) -> f64 {
    from.request_nanos.unwrap_or(FAR_REQUEST_NANOS) / rows + bytes * from.byte_nanos.unwrap_or(FAR_BYTE_NANOS)
}

/// What keeping a row took, and finding it: nanoseconds.
struct Trip {
    bytes: f64,
    written: f64,
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
