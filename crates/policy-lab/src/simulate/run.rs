//! From event to event, until the last job has ended.
//!
//! All events of one moment are handled together: workers are divided after the last of them. Bounds: [`TIME_MAX_S`] of
//! simulated time, so as many windows of each job as fit into that.

use std::collections::BinaryHeap;

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, Error, Result, SampleId, Seed};

use super::event::{Event, What};
use super::fleet::Fleet;
use super::live::Live;
use super::outcome::together;
use super::{Change, Job, JobOutcome, Outcome, Scenario};
use forebay_policy::fleet::Unit;
use forebay_policy::placement::{Manners, Placement};
use forebay_policy::scaling::{Claim, Observation, Policy, ScalingPolicy, window};

/// The most simulated seconds: 30 days.
pub const TIME_MAX_S: f64 = 30.0 * 86_400.0;

/// Seconds after which the fleet policy decides again, if nothing happens: it waits for workers that do not come.
const FLEET_EVERY: f64 = 5.0;

/// The random stream of losses; jobs have their indexes.
const LOSSES: u64 = u64::MAX;

/// Simulates the jobs of a scenario under a policy.
///
/// # Errors
/// Errors of [`Scenario::check`]; the policy wants a number beyond the pool's; the jobs do not end within
/// [`TIME_MAX_S`].
pub fn simulate(scenario: &Scenario, policy: &Policy) -> Result<Outcome> {
    scenario.check()?;
    let max = scenario.pool.max;
    if let Some(at) = policy.initial().fixed() {
        if at.workers > max {
            return Err(Error::invalid(format!("{policy} is more than the {max} workers that there may be")));
        }
        scenario.jobs.iter().try_for_each(|job| fits(job, at).map_err(|e| e.with("job", &job.name)))?;
    }
    let mut world = World::new(scenario, policy);
    while let Some(event) = world.events.pop() {
        if event.at > TIME_MAX_S {
            break;
        }
        world.happen(event);
        if world.is_dirty && world.events.peek().is_none_or(|next| next.at > event.at) {
            world.deal(event.at);
        }
        if world.ended == scenario.jobs.len() {
            return Ok(world.outcome(policy, event.at));
        }
    }
    let days = TIME_MAX_S / 86_400.0;
    Err(Error::invalid(format!("{policy}: not all jobs end within {days:.0} days")).hint("give fewer batches"))
}

/// Checks that a job allows a placement.
fn fits(job: &Job, at: Placement) -> Result<()> {
    let most = job.host.as_ref().map_or(0, |host| host.local_max);
    if at.local > most {
        return Err(Error::invalid(format!(
            "{} threads at the trainer are more than the {most} that there may be",
            at.local
        ))
        .hint("give the trainer a machine that lets them, or fewer"));
    }
    if at.cut != u32::MAX && at.cut as usize > job.ops.len() {
        return Err(
            Error::invalid(format!("a cut after op {} of {}", at.cut, job.ops.len())).hint("use one that there is")
        );
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Ended,
}

/// A job and its policy.
#[derive(Debug)]
struct Ruled<'a> {
    live: Live<'a>,
    state: State,
    policy: Box<dyn ScalingPolicy>,
    wanted: Placement,
    /// The unit of the workers that it wants, and of the workers that it has.
    unit: Unit,
    counted: Unit,
    /// Counts how often its end was planned.
    plans: u64,
    changes: Vec<Change>,
    /// The time at which its step changed last, or it began.
    disturbed: f64,
    settled: f64,
    took: f64,
}

/// Returns the threads of one worker at the trainer, as the policy counts them.
fn crew(job: &Job, policy: &Policy) -> u32 {
    let is_fair = policy.initial().manners() == Manners::Fair;
    job.host.as_ref().filter(|_| is_fair).map_or(1, |host| host.crew)
}

/// Returns the placement with which a policy begins.
fn first(job: &Job, policy: &Policy) -> Placement {
    let fixed = policy.initial().fixed();
    fixed.map_or(job.on_workers(1), |at| Placement { cut: at.cut.min(job.ops.len() as u32), ..at })
}

struct World<'a> {
    scenario: &'a Scenario,
    jobs: Vec<Ruled<'a>>,
    fleet: Fleet,
    events: BinaryHeap<Event>,
    planned: u64,
    /// Counts how often a loss was planned.
    losses: u64,
    dice: SampleRng,
    /// Whether workers are to be divided anew.
    is_dirty: bool,
    ended: usize,
    /// A fixed number needs no windows.
    is_fixed: bool,
}

