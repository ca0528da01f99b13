//! Messages of consumers: attach, acknowledge, end an epoch, heartbeat, and the end of a session.

use std::collections::BTreeSet;

use forebay_core::{Error, ErrorKind, Result, Ticks};
use forebay_proto::{Attached, Consumed, ConsumerHeartbeat, Forget, NO_JOB, consumer_event, worker_event};

use crate::records::{ConsumerKey, Position, Update};
use crate::state::effect::Effect;
use crate::state::input::{Attachment, SessionId};
use crate::state::leases::consumers::consumer::ConsumerSession;
use crate::state::leases::durable::Durable;
use crate::state::leases::job::Job;
use crate::state::leases::machine::Leases;
use crate::state::leases::notice::Notice;

impl Leases {
    /// A process attaches to a consumer, with the samples that its saved state lists as left out.
    ///
    /// # Errors
    /// NotFound for another tenant's job; Conflict while another process reads the consumer; Closed, Invalid or
    /// Exhausted as the message says.
    pub(in crate::state) fn attach(
        &mut self,
        now: Ticks,
        attachment: &Attachment,
        out: &mut Vec<Effect>,
    ) -> Result<()> {
        let &Attachment { session, ref tenant, consumer: key, position, resume, window, local_key, .. } = attachment;
        self.check_owner(tenant, key.0)?;
        self.record_skipped(key, &attachment.skipped, out)?;
        let silence_max = self.timing.lease;
        self.check_attached_quota(tenant, key)?;
        let job = self.jobs.get_mut(&key.0).ok_or_else(|| no_job(key.0))?;
        let (name, finished) = (job.record.name.clone(), job.is_finished());
        if job.record.cancelled {
            return Err(cancelled(&name));
        }
        let count = job.consumers.len();
        let Some(consumer) = job.consumers.get_mut(key.1 as usize) else {
            return Err(Error::invalid(format!("consumer {} of job {name:?}: it has {count}, from 0", key.1)));
        };
        if finished && !resume {
            return Err(Error::new(
                ErrorKind::Closed,
                format!("job {name:?} is finished: all {} epochs were read", job.record.epochs),
            )
            .hint(
                "for more epochs, use another job name, with epochs= for how many; load_state_dict reads a part again",
            ));
        }
        if let Some(difference) = attachment.bits.difference(&job.bits) {
            let message = format!("job {name:?} began with other bits than this process computes: {difference}");
            let hint = "read it with the version of forebay that began it, or use another job name";
            return Err(Error::new(ErrorKind::Version, message).hint(hint));
        }
        let position = consumer.begins(consumer.check(position)?);
        if let Some(other) = consumer.attached {
            if now - other.heard <= silence_max {
                let message = format!("consumer {} of job {name:?} is being read by another process", key.1);
                let hint = "give each process its own part with consumers=(index, count), or with consumers=\"auto\" in \
                    to_torch, to_jax and to_keras; or end the other process";
                return Err(Error::new(ErrorKind::Conflict, message).hint(hint));
            }
            self.consumer_sessions.remove(&other.session);
            out.push(Effect::End(other.session, Error::unavailable("another process took this consumer over")));
        }
        job.epoch_ends.detach(key.1);
        self.consumer_sessions.insert(session, key);
        self.active.insert(key);
        out.push(Effect::Consumer(session, consumer_event::Event::Attached(Attached {})));
        // The consumer's position wins, forwards and backwards: only the consumer knows what its training step has
        // seen.
        self.advance(now, key, position, out);
        let Some(consumer) = self.consumer_mut(key) else { return Ok(()) };
        let (workers_max, waits_since) = (tenant.quota.workers, None);
        let attached = ConsumerSession { session, window, heard: now, workers_max, waits_since, local_key };
        let mut dropped = consumer.attach(attached);
        let accidents = consumer.leased_with_accidents();
        dropped.extend(consumer.release_all(accidents));
        self.notices.push(Notice::Attached(key));
        self.revoke_all(key, dropped, out);
        self.revoke_from_foreign(key, out);
        self.assign_again(key, out);
        self.end_at_poison(now, key, out);
        Ok(())
    }

    /// Sends all leases of a consumer to it again.
    fn assign_again(&self, key: ConsumerKey, out: &mut Vec<Effect>) {
        let Some(consumer) = self.consumer(key) else { return };
        for position in consumer.leases().keys() {
            self.send_assignments((key, *position), out);
        }
    }

