//! The driver's client of the holder. It starts a holder if none runs.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};

use crate::holder::SOCKET;
use crate::passing;

/// Timeout for a holder to listen.
const READY_MAX: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(10);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Holding {
    state: PathBuf,
    /// The command line before `csi`; `None` if another container runs the holder.
    command: Option<Vec<String>>,
    /// The holder that this process started. The lock allows one call at a time.
    started: Mutex<Option<Child>>,
}

impl Holding {
    pub(crate) fn new(state: &Path, command: Option<Vec<String>>) -> Self {
        Self { state: state.to_owned(), command, started: Mutex::new(None) }
    }

    /// Gives the holder a device.
    pub(crate) fn put(&self, name: &str, device: BorrowedFd<'_>) -> Result<()> {
        self.call(&format!("put {name}"), Some(device), true).map(|_| ())
    }

    /// Gets a device; `None` if no holder runs, or it has no device of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Option<OwnedFd>> {
        Ok(self.call(&format!("get {name}"), None, false)?.and_then(|(_, device)| device))
    }

    /// Makes the holder close a device.
    pub(crate) fn drop(&self, name: &str) -> Result<()> {
        self.call(&format!("drop {name}"), None, false).map(|_| ())
    }

    /// Returns the names of the holder's devices; empty if no holder runs. Does not start one, and does not wait.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let _turn = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        match self.attempt("names", None) {
            Ok((names, _)) => Ok(names.split_whitespace().skip(1).map(str::to_owned).collect()),
            Err(e) if is_absent(&e) => Ok(Vec::new()),
            Err(e) => Err(Error::unavailable(format!("the holder of devices does not answer: {e}"))),
        }
    }

    /// Sends a line and returns the rest of the answer after `ok`. `None` if no holder runs and none is `needed`.
    fn call(
        &self,
        line: &str,
        device: Option<BorrowedFd<'_>>,
        needed: bool,
    ) -> Result<Option<(String, Option<OwnedFd>)>> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let end = Instant::now() + READY_MAX;
        loop {
            match self.attempt(line, device) {
                Ok((answer, device)) => {
                    let answer = answer.strip_prefix("ok").map(|rest| rest.trim().to_owned());
                    return match answer {
                        None if needed => Err(Error::internal("the holder did not take a device")),
                        answer => Ok(answer.map(|rest| (rest, device))),
                    };
                }
                // The other container's holder may start after the driver, so only an own holder is known to be absent.
                Err(e) if !needed && self.command.is_some() && is_absent(&e) => return Ok(None),
                Err(e) if Instant::now() > end => {
                    return Err(Error::unavailable(format!("the holder of devices does not answer: {e}"))
                        .with("file", self.state.join(SOCKET).display())
                        .hint("start it: forebay csi --hold"));
                }
                Err(e) if is_absent(&e) => self.start(&mut started)?,
                Err(_) => {}
            }
            std::thread::sleep(LOOK);
        }
    }

    fn attempt(&self, line: &str, device: Option<BorrowedFd<'_>>) -> io::Result<(String, Option<OwnedFd>)> {
        let socket = UnixStream::connect(self.state.join(SOCKET))?;
        passing::bound(&socket)?;
        passing::send(&socket, line, device)?;
        match passing::receive(&socket)? {
            // The holder ended before it read the line.
            (answer, _) if answer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            answered => Ok(answered),
        }
    }

    /// Starts a holder, unless another container runs it, or a holder that this process started lives.
    fn start(&self, started: &mut Option<Child>) -> Result<()> {
        if started.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none())) {
            return Ok(());
        }
        let Some((program, first)) = self.command.as_ref().and_then(|command| command.split_first()) else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(first).args(["csi", "--hold", "--until-empty", "--state"]).arg(&self.state);
        // The holder outlives the driver: its process group is its own, so Ctrl-C does not reach it.
        command.stdin(Stdio::null()).stdout(Stdio::null()).current_dir("/").process_group(0);
        *started = Some(command.spawn().map_err(|e| Error::from(e).with("command", program))?);
        Ok(())
    }

    /// Collects the exit code of a holder that has ended.
    pub(crate) fn reap(&self) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if started.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_some())) {
            *started = None;
        }
    }
}

fn is_absent(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}
