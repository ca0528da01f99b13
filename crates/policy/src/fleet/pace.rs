//! The pace of threads of one type relative to another: measured if both worked for one job in one window.

/// The weight of one window.
const NEWEST: f64 = 0.2;
/// The bounds of a pace.
const PACE_MIN: f64 = 0.25;
const PACE_MAX: f64 = 4.0;
/// Fewer seconds of a thread than this are no measurement.
const SECONDS_FEW: f64 = 0.1;

/// The work of one type for a job in a window.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Worked {
    /// The index of the type.
    pub kind: usize,
    /// Rows computed.
    pub rows: f64,
    /// Seconds of a thread spent on them.
    pub seconds: f64,
}

/// Moves the paces by one window of one job. A window with one type alone shows nothing, because its rows may have
/// become more expensive.
pub fn learn(paces: &mut [f64], window: &[Worked]) {
    let told = |w: &&Worked| w.kind < paces.len() && w.rows >= 1.0 && w.seconds >= SECONDS_FEW;
    let told: Vec<Worked> = window.iter().filter(told).copied().collect();
    if told.len() < 2 {
        return;
    }
    // The time of a row on a thread of pace 1, if the paces were right.
    let work: f64 = told.iter().map(|w| w.seconds).sum();
    let expected: f64 = told.iter().map(|w| w.rows / paces[w.kind]).sum();
    let row = work / expected;
    for w in told {
        let pace = &mut paces[w.kind];
        let seen = w.rows * row / w.seconds;
        *pace = (*pace * (seen / *pace).powf(NEWEST)).clamp(PACE_MIN, PACE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worked(kind: usize, rows: f64, seconds: f64) -> Worked {
        Worked { kind, rows, seconds }
    }

    #[test]
    fn the_faster_kind_is_found_for_any_division_of_work_and_any_cost_of_rows() {
        let mut paces = [1.0; 3];
        for window in 0..60 {
            let row = 1.0 + f64::from(window % 5);
            let (few, many) = (10.0, 1000.0);
            let rows = if window % 2 == 0 { [few, many] } else { [many, few] };
            learn(&mut paces, &[worked(0, rows[0], rows[0] * row), worked(2, rows[1], rows[1] * row / 2.0)]);
        }
        assert!((paces[2] / paces[0] - 2.0).abs() < 0.02, "{paces:?}");
        assert_eq!(paces[1], 1.0);
    }

    #[test]
    fn one_kind_alone_and_what_says_nothing_change_nothing() {
        let mut paces = [1.0, 2.0];
        for window in [
            vec![worked(0, 10.0, 99.0)],
            vec![worked(0, 10.0, 99.0), worked(1, 0.0, 5.0)],
            vec![worked(0, 10.0, 99.0), worked(1, 5.0, 0.01)],
            vec![worked(0, 10.0, 99.0), worked(7, 5.0, 1.0)],
        ] {
            learn(&mut paces, &window);
        }
        assert_eq!(paces, [1.0, 2.0]);
        (0..200).for_each(|_| learn(&mut paces, &[worked(0, 1.0, 100.0), worked(1, 1e9, 1.0)]));
        assert_eq!(paces, [PACE_MIN, PACE_MAX]);
    }
}
