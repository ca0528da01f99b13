//! The measurements from which a policy decides.

use super::{Rent, Tiers};

/// The measurements of one pipeline in one process, in one window.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The rows that a pass reads.
    pub rows: u64,
    /// Remaining passes over them, this one included: see [`passes_to_come`](super::passes_to_come).
    pub passes: f64,
    /// The wall-clock nanoseconds until the next pass, by any job, is made; 0 while unknown.
    pub pass_nanos: f64,
    /// The cost of a row from its source to the end, without cached rows.
    pub compute: f64,
    /// The places where rows may be kept, in the order of the pipeline.
    pub places: Vec<Place>,
    /// Bytes that rows of this pipeline may take in each tier.
    pub room: Tiers<u64>,
    /// The cost of the store; all other room is paid for anyway.
    pub rent: Rent,
    /// Whether the fetch time from others is a guess: they have room, and hardly any read was measured yet.
    pub guessed: bool,
}

/// A place in a pipeline, and the costs and savings of caching its rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The name of the place, for people.
    pub name: String,
    /// Bytes of a row.
    pub bytes: f64,
    /// The cost of a row from its source to here.
    pub before: f64,
    /// The cost of a row from here to the end.
    pub after: f64,
    /// The cost of a lookup of one row in each tier.
    pub found: Tiers<f64>,
    /// The cost of writing one row.
    pub write: f64,
    /// The share of the rows that is cached already, 0 to 1.
    pub kept: f64,
}

impl Observation {
    /// Returns whether every figure can be right.
    pub(crate) fn is_sound(&self) -> bool {
        let time = |x: f64| x.is_finite() && x >= 0.0;
        let place = |p: &Place| {
            let Tiers { memory, disk, peers, store } = p.found;
            [p.bytes, p.before, p.after, p.write, memory, disk, peers, store].into_iter().all(time)
                && (0.0..=1.0).contains(&p.kept)
        };
        let others = [self.compute, self.passes, self.pass_nanos, self.rent.written, self.rent.held];
        self.compute > 0.0 && others.into_iter().all(time) && self.places.iter().all(place)
    }
}
