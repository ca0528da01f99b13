//! The workers that were lost lately, for people: no decision depends on them, and a restart forgets them.
//!
//! Bounds: [`LOST_MAX`] workers, for [`LISTED_FOR`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use forebay_core::{Ticks, WorkerId};
use forebay_proto::WorkerStatus;

use super::fleet::worker_types::WorkerType;

/// The most lost workers that are kept; the oldest one leaves first.
const LOST_MAX: usize = 64;
/// How long a lost worker is listed.
const LISTED_FOR: Duration = Duration::from_secs(600);

/// Why a worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::state) enum Cause {
    /// Its session was open, and no message came for this long.
    Silent(Duration),
    /// Its session ended before it said that it leaves.
    Broken,
    /// It held leases when the dispatcher started, and did not come.
    Absent,
}

/// A worker that was lost.
#[derive(Debug, Clone)]
pub(in crate::state) struct LostWorker {
    pub(in crate::state) id: WorkerId,
    pub(in crate::state) address: Arc<str>,
    pub(in crate::state) threads: u32,
    /// The tenant that it computed for; `None` for all tenants.
    pub(in crate::state) serves: Option<Arc<str>>,
    pub(in crate::state) is_local: bool,
    /// Splits done, rows done, and rows shared.
    pub(in crate::state) done: [u64; 3],
    /// When its last message came.
    pub(in crate::state) heard: Ticks,
    pub(in crate::state) at: Ticks,
    pub(in crate::state) cause: Cause,
}

/// The lost workers, the oldest first, with their types.
#[derive(Debug, Default)]
pub(in crate::state) struct LostWorkers(VecDeque<(LostWorker, WorkerType)>);

impl LostWorkers {
    pub(in crate::state) fn add(&mut self, lost: LostWorker, worker_type: WorkerType) {
        self.remove(lost.id, &lost.address);
        self.0.push_back((lost, worker_type));
        if self.0.len() > LOST_MAX {
            self.0.pop_front();
        }
    }

    /// A worker came: it, or the worker that it replaces at its address, is lost no more.
    pub(in crate::state) fn remove(&mut self, id: WorkerId, address: &str) {
        self.0.retain(|(lost, _)| lost.id != id && *lost.address != *address);
    }

    /// Lists the lost workers that computed for a tenant, or all.
    pub(in crate::state) fn list(&self, now: Ticks, tenant: Option<&str>) -> impl Iterator<Item = WorkerStatus> {
        // The tenant of a worker that never came is not known.
        let seen = move |lost: &LostWorker| {
            tenant.is_none_or(|tenant| {
                lost.cause != Cause::Absent && lost.serves.as_deref().is_none_or(|serves| serves == tenant)
            })
        };
        let lately = self.0.iter().filter(move |(lost, _)| now - lost.at < LISTED_FOR && seen(lost));
        lately.map(move |(lost, worker_type)| {
            let done = |count| (tenant.is_none() || lost.serves.is_some()).then_some(count);
            WorkerStatus {
                worker: format!("{:032x}", lost.id.0),
                address: lost.address.to_string(),
                threads: lost.threads,
                state: "lost".to_owned(),
                splits_done: done(lost.done[0]),
                rows_done: done(lost.done[1]),
                rows_shared: done(lost.done[2]),
                silent_ms: (now - lost.heard).as_millis() as u64,
                local: lost.is_local,
                kind: worker_type.name().to_owned(),
                price: worker_type.price(),
                spot: worker_type.is_spot(),
                lost_ms: Some((now - lost.at).as_millis() as u64),
                lost: lost.cause.to_string(),
                ..WorkerStatus::default()
            }
        })
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Silent(silent) => write!(f, "it sent nothing for {:.1} s", silent.as_secs_f64()),
            Self::Broken => f.write_str("its connection broke: the process or its machine has ended"),
            Self::Absent => f.write_str("it did not come back after the dispatcher started"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(id: u128, at: u64) -> LostWorker {
        LostWorker {
            id: WorkerId(id),
            address: format!("h:{id}").into(),
            threads: 1,
            serves: None,
            is_local: false,
            done: [1, 2, 3],
            heard: Ticks(0),
            at: Ticks(at),
            cause: Cause::Broken,
        }
    }

    #[test]
    fn lost_workers_are_bounded_in_number_and_time_and_leave_when_they_come_back() {
        let mut all = LostWorkers::default();
        (0..100).for_each(|id| all.add(lost(id, 5), WorkerType::default()));
        let now = Ticks(5) + (LISTED_FOR - Duration::from_secs(1));
        let listed = |all: &LostWorkers, now| all.list(now, None).map(|w| w.address).collect::<Vec<_>>();
        assert_eq!((listed(&all, now).len(), &*listed(&all, now)[0]), (LOST_MAX, "h:36"));
        all.remove(WorkerId(7), "h:99");
        all.remove(WorkerId(98), "elsewhere:1");
        assert_eq!((listed(&all, now).len(), listed(&all, now).pop().as_deref()), (LOST_MAX - 2, Some("h:97")));
        assert!(listed(&all, now + Duration::from_secs(1)).is_empty());
    }

    #[test]
    fn a_tenant_sees_the_lost_workers_that_served_it_and_no_figures_of_others() {
        let mut all = LostWorkers::default();
        all.add(lost(1, 0), WorkerType::default());
        all.add(LostWorker { serves: Some("us".into()), ..lost(2, 0) }, WorkerType::default());
        all.add(LostWorker { serves: Some("them".into()), ..lost(3, 0) }, WorkerType::default());
        all.add(LostWorker { cause: Cause::Absent, ..lost(4, 0) }, WorkerType::default());
        let seen: Vec<_> = all.list(Ticks(9), Some("us")).map(|w| (w.address, w.rows_done)).collect();
        assert_eq!(seen, [("h:1".to_owned(), None), ("h:2".to_owned(), Some(2))]);
        assert_eq!(all.list(Ticks(9), None).count(), 4);
    }
}
