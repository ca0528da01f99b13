//! The steps of each phase: the first placement, its confirmation, and watching it.

use super::solving::is_less;
use super::state::{Found, Phase, Previous, Target};
use super::thresholds::{
    CHANGE, CHANGE_EARLY, CHEAPER, FEW, MANY, MARGIN, PROBES_MAX, SATURATED, SLACK, SOME, SUFFERS, WAIT_AGAIN, WAIT_MAX,
};
use crate::placement::{Objective, Placement};
use crate::scaling::Limits;
use crate::scaling::decision::{Figures, Reason};
use crate::scaling::steady_state::Mark;

impl Previous {
    /// Finds the first placement.
    pub(super) fn learn(&mut self, limits: Limits, wanted: Placement) -> Found {
        let figures = self.windows.medians(FEW);
        self.learn_efficiency(&figures);
        let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
        (self.based, self.based_spare) = ((self.windows.load(FEW), 1), figures.spare);
        if target.at == wanted {
            return self.confirm(limits, wanted, 0);
        }
        self.tried = Some(self.mark(self.windows.placement()));
        self.change(limits, target, 0, &figures, self.solved())
    }

    /// Returns the reason of a first placement.
    fn solved(&self) -> Reason {
        if self.windows.objective() == Objective::Time { Reason::Demand { margin: MARGIN } } else { Reason::Cheapest }
    }

    /// Solves anew if the load is another one, or cores have become free.
    pub(super) fn follow(&mut self, limits: Limits, wanted: Placement) -> Option<Found> {
        if self.windows.len() < SOME {
            return None;
        }
        let (before, count) = self.based;
        let change = if (count as usize) < SOME { CHANGE_EARLY } else { CHANGE };
        let (now, spare) = (self.windows.load(SOME), self.windows.medians(SOME).spare);
        let is_other = now > before * change || now * change < before;
        let room = self.windows.room(SOME);
        // Cores that the reader's process gave back itself are no reason to give it that work again.
        let has_room = self.cut_only.is_some_and(|(_, then)| room >= CHANGE * then.max(1.0));
        let is_free = spare >= CHANGE * self.based_spare.max(1.0) || has_room;
        if !is_other && !is_free {
            return None;
        }
        // The window of the change has some of both loads, and may be the median of five; it is not among the newest.
        let (figures, now) = (self.windows.medians(FEW), self.windows.load(FEW));
        let kept = (self.local_max.take_if(|_| is_free), self.cut_only.take_if(|_| has_room));
        let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
        // Free cores are no reason if no other placement uses more of them.
        let is_used = (target.at.local, target.at.cut) != (wanted.local, wanted.cut);
        let is_of_use = is_used && target.at.workers < wanted.workers;
        if target.at == wanted || !(is_other || is_of_use) {
            (self.local_max, self.cut_only) = (self.local_max.or(kept.0), self.cut_only.or(kept.1));
            return None;
        }
        (self.based, self.tried, self.too_few, self.is_shared) = ((now, 1), None, None, false);
        self.based_spare = figures.spare;
        let reason = if is_other { Reason::Changed { before, now } } else { Reason::Spare { cores: spare } };
        Some(self.change(limits, target, 0, &figures, reason))
    }

