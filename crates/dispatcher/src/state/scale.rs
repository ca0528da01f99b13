//! How many workers each job gets, and the pool: runs the policy on each window of each job, and keeps what it decided.
//!
//! Nothing here starts or ends a worker, or gives a split to another one: it says what is wanted, and why. Bounds: the last
//! [`DECISIONS_MAX`] decisions of a job; one that says the same as the one before is not kept.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};
use forebay_policy::placement::Objective;
use forebay_policy::scaling::{Claim, Decision, Limits, Previous, decide, share};
use forebay_proto::{GetScaleResponse, ScaleDecision, Sent, Spent};

use super::kinds::priced;
use super::load::{Crew, SAID_MAX};
use super::worker::Worker;
use super::{Effect, Job, SessionId, State};
use crate::options::Scaling;
use crate::records::JobRecord;

/// Decisions of a job that are kept.
const DECISIONS_MAX: usize = 64;
/// Decisions of each job in a list of all of them.
const LISTED_MAX: usize = 4;

/// What the policy has made of a job.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    previous: Previous,
    /// `None` while nothing is decided.
    wanted: Option<u32>,
    /// The same in threads of pace 1, as workers were when it was decided.
    need: f64,
    decisions: VecDeque<Made>,
}

/// A decision, when it was made, and what was wanted before.
#[derive(Debug, Clone)]
struct Made {
    at: Ticks,
    before: u32,
    decision: Decision,
    /// Which ops readers run with it, in words.
    cut: String,
}

impl Scale {
    pub(super) fn new(scaling: Scaling) -> Self {
        Self { previous: scaling.policy.start(), wanted: None, need: 0.0, decisions: VecDeque::new() }
    }

    pub(super) fn wanted(&self) -> Option<u32> {
        self.wanted
    }

    /// Returns the threads of pace 1 that are wanted.
    pub(super) fn need(&self) -> Option<f64> {
        self.wanted.map(|_| self.need)
    }

    /// Says whether nothing was decided yet.
    pub(super) fn is_new(&self) -> bool {
        self.decisions.is_empty()
    }

    pub(super) fn set_previous(&mut self, previous: Previous) {
        self.previous = previous;
    }

    /// `capacity` is that of a worker, if another number of them is wanted than before: the same number of other workers, while these are
    /// replaced, is the same need.
    fn keep(&mut self, at: Ticks, before: u32, decision: Decision, capacity: Option<f64>, cut: String) {
        self.wanted = Some(decision.workers);
        self.need = capacity.map_or(self.need, |capacity| f64::from(decision.workers) * capacity);
        if self.decisions.back().is_some_and(|last| last.decision.says_the_same(&decision)) {
            return;
        }
        if self.decisions.len() == DECISIONS_MAX {
            self.decisions.pop_front();
        }
        self.decisions.push_back(Made { at, before, decision, cut });
    }

    /// Returns all decisions, or the last few, the oldest first.
    pub(super) fn decisions(&self, now: Ticks, all: bool) -> Vec<ScaleDecision> {
        let skipped = if all { 0 } else { self.decisions.len().saturating_sub(LISTED_MAX) };
        let of = |made: &Made| ScaleDecision {
            ago_ms: (now - made.at).as_millis() as u64,
            before: made.before,
            workers: made.decision.workers,
            reason: made.decision.to_string(),
            // Finite numbers and names: they serialise.
            json: serde_json::to_string(&made.decision).unwrap_or_default(),
            cut: made.cut.clone(),
        };
        self.decisions.iter().skip(skipped).map(of).collect()
    }
}

impl State {
    /// Sets who decides. What was decided before is forgotten.
    pub(crate) fn set_scaling(&mut self, scaling: Scaling) {
        self.scaling = scaling;
        self.jobs.values_mut().for_each(|job| job.scale = Scale::new(scaling));
    }

