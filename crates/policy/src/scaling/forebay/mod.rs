//! Forebay's own policy: measure what is asked for and what one worker gives, solve for the placement, confirm it by a probe or
//! two, and keep watching.
//!
//! Where the reader's machine is not told of, or nothing may compute there, the placement is a number of workers: one policy, not two.
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; a placement that was too little is not gone
//! back to before the load has fallen; cores that the trainer misses are given back in the window that says so, and not taken
//! again before there are more of them; without figures nothing changes; the result is within the limits.

mod memory;

use super::decision::{Decision, Figures, Reason};
use super::{Limits, Observation};
use crate::placement::{Bounds, Model, Objective, Placement, solve};
use memory::Memory;

/// What is added to the demand before it is solved for.
pub const MARGIN: f64 = 0.01;
/// The share of its time that a trainer may wait where the placement is right.
pub const WAIT_MAX: f64 = 0.02;
/// Once the placement was found right, the share from which it is not any more.
pub const WAIT_AGAIN: f64 = 0.05;
/// From this share on the workers cannot keep up, so what is delivered is what they make.
pub const SATURATED: f64 = 0.10;
/// Changes that may follow the first one at the same load.
pub const PROBES_MAX: u32 = 3;
/// A load that is so many times what it was, or less than what it was divided by this, is another load. Spare cores that are
/// so many times what they were are worth another look.
pub const CHANGE: f64 = 1.6;
/// The share of its time that a trainer may lack a core before threads on its machine give theirs back.
pub const PRESSURE_MAX: f64 = 0.10;
/// What threads had of the cores that they asked for, as a share of these, below which they give some back.
pub const YIELD: f64 = 0.7;
/// The part of what wire and threads let through from which they may be what is full, and not the workers what is slow.
const FULL: f64 = 0.95;
/// Less than this of a core is none.
const NO_CORE: f64 = 0.1;
/// What is left of the trainer's own speed when threads on its machine are held to hurt it.
const SUFFERS: f64 = 0.75;
/// What another placement must save, as a share of the price, to be tried.
const CHEAPER: f64 = 0.02;
/// The same as [`CHANGE`], while what it was is known of few windows.
const CHANGE_EARLY: f64 = 2.2;
/// What a load may be below what the placement was found for, over many windows, before less will do: as a factor of it.
const SLACK: f64 = 1.2;
/// The share of the gain that was to be expected below which more workers do not help.
const USEFUL: f64 = 0.5;
/// What of a worker's computing time reaches the trainer, at least and at most.
const EFFICIENCY: (f64, f64) = (0.2, 1.25);
/// Windows that a placement is found or confirmed on, that a change is noticed on, and that are remembered.
const FEW: usize = 3;
const SOME: usize = 5;
const MANY: usize = 15;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Nothing is known.
    Learning,
    /// A placement was found; whether it is right is not known yet. So many probes were made.
    Confirming(u32),
    /// The placement is right, or as right as can be; the trainer waited this share of its time then.
    Settled(f64),
}

/// A placement, and what was found with it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark {
    at: Placement,
    /// Workers' worth of work.
    load: f64,
    /// Batches a second that the trainer would have taken, and that came from workers.
    demand: f64,
    remote: f64,
}

/// What is solved for: within the limits, and the workers that it would take without them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Target {
    at: Placement,
    needed: u32,
}

/// What is remembered from window to window.
#[derive(Debug, Clone, PartialEq)]
pub struct Previous {
    /// `None` is what there is.
    wanted: Option<Placement>,
    phase: Phase,
    /// Since the placement was changed last.
    windows: Memory,
    /// What of a worker's computing time reaches the trainer.
    efficiency: f64,
    /// Workers' worth of work that the placement was found for, and the windows that it is the mean of.
    based: (f64, u32),
    /// Spare cores that it was found for.
    based_spare: f64,
    /// The most threads on the reader's machine, once they had to give some back.
    local_max: Option<u32>,
    /// What the last change came from.
    tried: Option<Mark>,
    /// What was too little.
    too_few: Option<Mark>,
    /// Whether more workers do not help.
    is_shared: bool,
}

