//! What each op costs while the pipeline runs: seconds of threads, and rows and bytes in and out.
//!
//! Rows are counted always. Time and bytes are taken of the first [`FIRST`] morsels, and of one in [`EVERY`] after these, which
//! stands for so many; what all rows took is scaled from that. So a meter takes far less than a hundredth of the time of the cheapest
//! ops. A thread counts in its own [`Tally`], which goes to the meter once for each morsel.
//! Time is wall time on the threads that did the work: what reading waits for a storage, or a function for the interpreter, is in
//! it. Rows that a crew shares count for as long as each took on its thread, not for as long as the others were waited for.
//! Invariants: nothing here reaches a sample; which morsels are timed depends on how many there were before, not on a clock; rows that
//! fail are not counted, the time that they took is.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use forebay_core::Stopwatch;
use forebay_data::Chunk;
use forebay_plan::{Named, OpReport, OpSums, Stages, Work};
use serde_json::{Value, json};

use crate::learned::lock;

/// Morsels that are timed before a meter begins to pick.
const FIRST: u64 = 32;
/// Of the others, one in so many is timed. A prime: splits have round numbers of morsels, the last of which may be short.
const EVERY: u64 = 29;

/// An op's number at its meter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The op that reads the source.
pub(crate) const READ: Slot = Slot(0);

/// The figures of one executable. See the module's documentation.
pub struct OpMeter {
    watch: Arc<dyn Stopwatch>,
    begun: AtomicU64,
    ops: Mutex<Vec<Metered>>,
}

struct Metered {
    places: Vec<usize>,
    sums: OpSums,
    told: OpSums,
}

/// What a thread counts of the morsel that it is at.
#[derive(Default)]
pub(crate) struct Tally {
    counts: bool,
    /// Where this morsel is timed.
    watch: Option<Arc<dyn Stopwatch>>,
    /// How many morsels it then stands for.
    weight: u64,
    sums: Vec<OpSums>,
    /// Nanoseconds that rows took on all threads of a crew, less those that this thread was in their loop.
    apart: i64,
}

/// Work that has begun.
#[derive(Clone, Copy)]
pub(crate) struct Span(Option<(u64, i64)>);

impl OpMeter {
    pub(crate) fn new(watch: Arc<dyn Stopwatch>) -> Arc<Self> {
        let meter = Self { watch, begun: AtomicU64::new(0), ops: Mutex::default() };
        meter.slot(&[]);
        Arc::new(meter)
    }

    /// Returns the slot of the ops at `places`, which several ways to compute the same rows share.
    pub(crate) fn slot(&self, places: &[usize]) -> Slot {
        let mut ops = lock(&self.ops);
        let known = ops.iter().position(|op| op.places == places);
        Slot(known.unwrap_or_else(|| {
            ops.push(Metered { places: places.to_vec(), sums: OpSums::default(), told: OpSums::default() });
            ops.len() - 1
        }))
    }

    /// Returns the slot of a piece of work.
    pub(crate) fn slot_of(&self, work: &Work) -> Slot {
        let places: Vec<_> = work.steps().iter().map(|step| step.place).collect();
        self.slot(&places)
    }

    /// A thread begins a morsel.
    pub(crate) fn begin(&self, tally: &mut Tally) {
        let number = self.begun.fetch_add(1, Relaxed);
        tally.weight = if number < FIRST { 1 } else { EVERY };
        tally.watch = number.is_multiple_of(tally.weight).then(|| self.watch.clone());
        tally.sums.clear();
        tally.counts = true;
    }

    /// It has ended it.
    pub(crate) fn end(&self, tally: &mut Tally) {
        (tally.counts, tally.watch) = (false, None);
        let mut ops = lock(&self.ops);
        ops.iter_mut().zip(&tally.sums).for_each(|(op, sums)| op.sums.add(sums));
    }

    /// Returns what is not told yet, of at most `most` ops.
    pub fn take(&self, most: usize) -> Vec<OpReport> {
        let mut ops = lock(&self.ops);
        let new = ops.iter_mut().filter(|op| op.sums != op.told).take(most);
        let tell = |op: &mut Metered| {
            let before = std::mem::replace(&mut op.told, op.sums);
            OpReport { places: op.places.clone(), sums: op.sums.since(&before) }
        };
        new.map(tell).collect()
    }

