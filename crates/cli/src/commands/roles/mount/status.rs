//! `forebay mount --status DIR --metrics HOST:PORT`: the figures of a mount that another process serves.
//!
//! A mount without a process does not answer, and a call to it waits. One thread calls, once a second; the figures say
//! that the mount is down while its last answer is older than [`ANSWER_MAX`].

#![expect(clippy::disallowed_methods, reason = "an answer of the mount has an age")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use forebay_core::Result;
use forebay_mount::{MountStatus, PrefetchState};
use forebay_server::{MountFigures, MountMetrics, PrefetchFigures, StopSignal};

use crate::output;

/// The longest age of an answer for which the mount counts as up.
const ANSWER_MAX: Duration = Duration::from_secs(15);
const INTERVAL: Duration = Duration::from_secs(1);

/// Serves the figures of the mount at a folder until a signal.
///
/// # Errors
/// As [`MountStatus::of`], if the first call fails; as [`MountMetrics::start`].
pub(super) fn serve(folder: &Path, at: SocketAddr) -> Result<()> {
    let stop = StopSignal::new()?;
    let last: Arc<Mutex<Option<(Instant, MountStatus)>>> = Arc::default();
    let (first, firsts) = mpsc::channel();
    let (write, path) = (last.clone(), folder.to_owned());
    std::thread::Builder::new().name("forebay-status".to_owned()).spawn(move || {
        loop {
            let answer = MountStatus::of(&path);
            if let Ok(status) = &answer {
                *write.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), *status));
            }
            // Only the first answer has a receiver.
            let _ = first.send(answer.map(drop));
            std::thread::sleep(INTERVAL);
        }
    })?;
    // A mount that does not answer yet is down, and no error.
    firsts.recv_timeout(ANSWER_MAX).unwrap_or(Ok(()))?;
    drop(firsts);
    let read = move || {
        let last = *last.lock().unwrap_or_else(PoisonError::into_inner);
        figures(last.filter(|(at, _)| at.elapsed() <= ANSWER_MAX).map(|(_, status)| status))
    };
    let _metrics = MountMetrics::start(at, Box::new(read))?;
    output::line(&format!("serving http://{at}/metrics of the mount at {}", folder.display()))?;
    stop.wait(|| Ok(()))
}

/// Returns the figures of a status; `None` for a mount that does not answer.
pub(super) fn figures(status: Option<MountStatus>) -> MountFigures {
    let prefetch = status.and_then(|status| status.prefetch).map(|prefetch| PrefetchFigures {
        state: match prefetch.state {
            PrefetchState::Counting => "counting",
            PrefetchState::Reading => "reading",
            PrefetchState::Done => "done",
            PrefetchState::Full => "full",
            PrefetchState::Stopped => "stopped",
        },
        files: prefetch.files,
        bytes: prefetch.bytes,
        files_done: prefetch.files_done,
        bytes_done: prefetch.bytes_done,
        failed: prefetch.failed,
        unlisted: prefetch.unlisted,
    });
    MountFigures { answers: status.is_some(), prefetch }
}
