//! The process that keeps the devices of a node's mounts open: `forebay csi --hold`.
//!
//! When no process has a mount's device open, the mount and all its bind mounts are dead. The holder does nothing but
//! keep devices open, so it rarely fails. A caller sends one line through a socket in the state folder, and gets one
//! line:
//!
//! | line | answer |
//! |---|---|
//! | `put NAME`, with a device | `ok` |
//! | `get NAME` | `ok` with the device, or `none` |
//! | `drop NAME` | `ok` |
//! | `names` | `ok NAME NAME …` |
//!
//! Bounds: [`VOLUMES_MAX`] devices; one caller at a time, each for as long as `passing` waits.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_core::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};

use crate::limits::VOLUMES_MAX;
use crate::passing;

/// The files in the state folder.
pub(crate) const SOCKET: &str = "holder.sock";
const LOCK: &str = "holder.lock";
/// Time that a holder with `until_empty` waits for its first device.
const EMPTY_MAX: Duration = Duration::from_secs(30);
/// Interval between two checks whether the holder may end.
const LOOK: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// See the module's documentation.
#[derive(Debug)]
pub struct Holder {
    listener: UnixListener,
    socket: PathBuf,
    _lock: std::fs::File,
    held: HashMap<String, OwnedFd>,
}

impl Holder {
    /// Locks the state folder, and listens.
    ///
    /// # Errors
    /// Conflict when the state folder has a holder; errors of the system.
    pub fn new(state: &Path) -> Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
        let lock = alone(&state.join(LOCK), "this state folder has a holder")?;
        let socket = state.join(SOCKET);
        // This process has the lock, so the process that created the socket is dead.
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).map_err(|e| Error::from(e).with("file", socket.display()))?;
        Ok(Self { listener, socket, _lock: lock, held: HashMap::new() })
    }

    /// Serves callers until the process ends; with `until_empty`, until the last device is dropped.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn serve(mut self, until_empty: bool) -> Result<()> {
        let began = Instant::now();
        let mut is_new = true;
        loop {
            let is_waiting = {
                let mut looked = [PollFd::new(&self.listener, PollFlags::IN)];
                poll(&mut looked, Some(&LOOK)).map_err(io::Error::from)? > 0
            };
            if is_waiting {
                let (caller, _) = self.listener.accept()?;
                if let Err(e) = self.answer(&caller) {
                    tracing::warn!("a caller of the holder got no answer: {e}");
                }
            }
            is_new &= self.held.is_empty();
            if until_empty && self.held.is_empty() && (!is_new || began.elapsed() > EMPTY_MAX) {
                let _ = std::fs::remove_file(&self.socket);
                return Ok(());
            }
        }
    }

    fn answer(&mut self, caller: &UnixStream) -> io::Result<()> {
        passing::bound(caller)?;
        let (message, device) = passing::receive(caller)?;
        let none = || passing::send(caller, "none", None);
        match (message.split_once(' ').unwrap_or((&message, "")), device) {
            (("put", name), Some(device)) if self.held.len() < VOLUMES_MAX || self.held.contains_key(name) => {
                self.held.insert(name.to_owned(), device);
                passing::send(caller, "ok", None)
            }
            (("get", name), _) => match self.held.get(name) {
                Some(device) => passing::send(caller, "ok", Some(device.as_fd())),
                None => none(),
            },
            (("drop", name), _) => {
                self.held.remove(name);
                passing::send(caller, "ok", None)
            }
            (("names", _), _) => {
                let names: Vec<&str> = self.held.keys().map(String::as_str).collect();
                passing::send(caller, &format!("ok {}", names.join(" ")), None)
            }
            _ => none(),
        }
    }
}

/// Locks a file until this process ends.
///
/// # Errors
/// Conflict with `message` when another process has the lock; errors of the system.
pub(crate) fn alone(path: &Path, message: &str) -> Result<std::fs::File> {
    let options = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(path);
    let file = options.map_err(|e| Error::from(e).with("file", path.display()))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(_) => Err(Error::new(ErrorKind::Conflict, message).with("file", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holding::Holding;

    #[test]
    fn devices_are_kept_until_they_are_dropped() {
        let state = tempfile::tempdir().expect("a folder");
        let holding = Holding::new(state.path(), Some(vec!["/none".to_owned()]));
        assert_eq!(holding.names().expect("none there").len(), 0);
        let holder = Holder::new(state.path()).expect("made");
        let again = Holder::new(state.path()).expect_err("there is one");
        assert_eq!(again.kind(), ErrorKind::Conflict);
        let served = std::thread::spawn(|| holder.serve(true));
        let (mut one, other) = UnixStream::pair().expect("sockets");
        holding.put("a", other.as_fd()).expect("put");
        drop(other);
        assert_eq!(holding.names().expect("names"), ["a"]);
        assert!(holding.get("b").expect("asked").is_none());
        let device = holding.get("a").expect("asked").expect("there");
        io::Write::write_all(&mut UnixStream::from(device), b"x").expect("it is open");
        let mut byte = [0];
        io::Read::read_exact(&mut one, &mut byte).expect("read");
        assert_eq!(&byte, b"x");
        holding.drop("a").expect("dropped");
        served.join().expect("no panic").expect("it ends when it has none");
        assert_eq!(io::Read::read(&mut one, &mut byte).expect("read"), 0, "the device is closed");
        assert!(!state.path().join(SOCKET).exists());
    }
}
