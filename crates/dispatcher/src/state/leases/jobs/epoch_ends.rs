//! Makes the consumers of a job end its epochs together: counts the steps of an epoch that each has, and limits the
//! steps that all of them may yield.
//!
//! The number of a consumer's steps in an epoch is a function of the job, so a report of one process holds for the next
//! process of that consumer. Each session reports it again. The end of an epoch for all is persisted in the job's
//! record before any consumer is sent it, so a consumer that comes back later ends the epoch there, too. This module
//! decides no time limit: heartbeats list to a waiting consumer the consumers without a process.
//!
//! Bounds: of each consumer its current epoch and one question; [`MISSING_MAX`] missing consumers are named. A
//! report that changes nothing for others costs the same for any number of consumers.

use forebay_core::Error;
use forebay_plan::{Count, Ending, Floor};
use forebay_proto::{Missing, Steps};

use crate::records::JobRecord;
use crate::state::input::SessionId;

/// Missing consumers that are named to one that waits for them.
const MISSING_MAX: usize = 8;

/// The progress of the consumers of a job.
#[derive(Debug, Clone, Default)]
pub(in crate::state::leases) struct EpochEnds {
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
    pub(in crate::state::leases) fn of(record: &JobRecord) -> Self {
        let ranks = if record.ending == Ending::Apart { 0 } else { record.consumers as usize };
        Self { ending: record.ending, ranks: vec![ConsumerSteps::default(); ranks], last_floor: None }
    }

    /// A consumer's session ended or was replaced.
    pub(in crate::state::leases) fn detach(&mut self, consumer: u32) {
        if let Some(rank) = self.ranks.get_mut(consumer as usize) {
            rank.question = None;
        }
    }

    /// Accepts a consumer's report; returns the floor for all, and whether it was known before.
    ///
    /// # Errors
    /// Data when the report contradicts an earlier one.
    pub(in crate::state::leases) fn take(
        &mut self,
        session: SessionId,
        consumer: usize,
        said: &Steps,
    ) -> Result<(Floor, bool), Error> {
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
    pub(in crate::state::leases) fn take_answered(
        &mut self,
        who: std::ops::Range<usize>,
        epoch: u64,
        floor: Floor,
    ) -> Vec<SessionId> {
        let waiting = self.ranks[who].iter_mut().filter(|rank| rank.count(epoch).is_some());
        let heard = |rank: &mut ConsumerSteps| {
            let (session, _) = rank.question.take_if(|(_, seen)| floor.over || floor.steps > *seen)?;
            Some(session)
        };
        waiting.filter_map(heard).collect()
    }

    /// Returns the number of consumers; 0 if they end epochs apart.
    pub(in crate::state::leases) fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the consumers without a process, or in a later epoch, that keep this consumer waiting. `is_attached`
    /// returns whether a consumer has a process.
    pub(in crate::state::leases) fn missing(&self, consumer: u32, is_attached: impl Fn(u32) -> bool) -> Vec<Missing> {
        let rank = self.ranks.get(consumer as usize).filter(|rank| rank.question.is_some());
        let Some((epoch, _)) = rank.and_then(|rank| rank.report) else { return Vec::new() };
        let floor = self.last_floor.filter(|(of, ..)| *of == epoch).map_or(0, |(_, floor, _)| floor.steps);
        let in_vain = |(index, rank): (u32, &ConsumerSteps)| {
            let later = rank.report.map(|(reported, _)| reported).filter(|reported| *reported > epoch);
            let is_missing = index != consumer && rank.holds(epoch, floor);
            let missing = Missing { consumer: index, epoch: later.filter(|_| is_attached(index)) };
            (is_missing && (!is_attached(index) || later.is_some())).then_some(missing)
        };
        (0..).zip(&self.ranks).filter_map(in_vain).take(MISSING_MAX).collect()
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
    .hint("a function of the pipeline does not return the same result each time: draw its random numbers from its rng argument")
}