impl Default for Previous {
    fn default() -> Self {
        Self {
            wanted: None,
            phase: Phase::Learning,
            windows: Memory::default(),
            efficiency: 1.0,
            based: (0.0, 0),
            based_spare: 0.0,
            local_max: None,
            tried: None,
            too_few: None,
            is_shared: false,
        }
    }
}

/// Decides on one more window.
pub fn decide(seen: &Observation, before: &Previous) -> (Decision, Previous) {
    let mut next = before.clone();
    let (reason, figures) = next.step(seen);
    // Somebody has to begin.
    let workers = if seen.local == 0 { seen.workers.max(1) } else { seen.workers };
    let there = Placement { workers, local: seen.local, cut: seen.host.as_ref().map_or(1, |host| host.cut) };
    let wanted = next.wanted.unwrap_or(there);
    let (workers, cut) = (seen.limits.clamp(wanted.workers), seen.host.as_ref().map(|_| wanted.cut));
    (Decision { workers, local: wanted.local, cut, reason, figures }, next)
}

type Found = (Reason, Option<Figures>);

impl Previous {
    fn step(&mut self, seen: &Observation) -> Found {
        let figures = match seen.figures() {
            Ok(figures) => figures,
            Err(gap) => return (Reason::NoFigures { gap }, None),
        };
        self.windows.push(seen, figures, MANY);
        let wanted = self.wanted.unwrap_or(self.windows.placement());
        let wanted = Placement { workers: seen.limits.clamp(wanted.workers), ..wanted };
        if let Some(found) = self.give_back(seen.limits, wanted) {
            return found;
        }
        let windows = self.windows.len();
        if windows < FEW {
            return (Reason::Measuring { windows, needed: FEW }, Some(self.windows.medians(windows)));
        }
        self.wanted = Some(wanted);
        match self.phase {
            Phase::Learning => self.learn(seen.limits, wanted),
            Phase::Confirming(probes) => {
                self.follow(seen.limits, wanted).unwrap_or_else(|| self.confirm(seen.limits, wanted, probes))
            }
            Phase::Settled(waited) => {
                self.follow(seen.limits, wanted).unwrap_or_else(|| self.watch(seen.limits, wanted, waited))
            }
        }
    }

    /// The trainer misses cores, or takes them: what the newest window says is done at once, unlike all else.
    fn give_back(&mut self, limits: Limits, wanted: Placement) -> Option<Found> {
        let host = self.windows.host().filter(|_| wanted.local > 0)?;
        let (spare, pressure) = (host.spare, host.pressure);
        // The last thread may have been given but a part of a core.
        let is_short = spare < (YIELD * f64::from(wanted.local - 1)).max(NO_CORE);
        let is_pressed = pressure > PRESSURE_MAX;
        if !is_pressed && !is_short {
            return None;
        }
        let half = if is_pressed { wanted.local / 2 } else { wanted.local };
        let local = if spare < NO_CORE { 0 } else { half.min(spare.ceil() as u32) };
        Some(self.yield_to(limits, local, spare, Reason::Yields { spare, pressure }))
    }

    /// Leaves the reader's machine so many threads, and has workers make the rest.
    fn yield_to(&mut self, limits: Limits, local: u32, spare: f64, reason: Reason) -> Found {
        let count = FEW.min(self.windows.len());
        let figures = Figures { spare, ..self.windows.medians(count) };
        let mut model = self.windows.model(count, self.efficiency);
        if let Some(machine) = &mut model.machine {
            machine.used = (machine.cores - spare).max(0.0);
        }
        (self.local_max, self.based_spare) = (Some(local), spare);
        (self.based, self.tried, self.too_few) = ((self.windows.load(count), 1), None, None);
        let target = self.target(limits, &model);
        self.change(limits, target, 0, &figures, reason)
    }

