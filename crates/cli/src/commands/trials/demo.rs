//! `forebay demo`: a training run in which a worker dies, as a table or as JSON.

use forebay_core::{Error, ErrorKind, Result};

use crate::arguments::Demo;
use crate::host::{DemoOptions, Host};
use crate::output;

pub(crate) fn run(arguments: &Demo, host: &dyn Host) -> Result<()> {
    let folder = crate::commands::scratch("forebay-demo-", arguments.dir.as_deref())?;
    let options =
        DemoOptions { epochs: arguments.epochs, workers: arguments.workers, shards: arguments.shards.clone() };
    let rows = host.demo(&options, folder.path())?;
    if arguments.json {
        output::json(&rows)?;
    } else {
        output::line("")?;
        for row in &rows {
            let verdict = if row.ok { "ok  " } else { "FAIL" };
            output::line(&format!("  {verdict}  {:<28} {:<18} {}", row.name, row.found, row.promised))?;
        }
    }
    match rows.iter().find(|row| !row.ok) {
        Some(row) => Err(Error::new(ErrorKind::Data, format!("failed: {}: {}", row.name, row.found))),
        None => Ok(()),
    }
}
