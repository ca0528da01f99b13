//! The cost of each op while the pipeline runs: seconds of threads, and rows and bytes in and out.
//!
//! The meter counts all rows. It measures time and bytes of the first [`FIRST`] morsels, and then of one morsel in
//! [`EVERY`], and scales them to all rows; so it takes far less than a hundredth of the time of the cheapest ops. A
//! thread counts in its own [`ThreadTally`], which it adds to the meter once for each morsel. Time is wall time on the
//! threads that did the work, including waits for storage or for the Python interpreter. A row that a pool shares
//! counts for its time on its own thread, without the time that other threads waited for it.
//!
//! Invariants: no measurement reaches a sample. The number of earlier morsels, not a clock, decides which morsels are
//! timed. Rows that fail are not counted, but their time is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use forebay_core::{Stopwatch, short, tracer};
use forebay_data::Chunk;
use forebay_plan::{FusedOp, OpCounters, OpLabel, OpReport, Stages};
use serde_json::{Value, json};

use crate::lock::lock;
use crate::profile::span_log::SpanLog;
use crate::threads::preemption::own_nanos;

/// Morsels that are timed before a meter starts to sample them.
const FIRST: u64 = 32;
/// Of the later morsels, one in this many is timed. A prime, because splits have round numbers of morsels, and the last
/// morsel of a split may be short.
const EVERY: u64 = 29;

/// The number of an op in its meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpSlot(usize);

/// The op that reads the source.
pub(crate) const READ: OpSlot = OpSlot(0);

/// The counters of one executable. See the module's documentation.
pub struct OpMeter {
    watch: Arc<dyn Stopwatch>,
    begun: AtomicU64,
    ops: Mutex<Vec<Metered>>,
    /// Names the ops of a trace.
    stages: OnceLock<Arc<Stages>>,
}

struct Metered {
    places: Vec<usize>,
    sums: OpCounters,
    /// The part of `sums` that was reported.
    reported: OpCounters,
    /// Its name in a trace.
    name: OnceLock<Arc<str>>,
}

/// The counts of a thread for its current morsel.
#[derive(Default)]
pub(crate) struct ThreadTally {
    counts: bool,
    /// Set if this morsel is timed.
    watch: Option<Arc<dyn Stopwatch>>,
    /// The number of morsels that a timed one represents.
    weight: u64,
    sums: Vec<OpCounters>,
    /// Nanoseconds of shared rows on all threads of the pool, less the nanoseconds of this thread's part.
    apart: i64,
    /// The log of the current morsel's spans, while a trace is recorded.
    pub(crate) log: Option<Arc<SpanLog>>,
    /// The calls of ops in this morsel for the log: their beginnings and ends.
    calls: Vec<(OpSlot, u64, u64)>,
}

/// The start of a measurement.
#[derive(Clone, Copy)]
pub(crate) struct OpTimer {
    /// Empty if the morsel is not timed.
    metered: Option<(u64, i64)>,
    /// Empty if no trace is recorded.
    traced: Option<u64>,
}

impl OpMeter {
    pub(crate) fn new(watch: Arc<dyn Stopwatch>) -> Arc<Self> {
        let meter = Self { watch, begun: AtomicU64::new(0), ops: Mutex::default(), stages: OnceLock::new() };
        meter.slot(&[]);
        Arc::new(meter)
    }

    /// Returns the slot of the ops at `places`. All variants of a pipeline share it.
    pub(crate) fn slot(&self, places: &[usize]) -> OpSlot {
        let mut ops = lock(&self.ops);
        let known = ops.iter().position(|op| op.places == places);
        OpSlot(known.unwrap_or_else(|| {
            let (sums, reported) = (OpCounters::default(), OpCounters::default());
            ops.push(Metered { places: places.to_vec(), sums, reported, name: OnceLock::new() });
            ops.len() - 1
        }))
    }

    /// Sets the stages that name the ops in a trace.
    pub(crate) fn name_by(&self, stages: &Arc<Stages>) {
        let _ = self.stages.set(stages.clone());
    }

    /// Returns the slot of a fused op.
    pub(crate) fn slot_of(&self, fused: &FusedOp) -> OpSlot {
        let places: Vec<_> = fused.steps().iter().map(|step| step.place).collect();
        self.slot(&places)
    }

    /// Begins a morsel of this thread.
    pub(crate) fn begin(&self, tally: &mut ThreadTally) {
        let number = self.begun.fetch_add(1, Relaxed);
        tally.weight = if number < FIRST { 1 } else { EVERY };
        tally.watch = number.is_multiple_of(tally.weight).then(|| self.watch.clone());
        tally.sums.clear();
        tally.calls.clear();
        tally.counts = true;
    }

    /// Ends the morsel, and adds its counts.
    pub(crate) fn end(&self, tally: &mut ThreadTally) {
        (tally.counts, tally.watch) = (false, None);
        let mut ops = lock(&self.ops);
        ops.iter_mut().zip(&tally.sums).for_each(|(op, sums)| op.sums.add(sums));
        if let Some(log) = &tally.log {
            for (slot, start, end) in tally.calls.drain(..) {
                ops.get(slot.0).iter().for_each(|op| log.add(self.name(op), (start, end)));
            }
        }
    }