    /// The first placement.
    fn learn(&mut self, limits: Limits, wanted: Placement) -> Found {
        let figures = self.windows.medians(FEW);
        self.learn_efficiency(&figures);
        let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
        (self.based, self.based_spare) = ((self.windows.load(FEW), 1), figures.spare);
        if target.at == wanted {
            return self.confirm(limits, wanted, 0);
        }
        self.tried = Some(self.mark(self.windows.placement()));
        self.change(limits, target, 0, &figures, Reason::Demand { margin: MARGIN })
    }

    /// A load that is another one, or cores that have become free.
    fn follow(&mut self, limits: Limits, wanted: Placement) -> Option<Found> {
        if self.windows.len() < SOME {
            return None;
        }
        let (before, count) = self.based;
        let change = if (count as usize) < SOME { CHANGE_EARLY } else { CHANGE };
        let (now, spare) = (self.windows.load(SOME), self.windows.medians(SOME).spare);
        let is_other = now > before * change || now * change < before;
        let is_free = spare >= CHANGE * self.based_spare.max(1.0);
        if !is_other && !is_free {
            return None;
        }
        // The window in which it changed has some of both, and may be the median of all; of the newest it is none.
        let (figures, now) = (self.windows.medians(FEW), self.windows.load(FEW));
        let kept = self.local_max.take_if(|_| is_free);
        let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
        if target.at == wanted || (!is_other && target.at.workers >= wanted.workers) {
            self.local_max = self.local_max.or(kept);
            return None;
        }
        (self.based, self.tried, self.too_few, self.is_shared) = ((now, 1), None, None, false);
        self.based_spare = figures.spare;
        let reason = if is_other { Reason::Changed { before, now } } else { Reason::Spare { cores: spare } };
        Some(self.change(limits, target, 0, &figures, reason))
    }

    /// Whether the placement is right, once all of it is there.
    fn confirm(&mut self, limits: Limits, wanted: Placement, probes: u32) -> Found {
        let figures = self.windows.medians(FEW);
        if !self.windows.are_with(wanted, FEW) {
            return (Reason::Settling { wanted: wanted.workers }, Some(figures));
        }
        self.phase = Phase::Confirming(probes);
        if self.tried.is_some_and(|then| then.at.local < wanted.local && figures.demand < SUFFERS * then.demand) {
            let (spare, pressure) = (figures.spare, figures.pressure);
            return self.yield_to(limits, wanted.local / 2, spare, Reason::Yields { spare, pressure });
        }
        if self.windows.objective() != Objective::Time {
            return self.confirm_price(limits, wanted, probes);
        }
        if figures.waited > WAIT_MAX {
            return self.more(limits, wanted, probes, figures);
        }
        let model = self.windows.model(FEW, self.efficiency);
        let target = self.target(limits, &model);
        // With fewer workers, one at a time: what is solved for may be wrong by more than one.
        let at = match target.at.workers < wanted.workers {
            true => self.with_workers(&model, wanted.workers - 1),
            false => target.at,
        };
        let was_too_few = self.too_few.is_some_and(|mark| model.capacity(at) <= model.capacity(mark.at));
        if is_less(at, wanted) && probes < PROBES_MAX && !was_too_few {
            let reason = Reason::Fewer { load: self.windows.load(FEW) };
            return self.change(limits, Target { at, needed: at.workers }, probes + 1, &figures, reason);
        }
        self.settle(&figures, Reason::Enough { at_most: WAIT_MAX })
    }

    /// The same, where waiting may be cheaper than what would end it.
    fn confirm_price(&mut self, limits: Limits, wanted: Placement, probes: u32) -> Found {
        let figures = self.windows.medians(FEW);
        if let Some(useful) = self.useful(&figures) {
            return self.share(limits, wanted, useful, &figures);
        }
        self.learn_efficiency(&figures);
        let model = self.windows.model(FEW, self.efficiency);
        let target = self.target(limits, &model);
        let objective = self.windows.objective();
        let price = |at: Placement| model.batch(at) * objective.prices().hour(at.workers);
        let is_slow = matches!(objective, Objective::CostWithin { slack, .. } if model.batch(wanted) > slack * (1.0 + WAIT_MAX) * model.step(wanted));
        let saved = 1.0 - price(target.at) / price(wanted);
        if target.at != wanted
            && (saved > CHEAPER || (is_slow && model.batch(target.at) < model.batch(wanted)))
            && probes < PROBES_MAX
        {
            self.tried = Some(self.mark(wanted));
            return self.change(limits, target, probes + 1, &figures, Reason::Price { saved });
        }
        self.settle(&figures, Reason::Enough { at_most: figures.waited.max(WAIT_MAX) })
    }

