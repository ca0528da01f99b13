//! A mount from its start to its end.
//!
//! Bounds: a mount runs [`THREADS`] requests at the same time, and waits at its end at most [`CLOSE_MAX`] for open
//! files.

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
use crate::prefetch::{Prefetch, Shared};
use crate::reader::AheadBudget;
use crate::status::MountStatus;
use crate::tree::{NamedSource, Tree};

/// Threads of a mount: requests that run at the same time, each in its own thread.
pub const THREADS: usize = 16;
/// Time that an ending mount waits for open files.
const CLOSE_MAX: Duration = Duration::from_secs(10);
const CLOSE_STEP: Duration = Duration::from_millis(10);
/// Name of the journal of open files in a [`Device`]'s folder.
const OPENS: &str = "opens";
/// Name of the file in a [`Device`]'s folder that the serving process locks; it has its process id.
pub const KEEPER: &str = "keeper";
/// Read-ahead of the kernel in a file.
const SYSTEM_AHEAD_KB: u64 = 1024;
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Options of a mount.
#[derive(Debug)]
pub struct MountOptions {
    /// The sources, from [`NamedSource::parse`].
    pub sources: Vec<NamedSource>,
    /// The mount point: an existing, empty folder.
    pub folder: PathBuf,
    /// Time for which names and attributes of remote files are cached.
    pub refresh: Duration,
    /// Whether other users may read; a mount by root allows them always.
    pub allow_other: bool,
    /// The page cache of remote files.
    pub cache: Option<Arc<Cache>>,
    /// Whether the mount reads all remote files into the page cache from its start.
    pub prefetch: bool,
    /// A device that another process has mounted at the folder and keeps open; `None` if this process mounts.
    pub device: Option<Device>,
}

/// A running mount. Dropping it leaves a dead mount: call [`Mounted::end`].
#[derive(Debug)]
pub struct Mounted {
    session: BackgroundSession,
    folder: PathBuf,
    device: Option<String>,
    cache: Option<Arc<Cache>>,
    prefetch: Option<Prefetch>,
    /// The lock of a process that serves another's device; the kernel releases it when the process ends.
    lock: Option<File>,
}

impl Mounted {
    /// Mounts sources at a folder, after it has unmounted a dead mount of Forebay there.
    ///
    /// # Errors
    /// NotFound for a missing source, a missing folder or a system without FUSE; Conflict for a folder in use;
    /// PermissionDenied; Invalid for a prefetch of remote files without a cache folder; errors of a source.
    pub fn start(options: MountOptions) -> Result<Self> {
        let lock = options.device.as_ref().map(|device| serve_alone(&device.folder)).transpose()?;
        let folder = match &lock {
            Some(_) => options.folder.clone(),
            None => {
                check_device()?;
                point::free(&options.folder)?
            }
        };
        let (mut sources, mut remote) = (Vec::new(), Vec::new());
        for NamedSource { name, source } in &options.sources {
            if !is_remote(source) && point::is_within(&folder, Path::new(source.trim_start_matches("file://"))) {
                return Err(Error::invalid("the mount would lie in its own source")
                    .with("source", source)
                    .with("folder", folder.display())
                    .hint("name a folder elsewhere"));
            }
            let tree = Arc::new(FileTree::open(source)?);
            let below = format!("{}/", tree.uri());
            let cache = options.cache.as_ref().filter(|_| tree.is_remote());
            let near = cache.and_then(|cache| PageCachedSource::below(&below, cache));
            if options.prefetch && tree.is_remote() {
                remote.push((tree.clone(), near.clone().ok_or_else(no_cache)?));
            }
            sources.push((OsString::from(name), MountedSource { tree, near }));
        }
        let names: Vec<&str> = options.sources.iter().map(|named| named.source.as_str()).collect();
        let config = config(&names.join(" "), options.allow_other);
        let tree = Tree::new(sources, options.refresh);
        let (budget, progress) = (Arc::new(AheadBudget::default()), Shared::default());
        let adapter = |open| Adapter::new(tree, budget.clone(), options.prefetch.then(|| progress.clone()), open);
        let session = match &options.device {
            None => Session::new(adapter(OpenTable::default()), &folder, &config),
            Some(device) => {
                let (journal, left) = Journal::open(&device.folder.join(OPENS))?;
                device::session(adapter(OpenTable::noted(journal, left)), device, config)
            }
        };
        let session = session.map_err(|e| unmountable(&e).with("folder", folder.display()))?.spawn()?;
        let line = point::top_mount(&folder);
        if let Some(line) = &line {
            point::read_further_ahead(line, SYSTEM_AHEAD_KB);
        }
        let quota = options.cache.as_ref().and_then(|cache| cache.stats().disk).map_or(0, |disk| disk.tier.quota);
        let prefetch = options.prefetch.then(|| Prefetch::start(remote, quota, budget, progress)).transpose()?;
        Ok(Self { session, folder, device: line.map(|line| line.device), cache: options.cache, prefetch, lock })
    }

    /// Returns the mount point, with symbolic links resolved.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a function that returns the current status, also after the mount has ended.
    pub fn status(&self) -> impl Fn() -> MountStatus + Send + Sync + 'static {
        let progress = self.prefetch.as_ref().map(Prefetch::progress);
        move || MountStatus { prefetch: progress.as_ref().map(Shared::get) }
    }

    /// Whether the mount was unmounted.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts, waits at most 10 seconds for open files, and writes pages that are not written yet. Returns whether
    /// all files were closed; reads of open files fail afterwards. A device of another process stays mounted, for the
    /// next process.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end(self) -> Result<bool> {
        self.prefetch.iter().for_each(Prefetch::stop);
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
        let is_reading = || self.prefetch.as_ref().is_some_and(|prefetch| !prefetch.has_ended());
        while (!self.has_ended() || is_reading()) && Instant::now() < until {
            std::thread::sleep(CLOSE_STEP);
        }
        let is_closed = self.has_ended();
        // Its destructor would unmount by path, and the folder may have another mount by now.
        std::mem::forget(self.session);
        // The destructor writes the remaining pages.
        drop(self.cache);
        if was_left {
            return Err(Error::internal("the threads of the mount ended, and it was mounted still"));
        }
        Ok(is_closed)
    }
}

/// Locks a folder for this process, which serves its mount.
///
/// # Errors
/// Conflict when another process serves the mount.
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

fn no_cache() -> Error {
    Error::invalid("a prefetch needs a cache folder, which keeps the bytes of remote files")
        .hint("name a folder that can be written to: --cache FOLDER")
}

fn config(sources: &str, allow_other: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
        MountOption::FSName(sources.replace(',', "%2C")),
        // By this subtype a later process recognizes mounts of Forebay.
        MountOption::CUSTOM("subtype=forebay".to_owned()),
    ];
    let is_root = rustix::process::geteuid().is_root();
    config.acl = if allow_other || is_root { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    config
}

/// Checks that this process can open the FUSE device.
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
    // Without the helper fusermount, only root may mount.
    if denied || (e.kind() == io::ErrorKind::NotFound && !rustix::process::geteuid().is_root()) {
        return Error::new(ErrorKind::PermissionDenied, format!("not allowed to mount: {text}")).hint(
            "mount as root, or install fuse3, whose fusermount3 lets users mount; in a container: --cap-add SYS_ADMIN",
        );
    }
    Error::new(ErrorKind::Unavailable, format!("cannot mount: {text}"))
}
