//! The last windows, and their medians, so that one odd window changes nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use super::thresholds::AHEAD;
use crate::placement::{Cut, Finishing, Model, Objective, Placement, Wire};
use crate::scaling::{Figures, Host, Observation};

/// One window.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    figures: Figures,
    steady: bool,
    host: Option<Host>,
}

/// The newest windows with one placement, up to a given number; the newest last.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Memory {
    windows: VecDeque<Window>,
}

impl Memory {
    pub(super) fn len(&self) -> usize {
        self.windows.len()
    }

    pub(super) fn clear(&mut self) {
        self.windows.clear();
    }

    /// Adds a window; beyond `most`, drops the oldest.
    pub(super) fn push(&mut self, seen: &Observation, figures: Figures, most: usize) {
        if self.windows.len() == most {
            self.windows.pop_front();
        }
        self.windows.push_back(Window { figures, steady: seen.steady, host: seen.host.clone() });
    }

    /// Returns the placement of the newest window.
    pub(super) fn placement(&self) -> Placement {
        self.windows.back().map_or(Placement { workers: 0, local: 0, cut: 1 }, Window::placement)
    }

    /// Returns whether the newest windows all had this placement.
    pub(super) fn are_with(&self, at: Placement, count: usize) -> bool {
        let newest = || self.windows.iter().rev().take(count);
        newest().count() == count && newest().all(|w| w.steady && w.placement() == at)
    }

    /// Returns the reader's machine in the newest window.
    pub(super) fn host(&self) -> Option<&Host> {
        self.windows.back()?.host.as_ref()
    }

    /// Returns the objective to minimise.
    pub(super) fn objective(&self) -> Objective {
        self.host().map(|host| host.objective).unwrap_or_default()
    }

    /// Returns the medians of the newest windows.
    pub(super) fn medians(&self, count: usize) -> Figures {
        let of = |figure: fn(&Figures) -> f64| self.median(count, |w| figure(&w.figures));
        Figures {
            workers: self.windows.back().map_or(0, |w| w.figures.workers),
            demand: of(|f| f.demand),
            beside: of(|f| f.beside),
            supply: of(|f| f.supply),
            compute: of(|f| f.compute),
            waited: of(|f| f.waited),
            delivered: of(|f| f.delivered),
            made: of(|f| f.made),
            local: self.windows.back().map_or(0, |w| w.figures.local),
            spare: of(|f| f.spare),
            pressure: of(|f| f.pressure),
            send: of(|f| f.send),
            receive: of(|f| f.receive),
        }
    }

    /// Returns the spare cores, with the cores that the reader's process used for batches from workers: both could be given
    /// back.
    pub(super) fn room(&self, count: usize) -> f64 {
        self.median(count, |w| w.figures.spare + w.host.as_ref().map_or(0.0, |host| host.finishes))
    }

    /// Returns the batches a second that came from workers.
    pub(super) fn remote(&self, count: usize) -> f64 {
        self.median(count, |w| (w.figures.delivered - w.host.as_ref().map_or(0.0, |host| host.here)).max(0.0))
    }

    /// Returns the batches a second of workers: the batches that came from them or, if these are far more, the batches
    /// that they made. One worker makes each split, so a reader may wait for one while others make the splits behind it.
    pub(super) fn brought(&self, count: usize) -> f64 {
        let (made, remote) = (self.made(count), self.remote(count));
        if made > AHEAD * remote { made } else { remote }
    }

    /// Returns the batches a second that workers made in the newest windows, if the trainer waits although they make at
    /// least its demand. The splits ahead of a reader are bounded, so that state ends: the split comes through, or
    /// workers make no more than the trainer takes.
    pub(super) fn ahead(&self, count: usize) -> Option<f64> {
        let (figures, made, remote) = (self.medians(count), self.made(count), self.remote(count));
        let wanted = figures.demand - (figures.delivered - remote);
        (made > AHEAD * remote && made >= wanted).then_some(made)
    }

    /// Returns the mean, because workers report finished batches more than once in a window, or less.
    fn made(&self, count: usize) -> f64 {
        let newest = || self.windows.iter().rev().take(count);
        newest().map(|w| w.figures.made).sum::<f64>() / newest().count().max(1) as f64
    }

    /// Returns the number of workers that would compute all the time, if nothing were computed elsewhere, by the
    /// medians.
    pub(super) fn load(&self, count: usize) -> f64 {
        let figures = self.medians(count);
        match self.host() {
            None => figures.load(),
            Some(_) => figures.demand * self.median(count, Window::whole) / (figures.supply * figures.compute),
        }
    }

    /// Returns the load of the newest window.
    pub(super) fn newest_load(&self) -> f64 {
        self.windows.back().map_or(0.0, Window::load)
    }

    /// Returns the mean load of all windows.
    pub(super) fn mean_load(&self) -> f64 {
        self.windows.iter().map(Window::load).sum::<f64>() / self.windows.len().max(1) as f64
    }

    /// Returns the model of the job from the newest windows. Without a reader's machine, it has one op and workers
    /// alone.
    pub(super) fn model(&self, count: usize, efficiency: f64) -> Model {
        let figures = self.medians(count);
        let (step, threads) = (1.0 / figures.demand, figures.supply * figures.compute);
        let plain = |cuts| {
            let (wire, finishing) = (Wire::default(), Finishing::default());
            Model { step, cuts, wire, threads, efficiency, shared_limit: None, machine: None, finishing }
        };
        let Some(host) = self.host() else {
            return plain(Arc::from([Cut { before: figures.compute, after: 0.0, bytes: 0.0 }]));
        };
        let of = |place: usize, figure: fn(&Cut) -> f64| {
            let cut = |w: &Window| w.host.as_ref().and_then(|host| host.cuts.get(place)).map_or(0.0, figure);
            self.median(count, cut)
        };
        let cuts = (0..host.cuts.len()).map(|i| Cut {
            before: of(i, |cut| cut.before),
            after: of(i, |cut| cut.after),
            bytes: of(i, |cut| cut.bytes),
        });
        let finishes = self.median(count, |w| w.host.as_ref().map_or(0.0, |host| host.finishes));
        let host = Host { spare: figures.spare, pressure: figures.pressure, finishes, ..host.clone() };
        let (step, machine) = (step * host.freely(), host.machine());
        Model { step, wire: host.wire, machine, finishing: host.finishing, ..plain(cuts.collect()) }
    }

    fn median(&self, count: usize, of: impl Fn(&Window) -> f64) -> f64 {
        let mut figures: Vec<_> = self.windows.iter().rev().take(count).map(of).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or_default()
    }
}

impl Window {
    fn placement(&self) -> Placement {
        let cut = self.host.as_ref().map_or(1, |host| host.cut);
        Placement { workers: self.figures.workers, local: self.figures.local, cut }
    }

    /// Returns the seconds of one thread for all ops of a batch.
    fn whole(&self) -> f64 {
        self.host.as_ref().and_then(|host| host.cuts.last()).map_or(self.figures.compute, |cut| cut.before + cut.after)
    }

    fn load(&self) -> f64 {
        match self.host {
            None => self.figures.load(),
            Some(_) => self.figures.demand * self.whole() / (self.figures.supply * self.figures.compute),
        }
    }
}
