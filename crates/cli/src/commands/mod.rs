//! One file for each command.
//!
//! - `roles/`: commands that run a process of a service until it is stopped
//! - `service/`: commands that show or change a running service
//! - `trials/`: commands that measure and check Forebay on this machine

pub(crate) mod cache;
pub(crate) mod explain;
pub(crate) mod ledger;
pub(crate) mod roles;
pub(crate) mod run;
pub(crate) mod service;
pub(crate) mod token;
pub(crate) mod trials;
pub(crate) mod version;

use std::path::Path;
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_server::{Remote, Service, Up, UpOptions};
use tempfile::TempDir;

use crate::Progress;
use crate::arguments::List;

/// How often a long wait checks for its end.
const LOOK: Duration = Duration::from_millis(50);

/// Ctrl-C ends a command that only sends requests, so its wait has nothing to check.
fn go_on() -> Result<()> {
    Ok(())
}

/// Connects to the service that a command names.
fn connect(list: &List) -> Result<Service> {
    let dispatcher = Remote { address: list.service.clone(), credentials: list.access.credentials()? };
    Service::connect(dispatcher, list.timeout, &mut go_on)
}

/// Creates a folder that is removed when it is dropped, in `dir` or in the folder for temporary files.
fn scratch(prefix: &str, dir: Option<&Path>) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    match dir {
        Some(dir) => builder.tempdir_in(dir).map_err(|e| Error::from(e).with("folder", dir.display())),
        None => builder.tempdir().map_err(|e| {
            Error::from(e)
                .with("folder", std::env::temp_dir().display())
                .hint("set TMPDIR to a folder that can be written to")
        }),
    }
}

/// Starts a service on this machine.
fn start(options: UpOptions) -> Result<Up> {
    let progress = Progress::new("starting a dispatcher and its workers", "");
    Up::start(options, &mut || {
        progress.tick();
        Ok(())
    })
}
