//! The cost of a row, averaged over the remaining passes, when the rows of one place are cached.

use serde::{Serialize, Serializer};

use super::{Observation, Place, Tiers};

/// The cost of a choice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The name of the place, for people; empty if no rows are cached.
    pub name: String,
    /// Nanoseconds of one thread for a row, averaged over the remaining passes.
    pub nanos: f64,
    /// The part of `nanos` that computes and writes missing rows once, beyond the lookup.
    pub filling: f64,
    /// The part of `nanos` that pays for the store; 0 if rows are not stored.
    pub rent: f64,
    /// Whether rows are written to the store, if there is one; false if that costs more than it saves.
    pub stores: bool,
    /// Bytes of a row.
    pub bytes: f64,
    /// The share of the rows that fits into memory; the share of the others that fits on disk, and so on.
    #[serde(flatten, serialize_with = "shares")]
    pub share: Tiers<f64>,
}

fn shares<S: Serializer>(share: &Tiers<f64>, to: S) -> Result<S::Ok, S::Error> {
    let Tiers { memory, disk, peers, store } = *share;
    let names = ["memory_share", "disk_share", "peers_share", "store_share"];
    to.collect_map(names.into_iter().zip([memory, disk, peers, store]))
}

impl Cost {
    /// Returns the cost without cached rows.
    pub(crate) fn computed(seen: &Observation) -> Self {
        let (name, share) = (String::new(), Tiers::default());
        Self { name, nanos: seen.compute, filling: 0.0, rent: 0.0, stores: false, bytes: 0.0, share }
    }

    /// Returns the cost of caching a place: if the store is paid for, the lower cost of with and without it.
    pub(crate) fn kept(seen: &Observation, place: &Place) -> Self {
        let stored = Self::with(seen, place, seen.room, true);
        if seen.rent.is_free() {
            return stored;
        }
        let without = Self::with(seen, place, Tiers { store: 0, ..seen.room }, false);
        if without.nanos < stored.nanos { without } else { stored }
    }

    fn with(seen: &Observation, place: &Place, room: Tiers<u64>, stores: bool) -> Self {
        let all = (seen.rows as f64 * place.bytes).max(1.0);
        let mut left = 1.0;
        let share = room.map(|room| {
            let fits = (room as f64 / all).min(left);
            left -= fits;
            fits
        });
        let kept = share.sum();
        // Rows without room are computed as if no rows were cached.
        let around = place.before.min((seen.compute - place.after).max(0.0));
        // A row whose fetch from others costs more than computing is computed, too.
        let Tiers { peers, store, .. } = place.found;
        let found = share.times(Tiers { peers: peers.min(around), store: store.min(around), ..place.found });
        // Missing rows are computed once, and those with room are written.
        let missing = (kept - place.kept.min(kept)).max(0.0);
        let average = if kept > 0.0 { found / kept } else { 0.0 };
        let passes = seen.passes.max(1.0);
        let filling = missing * (place.before + place.write - average) / passes;
        // Every computed row goes to the store, also a row that a nearer tier has.
        let stored = (room.store as f64 / all).min(1.0);
        let written = stored * (1.0 - place.kept) * seen.rent.written / passes;
        let rent = place.bytes * (written + stored * seen.rent.held * seen.pass_nanos);
        let nanos = found + (1.0 - kept) * around + filling + place.after + rent;
        Self { name: place.name.clone(), nanos, filling, rent, stores, bytes: place.bytes, share }
    }
}
