//! All volumes of a node.
//!
//! One call at a time changes a volume; a concurrent call gets [`Refused::Busy`]. A thread restarts the keepers of
//! broken volumes.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result};

use crate::content::Content;
use crate::limits::VOLUMES_MAX;
use crate::target;
use crate::volume::{Node, Volume, told};

/// Interval between two checks of the keepers, and the number of these checks between two checks of the holder.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
const HOLDER_LOOKS: u32 = 50;
/// Timeout for the size of a volume's file system.
const SIZE_MAX: Duration = Duration::from_secs(5);

/// Why the driver rejects a call.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Another call changes the volume.
    Busy,
    /// The target has the volume with other attributes.
    Other,
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// Size of a volume's file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) free: u64,
    pub(crate) inodes: u64,
}

type Shared = Arc<Mutex<Volume>>;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Driver {
    node: Node,
    volumes: Mutex<BTreeMap<String, Shared>>,
    /// The volume of each target: its key and its id.
    targets: Mutex<BTreeMap<PathBuf, (String, String)>>,
    busy: Arc<Mutex<HashSet<String>>>,
}

/// A guard for the one call that changes a volume.
struct Turn {
    busy: Arc<Mutex<HashSet<String>>>,
    id: String,
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.busy).remove(&self.id);
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// Restores the volumes that an earlier driver recorded.
    ///
    /// # Errors
    /// Errors of the holder and of the system.
    pub(crate) fn new(node: Node) -> Result<Self> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&node.volumes)?;
        let driver = Self { node, volumes: Mutex::default(), targets: Mutex::default(), busy: Arc::default() };
        for entry in std::fs::read_dir(&driver.node.volumes)? {
            let (folder, key) = entry.map(|entry| (entry.path(), entry.file_name()))?;
            let key = key.to_string_lossy().into_owned();
            let Some(volume) = Volume::restore(&driver.node, &folder, &key)? else { continue };
            let owner = (key.clone(), volume.record.volume.clone());
            lock(&driver.targets).extend(volume.record.targets.iter().map(|at| (at.clone(), owner.clone())));
            lock(&driver.volumes).insert(key, Arc::new(Mutex::new(volume)));
        }
        Ok(driver)
    }

    fn turn(&self, id: &str) -> Result<Turn, Refused> {
        let turn = Turn { busy: self.busy.clone(), id: id.to_owned() };
        if lock(&self.busy).insert(id.to_owned()) {
            return Ok(turn);
        }
        // The other call's guard removes the entry.
        std::mem::forget(turn);
        Err(Refused::Busy)
    }

    fn get(&self, key: &str) -> Option<Shared> {
        lock(&self.volumes).get(key).cloned()
    }

    /// Publishes a volume at a target.
    ///
    /// # Errors
    /// See [`Refused`]. A failed call leaves no new mount.
    pub(crate) fn publish(&self, id: &str, at: &Path, content: Content) -> Result<(), Refused> {
        let _turn = self.turn(id)?;
        let key = content.key(id);
        let owner = lock(&self.targets).entry(at.to_owned()).or_insert((key.clone(), id.to_owned())).clone();
        if owner.1 != id {
            let message = format!("the volume {:?} is at the target", owner.1);
            return Err(Error::new(ErrorKind::Conflict, message).with("target", at.display()).into());
        }
        if owner.0 != key {
            return Err(Refused::Other);
        }
        let published = self.find_or_make(id, &key, content).and_then(|volume| {
            let mut volume = lock(&volume);
            volume.publish(&self.node, at).inspect_err(|_| self.retire(&key, &mut volume))
        });
        let is_there = self.get(&key).is_some_and(|volume| lock(&volume).record.targets.contains(at));
        if !is_there {
            lock(&self.targets).remove(at);
        }
        Ok(published?)
    }

    fn find_or_make(&self, id: &str, key: &str, content: Content) -> Result<Shared> {
        if let Some(volume) = self.get(key) {
            return Ok(volume);
        }
        if lock(&self.volumes).len() >= VOLUMES_MAX {
            let message = format!("this node has {VOLUMES_MAX} volumes");
            return Err(Error::new(ErrorKind::Exhausted, message).hint("run the pod on another node"));
        }
        let volume = Arc::new(Mutex::new(Volume::make(&self.node, id, content)?));
        lock(&self.volumes).insert(key.to_owned(), volume.clone());
        Ok(volume)
    }

    /// Removes a volume without targets. The watch thread retries a failed removal.
    fn retire(&self, key: &str, volume: &mut Volume) {
        if !volume.record.targets.is_empty() {
            return;
        }
        match volume.remove(&self.node) {
            Ok(()) => drop(lock(&self.volumes).remove(key)),
            Err(e) => tracing::warn!(volume = volume.record.volume, "a volume is not taken away yet: {}", told(&e)),
        }
    }

    /// Unpublishes a volume from a target; also a target without a record.
    ///
    /// # Errors
    /// See [`Refused`].
    pub(crate) fn unpublish(&self, id: &str, at: &Path) -> Result<(), Refused> {
        let _turn = self.turn(id)?;
        let owner = lock(&self.targets).get(at).cloned();
        let Some((key, owner)) = owner else { return Ok(target::remove(at)?) };
        if owner != id {
            let message = format!("the volume {owner:?} is at the target, not {id:?}");
            return Err(Error::new(ErrorKind::Conflict, message).with("target", at.display()).into());
        }
        let Some(volume) = self.get(&key) else { return Ok(target::remove(at)?) };
        let mut volume = lock(&volume);
        volume.unpublish(at)?;
        lock(&self.targets).remove(at);
        self.retire(&key, &mut volume);
        Ok(())
    }

    /// Returns the size of a volume at a target, and its fault (empty without one).
    ///
    /// # Errors
    /// NotFound when the volume is not published at the target.
    pub(crate) fn look(&self, id: &str, at: &Path) -> Result<(Option<Size>, String)> {
        let owner = lock(&self.targets).get(at).filter(|(_, owner)| owner == id).cloned();
        let volume = owner.and_then(|(key, _)| self.get(&key));
        let Some(volume) = volume.filter(|_| target::is_ours(at)) else {
            return Err(Error::new(ErrorKind::NotFound, format!("the volume {id:?} is not at this path"))
                .with("path", at.display()));
        };
        let condition = match volume.try_lock() {
            Ok(mut volume) => volume.condition(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().condition(),
            // A call changes the volume now, so its condition is unknown.
            Err(TryLockError::WouldBlock) => String::new(),
        };
        if !condition.is_empty() {
            return Ok((None, condition));
        }
        let (send, receive) = channel();
        let at = at.to_owned();
        // `statvfs` blocks until a keeper serves the mount, so it runs in a thread of its own.
        std::thread::Builder::new().name("forebay-size".to_owned()).spawn(move || {
            let _ = send.send(rustix::fs::statvfs(&at).map(|of| Size {
                bytes: of.f_blocks * of.f_frsize,
                free: of.f_bavail * of.f_frsize,
                inodes: of.f_files,
            }));
        })?;
        Ok(match receive.recv_timeout(SIZE_MAX) {
            Ok(Ok(size)) => (Some(size), String::new()),
            Ok(Err(e)) => (None, format!("the volume does not say its size: {e}")),
            Err(_) => (None, format!("the volume does not answer within {SIZE_MAX:?}")),
        })
    }

    /// Checks keepers and the holder, and heals volumes, until `is_over` returns true.
    pub(crate) fn watch(self: Arc<Self>, is_over: impl Fn() -> bool) {
        for look in 0_u32.. {
            if is_over() {
                return;
            }
            self.node.holding.reap();
            let all: Vec<(String, Shared)> =
                lock(&self.volumes).iter().map(|(key, volume)| (key.clone(), volume.clone())).collect();
            if look % HOLDER_LOOKS == 0 && !all.is_empty() {
                self.hold_all(&all);
            }
            for (key, volume) in all {
                self.look_after(key, volume);
            }
            std::thread::sleep(LOOK);
        }
    }

    fn hold_all(&self, all: &[(String, Shared)]) {
        match self.node.holding.names() {
            Ok(names) => all.iter().for_each(|(_, volume)| {
                if let Ok(volume) = volume.try_lock() {
                    volume.hold(&self.node, &names);
                }
            }),
            Err(e) => tracing::warn!("{}", told(&e)),
        }
    }

    /// Heals a broken volume in a thread of its own, because a source may answer slowly.
    fn look_after(self: &Arc<Self>, key: String, volume: Shared) {
        // A locked volume is being healed, or changed by a call.
        let Ok(mut looked) = volume.try_lock() else { return };
        if !looked.record.targets.is_empty() && !looked.is_broken() {
            return;
        }
        let id = looked.record.volume.clone();
        drop(looked);
        let Ok(turn) = self.turn(&id) else { return };
        let driver = self.clone();
        let spawned = std::thread::Builder::new().name("forebay-heal".to_owned()).spawn(move || {
            let _turn = turn;
            // Meanwhile a call may have removed the volume, and another may have created it again.
            if !driver.get(&key).is_some_and(|now| Arc::ptr_eq(&now, &volume)) {
                return;
            }
            let mut volume = lock(&volume);
            if volume.record.targets.is_empty() {
                driver.retire(&key, &mut volume);
            } else if volume.is_broken() {
                volume.heal(&driver.node);
            }
        });
        if let Err(e) = spawned {
            tracing::warn!(volume = id, "a volume is not looked after yet: {e}");
        }
    }
}
