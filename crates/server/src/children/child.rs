//! One child process: starts it, reads its output, and ends it.
//!
//! A child ends when its stdin has input (except, for a local worker, a line that sets the number of its threads) or
//! closes, which the system does when this process ends. Its stdout has the announcement; its stderr is passed on, and
//! the last lines are kept to explain an early end.

#![expect(clippy::disallowed_methods, reason = "a process is waited for within a bound, and threads read its output")]

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child as Process, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};

use crate::children::announce::Announcement;

/// Lines of stderr that are kept.
const TAIL_LINES: usize = 40;
/// How long to wait for the last output of a child.
const LAST_WORDS_MAX: Duration = Duration::from_millis(200);
/// How often to check a child that is ending.
const LOOK: Duration = Duration::from_millis(10);
/// How often a waiting caller's `poll` is called.
const POLL: Duration = Duration::from_millis(50);

/// Variables for services on other machines. Children do not inherit them: a service on the loopback interface has no
/// TLS, no other address and a state of its own, and gets its policy as arguments.
const ELSEWHERE: [&str; 19] = [
    "FOREBAY_TLS_CA",
    "FOREBAY_TLS_CERT",
    "FOREBAY_TLS_KEY",
    "FOREBAY_TLS_NAME",
    "FOREBAY_TLS_CLIENT_CA",
    "FOREBAY_TOKEN",
    "FOREBAY_TOKEN_FILE",
    "FOREBAY_TOKENS",
    "FOREBAY_ADVERTISE",
    "FOREBAY_METRICS",
    "FOREBAY_WORKER_METRICS",
    "FOREBAY_KIND",
    "FOREBAY_PRICE",
    "FOREBAY_SPOT",
    "FOREBAY_STORE",
    "FOREBAY_BLOB_DIR",
    "FOREBAY_OBJECTIVE",
    "FOREBAY_TRAINER_PRICE",
    "FOREBAY_WORKER_PRICE",
];

type Tail = Arc<Mutex<VecDeque<String>>>;

/// A child process.
pub(crate) struct Child {
    what: String,
    process: Process,
    announced: Receiver<String>,
    /// Its address, if it has been read.
    listens: Option<String>,
    tail: Tail,
    /// Carries no message, and closes when stderr has been read to its end.
    silent: Receiver<()>,
}

impl Child {
    /// Starts `command`, with variables that hold its credentials for a remote service; `what` is its name in
    /// messages ("worker 1").
    pub(crate) fn start(what: String, command: &[String], shown: &[(&str, OsString)]) -> Result<Self> {
        let (program, arguments) = command.split_first().ok_or_else(|| Error::internal("no command to start"))?;
        let mut start = Command::new(program);
        start.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ELSEWHERE {
            start.env_remove(name);
        }
        start.envs(shown.iter().map(|(name, value)| (name, value)));
        // Ctrl-C in the terminal signals only the parent, which ends its children in order.
        std::os::unix::process::CommandExt::process_group(&mut start, 0);
        let mut process = start.spawn().map_err(|e| {
            let kind = Error::from(e).kind();
            Error::new(kind, format!("cannot start {what}: {program:?} did not start"))
        })?;
        let (tell, announced) = sync_channel(1);
        if let Some(stdout) = process.stdout.take() {
            spawn("forebay-stdout", move || {
                for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
                    // The parent waits for the first line only; it must read the rest, or the child would block.
                    let _ = tell.try_send(line);
                }
            })?;
        }
        let tail = Tail::default();
        let (speaking, silent) = sync_channel(0);
        if let Some(stderr) = process.stderr.take() {
            let tail = tail.clone();
            spawn("forebay-stderr", move || {
                pass_on(stderr, &tail);
                drop(speaking);
            })?;
        }
        Ok(Self { what, process, announced, listens: None, tail, silent })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it listens.
    ///
    /// # Errors
    /// Unavailable, with its last output, when it ends before or takes longer than until `end`.
    pub(crate) fn address(&self, end: Instant, poll: &mut dyn FnMut() -> Result<()>) -> Result<String> {
        loop {
            match self.announced.recv_timeout(POLL) {
                Ok(line) => return Ok(Announcement::parse(&line)?.address),
                Err(RecvTimeoutError::Disconnected) => return Err(self.unavailable("ended before it listened")),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= end => {
                    return Err(self.unavailable("did not listen in time"));
                }
                Err(RecvTimeoutError::Timeout) => poll()?,
            }
        }
    }

    /// Returns its address, once it listens.
    ///
    /// # Errors
    /// Data when its first line is no announcement.
    pub(crate) fn listens(&mut self) -> Result<Option<String>> {
        if let Ok(line) = self.announced.try_recv() {
            self.listens = Some(Announcement::parse(&line)?.address);
        }
        Ok(self.listens.clone())
    }

    /// Writes a line to its stdin. A child that has ended does not read it.
    pub(crate) fn say(&mut self, line: &str) {
        if let Some(leash) = &mut self.process.stdin {
            let _ = writeln!(leash, "{line}");
        }
    }

    /// Asks it to leave in order (SIGTERM): it ends when no process needs it any more.
    pub(crate) fn terminate(&self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // An error means that it has ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }

    /// Returns how it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Returns its name, and how it ended.
    pub(crate) fn said(&self, status: &ExitStatus) -> String {
        format!("{} (process {}; {status})", self.what, self.process.id())
    }

    /// Returns the error of a child that has ended or failed, with its last output.
    pub(crate) fn unavailable(&self, what: &str) -> Error {
        // A child that has just ended may have written the reason a moment ago.
        let _ = self.silent.recv_timeout(LAST_WORDS_MAX);
        let lines = self.last_lines();
        let error = Error::unavailable(format!("{} (process {}) {what}", self.what, self.process.id()));
        if lines.is_empty() { error } else { error.with("stderr", lines) }
    }

    /// Returns the last lines of its stderr so far.
    pub(crate) fn last_lines(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.iter().cloned().collect::<Vec<_>>().join("\n")
    }

    /// Asks it to end at once.
    pub(crate) fn release(&mut self) {
        if let Some(mut leash) = self.process.stdin.take() {
            // A forked copy of this process may hold the other end, so the child would not notice a close alone.
            let _ = leash.write_all(b"\n");
        }
    }

    /// Waits until it has ended, and kills it at `end`.
    pub(crate) fn wait(&mut self, end: Instant) {
        while self.ended().is_none() && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
        self.kill();
    }

    /// Kills it, as the system would when memory is short.
    pub(crate) fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
    Ok(())
}

fn pass_on(stderr: impl std::io::Read, tail: &Tail) {
    for line in BufReader::new(stderr).lines().map_while(std::result::Result::ok) {
        let _ = writeln!(std::io::stderr(), "{line}");
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.len() == TAIL_LINES {
            tail.pop_front();
        }
        tail.push_back(line);
    }
}