    /// The trainer waits.
    fn more(&mut self, limits: Limits, wanted: Placement, probes: u32, figures: Figures) -> Found {
        if let Some(useful) = self.useful(&figures) {
            return self.share(limits, wanted, useful, &figures);
        }
        if figures.waited > SATURATED {
            self.learn_efficiency(&figures);
        }
        let model = self.windows.model(FEW, self.efficiency);
        let mut target = self.target(limits, &model);
        if model.capacity(target.at) <= model.capacity(wanted) || target.at == wanted {
            // It should be enough and is not: whatever it is that is not modelled, a little more of what is free, or one worker.
            let Some(more) = self.a_little_more(&model, wanted, &figures) else {
                // Nothing brings more: as little as brings the same.
                let to = if is_less(target.at, wanted) { target.at } else { wanted };
                return self.share(limits, to, to.workers, &figures);
            };
            target = Target { at: more, needed: more.workers };
        }
        let to = Placement { workers: limits.clamp(target.at.workers), ..target.at };
        if to == wanted {
            let needed = target.needed.max(wanted.workers + 1);
            return self.settle(&figures, Reason::AtMost { needed, limit: limits.max });
        }
        if probes >= PROBES_MAX {
            return self.settle(&figures, Reason::Unmet { probes });
        }
        let mark = self.mark(wanted);
        (self.too_few, self.tried) = (Some(mark), Some(mark));
        self.change(limits, target, probes + 1, &figures, Reason::Waits { at_most: WAIT_MAX })
    }

    /// Returns the least that should bring more than a placement does.
    fn a_little_more(&self, model: &Model, wanted: Placement, figures: &Figures) -> Option<Placement> {
        let local = wanted.local + ((f64::from(wanted.local) * figures.waited).ceil() as u32).max(1);
        let bound = self.local_bound().min(figures.spare.ceil() as u32);
        let more = [Placement { local, ..wanted }, Placement { workers: wanted.workers + 1, ..wanted }];
        more.into_iter().find(|at| at.local <= bound.max(wanted.local) && model.capacity(*at) > model.capacity(wanted))
    }

    /// More workers do not help: as many as do.
    fn share(&mut self, limits: Limits, to: Placement, useful: u32, figures: &Figures) -> Found {
        self.is_shared = true;
        let to = Placement { workers: limits.clamp(useful), ..to };
        if self.wanted != Some(to) {
            self.wanted = Some(to);
            self.windows.clear();
        }
        self.settle(figures, Reason::Shared { useful })
    }

    /// The placement was right: is it still?
    fn watch(&mut self, limits: Limits, wanted: Placement, waited_then: f64) -> Found {
        let figures = self.windows.medians(SOME.min(self.windows.len()));
        let (mean, count) = self.based;
        if (count as usize) < MANY {
            self.based = (mean + (self.windows.newest_load() - mean) / f64::from(count + 1), count + 1);
        }
        if !self.windows.are_with(wanted, SOME) {
            return (Reason::Settling { wanted: wanted.workers }, Some(figures));
        }
        let still = match self.is_shared {
            true => Reason::Shared { useful: wanted.workers },
            false => Reason::Enough { at_most: WAIT_AGAIN.max(2.0 * waited_then) },
        };
        if figures.waited > WAIT_AGAIN.max(2.0 * waited_then) && !self.is_shared && wanted.workers < limits.max {
            self.tried = None;
            return match self.windows.objective() {
                Objective::Time => self.more(limits, wanted, 0, figures),
                _ => self.confirm_price(limits, wanted, 0),
            };
        }
        let load = self.windows.mean_load();
        if self.windows.len() == MANY && !self.is_shared && load * SLACK < self.based.0 {
            let mut model = self.windows.model(MANY, self.efficiency);
            model.step = model.whole() / (load * model.threads);
            let target = self.target(limits, &model);
            // Where it was tried, the load must be less than it was then.
            let too_few =
                |mark: Mark| model.capacity(target.at) <= model.capacity(mark.at) && load * SLACK >= mark.load;
            if is_less(target.at, wanted) && !self.too_few.is_some_and(too_few) {
                return self.change(limits, target, PROBES_MAX - 1, &figures, Reason::Fewer { load });
            }
        }
        if figures.waited > WAIT_AGAIN && wanted.workers >= limits.max {
            let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
            let needed = target.needed.max(wanted.workers + 1);
            return (Reason::AtMost { needed, limit: limits.max }, Some(figures));
        }
        (still, Some(figures))
    }

