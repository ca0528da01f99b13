//! One function process, as its parent sees it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, RowId, Schema};
use forebay_exec::{CallFailure, Pickle, count_helper};
use forebay_plan::BlobId;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};

use super::Stopped;
use super::wire::{Body, Call, Request, Shared, read_rows, receive, send, write_rows};
use crate::functions::closed;

/// How often a waiting parent checks the progress of the child.
const LOOK: Duration = Duration::from_millis(100);
/// How long a child may go on with its row when its answer is no longer needed.
const STOP_WAIT: Duration = Duration::from_millis(500);
/// How long a child may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The code that it runs: the host, found on the path of this process.
const START: &str = "import json, os, sys; sys.path[:] = json.loads(os.environ.pop('FOREBAY_FUNCTION_PATH')); \
                     from forebay._src.functions.function_host import main; main()";

/// The command that starts Python.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Python {
    executable: String,
    /// `sys.path` of this process.
    path: Vec<String>,
    /// Copies from the creation of this value: Python changes both while threads start processes.
    pub(super) environment: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

impl Python {
    /// Copies the environment and the folder. To be called with the GIL.
    pub(super) fn new(executable: String, path: Vec<String>) -> Self {
        let environment = std::env::vars_os().collect();
        Self { executable, path, environment, folder: std::env::current_dir().ok() }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.args(["-c", START]).env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.env("FOREBAY_FUNCTION_PATH", serde_json::to_string(&self.path).unwrap_or_default());
        if let Some(folder) = self.folder.as_ref().filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        command
    }
}

/// The context of a call for errors, and its limits.
pub(super) struct Watch<'a> {
    pub(super) what: String,
    pub(super) ids: &'a [RowId],
    /// Whether the child handles one row after another; else all of them at once.
    pub(super) by_row: bool,
    pub(super) timeout: Duration,
    /// Set when the answer is no longer needed.
    pub(super) stopped: &'a Stopped,
}

impl Watch<'_> {
    fn blame(&self, error: Error, row: u64) -> Error {
        match (self.ids.get(row as usize), self.ids) {
            (Some(id), _) if self.by_row => error.with("sample", id.sample),
            (_, [first, .., last]) => error.with("samples", format!("{} to {}", first.sample, last.sample)),
            (_, [only]) => error.with("sample", only.sample),
            (_, []) => error.with("item", row),
        }
    }
}

pub(super) struct Child {
    process: std::process::Child,
    socket: UnixStream,
    shared: Shared,
    /// The pickles that the child has.
    sent: HashSet<BlobId>,
    /// The pickles that conflict with pickles that the child has.
    refused: HashSet<BlobId>,
    /// Whether the child has got any call.
    used: bool,
    reply_bytes: u64,
    fit: bool,
    /// The row at which it died.
    death: Option<u64>,
}

impl Child {
    /// Starts a process and waits until it is ready.
    pub(super) fn start(python: &Python, stopped: &Stopped) -> std::result::Result<Self, CallFailure> {
        let mut child = Self::spawn(python)?;
        let what = "a function process".to_owned();
        let watch = Watch { what, ids: &[], by_row: false, timeout: START_TIMEOUT, stopped };
        // A failed start says nothing about the sample that it was for.
        let answer = child.answer(&watch).map_err(|e| e.replace("fault", "start"));
        match (answer, child.death) {
            (Ok(Body::Ready), _) => Ok(child),
            (Ok(other), _) => Err(Error::internal(format!("a function process answered {other:?}")).into()),
            (Err(error), Some(row)) => Err(CallFailure::Died(row, error)),
            (Err(error), None) => Err(error.into()),
        }
    }

