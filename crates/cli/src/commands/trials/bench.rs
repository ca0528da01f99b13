//! `forebay bench`: measures this machine, and prints a table or JSON with all details.

#![expect(clippy::disallowed_methods, reason = "the command polls for Ctrl-C while it measures")]

use std::collections::BTreeMap;

use forebay_core::{Error, Result, VERSION};
use forebay_server::measure_grants;
use serde::Serialize;

use crate::arguments::Bench;
use crate::host::{BenchSizes, Figure, Host};
use crate::machine::Machine;
use crate::{Progress, output};

/// The rivals, measured if they are installed: the columns of the table.
const RIVALS: [&str; 2] = ["tensorflow", "torch"];

#[derive(Serialize)]
struct Report {
    forebay: &'static str,
    command: String,
    machine: Machine,
    /// `null` if it is not installed.
    versions: BTreeMap<String, Option<String>>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Bench, host: &dyn Host) -> Result<()> {
    let folder = crate::commands::scratch("forebay-bench-", arguments.dir.as_deref())?;
    let sizes = BenchSizes {
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        images: arguments.images,
        records: arguments.records,
    };
    // Granting first: processes that the other measurements leave for a moment would slow it down.
    let grants = grants(arguments.splits, &folder.path().join("dispatcher"))?;
    let benched = host.bench(&sizes, folder.path())?;
    let report = Report {
        forebay: VERSION,
        command: format!(
            "forebay bench --seconds {} --rounds {} --images {} --records {} --splits {}",
            sizes.seconds, sizes.rounds, sizes.images, sizes.records, arguments.splits
        ),
        machine: Machine::this(),
        versions: benched.versions,
        figures: benched.figures.into_iter().chain(grants).collect(),
        notes: benched.notes,
    };
    if arguments.json { output::json(&report) } else { print(&report) }
}

fn grants(splits: u64, dir: &std::path::Path) -> Result<[Figure; 2]> {
    let progress = Progress::new("granting splits", "");
    let found = std::thread::scope(|scope| {
        let work = scope.spawn(|| measure_grants(dir, splits));
        while !work.is_finished() {
            progress.tick();
            std::thread::sleep(crate::commands::LOOK);
        }
        work.join()
    });
    let found = found.map_err(|_| Error::internal("measuring grants panicked"))??;
    let rate = found.splits as f64 / found.granting.as_secs_f64();
    let restart = 1e3 * found.restart.as_secs_f64();
    Ok([
        Figure::new("dispatcher: durable grants", "splits/s", rate),
        Figure::new(&format!("dispatcher: restart after {splits} grants"), "ms", restart),
    ])
}

fn print(report: &Report) -> Result<()> {
    let of = |name: &str| report.versions.get(name).and_then(Option::as_deref).unwrap_or("not installed");
    let row = |figure: &Figure| {
        let beside = RIVALS.map(|rival| match figure.beside.get(rival) {
            Some(theirs) => format!("{} ({:.2}x)", number(theirs.value), theirs.ratio),
            None => "-".to_owned(),
        });
        let [tensorflow, torch] = beside;
        [figure.name.clone(), figure.unit.clone(), number(figure.value), tensorflow, torch]
    };
    output::line(&report.machine.to_string())?;
    let versions = report.versions.keys().map(|name| format!("{name} {}", of(name)));
    output::line(&versions.fold(format!("forebay {}", report.forebay), |all, one| format!("{all}, {one}")))?;
    output::line(&format!("{}\n", report.command))?;
    let rows: Vec<_> = report.figures.iter().map(row).collect();
    output::table(["FIGURE", "UNIT", "FOREBAY", "TENSORFLOW", "TORCH"], &rows)?;
    output::line("\nIn brackets: how many times better Forebay is. Compare figures of one run only.")?;
    report.notes.iter().try_for_each(|note| output::line(note))
}

/// Returns a number with three significant digits, and thousands separated.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|g| String::from_utf8_lossy(g).into_owned()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        assert_eq!(
            [0.123, 99.94, 100.0, 1234.5, 25_900_000.0].map(number),
            ["0.1", "99.9", "100", "1,234", "25,900,000"]
        );
    }
}
