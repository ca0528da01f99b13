//! What a row costs, on average over the passes to come, when one place is kept: arithmetic.

use serde::{Serialize, Serializer};

use super::{Observation, Place, Tiers};

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
    /// The share of the rows that fits into memory; of those that do not, what fits on disk, and so on.
    #[serde(flatten, serialize_with = "shares")]
    pub share: Tiers<f64>,
}

fn shares<S: Serializer>(share: &Tiers<f64>, to: S) -> Result<S::Ok, S::Error> {
    let Tiers { memory, disk, peers, store } = *share;
    let names = ["memory_share", "disk_share", "peers_share", "store_share"];
    to.collect_map(names.into_iter().zip([memory, disk, peers, store]))
}

impl Cost {
    /// Returns what nothing kept costs.
    pub(crate) fn computed(seen: &Observation) -> Self {
        Self { name: String::new(), nanos: seen.compute, bytes: 0.0, share: Tiers::default() }
    }

    /// Returns what keeping a place costs.
    pub(crate) fn kept(seen: &Observation, place: &Place) -> Self {
        let all = (seen.rows as f64 * place.bytes).max(1.0);
        let mut left = 1.0;
        let share = seen.room.map(|room| {
            let fits = (room as f64 / all).min(left);
            left -= fits;
            fits
        });
        let kept = share.sum();
        // What there is no room for is computed as if nothing were kept.
        let around = place.before.min((seen.compute - place.after).max(0.0));
        // What is dearer to fetch from others than to compute is computed, too.
        let Tiers { peers, store, .. } = place.found;
        let found = share.times(Tiers { peers: peers.min(around), store: store.min(around), ..place.found });
        // What is not there yet is computed once, and what of it fits is written.
        let missing = (kept - place.kept.min(kept)).max(0.0);
        let average = if kept > 0.0 { found / kept } else { 0.0 };
        let filling = missing * (place.before + place.write - average);
        let passes = seen.passes.unwrap_or(PASSES_UNKNOWN).max(1.0);
        let storage = seen.storage * place.bytes * kept;
        let nanos = found + (1.0 - kept) * around + filling / passes + place.after + storage;
        Self { name: place.name.clone(), nanos, bytes: place.bytes, share }
    }
}

impl Observation {
    /// Says whether every figure can be right.
    pub(crate) fn is_sound(&self) -> bool {
        let time = |x: f64| x.is_finite() && x >= 0.0;
        let place = |p: &Place| {
            let Tiers { memory, disk, peers, store } = p.found;
            [p.bytes, p.before, p.after, p.write, memory, disk, peers, store].into_iter().all(time)
                && (0.0..=1.0).contains(&p.kept)
        };
        self.compute.is_finite()
            && self.compute > 0.0
            && time(self.storage)
            && self.passes.is_none_or(time)
            && self.places.iter().all(place)
    }
}
