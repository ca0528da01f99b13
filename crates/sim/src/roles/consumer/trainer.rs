//! The training script: calls `next`, makes its step, saves, and restarts after a stream's error. Each item is checked
//! against the expected output of the job (I1 to I4).

use std::collections::BTreeSet;

use forebay_client::simulate::{FINISH_MAX, Polled};
use forebay_core::{Error, ErrorKind};
use forebay_exec::Delivery;

use super::START_AGAIN;
use super::node::{ConsumerTimer, Saved};
use crate::losses::account::told;
use crate::pipelines::digest::digests;
use crate::roles::node::Node;
use crate::world::World;

impl World<'_> {
    /// Continues a call of `next`; returns whether it returned.
    pub(super) fn next(&mut self, i: usize) -> bool {
        let now = self.ticks(Node::Consumer(i));
        let consumer = &mut self.consumers[i];
        let Some(machine) = consumer.machine.as_mut().filter(|_| consumer.in_next) else { return false };
        let polled = machine.poll(now);
        let lost = machine.take_losses();
        consumer.told.extend(told(&lost));
        consumer.left_out.extend(lost);
        match polled {
            Ok(Polled::Wait) => return false,
            Ok(Polled::Delivery(delivery)) => {
                consumer.in_next = false;
                self.delivered(i, *delivery);
                let step = self.scenario.consumers[i].step;
                let time = self.dice.within(0..2 * step + 1);
                self.consumer_later(i, time, ConsumerTimer::Stepped);
            }
            Ok(Polled::Over) => {
                machine.finish();
                (consumer.in_next, consumer.finishing) = (false, true);
                self.check_complete(i);
                self.consumer_later(i, FINISH_MAX.as_millis() as u64, ConsumerTimer::Finish);
            }
            Err(error) => self.stream_failed(i, &error),
        }
        true
    }

    /// Checks I1 to I4: the delivery has the next expected items.
    fn delivered(&mut self, i: usize, delivery: Delivery) {
        // Cancelling a job also removes its ledger of accidentally skipped samples.
        let is_known = !self.is_cancelled(self.scenario.consumers[i].job) || self.scenario.deaths == 0;
        let due = self.due(i);
        let expected = &due.items;
        let Some(items) = self.expect(Node::Consumer(i), digests(&delivery)) else { return };
        let consumer = &mut self.consumers[i];
        let before = consumer.cursor;
        let mut wrong = None;
        if consumer.any_order {
            consumer.latest.clear();
            for item in items {
                let left = (0..expected.len()).find(|at| expected[*at] == item && !consumer.got.contains(at));
                let Some(at) = left else {
                    let what =
                        if expected.contains(&item) { "an item again" } else { "an item that the job does not give" };
                    wrong = Some(("I2", format!("consumer {i} got {what}, in any order")));
                    break;
                };
                consumer.got.insert(at);
                consumer.latest.push(at);
            }
            consumer.cursor = consumer.got.len();
            consumer.delivered = Some((delivery, before));
            self.felt("items in any order");
            return wrong.map_or((), |(invariant, what)| self.fail(invariant, what));
        }
        for item in items {
            if is_known && expected.get(consumer.cursor) != Some(&item) && wrong.is_none() {
                let (at, of) = (consumer.cursor, expected.len());
                wrong = Some(match expected.iter().position(|e| *e == item) {
                    Some(was) if was < at => {
                        ("I2", format!("consumer {i} got item {was} again, where item {at} of {of} was due"))
                    }
                    Some(is) => ("I1", format!("consumer {i} got item {is}, where item {at} of {of} was due")),
                    None => (
                        "I3",
                        format!("consumer {i} got an item that the job does not give, where item {at} of {of} was due"),
                    ),
                });
            }
            consumer.cursor += 1;
        }
        consumer.delivered = Some((delivery, before));
        let cursor = consumer.cursor as u64;
        self.note(cursor, || format!("consumer {i} has {cursor} items"));
        if let Some((invariant, what)) = wrong {
            self.fail(invariant, what);
        }
    }

    pub(super) fn stepped(&mut self, i: usize) {
        let setup = self.scenario.consumers[i];
        let saves = self.dice.percent(setup.saves);
        let consumer = &mut self.consumers[i];
        let Some(machine) = consumer.machine.as_mut() else { return };
        let Some((delivery, before)) = consumer.delivered.take() else { return };
        machine.consume();
        consumer.in_next = true;
        if saves {
            // Of single samples, the script may have used only some.
            let rows = delivery.chunk.num_rows();
            let used = if delivery.batched { rows } else { self.dice.index(rows + 1) };
            let items = if delivery.batched { 1 } else { used };
            let consumer = &mut self.consumers[i];
            let left_out = consumer.left_out.clone();
            let mut got = consumer.got.clone();
            consumer.latest.iter().skip(items).for_each(|at| assert!(got.remove(at), "an item was not noted"));
            let (position, cursor) = (delivery.position_after(used), before + items);
            consumer.saved = Some(Saved { position, cursor, left_out, got });
        }
        self.polls(i);
    }

    fn check_complete(&mut self, i: usize) {
        let due = self.due(i);
        let (got, of) = (self.consumers[i].cursor, due.items.len());
        self.consumers[i].complete = true;
        if got != of || due.is_over {
            self.fail("I1", format!("consumer {i} was told that this is all after {got} of {of} items"));
        }
        self.check_told(i);
    }

    /// Handles a stream that ended with an error: after one that faults can cause, the script restarts from its saved
    /// state.
    fn stream_failed(&mut self, i: usize, error: &Error) {
        self.felt("streams that failed");
        self.note(error.kind() as u64, || format!("consumer {i} failed: {error}"));
        let job = self.scenario.consumers[i].job;
        let all_complete =
            || self.scenario.consumers.iter().zip(&self.consumers).all(|(s, c)| s.job != job || c.complete);
        match error.kind() {
            // A consumer without a saved state that comes back after all was read gets this error.
            ErrorKind::Closed if all_complete() => return self.leaves(i),
            ErrorKind::Closed | ErrorKind::NotFound if self.is_cancelled(job) => return self.leaves(i),
            ErrorKind::Data if error.get("fault") == Some("budget") => {
                self.check_budget(i);
                return self.leaves(i);
            }
            ErrorKind::Data if self.is_poison(error) => {
                self.check_before(i, error);
                return self.leaves(i);
            }
            ErrorKind::Unavailable | ErrorKind::Conflict if !self.scenario.is_calm() => {}
            _ => self.fail("I5", format!("consumer {i} ended with {error}")),
        }
        let down = self.dice.within(START_AGAIN);
        self.end(Node::Consumer(i), false, Some(down));
    }

    /// Returns whether a split was poisoned by real deaths: each of another worker, and none of a living one.
    fn is_poison(&mut self, error: &Error) -> bool {
        let workers: BTreeSet<_> = error.get("workers").unwrap_or_default().split(", ").collect();
        let died = |name: &&str| {
            let id = name.split(' ').next().and_then(|id| u128::from_str_radix(id, 16).ok()).unwrap_or_default();
            let (life, number) = ((id >> 64) as u32, id as u64 as usize);
            number > 0 && !self.is_alive(Node::Worker(number - 1), life)
        };
        let all_died = workers.len() > 2 && workers.iter().all(died);
        self.felt("splits given up");
        all_died
    }

    /// Ends the process after everything was read.
    pub(super) fn leaves(&mut self, i: usize) {
        self.consumers[i].done = true;
        self.end(Node::Consumer(i), false, None);
    }
}