    /// Asks for another placement; where the limits leave none, says so.
    fn change(&mut self, limits: Limits, to: Target, probes: u32, figures: &Figures, reason: Reason) -> Found {
        let wanted = Placement { workers: limits.clamp(to.at.workers), ..to.at };
        if self.wanted != Some(wanted) {
            self.windows.clear();
        }
        (self.wanted, self.phase) = (Some(wanted), Phase::Confirming(probes));
        let needed = to.needed.max(to.at.workers);
        let reason = if needed > limits.max { Reason::AtMost { needed, limit: limits.max } } else { reason };
        (reason, Some(*figures))
    }

    fn settle(&mut self, figures: &Figures, reason: Reason) -> Found {
        self.phase = Phase::Settled(figures.waited);
        // What was measured with another placement is gone, if there is one now.
        let load = if self.windows.len() > 0 { self.windows.load(FEW) } else { figures.load() };
        self.based = (load, 1);
        (reason, Some(*figures))
    }

    /// While the workers cannot keep up, what they deliver says what of their time reaches the trainer.
    fn learn_efficiency(&mut self, figures: &Figures) {
        let at = self.windows.placement();
        let most = self.windows.model(FEW, self.efficiency).remote_bound(at);
        let remote = self.windows.remote(FEW);
        let is_by_workers = at.workers > 0 && remote < FULL * most;
        if figures.waited > SATURATED && is_by_workers && self.windows.are_with(at, FEW) {
            let made = remote / (f64::from(at.workers) * figures.supply);
            self.efficiency = made.clamp(EFFICIENCY.0, EFFICIENCY.1);
        }
    }

    /// Returns the best placement.
    fn target(&self, limits: Limits, model: &Model) -> Target {
        let (objective, local) = (self.windows.objective(), self.local_bound());
        let within = |workers| solve(model, &objective, Bounds { workers, local }, MARGIN);
        let least = limits.min.min(limits.max);
        let free = within((least, u32::MAX));
        let at = if free.workers > limits.max { within((least, limits.max)) } else { free };
        Target { at, needed: free.workers }
    }

    /// Returns the best placement with so many workers.
    fn with_workers(&self, model: &Model, workers: u32) -> Placement {
        let bounds = Bounds { workers: (workers, workers), local: self.local_bound() };
        solve(model, &self.windows.objective(), bounds, MARGIN)
    }

    /// Returns the threads that may compute on the reader's machine.
    fn local_bound(&self) -> u32 {
        let most = self.windows.host().map_or(0, |host| host.local_max);
        self.local_max.map_or(most, |given_back| given_back.min(most))
    }

    fn mark(&self, at: Placement) -> Mark {
        let demand = self.windows.medians(FEW).demand;
        Mark { at, load: self.windows.load(FEW), demand, remote: self.windows.remote(FEW) }
    }

