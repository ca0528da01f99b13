//! `forebay sim --pecan`: Pecan's table, with the published figures beside the simulated ones.

use forebay_core::{Result, VERSION};
use forebay_policy_lab::simulate::{Row, pecan_table};
use serde::Serialize;

use crate::output;

#[derive(Serialize)]
struct Report {
    forebay: &'static str,
    rows: Vec<Row>,
}

pub(super) fn run(json: bool) -> Result<()> {
    let report = Report { forebay: VERSION, rows: pecan_table()? };
    if json {
        return output::json(&report);
    }
    let headings = [
        "WORKLOAD",
        "SYSTEM",
        "WORKERS",
        "LOCAL",
        "EPOCH",
        "$/EPOCH",
        "PUBLISHED",
        "OFF",
        "SETTLED",
        "RUN $/EPOCH",
        "OF PECAN",
    ];
    output::table(headings, &report.rows.iter().map(cells).collect::<Vec<_>>())
}

fn cells(row: &Row) -> [String; 11] {
    let dollars = |(trainer, workers): (f64, f64)| format!("{:.3}", trainer + workers);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        row.workload.to_owned(),
        row.system.to_owned(),
        format!("{:.1}", row.workers),
        format!("{:.1}", row.local),
        format!("{:.0} s", row.epoch_s),
        dollars(row.settled),
        or_none(row.published.map(dollars)),
        or_none(row.off().map(|off| format!("{:+.1} %", 100.0 * off))),
        format!("{:.0} s", row.settled_s),
        format!("{:.3}", row.run),
        format!("{:.2}", row.of_pecan),
    ]
}
