//! Asks a service for its state on a thread of its own, so that keys work while a dispatcher does not answer.
//!
//! Bounds: at most one look waits for the screen.

#![expect(clippy::disallowed_methods, reason = "a thread looks every two seconds; looks have a time")]

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use forebay_client::JobStatus;
use forebay_core::{ErrorKind, Result};
use forebay_dashboard::model::Snapshot;
use forebay_server::Service;

use crate::commands::go_on;

/// How often the thread checks whether another job is watched.
const TURN: Duration = Duration::from_millis(100);

/// The tenant and the name of a job.
pub(super) type JobId = (String, String);

/// A look: the state of a service at one time.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) snapshot: Snapshot,
    /// The watched job in full.
    pub(super) job: Option<JobStatus>,
}

/// The looks at a service.
pub(super) struct Feed {
    looks: Receiver<Result<Look>>,
    watched: Arc<Mutex<Option<JobId>>>,
}

impl Feed {
    /// Starts the thread, which ends with the feed.
    ///
    /// # Errors
    /// Exhausted when no thread can be started.
    pub(super) fn start(service: Service, every: Duration) -> Result<Self> {
        let (send, looks) = sync_channel(1);
        let watched = Arc::new(Mutex::new(None));
        let of_thread = watched.clone();
        std::thread::Builder::new()
            .name("forebay-top".to_owned())
            .spawn(move || look_on(&service, every, &of_thread, &send))?;
        Ok(Self { looks, watched })
    }

    /// Returns the last look, if there is a new one.
    pub(super) fn latest(&self) -> Option<Result<Look>> {
        self.looks.try_iter().last()
    }

    /// Shows this job in full from now on.
    pub(super) fn watch(&self, job: Option<JobId>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = job;
    }
}

fn look_on(service: &Service, every: Duration, watched: &Mutex<Option<JobId>>, looks: &SyncSender<Result<Look>>) {
    let watched = || watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
    loop {
        let of = watched();
        if looks.send(look(service, of.as_ref())).is_err() {
            return;
        }
        let mut waited = Duration::ZERO;
        while waited < every && watched() == of {
            std::thread::sleep(TURN);
            waited += TURN;
        }
    }
}

/// Asks the service for its state once.
///
/// # Errors
/// Those of the calls.
pub(super) fn look(service: &Service, watched: Option<&JobId>) -> Result<Look> {
    let (jobs, workers) = (service.jobs(None, &mut go_on)?, service.workers(&mut go_on)?);
    let scale = match service.scale(&mut go_on) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
        scale => Some(scale?),
    };
    let at_ms = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let job = match watched {
        Some((tenant, name)) => service.jobs(Some(name), &mut go_on)?.into_iter().rfind(|job| job.tenant == *tenant),
        None => None,
    };
    Ok(Look { snapshot: Snapshot { at_ms, jobs, workers, scale }, job })
}