    /// Returns how many workers bring what all do, where the last change brought far less than it should have.
    fn useful(&self, now: &Figures) -> Option<u32> {
        let is_like = |then: &Mark| then.at.cut == self.windows.placement().cut && then.remote > 0.0;
        let then = self.tried.filter(|then| is_like(then) && (1..now.workers).contains(&then.at.workers))?;
        let remote = self.windows.remote(FEW);
        let of_one = then.remote / f64::from(then.at.workers);
        let wanted = now.demand - (now.delivered - remote);
        let expected = wanted.min(of_one * f64::from(now.workers)) - then.remote;
        let gained = remote - then.remote;
        let workers = (remote / of_one - 1e-6).ceil().max(1.0) as u32;
        (gained < USEFUL * expected).then_some(workers.max(then.at.workers))
    }
}

/// Says whether a placement is worth being tried because it is less: fewer workers, or noticeably fewer threads.
fn is_less(at: Placement, than: Placement) -> bool {
    at.workers < than.workers || (at.workers == than.workers && f64::from(at.local) * 1.1 + 1.0 < f64::from(than.local))
}

#[cfg(test)]
mod tests {
    use forebay_core::Ticks;

    use super::*;
    use crate::placement::{Cut, Wire};
    use crate::scaling::{Gap, Host};

    fn observation(workers: u32, demand: f64, compute: f64) -> Observation {
        let made = f64::from(workers) / compute;
        let delivered = demand.min(made);
        Observation {
            at: Ticks(0),
            workers,
            local: 0,
            steady: true,
            limits: Limits { min: 1, max: 64 },
            threads: 1.0,
            batches: 10,
            delivered,
            demand: Some(demand),
            waited: 1.0 - delivered / demand,
            compute: Some(compute),
            busy: None,
            ahead: None,
            host: None,
        }
    }

    /// Runs windows with as many workers as were asked for the last time; returns what was decided.
    fn run(
        previous: &mut Previous,
        windows: usize,
        workers: &mut u32,
        of: impl Fn(u32) -> Observation,
    ) -> Vec<Decision> {
        let step = |_| {
            let (decision, next) = decide(&of(*workers), previous);
            (*previous, *workers) = (next, decision.workers);
            decision
        };
        (0..windows).map(step).collect()
    }

    #[test]
    fn a_number_is_found_confirmed_and_told_in_words() {
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
        let wanted: Vec<_> = decisions.iter().map(|d| d.workers).collect();
        assert_eq!(wanted, [1, 1, 3, 3, 3, 3, 3, 3]);
        assert_eq!(
            decisions[2].to_string(),
            "3 workers: the trainer takes 10.00 batches/s when it never waits, one worker makes 4.00; 1.0 % are added"
        );
        assert_eq!(decisions[7].reason, Reason::Enough { at_most: WAIT_AGAIN });
        let json = serde_json::to_value(decisions[2]).expect("serialises");
        assert_eq!((&json["rule"], &json["figures"]["demand"]), (&"demand".into(), &10.0.into()));
    }

    #[test]
    fn without_figures_or_with_wrong_ones_nothing_changes() {
        let (mut previous, mut workers) = (Previous::default(), 1);
        run(&mut previous, 8, &mut workers, |n| observation(n, 10.0, 0.25));
        let good = observation(3, 10.0, 0.25);
        let wrong = [
            (Observation { demand: None, ..good.clone() }, Gap::Idle),
            (Observation { demand: None, waited: 1.0, ..good.clone() }, Gap::NothingYet),
            (Observation { compute: None, ..good.clone() }, Gap::NotComputed),
            (Observation { workers: 0, ..good.clone() }, Gap::NoWorkers),
            (Observation { demand: Some(f64::NAN), ..good.clone() }, Gap::Contradiction),
            (Observation { compute: Some(-1.0), ..good.clone() }, Gap::Contradiction),
            (Observation { waited: 1.5, ..good.clone() }, Gap::Contradiction),
            (Observation { delivered: 50.0, ..good.clone() }, Gap::Contradiction),
            (Observation { threads: 0.0, ..good.clone() }, Gap::Contradiction),
        ];
        for (seen, gap) in wrong {
            for _ in 0..20 {
                let (decision, next) = decide(&seen, &previous);
                assert_eq!((decision.workers, decision.reason), (3, Reason::NoFigures { gap }));
                previous = next;
            }
        }
    }