    fn spawn(python: &Python) -> Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(LOOK))?;
        let shared = Shared::new()?;
        let process =
            python.command().stdin(Stdio::from(OwnedFd::from(theirs))).process_group(0).spawn().map_err(|e| {
                Error::unavailable(format!("cannot start a python process for functions: {e}"))
                    .with("program", &python.executable)
            })?;
        let (sent, refused) = (HashSet::new(), HashSet::new());
        let (used, fit) = (false, true);
        let mut child = Self { process, socket, shared, sent, refused, used, reply_bytes: 0, fit, death: None };
        // A child that has ended accepts no files, which its answer will show.
        if let Err(error) = child.hand_over_files()
            && matches!(child.process.try_wait(), Ok(None))
        {
            return Err(error);
        }
        Ok(child)
    }

    fn hand_over_files(&self) -> Result<()> {
        let files = self.shared.files();
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(|f| f.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Error::internal("no room for four file descriptors"));
        }
        sendmsg(&self.socket, &[IoSlice::new(b"f")], &mut ancillary, SendFlags::NOSIGNAL)
            .map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Sends a call and waits for its answer.
    pub(super) fn call(
        &mut self,
        call: Call,
        object: Option<&Pickle>,
        input: Option<&Chunk>,
        watch: &Watch<'_>,
    ) -> Result<Body> {
        self.fit = false;
        let input_bytes = input.map_or(Ok(0), |chunk| write_rows(&self.shared.request, chunk, true))?;
        let mut pickle_bytes = None;
        if let Some(pickle) = object
            && !self.sent.contains(&pickle.id)
        {
            self.shared.pickle.write_all_at(&pickle.bytes, 0)?;
            pickle_bytes = Some(pickle.bytes.len() as u64);
        }
        self.shared.begin();
        // The death of an idle child shows here or in the answer; both report its cause.
        let request = Request { call, object: object.map(|p| p.id.clone()), pickle_bytes, input_bytes };
        if send(&self.socket, &request).is_err() {
            return Err(self.died(watch));
        }
        let body = self.answer(watch)?;
        self.fit = true;
        self.used |= !matches!(&body, Body::Failed { error } if error.get("fault") == Some("modules"));
        // A failed call may mean that loading failed, so the pickle is sent again.
        if !matches!(&body, Body::Failed { .. }) {
            self.sent.extend(object.map(|p| p.id.clone()));
        }
        match body {
            Body::Failed { error } => Err(error),
            body => {
                if let Body::Columns { bytes } | Body::Made { bytes, .. } = &body {
                    self.reply_bytes = *bytes;
                }
                Ok(body)
            }
        }
    }

    /// Reads the rows of the last answer.
    pub(super) fn reply_rows(&self, schema: &Arc<Schema>) -> Result<Chunk> {
        read_rows(&self.shared.reply, self.reply_bytes, schema)
    }

    /// Returns whether it may serve another call.
    pub(super) fn is_fit(&self) -> bool {
        self.fit
    }

    /// Returns whether its process is still there.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Returns whether it has made no call yet.
    pub(super) fn is_new(&self) -> bool {
        !self.used
    }

    /// Returns the row at which it died, if it did.
    pub(super) fn death(&self) -> Option<u64> {
        self.death
    }

    /// Returns whether this object is known to conflict with objects that the child has.
    pub(super) fn refuses(&self, object: &BlobId) -> bool {
        self.refused.contains(object)
    }

    /// Notes that an object conflicts with objects that the child has.
    pub(super) fn refuse(&mut self, object: &BlobId) {
        self.refused.insert(object.clone());
    }

    /// Prevents its further use.
    pub(super) fn retire(&mut self) {
        self.fit = false;
    }

    /// Waits for the answer, as long as the child advances from row to row in time.
    fn answer(&mut self, watch: &Watch<'_>) -> Result<Body> {
        let (mut row, mut since) = (0, Instant::now());
        let _helped = count_helper(self.process.id());
        loop {
            // Waits for `LOOK` at most, the time limit of the socket.
            match recv(&self.socket, &mut [0], RecvFlags::PEEK) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                    // A process that it forked may still hold the socket open.
                    if !matches!(self.process.try_wait(), Ok(None)) {
                        return Err(self.died(watch));
                    }
                }
                Ok((1, _)) => return receive(&self.socket).map_err(|_| self.died(watch)),
                _ => return Err(self.died(watch)),
            }
            if let Some(since) = watch.stopped.get() {
                self.shared.cancel();
                if since.elapsed() >= STOP_WAIT {
                    return Err(closed());
                }
            }
            let now = self.shared.progress();
            if now != row {
                (row, since) = (now, Instant::now());
            }
            if since.elapsed() >= watch.timeout {
                let limit = watch.timeout.as_secs_f64();
                let error = Error::new(ErrorKind::Function, format!("{}: no answer within {limit} s", watch.what))
                    .with("fault", "process")
                    .hint("give timeout= more seconds, or look for what the function waits for");
                return Err(watch.blame(error, row));
            }
        }
    }

    /// Returns the error of its death.
    fn died(&mut self, watch: &Watch<'_>) -> Error {
        // Its end of the socket is closed; it may still be ending, or be alive and broken.
        let deadline = Instant::now() + Duration::from_secs(2);
        let status = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break Some(status),
                Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(5)),
                _ => break None,
            }
        };
        self.death = Some(self.shared.progress());
        let how = status.map_or_else(|| "closed its connection".to_owned(), describe);
        let error =
            Error::new(ErrorKind::Function, format!("{}: its process {how}", watch.what)).with("fault", "process");
        watch.blame(error, self.shared.progress())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        kill(self.process.id());
        let _ = self.process.wait();
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(9), _) => "was killed by signal 9 (SIGKILL), as the kernel does when memory runs out".to_owned(),
        (Some(11), _) => "was killed by signal 11 (SIGSEGV): native code that it called crashed".to_owned(),
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, Some(code)) => format!("exited with code {code}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Kills a child and the processes that it forked: it leads a group of its own.
fn kill(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}
