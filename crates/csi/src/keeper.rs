//! The process that serves the mount of a volume: `forebay mount` with a device on stdin.
//!
//! A keeper outlives the driver. It locks a file in the volume's folder with its process id, so the lock shows whether
//! it lives. Its last line on stdout before it serves is `mounted at …`, or an error as JSON.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};
use forebay_mount::KEEPER;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

/// Timeout until a keeper serves. The kubelet's own timeout is two minutes.
pub(crate) const READY_MAX: Duration = Duration::from_secs(60);
/// Timeout for a keeper to end after SIGTERM. It waits 10 seconds for open files.
const END_MAX: Duration = Duration::from_secs(15);
/// Timeout for a keeper to end after SIGKILL.
const KILL_MAX: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(5);
/// Variables that `forebay mount` reads. The driver removes them, because it passes options instead.
const DECIDED: [&str; 3] = ["FOREBAY_CACHE", "FOREBAY_CACHE_DISK", "FOREBAY_CACHE_SOURCE"];

/// How a keeper is started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// The command line before its own arguments.
    pub(crate) command: &'a [String],
    pub(crate) arguments: Vec<OsString>,
    /// The volume's state folder, and the mount's folder in it.
    pub(crate) folder: &'a Path,
    pub(crate) mount: &'a Path,
    pub(crate) device: &'a OwnedFd,
    pub(crate) is_taken_over: bool,
}

/// Starts a keeper, and waits until it serves.
///
/// # Errors
/// The keeper's error; Unavailable when it does not serve within [`READY_MAX`].
pub(crate) fn start(start: Start<'_>) -> Result<Child> {
    let (program, first) =
        start.command.split_first().ok_or_else(|| Error::internal("there is no command to start"))?;
    let mut command = Command::new(program);
    let (own, rest) = start.arguments.split_at(1.min(start.arguments.len()));
    command.args(first).args(own).arg("--keeper").arg(start.folder);
    if start.is_taken_over {
        command.arg("--taken-over");
    }
    command.args(rest).arg(start.mount);
    DECIDED.iter().for_each(|name| _ = command.env_remove(name));
    command.stdin(start.device.try_clone()?).stdout(Stdio::piped()).current_dir("/");
    // The keeper outlives the driver: its process group is its own, so Ctrl-C does not reach it.
    let mut child = command.process_group(0).spawn().map_err(|e| Error::from(e).with("command", program))?;
    let stdout = child.stdout.take();
    let (send, receive) = channel();
    std::thread::Builder::new().name("forebay-keeper".to_owned()).spawn(move || {
        let mut line = String::new();
        let read = stdout.map(|stdout| BufReader::new(stdout).read_line(&mut line));
        let _ = send.send(read.and_then(std::result::Result::ok).map(|_| line));
    })?;
    let failed = match receive.recv_timeout(READY_MAX) {
        Ok(Some(line)) if line.starts_with("mounted at ") => return Ok(child),
        Ok(Some(line)) if line.starts_with('{') => Error::from_json(line.trim_end()),
        Ok(_) => Error::unavailable("the process of the mount ended before it served: its log says why"),
        Err(_) => Error::unavailable(format!("the sources did not answer within {READY_MAX:?}"))
            .hint("check that this node reaches them, and the driver's credentials"),
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(failed)
}

/// Whether the keeper of a volume's folder lives.
pub(crate) fn lives(folder: &Path) -> bool {
    File::open(folder.join(KEEPER))
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK))
}

fn number(folder: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(folder.join(KEEPER)).ok()?;
    Pid::from_raw(text.trim().parse().ok()?).filter(|_| lives(folder))
}

/// Ends the keeper of a volume's folder, after the mount is detached.
///
/// # Errors
/// Internal when the keeper survives SIGKILL.
pub(crate) fn end(folder: &Path, mut child: Option<Child>) -> Result<()> {
    let mut signal = |signal: Signal, bound: Duration| {
        if let Some(number) = number(folder) {
            let _ = kill_process(number, signal);
        }
        let end = Instant::now() + bound;
        let mut has_ended = || {
            let is_gone = child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|ended| ended.is_some()));
            is_gone && !lives(folder)
        };
        while !has_ended() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        has_ended()
    };
    if signal(Signal::TERM, END_MAX) || signal(Signal::KILL, KILL_MAX) {
        return Ok(());
    }
    Err(Error::internal("the process of the mount does not end").with("folder", folder.display()))
}

/// Copies the device from a living keeper, for a holder that lost it.
pub(crate) fn device(folder: &Path) -> Option<OwnedFd> {
    let process = pidfd_open(number(folder)?, PidfdFlags::empty()).ok()?;
    // The device is the keeper's stdin.
    pidfd_getfd(&process, 0, PidfdGetfdFlags::empty()).ok()
}
