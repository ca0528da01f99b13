//! `forebay mount`

mod status;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_core::{Error, Result};
use forebay_mount::{Device, MountOptions, MountStatus, Mounted, PrefetchState};
use forebay_server::{CacheConfig, MountMetrics, StopSignal, allow_files, init_logs};

use crate::arguments::Mount;
use crate::exit::Failure;
use crate::host::Host;
use crate::output;

pub(crate) fn run(arguments: Mount, words: &[std::ffi::OsString], host: &dyn Host) -> Result<(), Failure> {
    match (&arguments.status, arguments.metrics) {
        (Some(folder), None) => return Ok(output::line(&described(MountStatus::of(folder)?))?),
        (Some(folder), Some(at)) => return Ok(status::serve(folder, at)?),
        _ => {}
    }
    init_logs("info").map_err(Failure::Usage)?;
    let (sources, folder) = arguments.split().map_err(Failure::Usage)?;
    if arguments.background {
        return Ok(in_background(words, host)?);
    }
    let refresh = Duration::from_secs_f64(arguments.refresh);
    let (allow_other, prefetch) = (arguments.allow_other, arguments.prefetch);
    let mut options = MountOptions { sources, folder, refresh, allow_other, cache: None, prefetch, device: None };
    let is_keeper = arguments.keeper.is_some();
    if let Some(folder) = &arguments.keeper {
        let fd = std::io::stdin().as_fd().try_clone_to_owned().map_err(Error::from)?;
        options.device = Some(Device { fd, is_taken_over: arguments.taken_over, folder: folder.clone() });
    }
    let metrics = arguments.metrics;
    let config = arguments.cache().map_err(Failure::Usage)?;
    let served = serve(options, &config, metrics);
    if let (true, Err(e)) = (is_keeper, &served) {
        // The driver reads one line, and reports the error in it to kubelet.
        output::line(&e.to_json())?;
    }
    Ok(served?)
}

fn serve(mut options: MountOptions, config: &CacheConfig, metrics: Option<SocketAddr>) -> Result<()> {
    allow_files()?;
    let stop = StopSignal::new()?;
    if config.places.folder.is_some() {
        options.cache = Some(config.open(&|warning| eprintln!("warning: {warning}"))?);
    }
    let mounted = Mounted::start(options)?;
    let status = mounted.status();
    let view = Box::new(move || status::figures(Some(status())));
    let _metrics = match metrics.map(|at| MountMetrics::start(at, view)).transpose() {
        Ok(metrics) => metrics,
        Err(e) => return mounted.end().and(Err(e)),
    };
    output::line(&format!("mounted at {}", mounted.folder().display()))?;
    // A signal ends the wait, and so does an unmount from outside.
    let unmounted = || Error::new(forebay_core::ErrorKind::Closed, "the mount was unmounted");
    let _ = stop.wait(|| if mounted.has_ended() { Err(unmounted()) } else { Ok(()) });
    if !mounted.end()? {
        eprintln!("warning: files of the mount were still open; reading them fails from now on");
    }
    Ok(())
}

/// Describes the state of a prefetch in one line.
fn described(status: MountStatus) -> String {
    let Some(prefetch) = status.prefetch else { return "no prefetch: start the mount with --prefetch".to_owned() };
    let state = match prefetch.state {
        PrefetchState::Counting => return format!("prefetch counting: {} files so far", prefetch.files),
        PrefetchState::Reading => "reading",
        PrefetchState::Done => "done",
        PrefetchState::Full => "full (the cache folder has no room for more: --cache-disk)",
        PrefetchState::Stopped => "stopped",
    };
    let failed = if prefetch.failed > 0 { format!(", {} failed: see the log", prefetch.failed) } else { String::new() };
    let (files, all) = (prefetch.files_done, prefetch.files);
    let (bytes, all_bytes) = (output::bytes(prefetch.bytes_done), output::bytes(prefetch.bytes));
    format!("prefetch {state}: {files} of {all} files, {bytes} of {all_bytes}{failed}")
}

/// Starts the same command in a process group of its own, and waits until its mount is ready or it has failed.
fn in_background(words: &[std::ffi::OsString], host: &dyn Host) -> Result<()> {
    let command = host.command();
    let (program, first) = command.split_first().ok_or_else(|| Error::internal("there is no command to start"))?;
    let mut child = Command::new(program);
    child.args(first).args(words.iter().filter(|word| *word != "--background"));
    child.stdin(Stdio::null()).stdout(Stdio::piped());
    // Ctrl-C in the terminal must not end it.
    std::os::unix::process::CommandExt::process_group(&mut child, 0);
    let mut child = child.spawn().map_err(|e| Error::from(e).with("command", program))?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    if line.is_empty() {
        let code = child.wait()?.code().unwrap_or(1);
        // The child has printed the error.
        std::process::exit(code);
    }
    output::line(&format!("{}, by process {}", line.trim_end(), child.id()))
}
