//! `forebay mount`

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_mount::{MountOptions, Mounted, NamedSource};
use forebay_server::{CacheConfig, StopSignal, allow_files, init_logs};

use crate::arguments::Mount;
use crate::exit::Failure;
use crate::host::Host;
use crate::output;

pub(crate) fn run(arguments: Mount, words: &[std::ffi::OsString], host: &dyn Host) -> Result<(), Failure> {
    init_logs("info").map_err(Failure::Usage)?;
    let (sources, folder) = arguments.split().map_err(Failure::Usage)?;
    if arguments.background {
        return Ok(in_background(words, host)?);
    }
    let (refresh, allow_other) = (Duration::from_secs_f64(arguments.refresh), arguments.allow_other);
    let config = arguments.cache().map_err(Failure::Usage)?;
    Ok(serve(sources, folder, refresh, allow_other, &config)?)
}

fn serve(
    sources: Vec<NamedSource>,
    folder: std::path::PathBuf,
    refresh: Duration,
    allow_other: bool,
    config: &CacheConfig,
) -> Result<()> {
    allow_files()?;
    let stop = StopSignal::new()?;
    let cache = match &config.places.folder {
        Some(_) => Some(config.open(&|warning| eprintln!("warning: {warning}"))?),
        None => None,
    };
    let mounted = Mounted::start(MountOptions { sources, folder, refresh, allow_other, cache })?;
    output::line(&format!("mounted at {}", mounted.folder().display()))?;
    // A signal ends the wait, and so does an unmount from outside.
    let unmounted = || Error::new(forebay_core::ErrorKind::Closed, "the mount was unmounted");
    let _ = stop.wait(|| if mounted.has_ended() { Err(unmounted()) } else { Ok(()) });
    if !mounted.end()? {
        eprintln!("warning: files of the mount were still open; reading them fails from now on");
    }
    Ok(())
}

/// Starts the same command in a session of its own, and waits until its mount is ready or it has said why not.
fn in_background(words: &[std::ffi::OsString], host: &dyn Host) -> Result<()> {
    let command = host.command();
    let (program, first) = command.split_first().ok_or_else(|| Error::internal("there is no command to start"))?;
    let mut child = Command::new(program);
    child.args(first).args(words.iter().filter(|word| *word != "--background"));
    child.stdin(Stdio::null()).stdout(Stdio::piped());
    // Ctrl-C in the terminal is not for it.
    std::os::unix::process::CommandExt::process_group(&mut child, 0);
    let mut child = child.spawn().map_err(|e| Error::from(e).with("command", program))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.is_empty() {
        let code = child.wait()?.code().unwrap_or(1);
        // It has told the reason.
        std::process::exit(code);
    }
    output::line(&format!("{}, by process {}", line.trim_end(), child.id()))
}
