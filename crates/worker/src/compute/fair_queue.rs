//! Chooses the next work: the splits of one consumer in their order, consumers by the time that they have received.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996). Each flow (a consumer of a job) has a virtual time: the time
//! that it was served, divided by the weight of its job. The flow with the least is next. A new flow starts at the
//! virtual time of the others, so it neither waits for work that they have queued nor catches up on time when it
//! requested nothing. A task is charged when it begins, with the cost of the flow's last task, and the charge is
//! corrected when it ends. Flows of a higher priority come before all of a lower one, from the next task on. A task
//! that has begun is not interrupted, but a long one may give way between two parts: [`FairQueue::correct`] charges
//! the part, [`FairQueue::is_due`] tells whether another flow comes first, and [`FairQueue::go_on`] begins the next
//! part.
//!
//! Bound: a flow exists only while it has entries or a task under way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A job, and its consumer.
pub(crate) type Flow = (u64, u32);

/// The charge for the first task of a flow.
const FIRST_COST: Duration = Duration::from_millis(1);

/// The turn of a flow beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Eligibility {
    InTurn,
    /// After all flows that are served in turn.
    Last,
    /// Not now.
    Never,
}

/// The share of the threads that a job gets beside other jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Flows of a higher priority go first.
    pub(crate) priority: u32,
    /// The share among flows of one priority.
    pub(crate) weight: u32,
}

struct FlowState<T> {
    entries: VecDeque<T>,
    share: Share,
    /// The virtual time: how long it was served, divided by its weight.
    served: Duration,
    /// The time of its last task.
    last_cost: Duration,
    /// Tasks that have begun and not ended.
    under_way: usize,
}

impl<T> FlowState<T> {
    fn new(share: Share) -> Self {
        let share = Share { weight: share.weight.max(1), ..share };
        Self { entries: VecDeque::new(), share, served: Duration::ZERO, last_cost: FIRST_COST, under_way: 0 }
    }

    /// Replaces the charge for a task, or a part of one, by its time.
    fn correct(&mut self, charge: Charge, took: Duration) {
        let weight = self.share.weight;
        self.served = (self.served + took / weight).saturating_sub(charge.amount / weight);
        self.last_cost = took;
    }
}

/// The time that a flow was charged for a task that has begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Charge {
    flow: Flow,
    amount: Duration,
}

impl Charge {
    /// Returns the flow.
    pub(crate) fn flow(self) -> Flow {
        self.flow
    }
}

/// See the module's documentation.
pub(crate) struct FairQueue<T> {
    flows: BTreeMap<Flow, FlowState<T>>,
    /// The current virtual time of each priority: that of the flow that was served last.
    now: BTreeMap<u32, Duration>,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { flows: BTreeMap::new(), now: BTreeMap::new() }
    }
}

impl<T> FairQueue<T> {
    /// Adds an entry to its flow, behind the first entries for which `is_before` holds.
    pub(crate) fn push(&mut self, flow: Flow, share: Share, entry: T, is_before: impl Fn(&T) -> bool) {
        let now = self.now.get(&share.priority).copied().unwrap_or_default();
        let state = self.flows.entry(flow).or_insert_with(|| FlowState::new(share));
        if state.entries.is_empty() {
            state.served = state.served.max(now);
        }
        let place = state.entries.iter().take_while(|entry| is_before(entry)).count();
        state.entries.insert(place, entry);
    }

    /// Begins a task of the next flow. `take` takes it from the flow's entries.
    pub(crate) fn next<R>(
        &mut self,
        eligibility: impl Fn(Flow) -> Eligibility,
        mut take: impl FnMut(&mut VecDeque<T>) -> Option<R>,
    ) -> Option<(R, Charge)> {
        loop {
            let rank = |(flow, state): &(&Flow, &FlowState<T>)| {
                (eligibility(**flow), Reverse(state.share.priority), state.served, **flow)
            };
            let waiting = self.flows.iter().filter(|(_, state)| !state.entries.is_empty());
            let (&flow, _) = waiting.filter(|(flow, _)| eligibility(**flow) != Eligibility::Never).min_by_key(rank)?;
            let state = self.flows.get_mut(&flow)?;
            if let Some(task) = take(&mut state.entries) {
                state.under_way += 1;
                return Some((task, self.charge(flow)));
            }
            state.entries.clear();
            self.remove_idle(flow);
        }
    }

