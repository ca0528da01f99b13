//! Workers over time, in text: a line of blocks for each policy, or for each kind.

use forebay_policy_lab::simulate::Outcome;

use super::{clock, kinds};

/// Columns of a line.
const COLUMNS: u32 = 64;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Workers over time.
pub(super) struct Series<'a> {
    pub(super) name: String,
    pub(super) ended_s: f64,
    /// (seconds, workers): the number from this time on.
    workers: &'a [(f64, u32)],
}

/// Returns the series of each policy: all workers, or with several kinds the workers of each kind, without the
/// simulations of single kinds.
pub(super) fn series(outcomes: &[Outcome]) -> Vec<Series<'_>> {
    let mixed: Vec<_> = outcomes.iter().filter(|outcome| outcome.kinds.len() > 1).collect();
    match mixed.as_slice() {
        [] => outcomes.iter().map(all).collect(),
        [one] => by_kind(one, ""),
        _ => mixed.into_iter().flat_map(|outcome| by_kind(outcome, &format!("{}, ", outcome.policy))).collect(),
    }
}

fn all(outcome: &Outcome) -> Series<'_> {
    Series { name: outcome.policy.clone(), ended_s: outcome.ended_s, workers: &outcome.workers }
}

fn by_kind<'a>(outcome: &'a Outcome, of: &str) -> Vec<Series<'a>> {
    let mut series = Vec::new();
    for kind in &outcome.kinds {
        let name = format!("{of}{}", kinds::name(&kind.kind, kind.spot));
        series.push(Series { name, ended_s: outcome.ended_s, workers: &kind.workers });
    }
    series
}

/// Returns the lines. All have the same scales; a column has the workers at its middle.
pub(super) fn lines(series: &[Series<'_>]) -> Vec<String> {
    let (end, most) = extent(series);
    let width = series.iter().map(|s| s.name.len()).max().unwrap_or(0);
    let line = |series: &Series<'_>| {
        let at = |column: u32| (f64::from(column) + 0.5) * end / f64::from(COLUMNS);
        let block = |workers: u32| match workers {
            0 => ' ',
            n => BLOCKS[(n * 8).div_ceil(most).clamp(1, 8) as usize - 1],
        };
        let blocks: String = (0..COLUMNS).map(|column| block(series.at(at(column)))).collect();
        format!("{:width$}  {blocks}", series.name)
    };
    let scale = format!("{:width$}  0 to {most} workers, {}", "", clock(end));
    series.iter().map(line).chain([scale]).collect()
}

/// Returns the end of the longest series, and the most workers of any.
pub(super) fn extent(series: &[Series<'_>]) -> (f64, u32) {
    let end = series.iter().map(|series| series.ended_s).fold(0.0, f64::max);
    (end, series.iter().flat_map(|series| series.workers.iter().map(|w| w.1)).max().unwrap_or(0).max(1))
}

impl Series<'_> {
    pub(super) fn changes(&self) -> &[(f64, u32)] {
        self.workers
    }

    fn at(&self, at: f64) -> u32 {
        let before = self.workers.partition_point(|(begins, _)| *begins <= at);
        if at > self.ended_s || before == 0 { 0 } else { self.workers[before - 1].1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_workers_of_its_policy() {
        let series = |name: &str, ended_s: f64, workers| Series { name: name.to_owned(), ended_s, workers };
        let both =
            [series("forebay", 64.0, &[(0.0, 1), (32.0, 8)][..]), series("hpa", 16.0, &[(0.0, 4), (16.0, 0)][..])];
        let rows = [
            format!("forebay  {}{}", "▁".repeat(32), "█".repeat(32)),
            format!("hpa      {}{}", "▄".repeat(16), " ".repeat(48)),
            "         0 to 8 workers, 0:01:04".to_owned(),
        ];
        assert_eq!(lines(&both), rows);
    }
}
