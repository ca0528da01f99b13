//! `forebay bench`: what this machine does, as a table for people or as JSON with all that is needed to read it.

use std::collections::BTreeMap;

use forebay_core::{Error, Result, VERSION};
use forebay_server::measure_grants;
use serde::Serialize;

use crate::arguments::Bench;
use crate::host::{BenchSizes, Figure, Host};
use crate::{Progress, output};

/// Who runs beside us, where it is installed: the columns of the table.
const RIVALS: [&str; 2] = ["tensorflow", "torch"];

#[derive(Serialize)]
struct Report {
    forebay: &'static str,
    command: String,
    machine: Machine,
    /// `null` is not installed.
    versions: BTreeMap<String, Option<String>>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Machine {
    processor: String,
    architecture: &'static str,
    cores: usize,
    memory_bytes: u64,
    system: String,
}

pub(crate) fn run(arguments: &Bench, host: &dyn Host) -> Result<()> {
    let folder = match &arguments.dir {
        Some(dir) => tempfile::Builder::new().prefix("forebay-bench-").tempdir_in(dir),
        None => tempfile::Builder::new().prefix("forebay-bench-").tempdir(),
    };
    let folder = folder.map_err(|e| match &arguments.dir {
        Some(dir) => Error::from(e).with("folder", dir.display()),
        None => e.into(),
    })?;
    let sizes = BenchSizes {
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        images: arguments.images,
        records: arguments.records,
    };
    // Granting first: processes that the rest leaves behind for a moment would slow it down.
    let grants = grants(arguments.splits, &folder.path().join("dispatcher"))?;
    let benched = host.bench(&sizes, folder.path())?;
    let report = Report {
        forebay: VERSION,
        command: format!(
            "forebay bench --seconds {} --rounds {} --images {} --records {} --splits {}",
            sizes.seconds, sizes.rounds, sizes.images, sizes.records, arguments.splits
        ),
        machine: machine(),
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
            std::thread::sleep(super::LOOK);
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
    output::line(&format!("{}, {} cores, {}", report.machine.processor, report.machine.cores, report.machine.system))?;
    let versions = report.versions.keys().map(|name| format!("{name} {}", of(name)));
    output::line(&versions.fold(format!("forebay {}", report.forebay), |all, one| format!("{all}, {one}")))?;
    output::line(&format!("{}\n", report.command))?;
    let rows: Vec<_> = report.figures.iter().map(row).collect();
    output::table(["FIGURE", "UNIT", "FOREBAY", "TENSORFLOW", "TORCH"], &rows)?;
    output::line("\nIn brackets: how many times as good as that is Forebay. Quote ratios of one run.")?;
    report.notes.iter().try_for_each(|note| output::line(note))
}

/// Three digits that mean something, and thousands apart.
fn number(value: f64) -> String {
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(|g| String::from_utf8_lossy(g).into_owned()).collect();
    groups.join(",")
}

fn machine() -> Machine {
    let field = |file: &str, name: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|l| l.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let kilobytes = field("/proc/meminfo", "MemTotal").and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok());
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        architecture: std::env::consts::ARCH,
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: kilobytes.unwrap_or(0) << 10,
        system: format!("{} {}", std::env::consts::OS, kernel.trim()),
    }
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
