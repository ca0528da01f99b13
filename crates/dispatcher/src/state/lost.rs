//! Samples that a consumer has left out: written down before it goes on without one that might not fail again, so that
//! whoever computes the split later leaves out the very same.

use forebay_core::{Error, ErrorKind, Fault, Ticks};
use forebay_proto::{Lease, LostOfSplit, LostSample, Recorded, consumer_event, worker_event};

use super::poison::WHOLE_SPLIT;
use super::{Effect, SessionId, State};
use crate::records::{ConsumerKey, Position, Update};

/// Samples of one consumer that are written down. Beyond these, only those that might not fail again are.
const LOST_MAX: usize = 1 << 16;

impl State {
    pub(super) fn lost(
        &mut self,
        now: Ticks,
        session: SessionId,
        number: u64,
        samples: &[LostSample],
        out: &mut Vec<Effect>,
    ) {
        let Some(key) = self.heard_reader(now, session) else { return };
        self.record_lost(key, samples, out);
        let lost = self.consumer(key).map_or(0, |c| c.lost().len());
        if lost > 2 * LOST_MAX {
            let message = format!("consumer {} has lost {lost} samples: a ledger is not for so many", key.1);
            let error =
                Error::new(ErrorKind::Exhausted, message).hint("mend the data, or the function, and start over");
            return self.end_reader(now, key, error, out);
        }
        out.push(Effect::Consumer(session, consumer_event::Event::Recorded(Recorded { number })));
    }

    /// Writes down what was left out; what is known stays as it was.
    pub(super) fn record_lost(&mut self, key: ConsumerKey, samples: &[LostSample], out: &mut Vec<Effect>) {
        let mut skipped = 0;
        let Some(consumer) = self.consumer_mut(key) else { return };
        for sample in samples.iter().filter(|s| s.sample != WHOLE_SPLIT) {
            let at = Position::new(sample.epoch, sample.ordinal);
            let is_certain = || Error::from_json(&sample.error).fault() != Fault::Process;
            if consumer.lost().len() >= LOST_MAX && is_certain() {
                continue;
            }
            let error = sample.error.as_str().into();
            if consumer.lose((at, sample.sample, sample.repetition), error) {
                skipped += 1;
                let error = sample.error.as_str().into();
                out.push(Effect::Persist(Update::Lost((key, at, sample.sample, sample.repetition), error)));
            }
        }
        self.counts.samples_skipped += skipped;
    }

    /// Returns what is known to be lost of a split, for the worker that gets it.
    pub(super) fn lost_of(&self, lease: &Lease) -> Option<worker_event::Event> {
        let consumer = self.consumer((lease.job, lease.consumer))?;
        let at = Position::new(lease.epoch, lease.ordinal);
        let of_split = consumer.lost().range((at, 0, 0)..=(at, u64::MAX, u64::MAX));
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
        let (job, consumer) = (lease.job, lease.consumer);
        (!samples.is_empty()).then_some(worker_event::Event::Lost(LostOfSplit { job, consumer, samples }))
    }
}
