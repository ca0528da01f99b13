//! Lets the consumers of a job end its epochs together: how many steps of an epoch each has, and how many all of them
//! may give out.
//!
//! How many steps a consumer has in an epoch is a function of the job, so what one process reported holds for the next
//! process of that consumer. Each session reports it again. Where an epoch ended for all is persisted in the job's
//! record before anyone is told, so a consumer that comes back later ends the epoch there, too. No time limit is
//! decided here: a waiting consumer is told in heartbeats which others have no process.
//!
//! Bounds: of each consumer the epoch that it is in, and one question; the ends of [`ENDS_MAX`] epochs; [`MISSING_MAX`]
//! missing consumers are named. A report that changes nothing for others costs the same however many consumers there
//! are.

use std::sync::Arc;

use forebay_core::{Error, Ticks};
use forebay_plan::{Count, Ending, Floor};
use forebay_proto::{Floor as FloorMessage, Missing, Steps, consumer_event};

use crate::records::{ConsumerKey, EpochEnd, JobRecord, Update};
use crate::state::leases::consumer::Consumer;
use crate::state::{Effect, Job, SessionId, State};

/// Ends of epochs that a job's record keeps: the last ones.
const ENDS_MAX: usize = 256;
/// Missing consumers that are named to one that waits for them.
const MISSING_MAX: usize = 8;

/// How far the consumers of a job are.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct EpochEnds {
    ending: Ending,
    ranks: Vec<ConsumerSteps>,
    /// The last floor with its epoch, and how many consumers keep it from rising.
    last_floor: Option<(u64, Floor, usize)>,
}

#[derive(Debug, Clone, Default)]
struct ConsumerSteps {
    /// The last report, and its epoch.
    report: Option<(u64, Count)>,
    /// The session that waits for the floor of that epoch to rise above this number of steps.
    question: Option<(SessionId, u64)>,
}

impl ConsumerSteps {
    fn count(&self, epoch: u64) -> Option<Count> {
        self.report.filter(|(reported, _)| *reported == epoch).map(|(_, count)| count)
    }

    fn holds(&self, epoch: u64, steps: u64) -> bool {
        self.count(epoch).is_none_or(|count| !count.ended && count.has <= steps)
    }
}

impl EpochEnds {
    pub(in crate::state) fn of(record: &JobRecord) -> Self {
        let ranks = if record.ending == Ending::Apart { 0 } else { record.consumers as usize };
        Self { ending: record.ending, ranks: vec![ConsumerSteps::default(); ranks], last_floor: None }
    }

    /// A consumer's session ended or was replaced.
    pub(in crate::state) fn detach(&mut self, consumer: u32) {
        if let Some(rank) = self.ranks.get_mut(consumer as usize) {
            rank.question = None;
        }
    }

    /// Takes a consumer's report; returns the floor for all, and whether it was known before.
    ///
    /// # Errors
    /// Data when the report contradicts an earlier one.
    fn take(&mut self, session: SessionId, consumer: usize, said: &Steps) -> Result<(Floor, bool), Error> {
        let epoch = said.epoch;
        let rank = &mut self.ranks[consumer];
        let before = rank.count(epoch);
        let mut count = Count { has: said.has, ended: said.ended };
        if let Some(before) = before {
            if (before.ended && count.has > before.has) || (count.ended && count.has < before.has) {
                return Err(contradicts(consumer, epoch, before, count));
            }
            count = Count { has: count.has.max(before.has), ended: count.ended || before.ended };
        }
        rank.report = Some((epoch, count));
        rank.question = Some((session, said.seen));
        let is_news = before.is_none_or(|before| before.ended != count.ended);
        if let Some((of, floor, holding)) = &mut self.last_floor
            && *of == epoch
            && !is_news
        {
            let held = before.is_some_and(|before| !before.ended && before.has <= floor.steps);
            *holding -= usize::from(held && count.has > floor.steps && *holding > 0);
            if !held || *holding > 0 {
                return Ok((*floor, true));
            }
        }
        let floor = self.ending.floor(self.ranks.iter().map(|rank| rank.count(epoch)));
        let holding = self.ranks.iter().filter(|rank| rank.holds(epoch, floor.steps)).count();
        self.last_floor = Some((epoch, floor, holding));
        Ok((floor, false))
    }

