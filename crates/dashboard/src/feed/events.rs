//! The changes between two snapshots of a service. Pure.
//!
//! Bounds: the last [`EVENTS_MAX`] events, with texts of at most [`TEXT_CHARS_MAX`] characters; at most [`BURST_MAX`]
//! events of one snapshot, of which the last says how many were left out.

use std::collections::{HashMap, VecDeque};

use forebay_proto::{JobStatus, WorkerStatus};
use serde::Serialize;

use super::history::JobId;
use crate::model::Snapshot;

const EVENTS_MAX: usize = 2000;
const TEXT_CHARS_MAX: usize = 300;
const BURST_MAX: usize = 100;

/// An event in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Event {
    /// When it was seen, in milliseconds since 1970.
    at_ms: u64,
    /// "job", "consumer", "scale", "skipped", "raced", "worker" or "dispatcher".
    kind: &'static str,
    /// The event, in words.
    text: String,
    /// The job's tenant and name; `null` if it concerns the whole service.
    tenant: Option<String>,
    /// See `tenant`.
    job: Option<String>,
    /// The worker's id; `null` if it concerns none.
    worker: Option<String>,
}

/// The last events, and the state in the last snapshot.
#[derive(Debug, Default)]
pub(crate) struct Events {
    last: VecDeque<Event>,
    before: Option<Before>,
    /// Why the last snapshot failed; `None` if it did not.
    failure: Option<String>,
}

/// The part of a snapshot with which the next one is compared.
#[derive(Debug, Default)]
struct Before {
    jobs: HashMap<JobId, JobBefore>,
    /// The state of each worker.
    workers: HashMap<String, String>,
}

#[derive(Debug)]
struct JobBefore {
    state: String,
    attached: Vec<bool>,
    skipped: u64,
    raced: u64,
    workers: u32,
}

impl JobBefore {
    fn of(job: &JobStatus) -> Self {
        Self {
            state: job.state.clone(),
            attached: job.consumers.iter().map(|c| c.attached).collect(),
            skipped: job.consumers.iter().map(|c| c.skipped).sum(),
            raced: job.raced,
            workers: job.workers,
        }
    }
}

impl Events {
    /// Compares a snapshot with the last one, and adds the events.
    pub(crate) fn add(&mut self, seen: &Snapshot) {
        let mut news = Vec::new();
        if self.failure.take().is_some() {
            news.push(of_service("dispatcher", "the dispatcher answers again".to_owned(), None));
        }
        if let Some(before) = &self.before {
            jobs(before, &seen.jobs, &mut news);
            workers(before, &seen.workers, &mut news);
        }
        self.before = Some(Before {
            jobs: seen.jobs.iter().map(|job| (id(job), JobBefore::of(job))).collect(),
            workers: seen.workers.iter().map(|w| (w.worker.clone(), w.state.clone())).collect(),
        });
        self.push(seen.at_ms, news);
    }

    /// Records that a snapshot failed.
    pub(crate) fn fail(&mut self, at_ms: u64, why: &str) {
        if self.failure.is_none() {
            self.push(at_ms, vec![of_service("dispatcher", format!("the dispatcher does not answer: {why}"), None)]);
        }
        self.failure = Some(why.to_owned());
    }

    fn push(&mut self, at_ms: u64, mut news: Vec<Event>) {
        let more = news.len().saturating_sub(BURST_MAX);
        if more > 0 {
            news.truncate(BURST_MAX);
            news.push(of_service("dispatcher", format!("{more} more changes at this moment are not listed"), None));
        }
        for event in news {
            if self.last.len() >= EVENTS_MAX {
                self.last.pop_front();
            }
            let text = event.text.chars().take(TEXT_CHARS_MAX).collect();
            self.last.push_back(Event { at_ms, text, ..event });
        }
    }

    /// Returns the events that may be shown, the newest first.
    pub(crate) fn list(&self, may_see: impl Fn(&Event) -> bool, most: usize) -> Vec<Event> {
        self.last.iter().rev().filter(|event| may_see(event)).take(most).cloned().collect()
    }
}

impl Event {
    /// Returns the job that it concerns.
    pub(crate) fn concerns(&self) -> Option<(&str, &str)> {
        self.tenant.as_deref().zip(self.job.as_deref())
    }

    /// Returns whether its text, kind, job or worker contains this text, which is in lower case.
    pub(crate) fn has(&self, search: &str) -> bool {
        let texts = [Some(&*self.text), Some(self.kind), self.job.as_deref(), self.worker.as_deref()];
        texts.into_iter().flatten().any(|text| text.to_lowercase().contains(search))
    }
}

fn id(job: &JobStatus) -> JobId {
    (job.tenant.clone(), job.name.clone())
}

fn of_service(kind: &'static str, text: String, worker: Option<&str>) -> Event {
    Event { at_ms: 0, kind, text, tenant: None, job: None, worker: worker.map(str::to_owned) }
}

