//! Chooses the next work: the splits of one consumer in their order, consumers by the time that they have received.
//!
//! Start-time fair queueing (Goyal, Vin and Cheng, 1996). Each flow (a consumer of a job) has a virtual time: the time
//! that it was served, divided by the weight of its job. The flow with the least is next. A new flow starts at the
//! virtual time of the others, so it neither waits for work that they have queued nor catches up on time when it
//! requested nothing. A task is charged when it begins, with the cost of the flow's last task, and the charge is
//! corrected when it ends. Flows of a higher priority come before all of a lower one, from the next task on; a task
//! that has begun is not interrupted.
//!
//! Bound: a flow exists only while it has entries.

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
    /// Adds an entry at the end of its flow; with `first`, at its front.
    pub(crate) fn push(&mut self, flow: Flow, share: Share, entry: T, first: bool) {
        let served = self.now.get(&share.priority).copied().unwrap_or_default();
        let share = Share { weight: share.weight.max(1), ..share };
        let new = || FlowState { entries: VecDeque::new(), share, served, last_cost: FIRST_COST };
        let entries = &mut self.flows.entry(flow).or_insert_with(new).entries;
        if first { entries.push_front(entry) } else { entries.push_back(entry) }
    }

    /// Begins a task of the next flow. `take` takes it from the flow's entries; a flow without one is removed.
    pub(crate) fn next<R>(
        &mut self,
        eligibility: impl Fn(Flow) -> Eligibility,
        mut take: impl FnMut(&mut VecDeque<T>) -> Option<R>,
    ) -> Option<(R, Charge)> {
        loop {
            let rank = |(flow, state): &(&Flow, &FlowState<T>)| {
                (eligibility(**flow), Reverse(state.share.priority), state.served, **flow)
            };
            let (&flow, _) =
                self.flows.iter().filter(|(flow, _)| eligibility(**flow) != Eligibility::Never).min_by_key(rank)?;
            let state = self.flows.get_mut(&flow)?;
            if let Some(task) = take(&mut state.entries) {
                self.now.insert(state.share.priority, state.served);
                state.served += state.last_cost / state.share.weight;
                return Some((task, Charge { flow, amount: state.last_cost }));
            }
            self.flows.remove(&flow);
        }
    }

    /// Corrects the charge of a task that has ended.
    pub(crate) fn settle(&mut self, charge: Charge, took: Duration) {
        if let Some(state) = self.flows.get_mut(&charge.flow) {
            let weight = state.share.weight;
            state.served = (state.served + took / weight).saturating_sub(charge.amount / weight);
            state.last_cost = took;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(priority: u32, weight: u32) -> Share {
        Share { priority, weight }
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
        (0..100).for_each(|_| queue.push((1, 0), of(0, 1), 10, false));
        assert_eq!(serve(&mut queue, 5), [1; 5]);
        (0..3).for_each(|_| queue.push((2, 0), of(0, 1), 10, false));
        let order = serve(&mut queue, 6);
        assert_eq!(order.iter().filter(|&&flow| flow == 2).count(), 3, "{order:?}");
        assert!(order[..2].contains(&2), "{order:?}");
    }

    #[test]
    fn a_consumer_of_a_higher_priority_is_served_first_and_others_go_on_where_they_were() {
        let mut queue = FairQueue::default();
        [1, 2].into_iter().for_each(|flow| (0..50).for_each(|_| queue.push((flow, 0), of(0, 1), 10, false)));
        assert_eq!(serve(&mut queue, 4), [1, 2, 1, 2]);
        (0..5).for_each(|_| queue.push((3, 0), of(1, 1), 100, false));
        (0..2).for_each(|_| queue.push((4, 0), of(2, 1), 100, false));
        assert_eq!(serve(&mut queue, 7), [4, 4, 3, 3, 3, 3, 3], "from the next task on");
        (0..50).for_each(|_| queue.push((5, 0), of(0, 1), 10, false));
        let order = serve(&mut queue, 9);
        let each = [1, 2, 5].map(|flow| order.iter().filter(|&&l| l == flow).count());
        assert_eq!(each, [3, 3, 3], "others do not pay for the time of the urgent flows: {order:?}");
    }

    #[test]
    fn a_flow_that_is_last_comes_after_all_others_and_one_that_is_not_served_waits() {
        let mut queue = FairQueue::default();
        (1..4).for_each(|flow| queue.push((flow, 0), of(9 - flow as u32, 1), 10, false));
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
        (0..40).for_each(|_| queue.push((1, 0), of(0, 1), 30, false));
        (0..400).for_each(|_| queue.push((2, 0), of(0, 1), 3, false));
        let order = serve(&mut queue, 110);
        let [slow, fast] = [1, 2].map(|flow| order.iter().filter(|&&l| l == flow).count());
        assert!((8..=12).contains(&slow) && slow + fast == 110, "{slow} {fast}");
        // With three times the weight, it gets three times the time.
        let mut queue = FairQueue::default();
        (0..400).for_each(|_| queue.push((1, 0), of(0, 3), 10, false));
        (0..400).for_each(|_| queue.push((2, 0), of(0, 1), 10, false));
        let order = serve(&mut queue, 100);
        let heavy = order.iter().filter(|&&l| l == 1).count();
        assert!((74..=76).contains(&heavy), "{heavy}");
        let mut queue = FairQueue::default();
        [3, 4].into_iter().for_each(|entry| queue.push((1, 0), of(0, 1), entry, false));
        queue.push((1, 0), of(0, 1), 2, true);
        let taken: Vec<u32> =
            std::iter::from_fn(|| queue.next(|_| Eligibility::InTurn, VecDeque::pop_front).map(|(e, _)| e)).collect();
        assert_eq!(taken, [2, 3, 4]);
        assert!(queue.flows.is_empty());
    }
}
