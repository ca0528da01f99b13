//! Workers over time, in text: a line of blocks for each policy.

use forebay_policy::simulate::Outcome;

use super::clock;

/// Columns of a line.
const COLUMNS: u32 = 64;
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the lines. All have the same scales; a column has the workers at its middle.
pub(super) fn lines(outcomes: &[Outcome]) -> Vec<String> {
    let (end, most) = extent(outcomes);
    let width = outcomes.iter().map(|o| o.policy.len()).max().unwrap_or(0);
    let line = |outcome: &Outcome| {
        let at = |column: u32| (f64::from(column) + 0.5) * end / f64::from(COLUMNS);
        let block = |workers: u32| match workers {
            0 => ' ',
            n => BLOCKS[(n * 8).div_ceil(most).clamp(1, 8) as usize - 1],
        };
        let blocks: String = (0..COLUMNS).map(|column| block(workers_at(outcome, at(column)))).collect();
        format!("{:width$}  {blocks}", outcome.policy)
    };
    let scale = format!("{:width$}  0 to {most} workers, {}", "", clock(end));
    outcomes.iter().map(line).chain([scale]).collect()
}

/// Returns when the last of them ended, and the most workers that any had.
pub(super) fn extent(outcomes: &[Outcome]) -> (f64, u32) {
    let end = outcomes.iter().map(|outcome| outcome.ended_s).fold(0.0, f64::max);
    (end, outcomes.iter().flat_map(|outcome| outcome.workers.iter().map(|w| w.1)).max().unwrap_or(0).max(1))
}

fn workers_at(outcome: &Outcome, at: f64) -> u32 {
    let before = outcome.workers.partition_point(|(begins, _)| *begins <= at);
    if at > outcome.ended_s || before == 0 { 0 } else { outcome.workers[before - 1].1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_workers_of_its_policy() {
        let outcome = |policy: &str, ended_s: f64, workers: Vec<(f64, u32)>| Outcome {
            policy: policy.to_owned(),
            ended_s,
            worker_s: 0.0,
            lost: 0,
            workers,
            jobs: Vec::new(),
        };
        let outcomes =
            [outcome("forebay", 64.0, vec![(0.0, 1), (32.0, 8)]), outcome("hpa", 16.0, vec![(0.0, 4), (16.0, 0)])];
        let rows = [
            format!("forebay  {}{}", "▁".repeat(32), "█".repeat(32)),
            format!("hpa      {}{}", "▄".repeat(16), " ".repeat(48)),
            "         0 to 8 workers, 0:01:04".to_owned(),
        ];
        assert_eq!(lines(&outcomes), rows);
    }
}