    /// Charges a flow for a task, or a part of one, that begins now.
    fn charge(&mut self, flow: Flow) -> Charge {
        let Some(state) = self.flows.get_mut(&flow) else { return Charge { flow, amount: Duration::ZERO } };
        self.now.insert(state.share.priority, state.served);
        state.served += state.last_cost / state.share.weight;
        Charge { flow, amount: state.last_cost }
    }

    /// Corrects the charge of a part of a task, which took so long.
    pub(crate) fn correct(&mut self, charge: Charge, took: Duration) {
        if let Some(state) = self.flows.get_mut(&charge.flow) {
            state.correct(charge, took);
        }
    }

    /// Returns whether another flow has waited longer for its turn than this one, whose task is between two parts.
    pub(crate) fn is_due(&self, flow: Flow, eligibility: impl Fn(Flow) -> Eligibility) -> bool {
        let rank = |state: &FlowState<T>| (Reverse(state.share.priority), state.served);
        let Some(own) = self.flows.get(&flow).map(rank) else { return false };
        let mut others = self.flows.iter().filter(|(other, state)| **other != flow && !state.entries.is_empty());
        others.any(|(other, state)| rank(state) < own && eligibility(*other) == Eligibility::InTurn)
    }

    /// Begins the next part of a task. Where the task has `waited` for another reason than its turn, its flow does not
    /// catch up on that time.
    pub(crate) fn go_on(&mut self, flow: Flow, waited: bool) -> Charge {
        if let Some(state) = self.flows.get_mut(&flow).filter(|_| waited) {
            let now = self.now.get(&state.share.priority).copied().unwrap_or_default();
            state.served = state.served.max(now);
        }
        self.charge(flow)
    }

    /// Adds a task that gives way between two parts to its flow again, as [`FairQueue::push`] does.
    pub(crate) fn give_way(&mut self, flow: Flow, share: Share, entry: T, is_before: impl Fn(&T) -> bool) {
        self.push(flow, share, entry, is_before);
        if let Some(state) = self.flows.get_mut(&flow) {
            state.under_way = state.under_way.saturating_sub(1);
        }
    }

    /// Ends a task, and corrects its charge.
    pub(crate) fn settle(&mut self, charge: Charge, took: Duration) {
        if let Some(state) = self.flows.get_mut(&charge.flow) {
            state.correct(charge, took);
            state.under_way = state.under_way.saturating_sub(1);
            self.remove_idle(charge.flow);
        }
    }