    fn name(&self, op: &Metered) -> Arc<str> {
        let label = |stages: &Arc<Stages>| OpLabel::of(&stages.graph, &stages.run_order, &op.places).op;
        let named = || short(&self.stages.get().map_or_else(|| "op".to_owned(), label));
        op.name.get_or_init(named).clone()
    }

    /// Returns the counts since the last report, of at most `most` ops.
    pub fn take(&self, most: usize) -> Vec<OpReport> {
        let mut ops = lock(&self.ops);
        let new = ops.iter_mut().filter(|op| op.sums != op.reported).take(most);
        let report = |op: &mut Metered| {
            let before = std::mem::replace(&mut op.reported, op.sums);
            OpReport { places: op.places.clone(), sums: op.sums.since(&before) }
        };
        new.map(report).collect()
    }

    /// Returns the counts of each op that ran, in the order in which the ops run, as JSON.
    pub(crate) fn describe(&self, stages: &Stages) -> Value {
        let ops = lock(&self.ops);
        let ran = ops.iter().filter(|op| op.sums.rows_in > 0);
        let mut labelled: Vec<_> =
            ran.map(|op| (OpLabel::of(&stages.graph, &stages.run_order, &op.places), op.sums)).collect();
        drop(ops);
        labelled.sort_by(|a, b| a.0.cmp(&b.0));
        let of = |(label, sums): &(OpLabel, OpCounters)| {
            let (seconds, bytes_in, bytes_out) = sums.scaled();
            json!({
                "op": label.op,
                "line": label.line,
                "seconds": seconds,
                "rows_in": sums.rows_in,
                "rows_out": sums.rows_out,
                "rows_found": sums.rows_found,
                "bytes_in": bytes_in,
                "bytes_out": bytes_out,
            })
        };
        labelled.iter().map(of).collect()
    }
}

impl ThreadTally {
    /// Starts to time a call of an op.
    pub(crate) fn start(&self) -> OpTimer {
        OpTimer {
            metered: self.watch.as_ref().map(|watch| (own_nanos(&**watch), self.apart)),
            traced: self.log.as_ref().map(|_| tracer().now()),
        }
    }

    /// Ends the call: the op of `slot` received `input` and returned `done`, or failed.
    pub(crate) fn stop(&mut self, slot: OpSlot, timer: OpTimer, input: MeterInput<'_>, done: Option<&Chunk>) {
        if !self.counts {
            return;
        }
        self.took(slot, timer);
        let Some(done) = done else { return };
        let mut sums =
            OpCounters { rows_in: input.rows() as u64, rows_out: done.num_rows() as u64, ..OpCounters::default() };
        if self.watch.is_some() {
            (sums.timed, sums.bytes_in, sums.bytes_out) = (sums.rows_in, input.bytes() as u64, done.num_bytes() as u64);
        }
        self.add(slot, &sums);
    }

    /// As [`ThreadTally::stop`], for an op that receives rows and returns them later.
    pub(crate) fn took_in(&mut self, slot: OpSlot, timer: OpTimer, rows: &Chunk) {
        let mut sums = OpCounters { rows_in: rows.num_rows() as u64, ..OpCounters::default() };
        if self.watch.is_some() {
            (sums.timed, sums.bytes_in) = (sums.rows_in, rows.num_bytes() as u64);
        }
        self.took(slot, timer);
        self.add(slot, &sums);
    }

    /// As [`ThreadTally::stop`], for an op that returns rows which it received earlier, or none yet.
    pub(crate) fn gave_out(&mut self, slot: OpSlot, timer: OpTimer, made: Option<&Chunk>) {
        self.took(slot, timer);
        let Some(made) = made else { return };
        let bytes_out = if self.watch.is_some() { made.num_bytes() as u64 } else { 0 };
        self.add(slot, &OpCounters { rows_out: made.num_rows() as u64, bytes_out, ..OpCounters::default() });
    }

    /// As [`ThreadTally::stop`], but counts only the time.
    pub(crate) fn took(&mut self, slot: OpSlot, timer: OpTimer) {
        if let Some(start) = timer.traced.filter(|_| self.counts) {
            self.calls.push((slot, start, tracer().now()));
        }
        if let Some((watch, (began, apart))) = self.watch.as_ref().zip(timer.metered) {
            let here = own_nanos(&**watch).saturating_sub(began) as i64;
            let nanos = (here + self.apart - apart).max(0) as u64;
            self.add(slot, &OpCounters { nanos, ..OpCounters::default() });
        }
    }

