//! One volume on a node, from its first pod to its last: its folder, its mount, its keeper and its targets.
//!
//! ```text
//! STATE/volumes/KEY/volume.json   the record                        KEY/keeper   process id and lock of the keeper
//!                  /mnt           the mount                         KEY/opens    the open files
//! ```
//!
//! Invariants: a mount that a keeper has served stays until its last pod ends. When a keeper dies, the driver starts
//! another, which takes the mount over. When that fails for longer than [`GIVE_UP`], the driver ends the mount, so that
//! programs get ENOTCONN instead of waiting, and tries a new mount.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use forebay_core::{Error, Result};
use forebay_mount::{is_mounted, mount_device, top_mount};

use crate::content::Content;
use crate::holding::Holding;
use crate::places::Places;
use crate::record::Record;
use crate::{keeper, target};

/// Time after which the driver ends a mount without a keeper.
const GIVE_UP: Duration = Duration::from_secs(60);
/// Bounds of the backoff between attempts to serve a mount; it doubles after each failure.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
const MOUNT: &str = "mnt";
/// The journal of open files, valid for one mount.
const OPENS: &str = "opens";

/// The state that all volumes of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) places: Places,
    /// The command line of `forebay`.
    pub(crate) command: Vec<String>,
    pub(crate) holding: Holding,
    /// The parent folder of the volumes' state folders.
    pub(crate) volumes: PathBuf,
}

/// Failed attempts to start a keeper.
#[derive(Debug)]
struct Failing {
    since: Instant,
    next: Instant,
    pause: Duration,
    message: String,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Volume {
    key: String,
    folder: PathBuf,
    mount: PathBuf,
    pub(crate) record: Record,
    device: Option<OwnedFd>,
    /// The device number in the kernel's list of mounts: `0:45`.
    line: String,
    child: Option<Child>,
    failing: Option<Failing>,
}

impl Volume {
    fn of(folder: PathBuf, key: String, record: Record) -> Self {
        let mount = folder.join(MOUNT);
        Self { key, folder, mount, record, device: None, line: String::new(), child: None, failing: None }
    }

    /// Mounts a volume without a target.
    ///
    /// # Errors
    /// Errors of the sources, of the node's rules, and of the system. A failed call leaves no mount.
    pub(crate) fn make(node: &Node, id: &str, content: Content) -> Result<Self> {
        let key = content.key(id);
        let mut volume = Self::of(node.volumes.join(&key), key, Record::new(id, content));
        // A volume that the node does not allow gets no state folder.
        node.places.arguments(&volume.record.content)?;
        match volume.mount_anew(node) {
            Ok(()) => Ok(volume),
            Err(e) => {
                if let Err(left) = volume.remove(node) {
                    tracing::warn!(volume = id, "a volume that could not be mounted left something: {left}");
                }
                Err(e)
            }
        }
    }