impl<'a> World<'a> {
    fn new(scenario: &'a Scenario, policy: &Policy) -> Self {
        let fleet = Fleet::new(scenario.pool, &scenario.kinds);
        let unit = fleet.unit();
        let threads = fleet.strength(&unit);
        let ruled = |(index, job): (usize, &'a Job)| Ruled {
            live: Live::new(job, index, (threads, crew(job, policy)), policy.initial().manners(), scenario.seed),
            state: State::Waiting,
            policy: policy.start(),
            wanted: first(job, policy),
            unit: unit.clone(),
            counted: unit.clone(),
            plans: 0,
            changes: vec![Change { at_s: job.begins, window: 0, to: first(job, policy) }],
            disturbed: job.begins,
            settled: 0.0,
            took: 0.0,
        };
        let mut world = Self {
            scenario,
            jobs: scenario.jobs.iter().enumerate().map(ruled).collect(),
            fleet,
            events: BinaryHeap::new(),
            planned: 0,
            losses: 0,
            dice: SampleRng::new(op_key(Seed(scenario.seed), Epoch(0), LOSSES), SampleId(0)),
            is_dirty: false,
            ended: 0,
            is_fixed: policy.initial().fixed().is_some(),
        };
        for (index, job) in scenario.jobs.iter().enumerate() {
            world.plan(job.begins, What::Begin(index));
            for (place, (at, _)) in job.then.iter().enumerate() {
                world.plan(job.begins + at, What::Step(index, place));
            }
            for (place, (at, _)) in job.host.iter().flat_map(|host| &host.then).enumerate() {
                world.plan(job.begins + at, What::Used(index, place));
            }
        }
        for (index, (from, to)) in scenario.kinds.iter().enumerate().filter_map(|(i, kind)| Some((i, kind.away?))) {
            world.plan(from, What::Away(index));
            world.plan(to, What::Ready);
        }
        if world.fleet.is_mixed() {
            world.plan(FLEET_EVERY, What::Fleet);
        }
        world
    }

    fn plan(&mut self, at: f64, what: What) {
        self.events.push(Event { at, order: self.planned, what });
        self.planned += 1;
    }

    fn happen(&mut self, Event { at, what, .. }: Event) {
        match what {
            What::Begin(index) => {
                self.jobs[index].state = State::Running;
                self.is_dirty = true;
                if !self.is_fixed {
                    self.plan(at + window::WINDOW.as_secs_f64(), What::Look(index));
                }
            }
            What::Step(index, place) => self.disturb(at, index, |live, job| live.set_step(at, job.then[place].1)),
            What::Used(index, place) => self.disturb(at, index, |live, job| {
                let used = job.host.as_ref().map_or(0.0, |host| host.then[place].1);
                live.set_used(at, used);
            }),
            What::Look(index) => self.look(at, index),
            What::End(index, plan) => self.end(at, index, plan),
            What::Ready => {
                self.fleet.come(at);
                self.is_dirty = true;
            }
            What::Lose(plan) if plan == self.losses => {
                if let Some(again) = self.fleet.lose(at, &mut self.dice) {
                    self.plan(again, What::Ready);
                }
                self.is_dirty = true;
            }
            What::Lose(_) => {}
            What::Away(kind) => {
                self.fleet.take_back(at, kind);
                self.is_dirty = true;
            }
            What::Fleet => {
                self.plan(at + FLEET_EVERY, What::Fleet);
                self.is_dirty = true;
            }
        }
    }

