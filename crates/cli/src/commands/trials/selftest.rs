//! `forebay selftest`: checks Forebay's guarantees on this machine, and prints a table or JSON.

use std::collections::BTreeMap;

use forebay_core::{Error, Result, VERSION};
use serde::Serialize;

use crate::arguments::{Faults, Selftest, SelftestOf};
use crate::host::{FaultRow, FaultsOptions, Host};
use crate::machine::Machine;
use crate::output;

const HEADINGS: [&str; 15] = [
    "SCENARIO",
    "DATA",
    "WORKERS",
    "FAULT",
    "WHERE",
    "SAMPLES",
    "ONCE",
    "BYTES",
    "ORDER",
    "WAIT",
    "WITH FAULT",
    "RESUMED",
    "TWICE",
    "LEFT",
    "VERDICT",
];
const LEGEND: &str = "\
SAMPLES: how many arrived; each ONCE in every epoch, with the expected BYTES, in the expected ORDER. WAIT: the consumer's
longest wait without a fault, and WITH FAULT from the fault on, in ms. RESUMED: ms from the last restart to the end of that
wait. TWICE: recomputed splits, of those in flight or late. LEFT: processes, memory, sockets, files and leases left behind.";

#[derive(Serialize)]
struct Report {
    forebay: &'static str,
    command: String,
    machine: Machine,
    versions: BTreeMap<String, String>,
    runs: Vec<FaultRow>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Selftest, host: &dyn Host) -> Result<()> {
    let SelftestOf::Faults(arguments) = &arguments.what;
    let folder = crate::commands::scratch("forebay-selftest-", arguments.dir.as_deref())?;
    let options = FaultsOptions {
        quick: arguments.quick,
        scenarios: arguments.scenario.clone(),
        workers: arguments.workers.clone(),
        samples: arguments.samples.unwrap_or(0),
        seed: arguments.seed,
        timing: !arguments.no_timing,
    };
    let found = host.faults(&options, folder.path())?;
    let report = Report {
        forebay: VERSION,
        command: command(arguments),
        machine: Machine::this(),
        versions: found.versions,
        runs: found.rows,
        notes: found.notes,
    };
    if arguments.json {
        output::json(&report)?
    } else {
        print(&report)?
    }
    verdict(&report.runs)
}

fn command(arguments: &Faults) -> String {
    let flags = [(arguments.quick, " --quick"), (arguments.no_timing, " --no-timing")];
    let flags = flags.iter().filter(|(on, _)| *on).map(|(_, flag)| (*flag).to_owned());
    let scenarios = arguments.scenario.iter().map(|name| format!(" --scenario {name}"));
    let workers = arguments.workers.iter().map(|n| format!(" --workers {n}"));
    let samples = arguments.samples.iter().map(|n| format!(" --samples {n}"));
    let all: String = flags.chain(scenarios).chain(workers).chain(samples).collect();
    format!("forebay selftest faults{all} --seed {}", arguments.seed)
}

fn print(report: &Report) -> Result<()> {
    output::line(&report.machine.to_string())?;
    let versions = report.versions.iter().map(|(name, version)| format!("{name} {version}"));
    output::line(&versions.fold(format!("forebay {}", report.forebay), |all, one| format!("{all}, {one}")))?;
    output::line(&format!("{}\n", report.command))?;
    output::table(HEADINGS, &report.runs.iter().map(cells).collect::<Vec<_>>())?;
    output::line(&format!("\n{LEGEND}"))?;
    report.notes.iter().try_for_each(|note| output::line(note))?;
    for run in &report.runs {
        for problem in &run.problems {
            output::line(&format!("RED: {}: {problem}", name(run)))?;
        }
    }
    Ok(())
}

fn cells(run: &FaultRow) -> [String; 15] {
    if run.workers == 0 {
        let mut cells = [(); 15].map(|()| "-".to_owned());
        (cells[0], cells[3], cells[14]) = (run.scenario.clone(), run.fault.clone(), run.verdict.clone());
        return cells;
    }
    let yes = |good: bool| if good { "yes" } else { "NO" }.to_owned();
    let ms = |time: Option<f64>| time.map_or("-".to_owned(), |t| format!("{t:.0}"));
    let place = if run.place.is_empty() { "-" } else { &run.place };
    [
        run.scenario.clone(),
        run.data.clone(),
        run.workers.to_string(),
        run.fault.clone(),
        place.to_owned(),
        run.samples.to_string(),
        yes(run.each_once),
        yes(run.bytes),
        yes(run.order),
        ms(run.calm_ms),
        ms(run.longest_ms),
        ms(run.resumed_ms),
        format!("{} of {}", run.again, run.again_max),
        run.left.len().to_string(),
        run.verdict.clone(),
    ]
}

fn name(run: &FaultRow) -> String {
    let place = if run.place.is_empty() { String::new() } else { format!(", {}", run.place) };
    format!("{} ({}, {} workers{place})", run.scenario, run.data, run.workers)
}

/// A promise that is not kept is an error: exit code 1.
fn verdict(runs: &[FaultRow]) -> Result<()> {
    let red: Vec<_> = runs.iter().filter(|run| !run.problems.is_empty()).collect();
    let Some(first) = red.first() else { return Ok(()) };
    let what = first.problems.first().map_or("", String::as_str);
    Err(Error::internal(format!("{} of {} runs failed; {}: {what}", red.len(), runs.len(), name(first))))
}
