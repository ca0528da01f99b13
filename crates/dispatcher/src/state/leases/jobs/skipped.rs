//! Records the samples that consumers left out. A consumer waits for the record of a sample whose failure may not
//! repeat, so that every worker which computes the split later leaves out the same samples.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Fault, Result, Ticks};
use forebay_proto::{LostOfSplit, LostSample, Recorded, consumer_event, worker_event};

use crate::records::{ConsumerKey, Position, SkippedKey, Update};
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::consumers::consumer::WHOLE_SPLIT;
use crate::state::leases::durable::Durable;
use crate::state::leases::machine::Leases;

/// Samples that are recorded for one job. Beyond these, only samples whose failure may not repeat are recorded: as many
/// once more.
const SKIPPED_MAX: u64 = 1 << 16;

impl Leases {
    pub(in crate::state) fn take_skipped(
        &mut self,
        now: Ticks,
        session: SessionId,
        number: u64,
        samples: &[LostSample],
        out: &mut Vec<Effect>,
    ) {
        let Some(key) = self.heard_consumer(now, session) else { return };
        if let Err(error) = self.record_skipped(key, samples, out) {
            return self.end_consumer(now, key, error, out);
        }
        out.push(Effect::Consumer(session, consumer_event::Event::Recorded(Recorded { number })));
    }

    /// Records skipped samples; samples that are known stay as they are.
    ///
    /// # Errors
    /// Exhausted when the job has more skipped samples than a ledger may hold.
    pub(in crate::state::leases) fn record_skipped(
        &mut self,
        key: ConsumerKey,
        samples: &[LostSample],
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let mut recorded = 0;
        for sample in samples.iter().filter(|s| s.sample != WHOLE_SPLIT) {
            let at = Position::new(sample.epoch, sample.ordinal);
            let skipped = (key, at, sample.sample, sample.repetition);
            let (Some(job), Some(consumer)) = (self.jobs.get(&key.0), self.consumer(key)) else { break };
            if consumer.skipped().contains_key(&(at, sample.sample, sample.repetition)) {
                continue;
            }
            if job.skipped.samples() >= SKIPPED_MAX && Error::from_json(&sample.error).fault() != Fault::Process {
                continue;
            }
            if job.skipped.samples() >= 2 * SKIPPED_MAX {
                return Err(too_many(&job.record.name));
            }
            let error: Arc<str> = job.skipped.text(&sample.error).into();
            self.add_skipped(skipped, error.clone());
            recorded += 1;
            out.push(Effect::Persist(Durable::new(Update::Skipped(skipped, error))));
        }
        self.counts.samples_skipped += recorded;
        Ok(())
    }

    /// Adds a skipped sample, or a split that is never tried again.
    pub(in crate::state::leases) fn add_skipped(&mut self, (key, at, sample, repetition): SkippedKey, error: Arc<str>) {
        let bytes = error.len() as u64;
        let is_new = self.consumer_mut(key).is_some_and(|c| c.skip((at, sample, repetition), error));
        if let Some(job) = self.jobs.get_mut(&key.0).filter(|_| is_new) {
            job.skipped.add(bytes);
        }
    }

    /// Returns the recorded samples of a split, for the worker that gets it.
    pub(in crate::state::leases) fn skipped_of(&self, key: ConsumerKey, at: Position) -> Option<worker_event::Event> {
        let of_split = self.consumer(key)?.skipped().range((at, 0, 0)..=(at, u64::MAX, u64::MAX));
        let samples: Vec<_> = of_split
            .filter(|((_, sample, _), _)| *sample != WHOLE_SPLIT)
            .map(|((p, sample, repetition), error)| LostSample {
                epoch: p.epoch,
                ordinal: p.ordinal,
                sample: *sample,
                repetition: *repetition,
                error: error.to_string(),
            })
            .collect();
        let (job, consumer) = key;
        (!samples.is_empty()).then_some(worker_event::Event::Lost(LostOfSplit { job, consumer, samples }))
    }
}

fn too_many(job: &str) -> Error {
    let message = format!("job {job:?} has skipped {} samples, the most that a ledger records", 2 * SKIPPED_MAX);
    Error::new(ErrorKind::Exhausted, message).hint("repair the data or the function, and start again")
}
