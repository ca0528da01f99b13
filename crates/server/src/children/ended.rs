//! Errors for callers that wait for an `up` whose dispatcher or workers have ended.
//!
//! A service elsewhere may come back, so its consumers wait. The children of this process do not come back by
//! themselves, and this process sees how they ended. These checks never wait for the lock of the fleet: while another
//! thread starts or ends children, they find nothing.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::TryLockError;

use forebay_client::Service;
use forebay_core::{Error, Result};

use crate::children::fleet::Fleet;
use crate::up::Up;

/// The most workers that an error names; of more, it has the number.
const NAMED_MAX: usize = 4;

impl Up {
    /// Checks that the dispatcher has not ended; without it nothing works.
    ///
    /// # Errors
    /// Unavailable, with its exit status, its last output, and a hint.
    pub fn check(&self) -> Result<()> {
        self.look(Fleet::dispatcher_ended)
    }

    /// As [`Up::check`], and checks that not all workers have ended without a replacement. A worker that another
    /// process started (with `local`, also a consumer's local worker) is enough.
    ///
    /// # Errors
    /// As [`Up::check`]; errors of the request to the dispatcher.
    pub fn check_workers(&self, service: &Service, local: bool, poll: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.check()?;
        if self.starts_others() {
            return Ok(());
        }
        let Err(error) = self.look(Fleet::workers_ended) else { return Ok(()) };
        let there = service.workers(poll)?;
        let computes = |w: &forebay_client::WorkerStatus| w.state != "lost" && (local || !w.local);
        if there.iter().any(computes) { Ok(()) } else { Err(error) }
    }

    fn look(&self, ended: impl FnOnce(&mut Fleet) -> Option<Error>) -> Result<()> {
        let mut fleet = match self.try_fleet() {
            Ok(fleet) => fleet,
            Err(TryLockError::Poisoned(fleet)) => fleet.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        if fleet.closed {
            return Ok(());
        }
        ended(&mut fleet).map_or(Ok(()), Err)
    }
}

impl Fleet {
    fn dispatcher_ended(&mut self) -> Option<Error> {
        let status = self.dispatcher.ended()?;
        let error = self.dispatcher.unavailable(&format!("ended ({status}), and with it this service"));
        Some(error.hint(advice(
            status,
            "call up() again, and go on from the last saved state: load_state_dict() goes to where the loop over the batches was",
        )))
    }

    fn workers_ended(&mut self) -> Option<Error> {
        let mut ended = self.workers.iter_mut().map(|w| w.child.ended()).collect::<Option<Vec<_>>>()?;
        let last = ended.pop()?;
        let others = self.workers.iter().zip(&ended).take(NAMED_MAX).map(|(place, status)| place.child.said(status));
        let mut others: Vec<String> = others.collect();
        if ended.len() > others.len() {
            others.push(format!("{} more", ended.len() - others.len()));
        }
        let child = &self.workers.last()?.child;
        let too = if others.is_empty() { String::new() } else { format!(", as did {}", others.join(", ")) };
        let error = child.unavailable(&format!("ended ({last}){too}: no worker is left"));
        Some(error.hint(advice(
            last,
            "call up() again and load_state_dict(), which goes to where the loop over the batches was; \
             up(workers=\"auto\") starts others for workers that end",
        )))
    }
}

/// Returns a hint; for SIGKILL, with its usual other cause.
fn advice(status: ExitStatus, what: &str) -> String {
    match status.signal() {
        Some(9) => format!("{what}. SIGKILL is also how the system ends a process when memory is short"),
        _ => what.to_owned(),
    }
}
