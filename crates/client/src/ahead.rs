//! What was merged of an epoch and not given out yet, where the readers of a job end epochs together. No I/O, no clock.
//!
//! A step is given out once all readers are known to have it; what is given out is a function of the counts alone. Bounds: merging goes
//! ahead by [`STEPS_MAX`] deliveries or [`BYTES_MAX`], whichever is less, but always by [`STEPS_MIN`], and a chunk more.

use std::collections::VecDeque;

use forebay_core::{Error, Result};
use forebay_exec::{Delivery, Position};
use forebay_plan::{Count, Ending, Floor};

/// Deliveries that wait to be given out.
const STEPS_MIN: usize = 2;
const STEPS_MAX: usize = 64;
/// What they weigh.
const BYTES_MAX: usize = 64 << 20;

/// What a reader does next.
pub(crate) enum Step {
    /// It gives this out, after which it stands there.
    Give(Box<Delivery>, Box<Position>),
    /// It waits for the others; and for rows, where it has none itself.
    Wait { is_starved: bool },
    /// The epoch is over for all.
    End,
}

#[derive(Debug)]
pub(crate) struct Ahead {
    ending: Ending,
    consumers: u32,
    waiting: VecDeque<Delivery>,
    bytes: usize,
    /// Steps of the epoch that were merged, and those that were given out.
    count: Count,
    given: u64,
    /// The last step of the epoch, copied, from when the reader knows that no step follows it.
    last: Option<Delivery>,
    /// Why nothing comes behind what waits.
    failed: Option<Error>,
    /// Whether it was said that steps are left out.
    is_said: bool,
}

impl Ahead {
    /// Begins at a position; what it says was given out from there on is not given out again.
    pub(crate) fn new(ending: Ending, consumers: u32, from: &Position) -> Self {
        Self {
            ending,
            consumers,
            waiting: VecDeque::new(),
            bytes: 0,
            count: Count { has: from.step, ended: false },
            given: from.step + from.given,
            last: None,
            failed: None,
            is_said: false,
        }
    }

    /// An epoch begins.
    pub(crate) fn begin(&mut self) {
        self.waiting.clear();
        (self.bytes, self.count, self.given, self.last) = (0, Count::default(), 0, None);
    }

    pub(crate) fn count(&self) -> Count {
        self.count
    }

    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Says whether more is to be merged.
    pub(crate) fn has_room(&self) -> bool {
        let waiting = self.waiting.len();
        let has_room = waiting < STEPS_MIN || (waiting < STEPS_MAX && self.bytes < BYTES_MAX);
        has_room && !self.is_done()
    }

    /// Says whether nothing more is to come of this epoch.
    pub(crate) fn is_done(&self) -> bool {
        self.count.ended || self.failed.is_some()
    }

    /// Takes what was merged next.
    pub(crate) fn push(&mut self, mut delivery: Delivery) {
        let (steps, before) = (delivery.steps(), self.count.has);
        self.count.has += steps;
        // A resumed reader gave this out before.
        let again = self.given.saturating_sub(before).min(steps);
        if again < steps {
            if again > 0 {
                drop(delivery.split_off(again as usize));
            }
            self.bytes += delivery.chunk.num_bytes();
            self.waiting.push_back(delivery);
        } else if self.ending == Ending::Pad {
            self.last = Some(last_of(delivery));
        }
    }

    /// The epoch has no more for this reader.
    pub(crate) fn end(&mut self) {
        self.count.ended = true;
    }

    /// Nothing comes behind what waits.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// Says what is done next, with what all readers are known to have.
    ///
    /// # Errors
    /// What the reader failed with, after all before it; Invalid where not all have a step, and that is an error.
    pub(crate) fn next(&mut self, floor: Floor) -> Result<Step> {
        let has = self.count.has.saturating_sub(self.given);
        // What comes again is copied before it is given out, so it must be known to be the last.
        let may_be_last = self.ending == Ending::Pad && !self.count.ended && self.failed.is_none();
        let ready = if may_be_last { has.saturating_sub(1) } else { has };
        let cleared = floor.steps.saturating_sub(self.given);
        match &self.failed {
            _ if cleared > 0 && ready > 0 => self.give(cleared.min(ready)),
            Some(error) if has == 0 => Err(error.clone()),
            _ if cleared > 0 && has == 0 && self.count.ended && self.last.is_some() => self.give_again(),
            _ if cleared == 0 && floor.over => self.over(floor),
            _ => Ok(Step::Wait { is_starved: ready == 0 && !self.count.ended }),
        }
    }

    fn give(&mut self, steps: u64) -> Result<Step> {
        let Some(front) = self.waiting.front_mut() else { return Err(Error::internal("no step is ready")) };
        let mut delivery = match front.steps() > steps {
            true => front.split_off(steps as usize),
            false => self.waiting.pop_front().ok_or_else(|| Error::internal("no step is ready"))?,
        };
        self.bytes = self.waiting.iter().map(|delivery| delivery.chunk.num_bytes()).sum();
        let end = delivery.span().end().clone();
        let before = self.given;
        self.given += delivery.steps();
        if self.ending == Ending::Pad && self.count.ended && self.given == self.count.has {
            self.last = Some(last_of(delivery.clone()).copied()?);
        }
        delivery.count(before, 0);
        Ok(Step::Give(Box::new(delivery), end.into()))
    }

    /// The user may have written to what was given out, and may do so again.
    fn give_again(&mut self) -> Result<Step> {
        let Some(last) = &self.last else { return Err(Error::internal("there is no last step")) };
        let (mut again, end) = (last.copied()?, last.span().end().clone());
        let place = self.count.has - 1;
        again.count(place, self.given - place);
        self.given += 1;
        Ok(Step::Give(Box::new(again), end.into()))
    }

    fn over(&mut self, floor: Floor) -> Result<Step> {
        let (more, consumers, given) = (floor.more, self.consumers, self.given);
        match self.ending {
            Ending::Error if more > 0 => Err(Error::invalid(format!(
                "after {given} batches {more} of {consumers} consumers have one more, and the others have none"
            ))
            .hint("with even=\"drop\" it is left out; with even=\"pad\" the others give their last batch again")),
            Ending::Pad if more > 0 => {
                let none = consumers - more.min(consumers);
                let message = format!("{none} of {consumers} consumers have no batch, so they have none to give again");
                Err(Error::invalid(message).hint("use smaller batches or fewer ranks, or even=\"drop\""))
            }
            _ => {
                self.tell_of_dropped();
                Ok(Step::End)
            }
        }
    }

    fn tell_of_dropped(&mut self) {
        let left = self.count.has.saturating_sub(self.given);
        if self.count.ended && left == 0 || std::mem::replace(&mut self.is_said, true) {
            return;
        }
        let least = if self.count.ended { "" } else { "at least " };
        let given = self.given;
        tracing::info!("all consumers end the epoch after {given} steps: {least}{left} of this one's are left out");
    }
}

/// Returns the last step of a delivery.
fn last_of(mut delivery: Delivery) -> Delivery {
    if !delivery.batched {
        drop(delivery.split_off(delivery.chunk.num_rows() - 1));
    }
    delivery
}