    /// Changes the demand of its trainer.
    fn disturb(&mut self, at: f64, index: usize, change: impl FnOnce(&mut Live<'_>, &Job)) {
        let job = &mut self.jobs[index];
        if job.state != State::Running {
            return;
        }
        change(&mut job.live, &self.scenario.jobs[index]);
        job.disturbed = at;
        self.plan_end(index);
    }

    /// Lets the policy decide, if a window is over.
    fn look(&mut self, at: f64, index: usize) {
        let limits = self.scenario.pool.limits(&self.scenario.jobs[index]);
        let job = &mut self.jobs[index];
        if job.state != State::Running {
            return;
        }
        job.live.advance(at);
        let Some(seen) = job.live.observe(limits) else {
            return self.plan(at + window::LOOK_EVERY.as_secs_f64(), What::Look(index));
        };
        let seen = Observation { threads_by_kind: job.counted.threads().to_vec(), ..seen };
        let decision = job.policy.decide(&seen);
        let ops = self.scenario.jobs[index].ops.len() as u32;
        let cut = decision.cut.map_or(ops, |cut| cut.min(ops));
        let wanted = Placement { workers: decision.workers, local: decision.local, cut };
        self.fleet.watch();
        if wanted != job.wanted {
            // The same number of other workers, during a replacement, is the same need.
            if wanted.workers != job.wanted.workers {
                job.unit = job.counted.clone();
            }
            job.wanted = wanted;
            job.changes.push(Change { at_s: at, window: job.live.windows(), to: wanted });
            job.settled = job.settled.max(at - job.disturbed);
            self.is_dirty = true;
        }
        self.plan(at + window::WINDOW.as_secs_f64(), What::Look(index));
    }

    fn end(&mut self, at: f64, index: usize, plan: u64) {
        let job = &mut self.jobs[index];
        if job.state != State::Running || job.plans != plan {
            return;
        }
        job.live.set_placement(at, Placement { workers: 0, local: 0, ..job.wanted });
        (job.state, job.took) = (State::Ended, at - job.live.job().begins);
        self.ended += 1;
        self.is_dirty = true;
    }

    /// Requests the workers that all jobs want, and divides those that are ready.
    fn deal(&mut self, at: f64) {
        self.is_dirty = false;
        let running: Vec<_> = (0..self.jobs.len()).filter(|&i| self.jobs[i].state == State::Running).collect();
        let need = running.iter().map(|&i| self.fleet.need(self.jobs[i].wanted.workers, &self.jobs[i].unit)).sum();
        for ready in self.fleet.want(at, need) {
            self.plan(ready, What::Ready);
        }
        let claim = |&i: &usize| {
            let (wanted, weight) = (self.jobs[i].wanted.workers, self.scenario.jobs[i].weight);
            (Claim { priority: 0, wanted, weight }, &self.jobs[i].unit)
        };
        let given = self.fleet.deal(&running.iter().map(claim).collect::<Vec<_>>());
        for (&index, (workers, unit)) in running.iter().zip(given) {
            self.give(at, index, workers, unit);
        }
        self.plan_loss(at);
    }

    fn give(&mut self, at: f64, index: usize, workers: u32, unit: Unit) {
        let job = &mut self.jobs[index];
        let local = job.wanted.local * job.live.crew();
        let placed = Placement { workers, local, ..job.wanted };
        let are_others = job.live.set_threads(at, self.fleet.strength(&unit));
        job.counted = unit;
        self.fleet.price().into_iter().for_each(|price| job.live.set_price(price));
        // The end of one that has just begun is not planned yet.
        if job.live.at() != placed || job.plans == 0 || are_others {
            job.live.set_placement(at, placed);
            self.plan_end(index);
        }
    }

    fn plan_end(&mut self, index: usize) {
        let job = &mut self.jobs[index];
        job.plans += 1;
        let plan = job.plans;
        if let Some(at) = job.live.ends() {
            self.plan(at, What::End(index, plan));
        }
    }

    /// Draws the time of the next loss: the exponential distribution has no memory, so it is drawn anew whenever the
    /// workers change.
    fn plan_loss(&mut self, at: f64) {
        let losses = self.fleet.losses();
        if losses == 0.0 {
            return;
        }
        self.losses += 1;
        let after = -(1.0 - self.dice.unit()).ln() / losses;
        self.plan(at + after, What::Lose(self.losses));
    }

    fn outcome(self, policy: &Policy, at: f64) -> Outcome {
        let of = |job: Ruled<'_>| JobOutcome {
            name: job.live.job().name.clone(),
            began_s: job.live.job().begins,
            took_s: job.took,
            waited_s: job.live.sums().waited,
            windows: job.live.windows(),
            settled_s: job.settled,
            changes: job.changes,
        };
        let is_mixed = self.fleet.is_mixed();
        let kinds = self.fleet.end(at);
        Outcome {
            policy: policy.to_string(),
            ended_s: at,
            worker_s: kinds.iter().map(|kind| kind.worker_s).sum(),
            lost: kinds.iter().map(|kind| kind.lost).sum(),
            workers: together(&kinds),
            kinds: if is_mixed { kinds } else { Vec::new() },
            jobs: self.jobs.into_iter().map(of).collect(),
        }
    }
}