    #[test]
    fn workers_that_do_not_help_are_given_back() {
        // Storage gives 12 batches a second, however many ask it: what three workers make.
        let held_up = |n: u32| {
            let delivered = 12.0f64.min(f64::from(n) * 4.0);
            Observation { delivered, waited: 1.0 - delivered / 32.0, ..observation(n, 32.0, 0.25) }
        };
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 60, &mut workers, held_up);
        assert_eq!(workers, 3);
        assert_eq!(decisions.windows(2).filter(|w| w[0].workers != w[1].workers).count(), 2);
        assert!(decisions.iter().any(|d| d.reason == Reason::Shared { useful: 3 }), "{decisions:?}");
    }

    /// 10 batches/s of 0.8 s are wanted; the trainer's machine has 16 cores.
    fn at_home(seen: Placement, spare: f64, pressure: f64) -> Observation {
        let here = f64::from(seen.local).min(spare) / 0.8;
        let delivered = (here + f64::from(seen.workers) / 0.8).min(10.0);
        let host = Host {
            cores: 16.0,
            spare,
            pressure,
            local_max: 16,
            here: here.min(delivered),
            cuts: Cut::of_ops(&[(0.8, 1e6)]),
            cut: 1,
            wire: Wire::default(),
            objective: Objective::Time,
        };
        let limits = Limits { min: 0, max: 64 };
        let (local, waited) = (seen.local, 1.0 - delivered / 10.0);
        Observation { local, limits, delivered, waited, host: Some(host), ..observation(seen.workers, 10.0, 0.8) }
    }

    #[test]
    fn cores_that_the_trainer_lacks_are_given_back_at_once_and_not_taken_again() {
        let mut previous = Previous::default();
        let mut at = Placement { workers: 1, local: 0, cut: 1 };
        let mut step = |spare: f64, pressure: f64| {
            let (decision, next) = decide(&at_home(at, spare, pressure), &previous);
            (previous, at) = (next, Placement { workers: decision.workers, local: decision.local, cut: 1 });
            decision
        };
        let placed = |decision: &Decision| (decision.workers, decision.local);
        let found = (0..8).map(|_| step(12.0, 0.0)).last().expect("one");
        assert_eq!(placed(&found), (0, 9), "{found}");
        let pressed = step(12.0, 0.3);
        assert_eq!(placed(&pressed), (5, 4), "{pressed}");
        assert_eq!(pressed.reason, Reason::Yields { spare: 12.0, pressure: 0.3 });
        assert!(pressed.to_string().contains("4 threads at the trainer"), "{pressed}");
        assert!((0..40).all(|_| step(12.0, 0.0).local == 4), "no more cores than when it lacked them");
        let short = step(0.05, 0.0);
        assert_eq!(placed(&short), (9, 0), "{short}");
        // With as many as at first again, they are taken again.
        let again = (0..40).map(|_| step(12.0, 0.0)).last().expect("one");
        assert_eq!(placed(&again), (0, 9), "{again}");
    }

    #[test]
    fn what_may_not_be_had_is_said_and_what_does_not_come_is_waited_for() {
        let limited = |n| Observation { limits: Limits { min: 1, max: 2 }, ..observation(n, 10.0, 0.5) };
        let (mut previous, mut workers) = (Previous::default(), 1);
        let decisions = run(&mut previous, 30, &mut workers, limited);
        assert_eq!(workers, 2);
        assert!(matches!(decisions[29].reason, Reason::AtMost { needed: 6.., limit: 2 }), "{}", decisions[29]);
        // Five are needed, and never more than one comes.
        let mut previous = Previous::default();
        let decisions = run(&mut previous, 30, &mut 1, |_| observation(1, 10.0, 0.5));
        assert!(decisions[5..].iter().all(|d| d.workers == 6), "{decisions:?}");
        assert_eq!(decisions[29].reason, Reason::Settling { wanted: 6 });
    }
}