fn jobs(before: &Before, jobs: &[JobStatus], news: &mut Vec<Event>) {
    for job in jobs {
        let mut add = |kind, text: String| {
            let (tenant, name) = (Some(job.tenant.clone()), Some(job.name.clone()));
            news.push(Event { at_ms: 0, kind, text, tenant, job: name, worker: None });
        };
        let now = JobBefore::of(job);
        let Some(was) = before.jobs.get(&id(job)) else {
            add("job", format!("was opened: {}", now.state));
            continue;
        };
        if was.state != now.state {
            add("job", format!("{} → {}", was.state, now.state));
        }
        for (index, attached) in now.attached.iter().enumerate() {
            if was.attached.get(index).is_some_and(|was| was != attached) {
                let what = if *attached { "attached" } else { "left" };
                add("consumer", format!("consumer {index} {what}"));
            }
        }
        if was.workers != now.workers && now.workers > 0 {
            let why = job.decisions.last().map_or("", |decision| &decision.reason);
            add("scale", format!("workers wanted: {} → {}. {why}", was.workers, now.workers));
        }
        if now.skipped > was.skipped {
            add("skipped", format!("{} samples were skipped", now.skipped - was.skipped));
        }
        if now.raced > was.raced {
            add("raced", format!("{} late splits went to a second worker", now.raced - was.raced));
        }
    }
}

fn workers(before: &Before, workers: &[WorkerStatus], news: &mut Vec<Event>) {
    // A worker alternates between "working" and "idle" too often for events.
    let calm = |state: &str| if state == "idle" { "working".to_owned() } else { state.to_owned() };
    for worker in workers {
        let (id, now) = (&worker.worker, calm(&worker.state));
        let name = format!("worker {} at {}", id.get(..8).unwrap_or(id), worker.address);
        match before.workers.get(id).map(|was| calm(was)) {
            None if now == "lost" => {
                news.push(of_service("worker", format!("{name} was lost: {}", worker.lost), Some(id)))
            }
            None => news.push(of_service("worker", format!("{name} came"), Some(id))),
            Some(was) if was == now => {}
            Some(was) => {
                let text = match &*now {
                    "lost" => format!("{name} was lost: {}", worker.lost),
                    "slow" => format!("{name} is slow: it was late with a split"),
                    "leaving" => format!("{name} is leaving"),
                    _ => format!("{name} is no longer {was}"),
                };
                news.push(of_service("worker", text, Some(id)));
            }
        }
    }
    let is_here = |id: &&String| workers.iter().any(|w| w.worker == ***id);
    for id in before.workers.keys().filter(|id| !is_here(id)) {
        let text = format!("worker {} is no longer listed", id.get(..8).unwrap_or(id));
        news.push(of_service("worker", text, Some(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::ConsumerStatus;

    fn snapshot(at_ms: u64, state: &str, skipped: u64, worker: &str) -> Snapshot {
        let consumer = ConsumerStatus { attached: state == "running", skipped, ..ConsumerStatus::default() };
        let job = JobStatus {
            name: "a".to_owned(),
            tenant: "t".to_owned(),
            state: state.to_owned(),
            consumers: vec![consumer],
            ..JobStatus::default()
        };
        let worker = WorkerStatus {
            worker: "0123456789".to_owned(),
            address: "h:1".to_owned(),
            state: worker.to_owned(),
            lost: "its connection broke".to_owned(),
            ..WorkerStatus::default()
        };
        Snapshot { at_ms, jobs: vec![job], workers: vec![worker], scale: None }
    }

    fn texts(events: &Events) -> Vec<String> {
        events.list(|_| true, 100).into_iter().map(|event| event.text).collect()
    }

    #[test]
    fn changes_are_events_and_the_first_look_is_none() {
        let mut events = Events::default();
        events.add(&snapshot(1, "running", 0, "working"));
        events.add(&snapshot(2, "running", 0, "idle"));
        assert!(texts(&events).is_empty());
        events.add(&snapshot(3, "no consumer", 2, "lost"));
        events.fail(4, "refused");
        events.fail(5, "refused");
        events.add(&snapshot(6, "no consumer", 2, "lost"));
        let want = [
            "the dispatcher answers again",
            "the dispatcher does not answer: refused",
            "worker 01234567 at h:1 was lost: its connection broke",
            "2 samples were skipped",
            "consumer 0 left",
            "running → no consumer",
        ];
        assert_eq!(texts(&events), want);
        let of_job = events.list(|event| event.concerns() == Some(("t", "a")), 100);
        assert_eq!(of_job.len(), 3, "others are for administrators");
    }

    #[test]
    fn bursts_and_texts_are_bounded() {
        let mut events = Events::default();
        events.add(&Snapshot::default());
        for round in 0..100u64 {
            let job =
                |n: u64| JobStatus { name: format!("{round} {n}"), state: "x".repeat(5000), ..JobStatus::default() };
            events.add(&Snapshot { jobs: (0..1000).map(job).collect(), ..Snapshot::default() });
        }
        let all = events.list(|_| true, usize::MAX);
        assert_eq!(all.len(), EVENTS_MAX);
        assert!(all.iter().all(|event| event.text.chars().count() <= TEXT_CHARS_MAX));
        assert!(all[0].text.contains("900 more changes"), "{}", all[0].text);
    }
}