    /// Moves a frontier, forwards or backwards, and notifies the workers whose leases it passed.
    fn advance(&mut self, now: Ticks, key: ConsumerKey, to: Position, out: &mut Vec<Effect>) {
        let heartbeat = self.timing.heartbeat;
        let Some(consumer) = self.consumer_mut(key) else { return };
        if consumer.frontier() == to {
            return;
        }
        let forwards = to > consumer.frontier();
        // Of a split with two leases it is unknown here which worker finished it.
        let backed_up: Vec<_> = consumer.backups().keys().copied().collect();
        let consumed = consumer.move_to(to);
        let finished = consumer.is_finished();
        if forwards {
            self.counts.splits_accepted += (consumed.len() - backed_up.iter().filter(|p| **p < to).count()) as u64;
        }
        let mut holders = BTreeSet::new();
        for (position, holder) in consumed {
            out.push(Effect::Remember(Update::Released((key, position))));
            if let Some(worker) = self.workers.get_mut(&holder.worker) {
                worker.leases.remove(&holder.token);
                holders.extend(worker.session);
                // The duration of a split that the worker had finished before was noted then.
                let is_news = forwards && !worker.finished.contains(&holder.token) && !backed_up.contains(&position);
                if let Some(took) = worker.split_duration(now, holder.token, heartbeat).filter(|_| is_news) {
                    self.note_duration((key, position), holder, took);
                }
            }
        }
        let (epoch, ordinal) = (to.epoch, to.ordinal);
        let event = worker_event::Event::Consumed(Consumed { job: key.0, consumer: key.1, epoch, ordinal });
        out.extend(holders.into_iter().map(|session| Effect::Worker(session, event.clone())));
        let update = Update::Frontier(key, to);
        out.push(if finished { Effect::Persist(Durable::new(update)) } else { Effect::Remember(update) });
        if finished && self.jobs.get(&key.0).is_some_and(Job::is_finished) {
            self.forget(key.0, out);
        }
    }

    /// Makes every worker forget a job.
    pub(in crate::state::leases) fn forget(&mut self, job: u64, out: &mut Vec<Effect>) {
        for worker in self.workers.values_mut() {
            if let (true, Some(session)) = (worker.jobs.remove(&job), worker.session) {
                out.push(Effect::Worker(session, worker_event::Event::Forget(Forget { job })));
            }
        }
    }

    /// Returns the consumer of a session that is still open, and notes that it is alive.
    pub(in crate::state::leases) fn heard_consumer(&mut self, now: Ticks, session: SessionId) -> Option<ConsumerKey> {
        let key = *self.consumer_sessions.get(&session)?;
        self.consumer_mut(key)?.attached.as_mut()?.heard = now;
        Some(key)
    }

    /// Ends a consumer's session with an error.
    pub(in crate::state::leases) fn end_consumer(
        &mut self,
        now: Ticks,
        key: ConsumerKey,
        error: Error,
        out: &mut Vec<Effect>,
    ) {
        let Some(attached) = self.consumer_mut(key).and_then(|c| c.attached) else { return };
        self.consumer_gone(now, attached.session);
        out.push(Effect::End(attached.session, error));
    }

    pub(in crate::state) fn ack(&mut self, now: Ticks, session: SessionId, position: Position, out: &mut Vec<Effect>) {
        let Some(key) = self.heard_consumer(now, session) else { return };
        let Some(consumer) = self.consumer(key) else { return };
        match consumer.check(position) {
            // An old acknowledgement is ignored; only a new session moves the frontier back.
            Ok(position) if position > consumer.frontier() => {
                let epochs = position.epoch - consumer.frontier().epoch;
                if let Some(job) = self.jobs.get(&key.0).filter(|_| epochs > 0) {
                    self.notices.push(Notice::EpochsRead(job.record.clone(), epochs));
                }
                self.advance(now, key, position, out);
                self.end_at_poison(now, key, out);
            }
            Ok(_) => {}
            Err(error) => self.end_consumer(now, key, error, out),
        }
    }

    pub(in crate::state) fn end_epoch(&mut self, now: Ticks, session: SessionId, epoch: u64, out: &mut Vec<Effect>) {
        let Some(key) = self.heard_consumer(now, session) else { return };
        let dropped = self.consumer_mut(key).map(|c| c.end_epoch(epoch)).unwrap_or_default();
        self.revoke_all(key, dropped, out);
    }

    /// Accepts a heartbeat. Returns its consumer, or `None` if the session is over.
    pub(in crate::state) fn consumer_heartbeat(
        &mut self,
        now: Ticks,
        session: SessionId,
        said: &ConsumerHeartbeat,
    ) -> Option<ConsumerKey> {
        let Some(key) = self.heard_consumer(now, session) else {
            self.counts.consumer_heartbeats_refused += 1;
            return None;
        };
        self.counts.rows_delivered = self.counts.rows_delivered.saturating_add(said.rows);
        self.counts.bytes_delivered = self.counts.bytes_delivered.saturating_add(said.bytes);
        if let Some(attached) = self.consumer_mut(key).and_then(|c| c.attached.as_mut()) {
            let waits = Some(said.waiting_ms).filter(|ms| *ms > 0);
            attached.waits_since = waits.map(|ms| Ticks(now.0.saturating_sub(ms)));
        }
        Some(key)
    }

    pub(in crate::state) fn consumer_gone(&mut self, now: Ticks, session: SessionId) {
        let Some(key) = self.consumer_sessions.remove(&session) else { return };
        let Some(job) = self.jobs.get_mut(&key.0) else { return };
        if let Some(consumer) = job.consumers.get_mut(key.1 as usize) {
            (consumer.attached, consumer.gone) = (None, now);
        }
        job.epoch_ends.detach(key.1);
        self.notices.push(Notice::ConsumerGone(key, job.record.clone()));
    }
}

pub(in crate::state::leases) fn no_job(id: u64) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no job {id}")).with(NO_JOB, "job").hint(
        "the dispatcher may have removed the job (--keep-jobs), or was started with another state folder or an older \
             copy of it: open the job again by its name; a saved state resumes where it was saved",
    )
}

pub(crate) fn cancelled(name: &str) -> Error {
    Error::new(ErrorKind::Closed, format!("job {name:?} was cancelled"))
}
