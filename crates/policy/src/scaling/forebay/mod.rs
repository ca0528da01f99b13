//! Forebay's own policy: measure what is asked for and what one worker gives, solve for the placement, confirm it by a probe or
//! two, and keep watching.
//!
//! Where the reader's machine is not told of, or nothing may compute there, the placement is a number of workers: one policy, not two.
//! Invariants: at most [`PROBES_MAX`] changes follow the first one at the same load; a placement that was too little is not gone
//! back to before the load has fallen; cores that the trainer misses are given back in the window that says so, and not taken
//! again before there are more of them; without figures nothing changes; the result is within the limits.

mod memory;
mod solving;
#[cfg(test)]
mod tests;

use super::decision::{Decision, Figures, Reason};
use super::{Limits, Observation};
use crate::placement::{Objective, Placement};
use memory::Memory;
use solving::is_less;

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
/// What threads had of the cores that they asked for, as a share of these, below which they give some back. Figures that are off
/// by a fifth, once too high and once too low, do not come to this.
pub const YIELD: f64 = 0.6;
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
}