    /// Says what each op that ran has done, in the order in which they run, for people.
    pub(crate) fn describe(&self, stages: &Stages) -> Value {
        let ops = lock(&self.ops);
        let ran = ops.iter().filter(|op| op.sums.rows_in > 0);
        let mut named: Vec<_> =
            ran.map(|op| (Named::of(&stages.graph, &stages.run_order, &op.places), op.sums)).collect();
        drop(ops);
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let of = |(named, sums): &(Named, OpSums)| {
            let (seconds, bytes_in, bytes_out) = sums.scaled();
            json!({
                "op": named.op,
                "line": named.line,
                "seconds": seconds,
                "rows_in": sums.rows_in,
                "rows_out": sums.rows_out,
                "rows_found": sums.rows_found,
                "bytes_in": bytes_in,
                "bytes_out": bytes_out,
            })
        };
        named.iter().map(of).collect()
    }
}

impl Tally {
    /// Begins a piece of work.
    pub(crate) fn start(&self) -> Span {
        Span(self.watch.as_ref().map(|watch| (watch.nanos(), self.apart)))
    }

    /// Ends it: `slot` took `rows` and made `done`, or failed.
    pub(crate) fn stop(&mut self, slot: Slot, span: Span, given: Given<'_>, done: Option<&Chunk>) {
        if !self.counts {
            return;
        }
        self.took(slot, span);
        let Some(done) = done else { return };
        let mut sums = OpSums { rows_in: given.rows() as u64, rows_out: done.num_rows() as u64, ..OpSums::default() };
        if self.watch.is_some() {
            (sums.timed, sums.bytes_in, sums.bytes_out) = (sums.rows_in, given.bytes() as u64, done.num_bytes() as u64);
        }
        self.add(slot, &sums);
    }

    /// As [`Tally::stop`], of work that holds rows back.
    pub(crate) fn took_in(&mut self, slot: Slot, span: Span, rows: &Chunk) {
        let mut sums = OpSums { rows_in: rows.num_rows() as u64, ..OpSums::default() };
        if self.watch.is_some() {
            (sums.timed, sums.bytes_in) = (sums.rows_in, rows.num_bytes() as u64);
        }
        self.took(slot, span);
        self.add(slot, &sums);
    }

    /// As [`Tally::stop`], of work that makes something of the rows that it held back, or does not yet.
    pub(crate) fn gave_out(&mut self, slot: Slot, span: Span, made: Option<&Chunk>) {
        self.took(slot, span);
        let Some(made) = made else { return };
        let bytes_out = if self.watch.is_some() { made.num_bytes() as u64 } else { 0 };
        self.add(slot, &OpSums { rows_out: made.num_rows() as u64, bytes_out, ..OpSums::default() });
    }

    /// As [`Tally::stop`], but says nothing of rows yet.
    pub(crate) fn took(&mut self, slot: Slot, span: Span) {
        if let Some((watch, (began, apart))) = self.watch.as_ref().zip(span.0) {
            let here = watch.nanos().saturating_sub(began) as i64;
            let nanos = (here + self.apart - apart).max(0) as u64;
            self.add(slot, &OpSums { nanos, ..OpSums::default() });
        }
    }

    /// Counts for an op what was found out elsewhere.
    pub(crate) fn add(&mut self, slot: Slot, sums: &OpSums) {
        if self.counts {
            if self.sums.len() <= slot.0 {
                self.sums.resize(slot.0 + 1, OpSums::default());
            }
            let [timed, nanos, bytes_in, bytes_out] =
                [sums.timed, sums.nanos, sums.bytes_in, sums.bytes_out].map(|sum| sum.saturating_mul(self.weight));
            self.sums[slot.0].add(&OpSums { timed, nanos, bytes_in, bytes_out, ..*sums });
        }
    }

    /// Returns the watch, where this morsel is timed.
    pub(crate) fn watch(&self) -> Option<Arc<dyn Stopwatch>> {
        self.watch.clone()
    }