    /// A worker says what it spent. What one says of another tenant's job is not taken.
    pub(super) fn spend(&mut self, session: SessionId, spent: &[Spent]) {
        let Some(worker) = self.sessions.get(&session).and_then(|id| self.workers.get_mut(id)) else { return };
        for &Spent { job, compute_us, rows } in spent {
            let spent = &Spent { job, compute_us: compute_us.min(SAID_MAX), rows: rows.min(SAID_MAX) };
            let Some(job) = self.jobs.get_mut(&spent.job).filter(|job| worker.serves(&job.record.tenant)) else {
                continue;
            };
            match worker.only {
                None => {
                    worker.note_spent(spent.compute_us);
                    self.fleet.spend(worker, spent);
                    job.load.spend(spent);
                    job.bill.add(worker, spent);
                    self.spent_us = self.spent_us.saturating_add(spent.compute_us);
                }
                // What a thread takes that gives way to the trainer says nothing of what a worker of the fleet takes.
                Some((id, consumer)) if id == spent.job => job.load.spend_here(consumer, spent),
                Some(_) => {}
            }
        }
    }

    /// A worker says what it sent to readers. What one says of another tenant's job, or of what is sent within a machine, is not taken.
    pub(super) fn note_sent(&mut self, session: SessionId, sent: &[Sent]) {
        let Some(worker) = self.sessions.get(&session).and_then(|id| self.workers.get(id)) else { return };
        for sent in sent.iter().filter(|_| !worker.is_local()) {
            if let Some(job) = self.jobs.get_mut(&sent.job).filter(|job| worker.serves(&job.record.tenant)) {
                job.load.send(sent);
            }
        }
    }

    /// Looks at the windows of all jobs that are read.
    pub(super) fn scale(&mut self, now: Ticks, out: &mut Vec<Effect>) {
        let crews = self.crews();
        let claims: Vec<_> = self.jobs.values().filter(|j| j.is_read()).map(|job| claim(job, &crews)).collect();
        let workers = crews.values().map(|crew| crew.workers).sum();
        // What is there for all is no job's own: with all of it, none would ever see that it has what it wanted.
        let shares = if claims.len() > 1 { share(workers, &claims) } else { vec![u32::MAX; claims.len()] };
        let (spent, Scaling { workers_max: most, objective, .. }) = (self.spent_us, self.scaling);
        let mut shares = shares.into_iter();
        let local = self.local_threads();
        let mut made = Vec::new();
        for job in self.jobs.values_mut() {
            if !job.is_read() {
                job.load.restart(now, spent);
                continue;
            }
            let asking = (0..).zip(&job.consumers).filter(|(_, c)| c.local.is_asked_for());
            let threads = asking.filter_map(|(i, _)| local.get(&(job.record.id, i))).sum();
            job.load.see(Crew { local: threads, ..crew_of(&crews, &job.record.tenant) });
            let quota = job.consumers.iter().filter_map(|c| c.reader?.workers_max).min();
            let limits = Limits { min: 1, max: quota.map_or(most, |quota| quota.clamp(1, most)) };
            let objective = objective_of(job, objective, &self.workers);
            let shown: Vec<_> = std::iter::once(&job.ops).chain(self.learned.ops(&job.record)).collect();
            let costs = || job.cuts.costs(&shown);
            let share = shares.next().unwrap_or(u32::MAX);
            let Some(seen) = job.load.end(now, spent, share, limits, objective, costs) else {
                continue;
            };
            let (decision, previous) = decide(&seen, &job.scale.previous);
            if let Some(rest) = previous.rest() {
                self.learned.come_to_rest(now, &job.record, &self.scaling.objective, rest, out);
            }
            if let Some((figures, rows)) = decision.figures.zip(job.load.batch_rows()) {
                let step = f64::from(job.record.consumers) / (figures.demand * rows);
                self.learned.take_step(now, &job.record, step, out);
            }
            job.scale.previous = previous;
            job.deal(decision.local);
            let before = job.scale.wanted.unwrap_or(seen.workers);
            if (before, seen.local) != (decision.workers, decision.local) {
                let Decision { workers, local, .. } = decision;
                tracing::info!(job = job.record.name, before, workers, local, "{decision}");
            }
            made.push((job.record.id, before, decision));
        }
        for (job, before, decision) in made {
            self.decided(now, job, before, decision);
        }
    }

