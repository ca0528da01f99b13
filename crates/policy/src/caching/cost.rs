//! What a row costs, on average over the passes to come, when one place is kept: arithmetic.

use serde::Serialize;

use super::{Observation, Place};

/// Passes that are to come where nobody knows: a training run reads its data more often than it is told here.
pub const PASSES_UNKNOWN: f64 = 10.0;

/// What a choice costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// What is kept, for people; empty where nothing is.
    pub name: String,
    /// Nanoseconds of one thread for a row, on average over the passes to come.
    pub nanos: f64,
    /// Bytes of a row.
    pub bytes: f64,
    /// The share of the rows that fits into memory, and on disk.
    pub memory_share: f64,
    /// See `memory_share`.
    pub disk_share: f64,
}

impl Cost {
    /// Returns what nothing kept costs.
    pub(crate) fn computed(seen: &Observation) -> Self {
        Self { name: String::new(), nanos: seen.compute, bytes: 0.0, memory_share: 0.0, disk_share: 0.0 }
    }

    /// Returns what keeping a place costs.
    pub(crate) fn kept(seen: &Observation, place: &Place) -> Self {
        let all = (seen.rows as f64 * place.bytes).max(1.0);
        let in_memory = (seen.memory as f64 / all).min(1.0);
        let on_disk = (seen.disk as f64 / all).min(1.0 - in_memory);
        let kept = in_memory + on_disk;
        // What there is no room for is computed as if nothing were kept.
        let around = place.before.min((seen.compute - place.after).max(0.0));
        let found = in_memory * place.memory + on_disk * place.disk + (1.0 - kept) * around;
        // What is not there yet is computed once, and what of it fits is written.
        let missing = (kept - place.kept.min(kept)).max(0.0);
        let filled = in_memory * place.memory + on_disk * place.disk;
        let average = if kept > 0.0 { filled / kept } else { 0.0 };
        let filling = missing * (place.before + place.write - average);
        let passes = seen.passes.unwrap_or(PASSES_UNKNOWN).max(1.0);
        let storage = seen.storage * place.bytes * kept;
        let nanos = found + filling / passes + place.after + storage;
        Self { name: place.name.clone(), nanos, bytes: place.bytes, memory_share: in_memory, disk_share: on_disk }
    }
}

impl Observation {
    /// Says whether every figure can be right.
    pub(crate) fn is_sound(&self) -> bool {
        let time = |x: f64| x.is_finite() && x >= 0.0;
        let place = |p: &Place| {
            [p.bytes, p.before, p.after, p.memory, p.disk, p.write].into_iter().all(time)
                && (0.0..=1.0).contains(&p.kept)
        };
        self.compute.is_finite()
            && self.compute > 0.0
            && time(self.storage)
            && self.passes.is_none_or(time)
            && self.places.iter().all(place)
    }
}
