//! Messages of consumers that end epochs together: the steps of each, and the end of an epoch for all.

use std::sync::Arc;

use forebay_core::Ticks;
use forebay_plan::Floor;
use forebay_proto::{Floor as FloorMessage, Missing, Steps, consumer_event};

use crate::records::{ConsumerKey, EpochEnd, Update};
use crate::state::effect::Effect;
use crate::state::input::SessionId;
use crate::state::leases::durable::Durable;
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;

/// Ends of epochs that a job's record keeps: the last ones.
const ENDS_MAX: usize = 256;

impl Job {
    /// Returns where an epoch ended for all, if it did.
    fn end_of(&self, epoch: u64) -> Option<Floor> {
        let end = self.record.ends.iter().find(|end| end.epoch == epoch)?;
        Some(Floor { steps: end.steps, over: true, more: end.more })
    }

    /// Returns the consumers that keep this consumer waiting for the end of an epoch.
    fn missing(&self, consumer: u32) -> Vec<Missing> {
        let is_attached = |index: u32| self.consumers.get(index as usize).is_some_and(|c| c.attached.is_some());
        self.epoch_ends.missing(consumer, is_attached)
    }
}

impl Leases {
    /// Returns the consumers that keep a consumer waiting for the end of an epoch.
    pub(in crate::state) fn missing(&self, key: ConsumerKey) -> Vec<Missing> {
        self.jobs.get(&key.0).map(|job| job.missing(key.1)).unwrap_or_default()
    }

    /// A consumer reports how many steps of its epoch it has.
    pub(in crate::state) fn steps(&mut self, now: Ticks, session: SessionId, said: &Steps, out: &mut Vec<Effect>) {
        let Some(key) = self.heard_consumer(now, session) else { return };
        let (epoch, consumer) = (said.epoch, key.1 as usize);
        let Some(job) = self.jobs.get_mut(&key.0).filter(|job| consumer < job.epoch_ends.len()) else { return };
        let (floor, is_known) = match job.epoch_ends.take(session, consumer, said) {
            Ok(taken) => taken,
            Err(error) => return self.end_consumer(now, key, error, out),
        };
        let floor = job.end_of(epoch).unwrap_or(floor);
        if floor.over {
            self.note_end(key, epoch, floor, out);
        }
        let Some(job) = self.jobs.get_mut(&key.0) else { return };
        let message = FloorMessage { epoch, steps: floor.steps, over: floor.over, more: floor.more };
        // A floor that was known before was already sent to the others.
        let who = if is_known { consumer..consumer + 1 } else { 0..job.epoch_ends.len() };
        let sessions = job.epoch_ends.take_answered(who, epoch, floor);
        out.extend(
            sessions.into_iter().map(|session| Effect::Consumer(session, consumer_event::Event::Floor(message))),
        );
    }

    /// Persists the end of an epoch, before any consumer is sent it.
    fn note_end(&mut self, key: ConsumerKey, epoch: u64, floor: Floor, out: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&key.0).filter(|job| job.end_of(epoch).is_none()) else { return };
        let mut record = (*job.record).clone();
        record.ends.push(EpochEnd { epoch, steps: floor.steps, more: floor.more });
        record.ends.drain(..record.ends.len().saturating_sub(ENDS_MAX));
        job.record = Arc::new(record);
        out.push(Effect::Persist(Durable::new(Update::Job(job.record.clone()))));
    }
}