    /// Returns the sessions that wait for this floor, and removes them from the waiting ones.
    fn take_answered(&mut self, who: std::ops::Range<usize>, epoch: u64, floor: Floor) -> Vec<SessionId> {
        let waiting = self.ranks[who].iter_mut().filter(|rank| rank.count(epoch).is_some());
        let heard = |rank: &mut ConsumerSteps| {
            let (session, _) = rank.question.take_if(|(_, seen)| floor.over || floor.steps > *seen)?;
            Some(session)
        };
        waiting.filter_map(heard).collect()
    }
}

impl Job {
    /// Returns where an epoch ended for all, if it did.
    fn end_of(&self, epoch: u64) -> Option<Floor> {
        let end = self.record.ends.iter().find(|end| end.epoch == epoch)?;
        Some(Floor { steps: end.steps, over: true, more: end.more })
    }

    /// Returns the consumers without a process, or in a later epoch, that keep this consumer waiting.
    pub(in crate::state) fn missing(&self, consumer: u32) -> Vec<Missing> {
        let rank = self.epoch_ends.ranks.get(consumer as usize).filter(|rank| rank.question.is_some());
        let Some((epoch, _)) = rank.and_then(|rank| rank.report) else { return Vec::new() };
        let floor = self.epoch_ends.last_floor.filter(|(of, ..)| *of == epoch).map_or(0, |(_, floor, _)| floor.steps);
        let others = (0..).zip(&self.epoch_ends.ranks).zip(&self.consumers);
        let in_vain = |((index, rank), other): ((u32, &ConsumerSteps), &Consumer)| {
            let later = rank.report.map(|(reported, _)| reported).filter(|reported| *reported > epoch);
            let is_missing = index != consumer && rank.holds(epoch, floor);
            let missing = Missing { consumer: index, epoch: later.filter(|_| other.attached.is_some()) };
            (is_missing && (other.attached.is_none() || later.is_some())).then_some(missing)
        };
        others.filter_map(in_vain).take(MISSING_MAX).collect()
    }
}

impl State {
    /// A consumer reports how many steps of its epoch it has.
    pub(in crate::state) fn steps(&mut self, now: Ticks, session: SessionId, said: &Steps, out: &mut Vec<Effect>) {
        let Some(key) = self.heard_consumer(now, session) else { return };
        let (epoch, consumer) = (said.epoch, key.1 as usize);
        let Some(job) = self.jobs.get_mut(&key.0).filter(|job| consumer < job.epoch_ends.ranks.len()) else { return };
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
        let who = if is_known { consumer..consumer + 1 } else { 0..job.epoch_ends.ranks.len() };
        let sessions = job.epoch_ends.take_answered(who, epoch, floor);
        out.extend(
            sessions.into_iter().map(|session| Effect::Consumer(session, consumer_event::Event::Floor(message))),
        );
    }

    /// Persists where an epoch ended, before anyone is told.
    fn note_end(&mut self, key: ConsumerKey, epoch: u64, floor: Floor, out: &mut Vec<Effect>) {
        let Some(job) = self.jobs.get_mut(&key.0).filter(|job| job.end_of(epoch).is_none()) else { return };
        let mut record = (*job.record).clone();
        record.ends.push(EpochEnd { epoch, steps: floor.steps, more: floor.more });
        record.ends.drain(..record.ends.len().saturating_sub(ENDS_MAX));
        job.record = Arc::new(record);
        out.push(Effect::Persist(Update::Job(job.record.clone())));
    }
}

fn contradicts(consumer: usize, epoch: u64, before: Count, now: Count) -> Error {
    let all = |count: Count| if count.ended { "" } else { "at least " };
    Error::data(format!(
        "consumer {consumer} had {}{} batches of epoch {epoch}, and now it has {}{}",
        all(before),
        before.has,
        all(now),
        now.has
    ))
    .hint("a function of the pipeline does not give the same each time: let it draw random numbers from the rng that it is given")
}
