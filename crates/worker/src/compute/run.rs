//! Computes one morsel, or one source block, and puts the chunks into the split's buffer.
//!
//! A storage that does not answer is retried a few times; a panic becomes an error of its split. A retry leaves out the
//! chunks that were put before: they would be the same. A chunk that a job with the same samples has computed is taken
//! from there (see `shared_chunks`).

#![expect(clippy::disallowed_methods, reason = "it measures morsels, and tries a source again within a bound")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{ChunkPlace, ConsumerIndex, Epoch, Error, ErrorKind, Result, Span, Track, tracer};
use forebay_exec::{MorselRequest, Scratch, SpanLog, panicked, waited};
use forebay_io::WindowAnnouncement;
use forebay_plan::Morsel;

use crate::compute::pool::PoolShared;
use crate::compute::turn::Turn;
use crate::options::{RETRIES_MAX, RETRY_PAUSE};
use crate::splits::chunk::ProducedChunk;
use crate::splits::jobs::Prepared;
use crate::splits::single_flight::{Decision, decide, publish};
use crate::splits::split_buffer::{PutOutcome, SplitBuffer};

/// Computes the morsel that yields exactly chunk `index`.
pub(crate) fn morsel(
    pool: &Arc<PoolShared>,
    scratch: &mut Scratch,
    split: &SplitBuffer,
    job: &Prepared,
    run: u64,
    (index, morsel): (u64, Morsel),
) {
    if let Some(error) = split.failed_before(index) {
        // The consumer stops at the earlier error; this one only fills the slot.
        return split.fail(run, index, error);
    }
    let Decision::Compute(mut in_flight) = decide_or_wait(pool, split, job, run, index) else { return };
    let mut own = OwnTime::begin();
    let mut put = false;
    let done = with_retries(pool, || {
        attempt(scratch, split, job, (index, morsel), &mut |produced| {
            if std::mem::replace(&mut put, true) {
                return Err(Error::internal("a counted morsel gave more than one chunk"));
            }
            publish(split, run, index, produced, in_flight.take());
            Ok(())
        })
    });
    match done {
        Ok(()) if put => {}
        Ok(()) => split.fail(run, index, Error::internal("a counted morsel gave no chunk")),
        Err(error) => split.fail(run, index, error),
    }
    split.count_time(own.take() + pool.take_helped());
}

/// The time that this thread computes: without its waits for turns.
struct OwnTime {
    began: Instant,
    waited: u64,
}

impl OwnTime {
    fn begin() -> Self {
        Self { began: Instant::now(), waited: waited() }
    }

    /// Returns the time since it began, and begins again.
    fn take(&mut self) -> Duration {
        let Self { began, waited } = std::mem::replace(self, Self::begin());
        self.began.saturating_duration_since(began).saturating_sub(Duration::from_nanos(self.waited - waited))
    }
}

/// Decides how to get a chunk, after waiting for another thread that computes it. If that takes too long, it is
/// computed here for this job alone.
fn decide_or_wait(pool: &Arc<PoolShared>, split: &SplitBuffer, job: &Prepared, run: u64, index: u64) -> Decision {
    loop {
        match decide(split, &job.subscriber, run, index) {
            Decision::Wait if !pool.aside(|| job.subscriber.wait(split.key, index)) => return Decision::Compute(None),
            Decision::Wait => {}
            decided => return decided,
        }
    }
}

/// Computes a split of an unknown number of chunks in order, waiting for its consumer, and in turn with other consumers.
pub(crate) fn block(
    pool: &Arc<PoolShared>,
    scratch: &mut Scratch,
    (split, job, run): (&SplitBuffer, &Prepared, u64),
    (morsels, mut announced): (impl Iterator<Item = (u64, Morsel)>, Option<WindowAnnouncement>),
) {
    let mut next = 0;
    let mut own = OwnTime::begin();
    for (_, morsel) in morsels {
        let start = next;
        let done = with_retries(pool, || {
            let mut index = start;
            attempt(scratch, split, job, (start, morsel), &mut |produced| {
                let here = index;
                index += 1;
                // Chunks may come from a cache, or wait for the consumer: other windows must not wait for them.
                announced.take();
                Turn::with(|turn| turn.is_free = true);
                pool.go_on();
                if here < next {
                    return Ok(());
                }
                next = index;
                split.count_rows(produced.chunk.num_rows());
                // Counted here and not at the end, which may be far away; without the time of waiting for the consumer.
                split.count_time(own.take() + pool.take_helped());
                if !split.wants(here) {
                    return if split.is_stale(run) || pool.is_stopped() { Err(stale()) } else { Ok(()) };
                }
                loop {
                    match split.put(run, here, &produced, true) {
                        PutOutcome::Kept => {
                            Turn::with(|turn| pool.next_turn(turn));
                            own = OwnTime::begin();
                            return Ok(());
                        }
                        PutOutcome::Stale => return Err(stale()),
                        PutOutcome::Full => {
                            if !pool.wait_for_consumer(|| split.wait_for_room(run)) {
                                return Err(stale());
                            }
                            own = OwnTime::begin();
                        }
                    }
                }
            })
        });
        if let Err(error) = done {
            return split.fail(run, next, error);
        }
    }
    split.set_total(run, next);
}

/// No consumer reads this error, because the lease of its split has ended.
fn stale() -> Error {
    Error::new(ErrorKind::Closed, "the lease has ended")
}

fn attempt(
    scratch: &mut Scratch,
    split: &SplitBuffer,
    job: &Prepared,
    (first, morsel): (u64, Morsel),
    emit: &mut dyn FnMut(ProducedChunk) -> Result<()>,
) -> Result<()> {
    let log = logged(split, first);
    scratch.log_spans(log.clone());
    let (epoch, consumer) = (Epoch(split.key.epoch), ConsumerIndex(split.key.consumer));
    let (known_skips, ops) = (split.known(), job.executable.resolve_boundary(split.ops_on_worker()));
    let request = MorselRequest { epoch, consumer, morsel, first_chunk: 0, known_skips: &known_skips, ops };
    let run = || {
        job.executable.morsel(&request, scratch, &mut |chunk| {
            let spans = log.as_ref().map(|log| log.take("morsel").into());
            emit(ProducedChunk { chunk, ops_on_worker: ops, shared: false, spans })
        })
    };
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        // State that a panic may have left inconsistent is not used again.
        *scratch = Scratch::default();
        Err(panicked(&*panic))
    })
}

/// Begins the log of the spans of a morsel that begins with chunk `first`, if a consumer records a trace.
fn logged(split: &SplitBuffer, first: u64) -> Option<Arc<SpanLog>> {
    if !split.is_traced() {
        return None;
    }
    let chunk = ChunkPlace { stream: 0, epoch: split.key.epoch, split: split.key.ordinal, chunk: first };
    let log = SpanLog::begin(chunk, None);
    if first == 0 && split.leased > 0 {
        let (start, now) = (split.leased, tracer().now());
        let (name, process, nanos) = ("lease".into(), "".into(), now.saturating_sub(start));
        log.put(Span { name, process, track: Track::Split, start, nanos, chunk: Some(chunk) });
    }
    Some(log)
}

/// Retries after a pause if a service did not answer.
fn with_retries(pool: &Arc<PoolShared>, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let mut retries = 0;
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::Unavailable && retries < RETRIES_MAX && !pool.is_stopped() => {
                tracing::warn!(error = error.message(), retries, "a split failed and is tried again");
                pool.aside(|| std::thread::sleep(RETRY_PAUSE * 2u32.pow(retries)));
                retries += 1;
            }
            done => return done,
        }
    }
}