    /// A loop over rows took `rows` nanoseconds on all threads together, and this one was in it for `here`.
    pub(crate) fn shared(&mut self, rows: u64, here: u64) {
        self.apart += rows as i64 - here as i64;
    }
}

/// What goes into a piece of work.
#[derive(Clone, Copy)]
pub(crate) enum Given<'a> {
    /// Rows.
    Chunk(&'a Chunk),
    /// Rows in several pieces.
    Chunks(&'a [Chunk]),
    /// Rows that are still where the source is.
    Places(usize),
}

impl Given<'_> {
    fn rows(&self) -> usize {
        match self {
            Given::Chunk(chunk) => chunk.num_rows(),
            Given::Chunks(chunks) => chunks.iter().map(Chunk::num_rows).sum(),
            Given::Places(rows) => *rows,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Given::Chunk(chunk) => chunk.num_bytes(),
            Given::Chunks(chunks) => chunks.iter().map(Chunk::num_bytes).sum(),
            Given::Places(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_data::Schema;

    use super::*;
    use crate::crew::Crew;
    use crate::work::Scratch;

    /// Goes on by one whenever it is looked at.
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
    fn rows_of_a_crew_count_for_what_they_took_and_not_for_the_wait() {
        let meter = OpMeter::new(Arc::new(Ticking::default()));
        let slot = meter.slot(&[3]);
        let mut scratch = Scratch::default();
        scratch.share(&Arc::new(Crew::new(|| {})), 0);
        meter.begin(&mut scratch.tally);
        let done = scratch.metered(slot, Given::Places(8), |scratch| {
            scratch.for_each_row(8, &|_, _| Ok(()))?;
            Ok(nothing())
        });
        meter.end(&mut scratch.tally);
        assert!(done.is_ok());
        // A tick for each row, and one before and one after their loop.
        let sums = OpSums { rows_in: 8, timed: 8, nanos: 10, ..OpSums::default() };
        assert_eq!(meter.take(9), [OpReport { places: vec![3], sums }]);
    }

    #[test]
    fn few_morsels_are_timed_and_what_they_say_is_scaled() {
        let watch = Arc::new(Ticking::default());
        let meter = OpMeter::new(watch.clone());
        let (slot, mut scratch) = (meter.slot(&[0]), Scratch::default());
        let morsels = FIRST + 10 * EVERY;
        for _ in 0..morsels {
            meter.begin(&mut scratch.tally);
            let done = scratch.metered(slot, Given::Places(2), |_| Ok(nothing()));
            meter.end(&mut scratch.tally);
            assert!(done.is_ok());
        }
        // Outside of a morsel nothing is counted: whoever measures for other purposes is not seen.
        assert!(scratch.metered(slot, Given::Places(7), |_| Ok(nothing())).is_ok());
        let sums = lock(&meter.ops)[slot.0].sums;
        assert_eq!(watch.0.load(Relaxed), 2 * (FIRST + 10), "looked at before and after");
        assert_eq!((sums.rows_in, sums.timed, sums.nanos), (2 * morsels, 2 * morsels, morsels));
        assert_eq!(sums.scaled().0, morsels as f64 / 1e9);
        // Each is told once, at most as many as are asked for.
        assert_eq!(meter.slot(&[0]), slot);
        assert_eq!(
            (meter.take(0).len(), meter.take(1), meter.take(1).len()),
            (0, vec![OpReport { places: vec![0], sums }], 0)
        );
    }

    #[test]
    fn what_failed_took_time_and_is_no_row() {
        let meter = OpMeter::new(Arc::new(Ticking::default()));
        let (slot, mut scratch) = (meter.slot(&[0]), Scratch::default());
        meter.begin(&mut scratch.tally);
        assert!(scratch.metered(slot, Given::Places(2), |_| Err(forebay_core::Error::data("bad"))).is_err());
        meter.end(&mut scratch.tally);
        let sums = OpSums { nanos: 1, ..OpSums::default() };
        assert_eq!(meter.take(1), [OpReport { places: vec![0], sums }]);
    }
}
