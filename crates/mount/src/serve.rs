//! A mount from its start to its end.
//!
//! Bounds: [`THREADS`] requests are answered at once; a mount that ends waits at most [`CLOSE_MAX`] for files that are open.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_cache::Cache;
use forebay_core::{Error, ErrorKind, Result};
use forebay_exec::PageCachedSource;
use forebay_io::{FileTree, is_remote};
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::fs::{FlockOperation, flock};

use crate::adapter::{Adapter, MountedSource};
use crate::device::{self, Device};
use crate::journal::Journal;
use crate::open::OpenTable;
use crate::point;
use crate::tree::{NamedSource, Tree};

/// Requests that are answered at once. Each waits for its source in a thread of its own.
pub const THREADS: usize = 16;
/// How long a mount that ends waits for files that are open.
const CLOSE_MAX: Duration = Duration::from_secs(10);
const CLOSE_STEP: Duration = Duration::from_millis(10);
/// The file of a [`Device`]'s folder that lists what is open.
const OPENS: &str = "opens";
/// The file of a [`Device`]'s folder that says who serves.
pub const KEEPER: &str = "keeper";
/// How far the system reads ahead in a file.
const SYSTEM_AHEAD_KB: u64 = 1024;
pub(crate) const DEVICE: &str = "/dev/fuse";

/// What is mounted where, and how.
#[derive(Debug)]
pub struct MountOptions {
    /// The sources, as [`NamedSource::parse`] gives them.
    pub sources: Vec<NamedSource>,
    /// The folder of the mount: it is there, and empty.
    pub folder: PathBuf,
    /// How long names and attributes of remote files are believed.
    pub refresh: Duration,
    /// Whether other users than this process's may read; root lets them in any case.
    pub allow_other: bool,
    /// Where the bytes of remote files are kept.
    pub cache: Option<Arc<Cache>>,
    /// The device, which another process has mounted at the folder and keeps; `None`: this process mounts.
    pub device: Option<Device>,
}

/// A mount that lives. Dropping it leaves a dead mount: call [`Mounted::end`].
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    folder: PathBuf,
    device: Option<String>,
    cache: Option<Arc<Cache>>,
    /// Says that this process serves a device of another; the system lets go of it when this process ends.
    lock: Option<File>,
}

impl Mounted {
    /// Mounts sources at a folder. A dead mount of Forebay there is taken away first.
    ///
    /// # Errors
    /// NotFound for a source, a folder or a system without FUSE; Conflict for a folder that is in use; PermissionDenied;
    /// what a source says.
    pub fn start(options: MountOptions) -> Result<Self> {
        let lock = options.device.as_ref().map(|device| serve_alone(&device.folder)).transpose()?;
        let folder = match &lock {
            Some(_) => options.folder.clone(),
            None => {
                check_device()?;
                point::free(&options.folder)?
            }
        };
        let mut sources = Vec::new();
        for NamedSource { name, source } in &options.sources {
            if !is_remote(source) && point::is_within(&folder, Path::new(source.trim_start_matches("file://"))) {
                return Err(Error::invalid("the mount would lie in its own source")
                    .with("source", source)
                    .with("folder", folder.display())
                    .hint("name a folder elsewhere"));
            }
            let tree = FileTree::open(source)?;
            let below = format!("{}/", tree.uri());
            let cache = options.cache.as_ref().filter(|_| tree.is_remote());
            let near = cache.and_then(|cache| PageCachedSource::below(&below, cache));
            sources.push((OsString::from(name), MountedSource { tree, near }));
        }
        let names: Vec<&str> = options.sources.iter().map(|named| named.source.as_str()).collect();
        let config = config(&names.join(" "), options.allow_other);
        let tree = Tree::new(sources, options.refresh);
        let session = match &options.device {
            None => Session::new(Adapter::new(tree, OpenTable::default()), &folder, &config),
            Some(device) => {
                let (journal, left) = Journal::open(&device.folder.join(OPENS))?;
                device::session(Adapter::new(tree, OpenTable::noted(journal, left)), device, config)
            }
        };
        let session = session.map_err(|e| unmountable(&e).with("folder", folder.display()))?.spawn()?;
        let line = point::top_mount(&folder);
        if let Some(line) = &line {
            point::read_further_ahead(line, SYSTEM_AHEAD_KB);
        }
        Ok(Self { session, folder, device: line.map(|line| line.device), cache: options.cache, lock })
    }

    /// Returns the folder, by its whole path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says whether it was unmounted.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts it, and waits at most 10 seconds for files that are open. Returns whether all were closed; others fail from
    /// now on. Pages that are not written yet are written. A device of another process stays mounted, for the next one.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(self) -> Result<bool> {
        let is_ours = || self.device.is_some() && point::top_mount(&self.folder).map(|line| line.device) == self.device;
        if self.lock.is_some() && is_ours() {
            std::mem::forget(self.session);
            drop(self.cache);
            return Ok(true);
        }
        let was_left = self.has_ended() && is_ours();
        if is_ours() {
            point::detach(&self.folder)?;
        }
        let until = Instant::now() + CLOSE_MAX;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(CLOSE_STEP);
        }
        let is_closed = self.has_ended();
        // Dropped, it would unmount by name, and the folder may be another mount's by now.
        std::mem::forget(self.session);
        // Writes the pages that wait.
        drop(self.cache);
        if was_left {
            return Err(Error::internal("the threads of the mount ended, and it was mounted still"));
        }
        Ok(is_closed)
    }
}

/// Notes that this process serves the mount of a folder.
///
/// # Errors
/// Conflict, when another process does.
fn serve_alone(folder: &Path) -> Result<File> {
    let path = folder.join(KEEPER);
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        Error::new(ErrorKind::Conflict, "another process serves this mount").with("file", path.display())
    })?;
    file.set_len(0)?;
    write!(file, "{}", std::process::id())?;
    Ok(file)
}

fn config(sources: &str, allow_other: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::FSName(sources.replace(',', "%2C")),
        // By this name a later process knows it as Forebay's.
        MountOption::CUSTOM("subtype=forebay".to_owned()),
    ];
    let is_root = rustix::process::geteuid().is_root();
    config.acl = if allow_other || is_root { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// Says what to do where there is no FUSE.
fn check_device() -> Result<()> {
    match std::fs::OpenOptions::new().read(true).write(true).open(DEVICE) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied || e.raw_os_error() == Some(libc::EPERM) => {
            Err(Error::new(ErrorKind::PermissionDenied, format!("this user may not open {DEVICE}"))
                .hint("in a container: --device /dev/fuse --cap-add SYS_ADMIN; else give the user the device"))
        }
        Err(e) => Err(Error::new(ErrorKind::NotFound, format!("{DEVICE} cannot be opened: {e}"))
            .hint("load the module: modprobe fuse; in a container: --device /dev/fuse --cap-add SYS_ADMIN")),
    }
}

fn unmountable(e: &io::Error) -> Error {
    let text = e.to_string();
    let denied = e.kind() == io::ErrorKind::PermissionDenied || text.contains("EPERM") || text.contains("fusermount");
    // Without the helper that users have, only root mounts.
    if denied || (e.kind() == io::ErrorKind::NotFound && !rustix::process::geteuid().is_root()) {
        return Error::new(ErrorKind::PermissionDenied, format!("not allowed to mount: {text}")).hint(
            "mount as root, or install fuse3, whose fusermount3 lets users mount; in a container: --cap-add SYS_ADMIN",
        );
    }
    Error::new(ErrorKind::Unavailable, format!("cannot mount: {text}"))
}
