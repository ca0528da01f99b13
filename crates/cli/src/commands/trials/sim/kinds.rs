//! The results for the workers of each kind.

use forebay_core::Result;
use forebay_policy_lab::simulate::KindOutcome;

use super::Row;
use crate::output;

/// Returns the name of a kind in tables and pictures.
pub(super) fn name(kind: &str, spot: bool) -> String {
    format!("{kind}{}", if spot { " (spot)" } else { "" })
}

/// Prints the kinds of each policy that had several.
pub(super) fn print(rows: &[Row]) -> Result<()> {
    let of = |row: &Row, kind: &KindOutcome| {
        let most = kind.workers.iter().map(|change| change.1).max().unwrap_or(0);
        let hours = kind.worker_s / 3600.0;
        [
            row.policy.clone(),
            name(&kind.kind, kind.spot),
            most.to_string(),
            format!("{hours:.2}"),
            format!("{:.2}", hours * kind.price),
            kind.lost.to_string(),
        ]
    };
    let several = rows.iter().filter(|row| row.kinds.len() > 1);
    let rows: Vec<_> = several.flat_map(|row| row.kinds.iter().map(move |kind| of(row, kind))).collect();
    if rows.is_empty() {
        return Ok(());
    }
    output::line("")?;
    output::table(["POLICY", "KIND", "AT MOST", "WORKER-HOURS", "PRICE", "LOST"], &rows)
}
