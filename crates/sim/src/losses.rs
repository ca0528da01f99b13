//! Skipped samples, and limits on them: samples that fail, processes that die at one, poison splits, cancelled jobs.
//!
//! L-3: a sample that was lost once is lost for every later consumer, and samples that were delivered before stay due.
//! L-4: each skipped sample is reported to the user once, in order, and is in the ledger. L-5: a poison split is leased
//! to no worker, and its consumer has everything before it.

pub(crate) mod account;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_core::{Epoch, Error, ErrorKind, Fault, SampleId};
use forebay_data::{Chunk, RowId};
use forebay_exec::{KnownSkips, Position};
use forebay_proto::{LostSample, worker_event};
use forebay_worker::simulate::Task;

use crate::pipelines::drawing::mixed::is_same;
use crate::pipelines::pipeline::{Due, KnownLost, process_died};
use crate::roles::consumer::node::{job_name, job_number};
use crate::roles::node::Node;
use crate::world::World;
use account::Cancel;

/// The most processes that die at a sample in one world.
const DEATHS_MAX: u64 = 12;

impl World<'_> {
    /// Returns the expected output of a consumer, as far as it is decided now.
    pub(crate) fn due(&mut self, i: usize) -> Rc<Due> {
        let (setup, cursor) = (self.scenario.consumers[i], self.consumers[i].cursor());
        let job = self.jobs[setup.job].clone();
        let by_accident: Vec<_> = match self.scenario.deaths {
            0 => Vec::new(),
            _ => self.lost_of(i).into_iter().filter(|lost| fault(lost) == Fault::Process).collect(),
        };
        let known = self.losses.due.get(&i).cloned();
        let (count, before) = known.unwrap_or_else(|| (0, job.expected[setup.index as usize].clone()));
        // The ledger of a cancelled job is empty.
        if count >= by_accident.len() {
            return before;
        }
        let mut lost = BTreeMap::<_, KnownSkips>::new();
        for sample in &by_accident {
            let row = RowId { sample: SampleId(sample.sample), epoch: Epoch(sample.repetition) };
            let of_split = lost.entry((sample.epoch, sample.ordinal)).or_default();
            of_split.add(Epoch(sample.epoch), row, Error::from_json(&sample.error));
        }
        let lost: KnownLost = lost.into_iter().map(|(split, known)| (split, Rc::new(known))).collect();
        let Some(due) = self.expect(Node::Consumer(i), job.due(setup.index, &lost)).map(Rc::new) else { return before };
        if due.items.get(..cursor) != before.items.get(..cursor) {
            self.fail("L-3", format!("consumer {i} has {cursor} items, and what was written down later changes them"));
        }
        self.losses.due.insert(i, (by_accident.len(), due.clone()));
        due
    }

    /// Returns the samples that a consumer has skipped according to the ledger.
    fn lost_of(&self, i: usize) -> Vec<LostSample> {
        let index = self.scenario.consumers[i].index;
        self.consumers[i].job_id().map_or_else(Vec::new, |job| self.dispatcher.disk.skipped((job, index)))
    }

    /// Handles a chunk that a thread has computed. Now and then a process dies at one of its samples, which is then
    /// skipped.
    pub(crate) fn maybe_lose(&mut self, i: usize, task: &Task, index: usize, ops: u32, chunk: Chunk) -> Chunk {
        let job = self.job(&task.job().name);
        let may_die = job.fails && chunk.num_rows() > 0 && self.losses.died < DEATHS_MAX;
        if !may_die || !self.dice.percent(self.scenario.deaths) {
            return chunk;
        }
        let row = chunk.ids()[self.dice.index(chunk.num_rows())];
        let mut known = (*task.known()).clone();
        known.add(Epoch(task.place().1), row, process_died(row));
        self.losses.died += 1;
        self.felt("processes died at a sample");
        let without = job.chunk(task.place(), ops, index, &known);
        self.expect(Node::Worker(i), without).flatten().unwrap_or(chunk)
    }

    /// Returns whether the split ends the worker that has computed a part of it.
    pub(crate) fn is_poisoned(&self, task: &Task) -> bool {
        let Some((job, number)) = self.scenario.poison else { return false };
        let theirs = job_number(&task.job().name);
        if !is_same(self.scenario.jobs[job], self.scenario.jobs[theirs]) {
            return false;
        }
        let (definition, plan) = (&self.jobs[job].definition, self.jobs[job].tail.plan());
        let consumer = (number % u64::from(definition.consumers)) as u32;
        let splits = plan.num_splits(forebay_core::ConsumerIndex(consumer)).unwrap_or(0).max(1);
        task.place() == (consumer, (number >> 4) % definition.epochs, (number >> 8) % splits)
    }

    /// Checks that no worker gets a poison split.
    pub(crate) fn check_given_up(&mut self, event: &worker_event::Event) {
        let worker_event::Event::Lease(lease) = event else { return };
        let split = ((lease.job, lease.consumer), lease.epoch, lease.ordinal);
        if self.scenario.poison.is_some() && self.dispatcher.disk.poisoned().contains(&split) {
            self.fail("L-5", format!("{lease:?} is of a split that was given up"));
        }
    }

    /// Checks that a consumer that ended at a poison split has everything before it.
    pub(crate) fn check_before(&mut self, i: usize, error: &Error) {
        let split = error.get("split").and_then(|text| text.split_once(" of epoch "));
        let split = split.and_then(|(ordinal, epoch)| Some((epoch.parse().ok()?, ordinal.parse().ok()?)));
        let (due, got) = (self.due(i), self.consumers[i].cursor());
        let before = split.and_then(|split: (u64, u64)| due.before.get(&split)).copied();
        // Part of the split may have come from a worker that was killed for another reason.
        if before.is_none_or(|before| got < before) {
            self.fail(
                "L-5",
                format!("consumer {i} ended at {split:?} with {got} items, and {before:?} are before that"),
            );
        }
    }

    /// Checks that a stream ended because too many samples were skipped, and at the right item.
    pub(crate) fn check_budget(&mut self, i: usize) {
        let (due, got) = (self.due(i), self.consumers[i].cursor());
        if !due.is_over || got != due.items.len() {
            let (of, over) = (due.items.len(), due.is_over);
            self.fail("L-4", format!("consumer {i} lost too much after {got} of {of} items (so it must be: {over})"));
        }
        self.check_told(i);
        self.felt("budgets spent");
    }

    /// Checks a process that has everything: each sample that it did not get was reported to it, once.
    pub(crate) fn check_told(&mut self, i: usize) {
        let (due, (from, told)) = (self.due(i), self.consumers[i].told());
        let from = (from.epoch, from.split, from.chunk);
        let missing = due.missing.iter().filter(|(at, ..)| *at >= from);
        let mut missing: Vec<_> = missing.map(|((e, s, _), n, r)| (*e, *s, *n, *r)).collect();
        // The order of reports within a split depends on the samples known to be lost when it was computed.
        let mut told = told.to_vec();
        missing.sort_unstable();
        told.sort_unstable();
        if missing != told {
            self.fail(
                "L-4",
                format!("consumer {i} began at {from:?} and was told of {told:?}, missing are {missing:?}"),
            );
        }
    }

    /// Checks that the ledger has all skipped samples and no others, and that the dispatcher has counted each once.
    pub(crate) fn check_ledger(&mut self) {
        for i in 0..self.consumers.len() {
            let (lost, due) = (self.lost_of(i), self.due(i));
            let lost: BTreeSet<_> = lost.iter().map(|l| (l.epoch, l.ordinal, l.sample, l.repetition)).collect();
            let missing: BTreeSet<_> = due.missing.iter().map(|((e, s, _), n, r)| (*e, *s, *n, *r)).collect();
            // Reports that one process had not sent when it ended are not sent by a successor that resumes behind them.
            let is_fresh = *self.consumers[i].told().0 == Position::default();
            let is_cancelled = self.is_cancelled(self.scenario.consumers[i].job);
            let is_whole = self.consumers[i].heard_out && is_fresh && !is_cancelled;
            // An earlier process may have got further than the one that exceeded the budget.
            let end = missing.last().filter(|_| due.is_over).map(|(epoch, split, ..)| (*epoch, *split));
            let lost: BTreeSet<_> =
                lost.into_iter().filter(|l| end.is_none_or(|end| (l.0, l.1) < end || missing.contains(l))).collect();
            if !lost.is_subset(&missing) || is_whole && lost != missing {
                let text = format!("consumer {i} ({is_whole}) misses {missing:?}, and the ledger says {lost:?}");
                self.fail("L-4", text);
            }
        }
        let counted = self.dispatcher_counted();
        let written = self.dispatcher.disk.num_skipped().saturating_sub(self.losses.written);
        // A ledger forgets cancelled jobs.
        let is_whole = self.losses.cancelled.is_empty();
        if is_whole && counted.is_some_and(|counted| counted != written) {
            self.fail("L-4", format!("the dispatcher has counted {counted:?} samples, and written {written}"));
        }
    }

    /// Records the ledger's count when a dispatcher begins.
    pub(crate) fn begin_ledger(&mut self) {
        self.losses.written = self.dispatcher.disk.num_skipped();
    }

    /// Cancels a job.
    pub(crate) fn cancel(&mut self, job: usize) {
        self.losses.cancelled.insert(job, Cancel::Asked);
        self.cancel_again();
    }

    /// Repeats the cancellation until it is done, because a dispatcher that dies may not have recorded it.
    pub(crate) fn cancel_again(&mut self) {
        let asked: Vec<_> =
            self.losses.cancelled.iter().filter(|(_, is)| **is == Cancel::Asked).map(|(job, _)| *job).collect();
        asked.into_iter().for_each(|job| self.dispatcher_cancels(&job_name(job)));
    }

    /// Handles the result of a cancellation. An unknown job cannot be cancelled; its name may be opened later.
    pub(crate) fn cancelled(&mut self, job: usize, done: &forebay_core::Result<()>) {
        let is = match done {
            Ok(()) => Cancel::Done,
            Err(error) if error.kind() == ErrorKind::NotFound => Cancel::No,
            Err(_) => return,
        };
        if is == Cancel::Done {
            self.felt("cancel");
        }
        if self.losses.cancelled.get(&job) == Some(&Cancel::Asked) {
            self.losses.cancelled.insert(job, is);
        }
    }

    /// Returns whether a local worker may be refused for good, because its job is over.
    pub(crate) fn is_refused(&self, worker: usize) -> bool {
        self.scenario.workers[worker].local && !self.losses.cancelled.is_empty()
    }

    /// Returns whether a job is cancelled, or may be.
    pub(crate) fn is_cancelled(&self, job: usize) -> bool {
        self.losses.cancelled.get(&job).is_some_and(|is| *is != Cancel::No)
    }
}

fn fault(lost: &LostSample) -> Fault {
    Error::from_json(&lost.error).fault()
}
