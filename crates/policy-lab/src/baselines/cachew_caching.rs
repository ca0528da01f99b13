//! Cachew's policy (Graur et al., "Cachew: Machine Learning Input Data Processing as a Service", USENIX ATC 2022), as
//! its published code computes it: a baseline.
//!
//! Three modes: compute all, cache rows at one marked place ("source cache"), cache the output of the whole pipeline
//! ("full cache"). It compares totals of one epoch; it does not measure read times, but looks them up in a table of one
//! cluster.

use forebay_policy::caching::{Choice, Decision, Reason};

/// Bytes of a row, and milliseconds to read it: GlusterFS, one reader with eight threads. Linear between the points;
/// beyond them the last two points are extended.
pub const READ_MS: [(f64, f64); 13] = [
    (1e5, 0.00376),
    (1e6, 0.25486),
    (5e6, 5.62686),
    (1e7, 11.94172),
    (1.5e7, 13.67783),
    (2e7, 22.25248),
    (2.5e7, 26.33922),
    (3e7, 30.49620),
    (5e7, 75.09629),
    (7.5e7, 112.79995),
    (1e8, 155.00945),
    (2e8, 306.62446),
    (4e8, 624.65508),
];

/// The profile of at least 300 elements. Elements of the whole pipeline are its outputs: batches, mostly.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Elements that the whole pipeline outputs in an epoch.
    pub elements: f64,
    /// Bytes of one.
    pub bytes: f64,
    /// Milliseconds for one while any thread is in the pipeline.
    pub active_ms: f64,
    /// Milliseconds for one, without waits for the ops before the marked place.
    pub working_ms: f64,
    /// The marked place, if there is one.
    pub marked: Option<Marked>,
}

/// The elements at the marked place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Marked {
    /// Elements in an epoch.
    pub elements: f64,
    /// Bytes of one.
    pub bytes: f64,
}

/// Returns the read time of a row of so many bytes by the table, in milliseconds. Negative below 86,500 bytes, as
/// published.
pub fn read_ms(bytes: f64) -> f64 {
    let after = READ_MS.iter().position(|(size, _)| *size >= bytes).unwrap_or(READ_MS.len() - 1).max(1);
    let ((x0, y0), (x1, y1)) = (READ_MS[after - 1], READ_MS[after]);
    y0 + (bytes - x0) / (x1 - x0) * (y1 - y0)
}

/// Decides once, for ever. Place 0 is the marked one, place 1 the end of the pipeline.
pub fn decide(profile: &Profile) -> Decision {
    let compute = profile.active_ms * profile.elements;
    let full = read_ms(profile.bytes) * profile.elements;
    let source = profile.marked.map_or(f64::INFINITY, |marked| {
        (read_ms(marked.bytes) * marked.elements).max(profile.working_ms * profile.elements)
    });
    // The order decides between equal costs.
    let choice = if source <= full && source <= compute {
        Choice::Keep(0)
    } else if full <= compute {
        Choice::Keep(1)
    } else {
        Choice::Compute
    };
    // Cachew counts no passes.
    Decision { choice, reason: Reason::Rule { policy: "cachew" }, passes: 0.0, costs: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_met_at_its_points_and_goes_on_beyond_them() {
        READ_MS.iter().for_each(|(bytes, ms)| assert!((read_ms(*bytes) - ms).abs() < 1e-9));
        assert!((read_ms(3e8) - (306.62446 + 624.65508) / 2.0).abs() < 1e-9);
        assert!((read_ms(6e8) - (2.0 * 624.65508 - 306.62446)).abs() < 1e-6);
        assert!(read_ms(8e4) < 0.0, "as published");
    }
}
