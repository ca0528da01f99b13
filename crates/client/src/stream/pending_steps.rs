//! The merged steps of an epoch that wait for delivery, if the consumers of a job end epochs together. No I/O, no
//! clock.
//!
//! A step is one batch, or one sample if samples are not batched. It is delivered once all consumers are known to
//! have it; which steps are delivered follows from the step counts alone. Bounds: merging runs ahead by [`STEPS_MAX`]
//! deliveries or [`BYTES_MAX`], whichever is less, but always by [`STEPS_MIN`] deliveries, plus one chunk.

use std::collections::VecDeque;

use forebay_core::{Error, Result};
use forebay_exec::{Delivery, Position};
use forebay_plan::{Count, Ending, Floor};

/// Bounds on the deliveries that wait.
const STEPS_MIN: usize = 2;
const STEPS_MAX: usize = 64;
/// Bound on the bytes of their chunks.
const BYTES_MAX: usize = 64 << 20;

/// The next action of the consumer.
pub(crate) enum NextStep {
    /// Deliver this; afterwards the consumer is at this position.
    Deliver(Box<Delivery>, Box<Position>),
    /// Wait for the other consumers. A starved one also waits for rows: it has no step itself.
    Wait { is_starved: bool },
    /// The epoch is over for all consumers.
    EpochEnd,
}

#[derive(Debug)]
pub(crate) struct PendingSteps {
    ending: Ending,
    consumers: u32,
    waiting: VecDeque<Delivery>,
    bytes: usize,
    /// The number of steps of the epoch that were merged, and the number that were given out.
    count: Count,
    given: u64,
    /// A copy of the last step of the epoch, once no step is known to follow it.
    last: Option<Delivery>,
    /// The error after the steps that wait.
    failed: Option<Error>,
    /// Whether the log has reported that steps were dropped.
    has_logged_drop: bool,
}

impl PendingSteps {
    /// Begins at a position. Steps that the position counts as given out are not given out again.
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
            has_logged_drop: false,
        }
    }

    pub(crate) fn begin_epoch(&mut self) {
        self.waiting.clear();
        (self.bytes, self.count, self.given, self.last) = (0, Count::default(), 0, None);
    }

    pub(crate) fn count(&self) -> Count {
        self.count
    }

    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// Returns whether to merge more.
    pub(crate) fn has_room(&self) -> bool {
        let waiting = self.waiting.len();
        let has_room = waiting < STEPS_MIN || (waiting < STEPS_MAX && self.bytes < BYTES_MAX);
        has_room && !self.is_done()
    }

    /// Returns whether this consumer gets no more steps of this epoch.
    pub(crate) fn is_done(&self) -> bool {
        self.count.ended || self.failed.is_some()
    }

    /// Adds the delivery that was merged next.
    pub(crate) fn push(&mut self, mut delivery: Delivery) {
        let (steps, before) = (delivery.steps(), self.count.has);
        self.count.has += steps;
        // The consumer that this one resumes has given out these steps.
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

    /// Notes that this consumer has no more steps in the epoch.
    pub(crate) fn end(&mut self) {
        self.count.ended = true;
    }

    /// Sets the error that follows the steps that wait.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failed.get_or_insert(error);
    }

    /// Returns the next action, given the steps that all consumers are known to have.
    ///
    /// # Errors
    /// The error of [`PendingSteps::fail`], after all steps before it; Invalid if some consumers have no step and the
    /// ending makes that an error.
    pub(crate) fn next(&mut self, floor: Floor) -> Result<NextStep> {
        let has = self.count.has.saturating_sub(self.given);
        // With padding, the last step is copied before it is given out, so it must be known to be the last one.
        let may_be_last = self.ending == Ending::Pad && !self.count.ended && self.failed.is_none();
        let ready = if may_be_last { has.saturating_sub(1) } else { has };
        let cleared = floor.steps.saturating_sub(self.given);
        match &self.failed {
            _ if cleared > 0 && ready > 0 => self.deliver(cleared.min(ready)),
            Some(error) if has == 0 => Err(error.clone()),
            _ if cleared > 0 && has == 0 && self.count.ended && self.last.is_some() => self.deliver_padding(),
            _ if cleared == 0 && floor.over => self.end_epoch(floor),
            _ => Ok(NextStep::Wait { is_starved: ready == 0 && !self.count.ended }),
        }
    }

    fn deliver(&mut self, steps: u64) -> Result<NextStep> {
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
        Ok(NextStep::Deliver(Box::new(delivery), end.into()))
    }

    /// Delivers a fresh copy of the last step: the user may write to each delivery.
    fn deliver_padding(&mut self) -> Result<NextStep> {
        let Some(last) = &self.last else { return Err(Error::internal("there is no last step")) };
        let (mut again, end) = (last.copied()?, last.span().end().clone());
        let place = self.count.has - 1;
        again.count(place, self.given - place);
        self.given += 1;
        Ok(NextStep::Deliver(Box::new(again), end.into()))
    }

    fn end_epoch(&mut self, floor: Floor) -> Result<NextStep> {
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
                self.log_dropped();
                Ok(NextStep::EpochEnd)
            }
        }
    }

    fn log_dropped(&mut self) {
        let left = self.count.has.saturating_sub(self.given);
        if self.count.ended && left == 0 || std::mem::replace(&mut self.has_logged_drop, true) {
            return;
        }
        let least = if self.count.ended { "" } else { "at least " };
        let given = self.given;
        tracing::info!(
            "all consumers end the epoch after {given} steps: {least}{left} steps of this consumer are dropped"
        );
    }
}

/// Returns the last step of a delivery.
fn last_of(mut delivery: Delivery) -> Delivery {
    if !delivery.batched {
        drop(delivery.split_off(delivery.chunk.num_rows() - 1));
    }
    delivery
}