    fn remove_idle(&mut self, flow: Flow) {
        if self.flows.get(&flow).is_some_and(|state| state.entries.is_empty() && state.under_way == 0) {
            self.flows.remove(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(priority: u32, weight: u32) -> Share {
        Share { priority, weight }
    }

    /// Behind all entries.
    fn last(_: &u32) -> bool {
        true
    }

    const MS: Duration = Duration::from_millis(1);

    /// Serves `n` tasks, each of which takes as long as its entry says; returns the flows in the order in which they
    /// were served.
    fn serve(queue: &mut FairQueue<u32>, n: usize) -> Vec<u64> {
        let mut order = Vec::new();
        for _ in 0..n {
            let Some((cost, charge)) = queue.next(|_| Eligibility::InTurn, VecDeque::pop_front) else { break };
            order.push(charge.flow.0);
            queue.settle(charge, MS * cost);
        }
        order
    }

    #[test]
    fn a_consumer_that_comes_later_does_not_wait_for_what_others_have_queued() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|_| queue.push((1, 0), of(0, 1), 10, last));
        assert_eq!(serve(&mut queue, 5), [1; 5]);
        (0..3).for_each(|_| queue.push((2, 0), of(0, 1), 10, last));
        let order = serve(&mut queue, 6);
        assert_eq!(order.iter().filter(|&&flow| flow == 2).count(), 3, "{order:?}");
        assert!(order[..2].contains(&2), "{order:?}");
    }

    #[test]
    fn a_consumer_of_a_higher_priority_is_served_first_and_others_go_on_where_they_were() {
        let mut queue = FairQueue::default();
        [1, 2].into_iter().for_each(|flow| (0..50).for_each(|_| queue.push((flow, 0), of(0, 1), 10, last)));
        assert_eq!(serve(&mut queue, 4), [1, 2, 1, 2]);
        (0..5).for_each(|_| queue.push((3, 0), of(1, 1), 100, last));
        (0..2).for_each(|_| queue.push((4, 0), of(2, 1), 100, last));
        assert_eq!(serve(&mut queue, 7), [4, 4, 3, 3, 3, 3, 3], "from the next task on");
        (0..50).for_each(|_| queue.push((5, 0), of(0, 1), 10, last));
        let order = serve(&mut queue, 9);
        let each = [1, 2, 5].map(|flow| order.iter().filter(|&&l| l == flow).count());
        assert_eq!(each, [3, 3, 3], "others do not pay for the time of the urgent flows: {order:?}");
    }

    #[test]
    fn a_flow_that_is_last_comes_after_all_others_and_one_that_is_not_served_waits() {
        let mut queue = FairQueue::default();
        (1..4).for_each(|flow| queue.push((flow, 0), of(9 - flow as u32, 1), 10, last));
        let eligibility =
            |flow: Flow| [Eligibility::Last, Eligibility::Never, Eligibility::InTurn][flow.0 as usize - 1];
        let mut taken =
            std::iter::from_fn(|| queue.next(eligibility, VecDeque::pop_front).map(|(_, charge)| charge.flow.0));
        assert_eq!(taken.by_ref().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(serve(&mut queue, 9), [2]);
    }

    #[test]
    fn time_is_shared_not_tasks_and_entries_of_a_flow_keep_their_order() {
        let mut queue = FairQueue::default();
        (0..40).for_each(|_| queue.push((1, 0), of(0, 1), 30, last));
        (0..400).for_each(|_| queue.push((2, 0), of(0, 1), 3, last));
        let order = serve(&mut queue, 110);
        let [slow, fast] = [1, 2].map(|flow| order.iter().filter(|&&l| l == flow).count());
        assert!((8..=12).contains(&slow) && slow + fast == 110, "{slow} {fast}");
        // With three times the weight, it gets three times the time.
        let mut queue = FairQueue::default();
        (0..400).for_each(|_| queue.push((1, 0), of(0, 3), 10, last));
        (0..400).for_each(|_| queue.push((2, 0), of(0, 1), 10, last));
        let order = serve(&mut queue, 100);
        let heavy = order.iter().filter(|&&l| l == 1).count();
        assert!((74..=76).contains(&heavy), "{heavy}");
        let mut queue = FairQueue::default();
        [3, 4].into_iter().for_each(|entry| queue.push((1, 0), of(0, 1), entry, last));
        queue.push((1, 0), of(0, 1), 2, |_| false);
        let taken: Vec<u32> =
            std::iter::from_fn(|| queue.next(|_| Eligibility::InTurn, VecDeque::pop_front).map(|(e, _)| e)).collect();
        assert_eq!(taken, [2, 3, 4]);
        assert!(queue.flows.values().all(|flow| flow.entries.is_empty() && flow.under_way == 3));
    }

    #[test]
    fn a_long_task_gives_way_between_two_parts_to_the_job_that_has_waited_longer() {
        let mut queue = FairQueue::default();
        queue.push((1, 0), of(0, 1), 10, last);
        let always = |_: Flow| Eligibility::InTurn;
        let (_, mut charge) = queue.next(always, VecDeque::pop_front).expect("an entry");
        for _ in 0..5 {
            queue.correct(charge, MS * 10);
            assert!(!queue.is_due((1, 0), always), "no job waits");
            charge = queue.go_on((1, 0), false);
        }
        queue.push((2, 0), of(0, 1), 7, last);
        queue.correct(charge, MS * 10);
        assert!(queue.is_due((1, 0), always), "after one part at most");
        queue.give_way((1, 0), of(0, 1), 10, last);
        let (task, other) = queue.next(always, VecDeque::pop_front).expect("an entry");
        assert_eq!(task, 7);
        queue.push((2, 0), of(0, 1), 8, last);
        queue.settle(other, MS * 30);
        let (task, charge) = queue.next(always, VecDeque::pop_front).expect("an entry");
        assert_eq!(task, 10, "the others have had their time");
        queue.correct(charge, MS * 10);
        assert!(!queue.is_due((1, 0), always));
        queue.push((3, 0), of(1, 1), 9, last);
        assert!(queue.is_due((1, 0), always), "a higher priority waits for one part only");
        let charge = queue.go_on((1, 0), false);
        queue.settle(charge, MS);
        while let Some((_, charge)) = queue.next(always, VecDeque::pop_front) {
            queue.settle(charge, MS);
        }
        assert!(queue.flows.is_empty(), "a flow without work leaves nothing behind");
    }
}
