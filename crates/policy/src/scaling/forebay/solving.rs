//! Computes from the figures of the windows: the efficiency of workers, the best placement, and the gain of the last
//! change.

use super::state::{Previous, Target};
use super::thresholds::{AHEAD, EFFICIENCY, FEW, FULL, LIGHTER, MARGIN, SATURATED, USEFUL};
use crate::placement::{Bounds, Finishing, Model, Objective, Placement, solve};
use crate::scaling::steady_state::Mark;
use crate::scaling::{Figures, Limits};

impl Previous {
    /// Learns the efficiency while the workers cannot keep up, because their rate then shows the share of their time
    /// that reaches the trainer; at any other time only if that share is far above the assumed one.
    pub(super) fn learn_efficiency(&mut self, figures: &Figures) {
        let at = self.windows.placement();
        let most = self.windows.model(FEW, self.efficiency).remote_bound(at);
        let brought = self.windows.brought(FEW);
        let is_by_workers = at.workers > 0 && brought < FULL * most;
        let part = brought / (f64::from(at.workers) * figures.supply);
        let says_so = figures.waited > SATURATED || part > AHEAD * self.efficiency;
        if says_so && is_by_workers && self.windows.are_with(at, FEW) {
            self.efficiency = part.clamp(EFFICIENCY.0, EFFICIENCY.1);
        }
    }

    /// Returns the best placement.
    pub(super) fn target(&self, limits: Limits, model: &Model) -> Target {
        let objective = self.windows.objective();
        let within = |workers| solve(model, &objective, self.bounds(workers), margin(&objective));
        let least = limits.min.min(limits.max);
        let free = within((least, u32::MAX));
        let at = if free.workers > limits.max { within((least, limits.max)) } else { free };
        Target { at, needed: free.workers }
    }

    /// Returns the best placement with this number of workers.
    pub(super) fn with_workers(&self, model: &Model, workers: u32) -> Placement {
        let objective = self.windows.objective();
        solve(model, &objective, self.bounds((workers, workers)), margin(&objective))
    }

    fn bounds(&self, workers: (u32, u32)) -> Bounds {
        let bounds = Bounds::new(workers, self.local_bound());
        Bounds { cuts: self.cut_only.map_or(bounds.cuts, |(only, _)| (only, only)), ..bounds }
    }

    /// Returns the cut with the least work for the reader's process, if that is another one with noticeably less work
    /// than now. Two cuts receive rows of different sizes, so receiving is part of the work.
    pub(super) fn lightest_cut(&self, now: u32) -> Option<u32> {
        let model = self.windows.model(FEW.min(self.windows.len()), self.efficiency);
        let work = |cut| model.at_reader(model.cut(Placement { workers: 1, local: 0, cut }));
        let lightest = model.lightest();
        (model.finishing == Finishing::Reader && work(lightest) < LIGHTER * work(now)).then_some(lightest)
    }

    /// Returns the threads that may compute on the reader's machine.
    fn local_bound(&self) -> u32 {
        let most = self.windows.host().map_or(0, |host| host.local_max);
        self.local_max.map_or(most, |given_back| given_back.min(most))
    }

    pub(super) fn mark(&self, at: Placement) -> Mark {
        let demand = self.windows.medians(FEW).demand;
        Mark { at, load: self.windows.load(FEW), demand, remote: self.windows.brought(FEW) }
    }

    /// Returns the number of workers that bring as much as all, if the last change brought far less than expected.
    pub(super) fn useful(&self, now: &Figures) -> Option<u32> {
        let is_like = |then: &Mark| then.at.cut == self.windows.placement().cut && then.remote > 0.0;
        let then = self.tried.filter(|then| is_like(then) && (1..now.workers).contains(&then.at.workers))?;
        let brought = self.windows.brought(FEW);
        let of_one = then.remote / f64::from(then.at.workers);
        let wanted = now.demand - (now.delivered - self.windows.remote(FEW));
        let expected = wanted.min(of_one * f64::from(now.workers)) - then.remote;
        let gained = brought - then.remote;
        let workers = (brought / of_one - 1e-6).ceil().max(1.0) as u32;
        (gained < USEFUL * expected).then_some(workers.max(then.at.workers))
    }

    /// Returns the smallest step that should bring more than a placement does.
    pub(super) fn a_little_more(&self, model: &Model, wanted: Placement, figures: &Figures) -> Option<Placement> {
        let local = wanted.local + ((f64::from(wanted.local) * figures.waited).ceil() as u32).max(1);
        let bound = self.local_bound().min(figures.spare.ceil() as u32);
        let more = [Placement { local, ..wanted }, Placement { workers: wanted.workers + 1, ..wanted }];
        more.into_iter().find(|at| at.local <= bound.max(wanted.local) && model.capacity(*at) > model.capacity(wanted))
    }
}

/// Returns the margin on the demand: none if a little waiting may be cheaper.
pub(super) fn margin(objective: &Objective) -> f64 {
    if *objective == Objective::Time { MARGIN } else { 0.0 }
}

/// Returns whether a placement is worth a try because it is smaller: fewer workers, or noticeably fewer threads.
pub(super) fn is_less(at: Placement, than: Placement) -> bool {
    at.workers < than.workers || (at.workers == than.workers && f64::from(at.local) * 1.1 + 1.0 < f64::from(than.local))
}
