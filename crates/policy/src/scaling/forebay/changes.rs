//! Carries a change out: requests another placement, settles on one, and gives the trainer's cores back.

use super::state::{Found, Phase, Previous, Target};
use super::thresholds::{FEW, NO_CORE, OTHER_UNIT, PRESSURE_MAX, YIELD};
use crate::placement::Placement;
use crate::scaling::decision::{Figures, Reason};
use crate::scaling::{Host, Limits};

/// Returns how many of the `threads` on the reader's machine may stay, with `spare` idle cores and a trainer that
/// lacked a core for the share `pressure` of its time. The machine that runs them calls this more often than once a
/// window.
pub fn left(threads: u32, spare: f64, pressure: f64) -> u32 {
    // The last thread may get only a part of a core.
    let is_short = spare < (YIELD * f64::from(threads.saturating_sub(1))).max(NO_CORE);
    let is_pressed = pressure > PRESSURE_MAX;
    match (is_short, is_pressed) {
        (false, false) => threads,
        _ if spare < NO_CORE => 0,
        (_, is_pressed) => (if is_pressed { threads / 2 } else { threads }).min(spare.ceil() as u32),
    }
}

impl Previous {
    /// Forgets the measurements with workers of other types: the rate of five fast workers predicts nothing for five
    /// slow ones.
    pub(super) fn note_unit(&mut self, unit: &[f64]) {
        if unit.iter().sum::<f64>() <= 0.0 {
            return;
        }
        let share = |of: &[f64], kind: usize| of.get(kind).copied().unwrap_or(0.0) / of.iter().sum::<f64>();
        let moved = |kind| (share(unit, kind) - share(&self.unit, kind)).abs();
        let is_known = !self.unit.is_empty();
        let is_other = (0..unit.len()).map(moved).sum::<f64>() > 2.0 * OTHER_UNIT;
        if is_known && is_other {
            (self.tried, self.is_shared) = (None, false);
            self.windows.clear();
        }
        if !is_known || is_other {
            self.unit = unit.to_vec();
        }
    }

    /// Gives cores back if the trainer lacks some. This rule acts on the newest window at once, unlike all others.
    pub(super) fn give_back(&mut self, limits: Limits, wanted: Placement) -> Option<Found> {
        let host = self.windows.host()?;
        let (spare, pressure) = (host.spare, host.pressure);
        let is_pressed = pressure > PRESSURE_MAX && host.cores > 0.0;
        let local = left(wanted.local, spare, pressure);
        let lightest = self.lightest_cut(wanted.cut).filter(|_| is_pressed);
        if local >= wanted.local && lightest.is_none() {
            return None;
        }
        self.cut_only = lightest.map(|cut| (cut, self.windows.room(1))).or(self.cut_only);
        // Without a thread to give back, the limit on threads stays.
        let local = Some(local).filter(|local| *local < wanted.local);
        Some(self.yield_to(limits, local, spare, Reason::Yields { spare, pressure }))
    }

    /// Leaves the reader's machine so many threads, if some are given back, and has workers make the rest.
    pub(super) fn yield_to(&mut self, limits: Limits, local: Option<u32>, spare: f64, reason: Reason) -> Found {
        let count = FEW.min(self.windows.len());
        let figures = Figures { spare, ..self.windows.medians(count) };
        let mut model = self.windows.model(count, self.efficiency);
        model.machine = self.windows.host().and_then(|host| Host { spare, ..host.clone() }.machine());
        (self.local_max, self.based_spare) = (local.or(self.local_max), spare);
        (self.based, self.tried, self.too_few) = ((self.windows.load(count), 1), None, None);
        let target = self.target(limits, &model);
        self.change(limits, target, 0, &figures, reason)
    }

    /// Requests another placement; if the limits leave none, the reason says so.
    pub(super) fn change(
        &mut self,
        limits: Limits,
        to: Target,
        probes: u32,
        figures: &Figures,
        reason: Reason,
    ) -> Found {
        let wanted = Placement { workers: limits.clamp(to.at.workers), ..to.at };
        if self.wanted != Some(wanted) {
            self.windows.clear();
        }
        (self.wanted, self.phase) = (Some(wanted), Phase::Confirming(probes));
        let needed = to.needed.max(to.at.workers);
        let reason = if needed > limits.max { Reason::AtMost { needed, limit: limits.max } } else { reason };
        (reason, Some(*figures))
    }

    /// Settles on the placement, with the load for which it is right.
    pub(super) fn settle(&mut self, figures: &Figures, reason: Reason) -> Found {
        self.phase = Phase::Settled(figures.waited);
        // After a change, the windows with the old placement are gone.
        let load = if self.windows.len() > 0 { self.windows.load(FEW) } else { figures.load() };
        self.based = (load, 1);
        (reason, Some(*figures))
    }
}