    /// Adds counts that were measured elsewhere.
    pub(crate) fn add(&mut self, slot: OpSlot, sums: &OpCounters) {
        if self.counts {
            if self.sums.len() <= slot.0 {
                self.sums.resize(slot.0 + 1, OpCounters::default());
            }
            let [timed, nanos, bytes_in, bytes_out] =
                [sums.timed, sums.nanos, sums.bytes_in, sums.bytes_out].map(|sum| sum.saturating_mul(self.weight));
            self.sums[slot.0].add(&OpCounters { timed, nanos, bytes_in, bytes_out, ..*sums });
        }
    }

    /// Returns the watch if this morsel is timed.
    pub(crate) fn watch(&self) -> Option<Arc<dyn Stopwatch>> {
        self.watch.clone()
    }

    /// Records shared rows, which took `rows` nanoseconds on all threads together, and this thread `here`.
    pub(crate) fn shared(&mut self, rows: u64, here: u64) {
        self.apart += rows as i64 - here as i64;
    }
}

/// The input of an op.
#[derive(Clone, Copy)]
pub(crate) enum MeterInput<'a> {
    /// Rows.
    Chunk(&'a Chunk),
    /// Rows in several pieces.
    Chunks(&'a [Chunk]),
    /// Rows that are still in the source.
    Places(usize),
}

impl MeterInput<'_> {
    fn rows(&self) -> usize {
        match self {
            MeterInput::Chunk(chunk) => chunk.num_rows(),
            MeterInput::Chunks(chunks) => chunks.iter().map(Chunk::num_rows).sum(),
            MeterInput::Places(rows) => *rows,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            MeterInput::Chunk(chunk) => chunk.num_bytes(),
            MeterInput::Chunks(chunks) => chunks.iter().map(Chunk::num_bytes).sum(),
            MeterInput::Places(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_data::Schema;

    use super::*;
    use crate::ops::scratch::Scratch;
    use crate::threads::row_pool::RowPool;

    /// Advances by one at each reading.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Stopwatch for Ticking {
        fn nanos(&self) -> u64 {
            self.0.fetch_add(1, Relaxed)
        }
    }

    fn nothing() -> Chunk {
        Chunk::new(Arc::new(Schema::default()), Vec::new(), Arc::from([])).expect("no rows")
    }

    #[test]
    fn rows_of_a_pool_count_their_own_time_and_not_the_wait() {
        let meter = OpMeter::new(Arc::new(Ticking::default()));
        let slot = meter.slot(&[3]);
        let mut scratch = Scratch::default();
        scratch.share(&Arc::new(RowPool::new(|| {})), 0, 0);
        meter.begin(&mut scratch.tally);
        let done = scratch.metered(slot, MeterInput::Places(8), |scratch| {
            scratch.for_each_row(8, &|_, _| Ok(()))?;
            Ok(nothing())
        });
        meter.end(&mut scratch.tally);
        assert!(done.is_ok());
        // A tick for each row, one before them and one after.
        let sums = OpCounters { rows_in: 8, timed: 8, nanos: 10, ..OpCounters::default() };
        assert_eq!(meter.take(9), [OpReport { places: vec![3], sums }]);
    }

    #[test]
    fn few_morsels_are_timed_and_their_time_is_scaled() {
        let watch = Arc::new(Ticking::default());
        let meter = OpMeter::new(watch.clone());
        let (slot, mut scratch) = (meter.slot(&[0]), Scratch::default());
        let morsels = FIRST + 10 * EVERY;
        for _ in 0..morsels {
            meter.begin(&mut scratch.tally);
            let done = scratch.metered(slot, MeterInput::Places(2), |_| Ok(nothing()));
            meter.end(&mut scratch.tally);
            assert!(done.is_ok());
        }
        // Outside of a morsel nothing is counted: probes and measurements are excluded.
        assert!(scratch.metered(slot, MeterInput::Places(7), |_| Ok(nothing())).is_ok());
        let sums = lock(&meter.ops)[slot.0].sums;
        assert_eq!(watch.0.load(Relaxed), 2 * (FIRST + 10), "read before and after");
        assert_eq!((sums.rows_in, sums.timed, sums.nanos), (2 * morsels, 2 * morsels, morsels));
        assert_eq!(sums.scaled().0, morsels as f64 / 1e9);
        // Each count is reported once, for at most the requested number of ops.
        assert_eq!(meter.slot(&[0]), slot);
        assert_eq!(
            (meter.take(0).len(), meter.take(1), meter.take(1).len()),
            (0, vec![OpReport { places: vec![0], sums }], 0)
        );
    }

    #[test]
    fn a_row_that_failed_counts_its_time_alone() {
        let meter = OpMeter::new(Arc::new(Ticking::default()));
        let (slot, mut scratch) = (meter.slot(&[0]), Scratch::default());
        meter.begin(&mut scratch.tally);
        assert!(scratch.metered(slot, MeterInput::Places(2), |_| Err(forebay_core::Error::data("bad"))).is_err());
        meter.end(&mut scratch.tally);
        let sums = OpCounters { nanos: 1, ..OpCounters::default() };
        assert_eq!(meter.take(1), [OpReport { places: vec![0], sums }]);
    }
}
