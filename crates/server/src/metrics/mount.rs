//! The metrics of a mount, which a thread of their own serves: a mount has no runtime.

use std::net::SocketAddr;

use forebay_core::Result;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::text::Exposition;
use super::{Birth, Metrics, Role, bind, serve};

/// The states of a prefetch, as the label of `forebay_mount_prefetch_state` has them.
pub(super) const PREFETCH_STATES: [&str; 5] = ["counting", "reading", "done", "full", "stopped"];

/// The progress of a mount's prefetch.
#[derive(Debug, Clone, Copy)]
pub struct PrefetchFigures {
    /// `counting`, `reading`, `done`, `full` or `stopped`.
    pub state: &'static str,
    /// Remote files that were found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that the cache folder has.
    pub files_done: u64,
    /// Bytes that the cache folder has.
    pub bytes_done: u64,
    /// Files that could not be read, and folders that could not be listed.
    pub failed: u64,
    /// Of these, the folders.
    pub unlisted: u64,
}

/// The figures of a mount.
#[derive(Debug, Clone, Copy, Default)]
pub struct MountFigures {
    /// Whether the mount answers.
    pub answers: bool,
    /// The progress of its prefetch; `None` without one, or without an answer.
    pub prefetch: Option<PrefetchFigures>,
}

/// Returns the current figures. It must not wait.
pub type MountView = Box<dyn Fn() -> MountFigures + Send + Sync>;

/// The metrics of a mount, served until this is dropped.
#[derive(Debug)]
pub struct MountMetrics {
    _stop: DropGuard,
}

impl MountMetrics {
    /// Listens, and serves in a thread.
    ///
    /// # Errors
    /// Conflict when the port is taken; Invalid when it cannot be opened for another reason.
    pub fn start(at: SocketAddr, view: MountView) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(bind(at))?;
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let metrics = Metrics { role: Role::Mount(view), certificate_ends: None, birth: Birth::now() };
        std::thread::Builder::new().name("forebay-metrics".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    never = serve(Some(listener), metrics) => match never {},
                }
            });
        })?;
        Ok(Self { _stop: stop.drop_guard() })
    }
}

pub(super) fn write(text: &mut Exposition, figures: &MountFigures) {
    text.gauge("forebay_mount_up", "1 while the mount answers.").is(figures.answers);
    let Some(prefetch) = figures.prefetch else { return };
    let mut state = text.gauge("forebay_mount_prefetch_state", "1 for the state of the prefetch.");
    for each in PREFETCH_STATES {
        state.with(&[("state", each)], each == prefetch.state);
    }
    for (name, help, value) in [
        ("forebay_mount_prefetch_files", "Remote files that the mount has found.", prefetch.files),
        ("forebay_mount_prefetch_bytes", "Bytes of these files.", prefetch.bytes),
        ("forebay_mount_prefetch_files_cached", "Files that the cache folder has.", prefetch.files_done),
        ("forebay_mount_prefetch_bytes_cached", "Bytes of files that the cache folder has.", prefetch.bytes_done),
        ("forebay_mount_prefetch_failed", "Files that could not be read, and unlisted folders.", prefetch.failed),
        ("forebay_mount_prefetch_unlisted", "Folders that could not be listed.", prefetch.unlisted),
    ] {
        text.gauge(name, help).is(value);
    }
}