    fn make_folder(&self) -> Result<()> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        self.record.write(&self.folder)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.mount)?;
        Ok(())
    }

    /// Restores a volume from its state folder. Removes a volume without targets, and returns `None`.
    ///
    /// # Errors
    /// Errors of the holder and of the system.
    pub(crate) fn restore(node: &Node, folder: &Path, key: &str) -> Result<Option<Self>> {
        let record = Record::read(folder).unwrap_or_else(|e| {
            tracing::warn!("a volume's record cannot be read, so its mount is taken away: {e}");
            Record::new("", Content { sources: Vec::new(), tiers: Vec::new(), prefetch: false })
        });
        let mut volume = Self::of(folder.to_owned(), key.to_owned(), record);
        volume.record.targets.retain(|at| target::is_ours(at));
        if volume.record.targets.is_empty() {
            return volume.remove(node).map(|()| None);
        }
        volume.record.write(folder)?;
        let kept = node.holding.get(key)?;
        let was_held = kept.is_some();
        let device = kept.or_else(|| keeper::device(folder)).filter(is_mounted);
        let line = top_mount(&volume.mount).filter(|line| line.is_ours());
        if let (Some(device), Some(line), true) = (device, line, volume.record.was_served) {
            if !was_held {
                node.holding.put(key, device.as_fd())?;
            }
            volume.line = line.device;
            volume.device = Some(device);
        }
        Ok(Some(volume))
    }

    /// Publishes the volume at a target.
    ///
    /// # Errors
    /// Conflict when the target has another mount or file; Unavailable while no keeper serves the mount.
    pub(crate) fn publish(&mut self, node: &Node, at: &Path) -> Result<()> {
        if !self.is_served() {
            self.serve(node).inspect_err(|e| self.note(e))?;
        }
        if !target::shows(&self.mount, &self.line) {
            return Err(Error::unavailable("the mount of the volume is gone: another program unmounted it")
                .with("folder", self.mount.display())
                .hint("end the pods that use the volume on this node"));
        }
        if target::shows(at, &self.line) {
            return Ok(());
        }
        if !self.record.targets.contains(at) {
            target::make(at)?;
        }
        self.record.targets.insert(at.to_owned());
        self.record.write(&self.folder)?;
        target::bind(&self.mount, at).inspect_err(|_| {
            self.record.targets.remove(at);
            let _ = self.record.write(&self.folder);
            let _ = target::remove(at);
        })
    }

    /// Unpublishes the volume from a target.
    ///
    /// # Errors
    /// As [`target::remove`].
    pub(crate) fn unpublish(&mut self, at: &Path) -> Result<()> {
        target::remove(at)?;
        self.record.targets.remove(at);
        self.record.write(&self.folder)
    }

    /// Ends the keeper, and removes the mount and the state folder.
    ///
    /// # Errors
    /// Errors of the system. A repeated call continues the removal.
    pub(crate) fn remove(&mut self, node: &Node) -> Result<()> {
        target::clear(&self.mount)?;
        let ended = keeper::end(&self.folder, self.child.take());
        // Without its device the mount is dead, also for programs with open files.
        self.device = None;
        node.holding.drop(&self.key)?;
        ended?;
        match std::fs::remove_dir(&self.mount) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::from(e).with("folder", self.mount.display()));
            }
            _ => {}
        }
        match std::fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::from(e).with("folder", self.folder.display()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a keeper serves the mount.
    fn is_served(&mut self) -> bool {
        if self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_some())) {
            self.child = None;
        }
        self.device.as_ref().is_some_and(is_mounted) && keeper::lives(&self.folder)
    }

    /// Whether [`Volume::heal`] is due.
    pub(crate) fn is_broken(&mut self) -> bool {
        let is_served = self.is_served();
        if is_served {
            self.failing = None;
        }
        !is_served && self.failing.as_ref().is_none_or(|failing| failing.next <= Instant::now())
    }

    /// Starts a keeper after the death of the last one, or mounts the volume again after the death of the mount.
    pub(crate) fn heal(&mut self, node: &Node) {
        match self.serve(node) {
            Ok(()) => {
                let volume = self.record.volume.as_str();
                tracing::info!(volume, "the mount of a volume is served again");
                self.failing = None;
            }
            Err(e) => {
                self.note(&e);
                if self.failing.as_ref().is_some_and(|failing| failing.since.elapsed() > GIVE_UP)
                    && self.device.is_some()
                {
                    tracing::warn!(
                        volume = self.record.volume,
                        "no process can serve the mount: programs get an error now"
                    );
                    self.let_go(node);
                }
            }
        }
    }

    fn note(&mut self, e: &Error) {
        let pause = self.failing.as_ref().map_or(PAUSE_MIN, |failing| (2 * failing.pause).min(PAUSE_MAX));
        let now = Instant::now();
        let since = self.failing.as_ref().map_or(now, |failing| failing.since);
        let message = told(e);
        tracing::warn!(volume = self.record.volume, "the mount of a volume is not served: {message}");
        self.failing = Some(Failing { since, next: now + pause, pause, message });
    }

    fn serve(&mut self, node: &Node) -> Result<()> {
        if self.device.as_ref().is_some_and(is_mounted) { self.start(node, true) } else { self.mount_anew(node) }
    }

    /// Mounts the volume again, and bind-mounts it at the targets on top of the dead mount.
    fn mount_anew(&mut self, node: &Node) -> Result<()> {
        self.make_folder()?;
        target::clear(&self.mount)?;
        keeper::end(&self.folder, self.child.take())?;
        self.let_go(node);
        let _ = std::fs::remove_file(self.folder.join(OPENS));
        let device = mount_device(&self.mount, &self.record.volume)?;
        let line = top_mount(&self.mount).ok_or_else(|| Error::internal("the mount is not in the system's list"))?;
        self.line = line.device;
        let held = node.holding.put(&self.key, device.as_fd());
        self.device = Some(device);
        if let Err(e) = held.and_then(|()| self.start(node, false)) {
            let _ = target::clear(&self.mount);
            self.let_go(node);
            return Err(e);
        }
        self.record.was_served = true;
        self.record.write(&self.folder)?;
        self.record.targets.iter().try_for_each(|at| target::bind(&self.mount, at))
    }

    /// Closes the device here and in the holder, which ends the mount.
    fn let_go(&mut self, node: &Node) {
        self.device = None;
        if let Err(e) = node.holding.drop(&self.key) {
            tracing::warn!(volume = self.record.volume, "the holder keeps a device that is not needed: {e}");
        }
    }

    fn start(&mut self, node: &Node, is_taken_over: bool) -> Result<()> {
        let device = self.device.as_ref().ok_or_else(|| Error::internal("a keeper without a device"))?;
        let arguments = node.places.arguments(&self.record.content)?;
        let (folder, mount) = (self.folder.as_path(), self.mount.as_path());
        let start = keeper::Start { command: &node.command, arguments, folder, mount, device, is_taken_over };
        self.child = Some(keeper::start(start)?);
        Ok(())
    }

    /// Passes the device to the holder if the holder lacks it.
    pub(crate) fn hold(&self, node: &Node, names: &[String]) {
        if let Some(device) = self.device.as_ref().filter(|_| !names.contains(&self.key))
            && let Err(e) = node.holding.put(&self.key, device.as_fd())
        {
            tracing::warn!(volume = self.record.volume, "the holder does not have the volume's device: {e}");
        }
    }

    /// Returns the message of the volume's fault; empty without one.
    pub(crate) fn condition(&mut self) -> String {
        let is_served = self.is_served();
        match &self.failing {
            Some(failing) if !is_served => failing.message.clone(),
            _ if is_served => String::new(),
            _ => "the mount of the volume is not served at the moment".to_owned(),
        }
    }
}

/// Formats an error on one line, for an event of Kubernetes.
pub(crate) fn told(e: &Error) -> String {
    e.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}
