//! `forebay ledger`

use forebay_core::Result;
use forebay_server::{LedgerReport, Repaired, check_ledger, dump_ledger, keep_private, repair_ledger};

use crate::arguments::{Ledger, LedgerAction};
use crate::output;

pub(crate) fn run(arguments: &Ledger) -> Result<()> {
    // A rewritten ledger, and the copies for inspection, contain the keys of jobs.
    keep_private();
    match arguments.action {
        LedgerAction::Check => {
            let report = check_ledger(&arguments.path)?;
            if arguments.json { output::json(&report) } else { output::line(&format!("whole: {}", describe(&report))) }
        }
        LedgerAction::Dump => output::line(dump_ledger(&arguments.path)?.trim_end()),
        LedgerAction::Repair => {
            let repaired = repair_ledger(&arguments.path)?;
            if arguments.json { output::json(&repaired) } else { tell(&repaired) }
        }
    }
}

fn tell(repaired: &Repaired) -> Result<()> {
    let Some(kept) = &repaired.kept else {
        return output::line(&format!("there is nothing to repair: {}", describe(&repaired.ledger)));
    };
    if repaired.dropped.is_empty() {
        output::line("nothing was lost")?;
    }
    for what in &repaired.dropped {
        output::line(&format!("dropped: {what}"))?;
    }
    output::line(&format!("kept: {}", describe(&repaired.ledger)))?;
    output::line(&format!("the old file is {}", kept.display()))
}

fn describe(report: &LedgerReport) -> String {
    let LedgerReport { file, jobs, frontiers, grants, lost, learned, next_token } = report;
    format!(
        "{}: {jobs} jobs, {frontiers} frontiers of consumers, {grants} leases, {lost} skipped samples, {learned} dataset profiles, next token {next_token}",
        file.display()
    )
}