    /// Confirms the placement, once all of it is there.
    pub(super) fn confirm(&mut self, limits: Limits, wanted: Placement, probes: u32) -> Found {
        let figures = self.windows.medians(FEW);
        if !self.windows.are_with(wanted, FEW) {
            return (Reason::Settling { wanted: wanted.workers }, Some(figures));
        }
        self.phase = Phase::Confirming(probes);
        let suffers = self.tried.filter(|then| figures.demand < SUFFERS * then.demand);
        let is_moved = |then: Mark| self.lightest_cut(wanted.cut) == Some(then.at.cut);
        if suffers.is_some_and(|then| then.at.local < wanted.local || is_moved(then)) {
            let (spare, pressure) = (figures.spare, figures.pressure);
            let back = suffers.filter(|then| is_moved(*then)).map(|then| (then.at.cut, self.windows.room(FEW)));
            self.cut_only = back.or(self.cut_only);
            let local = Some(wanted.local / 2).filter(|half| *half < wanted.local);
            return self.yield_to(limits, local, spare, Reason::Yields { spare, pressure });
        }
        if self.windows.objective() != Objective::Time {
            return self.confirm_price(limits, wanted, probes);
        }
        if figures.waited > WAIT_MAX {
            if let Some(made) = self.windows.ahead(FEW) {
                return self.suffice(limits, wanted, probes, made, &figures);
            }
            return self.more(limits, wanted, probes, figures);
        }
        let model = self.windows.model(FEW, self.efficiency);
        let target = self.target(limits, &model);
        // Go down by one worker at a time: the solution may be wrong by more than one.
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

    /// Settles if workers make all that the trainer takes, and it waits only for the next split: there are enough
    /// workers, or too many.
    fn suffice(&mut self, limits: Limits, wanted: Placement, probes: u32, made: f64, figures: &Figures) -> Found {
        self.learn_efficiency(figures);
        let target = self.target(limits, &self.windows.model(FEW, self.efficiency));
        if is_less(target.at, wanted) && probes < PROBES_MAX {
            let reason = Reason::Fewer { load: self.windows.load(FEW) };
            return self.change(limits, target, probes + 1, figures, reason);
        }
        let found = self.settle(figures, Reason::Ahead { made });
        // Later waits will not be of this kind.
        (self.phase, self.is_ahead) = (Phase::Settled(0.0), true);
        found
    }

    /// Confirms the placement by its price: waiting may be cheaper than more workers.
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
        self.settle(&figures, Reason::Cheapest)
    }

    /// Finds more workers or threads for a trainer that waits.
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
            // The solution should be enough and is not, for a reason outside the model: add a little of what is free,
            // or one worker.
            let Some(more) = self.a_little_more(&model, wanted, &figures) else {
                // Nothing brings more: use the least that brings the same.
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

    /// Settles with `useful` workers, because more of them bring nothing more.
    fn share(&mut self, limits: Limits, to: Placement, useful: u32, figures: &Figures) -> Found {
        self.is_shared = true;
        let to = Placement { workers: limits.clamp(useful), ..to };
        if self.wanted != Some(to) {
            self.wanted = Some(to);
            self.windows.clear();
        }
        self.settle(figures, Reason::Shared { useful })
    }

    /// Checks whether the placement is still right.
    pub(super) fn watch(&mut self, limits: Limits, wanted: Placement, waited_then: f64) -> Found {
        let figures = self.windows.medians(SOME.min(self.windows.len()));
        let (mean, count) = self.based;
        if (count as usize) < MANY {
            self.based = (mean + (self.windows.newest_load() - mean) / f64::from(count + 1), count + 1);
        }
        if !self.windows.are_with(wanted, SOME) {
            return (Reason::Settling { wanted: wanted.workers }, Some(figures));
        }
        let still = match self.windows.objective() {
            _ if self.is_shared => Reason::Shared { useful: wanted.workers },
            Objective::Time => Reason::Enough { at_most: WAIT_AGAIN.max(2.0 * waited_then) },
            _ => Reason::Cheapest,
        };
        let waits = figures.waited > WAIT_AGAIN.max(2.0 * waited_then) && !self.is_shared;
        if let Some(made) = self.windows.ahead(SOME).filter(|_| waits) {
            self.is_ahead = true;
            return (Reason::Ahead { made }, Some(figures));
        }
        if waits && std::mem::take(&mut self.is_ahead) {
            // Some of these windows are from before the split came through.
            self.windows.clear();
            return (still, Some(figures));
        }
        if waits && wanted.workers < limits.max {
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
            // The load must be below the load at which this was too little.
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
}