    /// Keeps a decision, and cuts the job's splits where it says from now on.
    pub(super) fn decided(&mut self, now: Ticks, id: u64, before: u32, decision: Decision) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let moved = decision.cut.is_some_and(|cut| job.cuts.set(cut));
        if moved {
            job.load.note_cut();
        }
        // A policy counts places, people count ops.
        let decision = Decision { cut: decision.cut.and_then(|cut| job.cuts.ops_before(cut)), ..decision };
        let Some(job) = self.jobs.get(&id) else { return };
        let cut = job.cuts.describe(&self.costs(job));
        let is_news = job.scale.wanted != Some(decision.workers);
        let capacity = is_news.then(|| self.worker_capacity(&job.record.tenant));
        if moved {
            tracing::info!(job = job.record.name, "{cut}");
        }
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.scale.keep(now, before, decision, capacity, cut);
    }

    /// Returns the jobs that are read, or were a moment ago.
    pub(super) fn going_on(&self, now: Ticks) -> impl Iterator<Item = &Job> {
        let timeout = self.timing.consumer_timeout;
        self.jobs.values().filter(move |job| {
            let lately = |c: &super::Consumer| c.reader.is_some() || now - c.gone < timeout;
            !job.record.cancelled && !job.is_finished() && job.consumers.iter().any(lately)
        })
    }

    /// Returns what the jobs want together. Unknown for as long as that of one is: after a restart, too.
    pub(crate) fn wanted(&self, now: Ticks) -> GetScaleResponse {
        let jobs = self.going_on(now);
        let mut sum = jobs.map(|job| job.scale.wanted).try_fold(0u32, |sum, wanted| Some(sum.saturating_add(wanted?)));
        let (workers_max, (kinds, others)) = (self.scaling.workers_max, self.kinds_wanted());
        if !kinds.is_empty() {
            // Of larger ones it takes fewer.
            sum = kinds.iter().try_fold(others, |sum, kind| Some(sum.saturating_add(kind.wanted?)));
        }
        GetScaleResponse {
            wanted: sum.map_or(0, |sum| sum.clamp(1, workers_max)),
            kinds,
            workers: self.fleet_workers().count() as u32,
            workers_max,
            policy: self.scaling.policy.to_string(),
        }
    }

    /// Counts the workers by whom they serve. Local ones are nobody else's, and nobody starts or ends them for the jobs.
    pub(super) fn crews(&self) -> HashMap<Option<Arc<str>>, Crew> {
        let mut crews: HashMap<Option<Arc<str>>, Crew> = HashMap::new();
        for worker in self.fleet_workers() {
            let crew = crews.entry(worker.serves.clone()).or_default();
            crew.workers += 1;
            crew.threads += u64::from(worker.threads);
        }
        crews
    }
}

/// Returns what is to be made small for a job: each of its readers has a machine that costs, and workers cost what those say that may
/// compute for it.
pub(super) fn objective_of(job: &Job, objective: Objective, workers: &BTreeMap<WorkerId, Worker>) -> Objective {
    let own = |w: &&Worker| w.is_of_fleet() && w.serves(&job.record.tenant);
    priced(objective.with_trainers(job.consumers.len() as u32), workers.values().filter(own))
}

/// Returns the workers that may compute for a tenant: its own, and those for everybody.
pub(super) fn crew_of(crews: &HashMap<Option<Arc<str>>, Crew>, tenant: &str) -> Crew {
    let own = |(serves, _): &(&Option<Arc<str>>, &Crew)| serves.as_deref().is_none_or(|serves| serves == tenant);
    crews.iter().filter(own).fold(Crew::default(), |sum, (_, crew)| Crew {
        workers: sum.workers + crew.workers,
        threads: sum.threads + crew.threads,
        local: 0,
    })
}

/// What a job would have: what is wanted for it, or all that there is while that is not known.
fn claim(job: &Job, crews: &HashMap<Option<Arc<str>>, Crew>) -> Claim {
    let all = || crew_of(crews, &job.record.tenant).workers;
    let JobRecord { priority, weight, .. } = *job.record;
    Claim { priority, wanted: job.scale.wanted.unwrap_or_else(all), weight: weight.into() }
}
