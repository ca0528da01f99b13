//! How a consumer waits for its next chunk: its checks, its warning, and its errors.

use std::time::Duration;

use forebay_core::{Error, ErrorKind, Result, Ticks};
use forebay_plan::Floor;
use forebay_proto::Missing;

use crate::options::POLL;
use crate::stream::reorder_buffer::Head;
use crate::stream::service_stream::ServiceStream;
use crate::stream::shared::{SessionState, StreamState};
use crate::stream::step_sync::StepSync;

impl ServiceStream {
    /// Waits for the next item of the reorder buffer. Returns Empty once the floor of all consumers is above `floor`. A
    /// starved consumer has no step to deliver.
    pub(super) fn wait(
        &mut self,
        poll: &mut dyn FnMut() -> Result<()>,
        is_starved: bool,
        floor: Option<Floor>,
    ) -> Result<Head> {
        let (mut began, mut missing) = (None, None);
        let may_merge = floor.is_none() || self.progress.has_room();
        loop {
            let now = self.shared.now();
            let mut state = self.shared.lock();
            if let Some(error) = &state.fatal {
                return Err(error.clone());
            }
            let head = if may_merge { state.pop_head() } else { Head::Empty };
            if !matches!(head, Head::Empty) || state.has_floor_moved(floor) {
                if began.is_some() && is_starved {
                    state.meter.set_waiting(now, false);
                }
                return Ok(head);
            }
            self.check_deadline(&state, is_starved)?;
            missing = self.check_others(&state, missing)?;
            let Some(since) = began else {
                began = Some(now);
                if is_starved {
                    state.meter.set_waiting(now, true);
                    drop(state);
                    let consumed = self.progress.acknowledge_merged();
                    self.acknowledge(consumed);
                }
                continue;
            };
            let is_coming = state.buffer.is_head_coming() || !is_starved;
            if state.steps.as_ref().is_some_and(|steps| steps.is_due(now)) {
                self.shared.to_send.notify_one();
            }
            drop(self.shared.wait(state, POLL));
            if self.shared.now() - since >= self.patience {
                if !is_coming || floor.is_some() {
                    self.liveness.run(self.shared.now(), poll)?;
                }
                if !is_coming || missing.is_some() {
                    self.warn_of_waiting();
                }
            }
            poll()?;
        }
    }

    /// Checks the consumers for which this one waits. The wait for a running consumer has no bound; the wait for one
    /// that is not running ends after `rank_timeout`. Returns when the first of these was missing.
    fn check_others(&self, state: &StreamState, since: Option<Ticks>) -> Result<Option<Ticks>> {
        let missing = state.steps.as_ref().map_or(&[][..], StepSync::missing);
        let [first, ..] = missing else { return Ok(None) };
        let now = self.shared.now();
        let since = since.unwrap_or(now);
        if now - since >= self.rank_timeout {
            Err(absent(&self.job, first, missing, self.rank_timeout))
        } else {
            Ok(Some(since))
        }
    }

    /// Warns the user once that no worker computes the next batch. The stream continues to wait: workers may be
    /// starting.
    fn warn_of_waiting(&mut self) {
        let Some(warn) = self.warn.take() else { return };
        let (job, address, seconds) = (&self.job, &self.address, self.patience.as_secs_f64());
        let state = self.shared.lock();
        let missing = state.steps.as_ref().map_or(&[][..], StepSync::missing);
        let error = match state.session {
            _ if !missing.is_empty() => {
                let names = names_of(missing);
                format!(
                    "consumers {names} of job {job:?} have had no process that reads them for {seconds:.0} s; still waiting for them"
                )
            }
            SessionState::Broken(_) => format!("the dispatcher at {address} does not answer; still waiting"),
            SessionState::Open | SessionState::Finished => {
                let cause = state.last_failure.as_ref().map_or_else(String::new, |cause| format!(" ({cause})"));
                format!("no worker has computed for job {job:?} for {seconds:.0} s{cause}; still waiting")
            }
        };
        drop(state);
        let error = Error::unavailable(error).with("address", address);
        warn(&error.hint("`forebay workers` lists the workers, and `forebay jobs` their jobs"));
    }

    /// Fails if there was no session for the deadline. A starved stream does not fail while a fetch of its next split
    /// is running: that needs no dispatcher.
    fn check_deadline(&self, state: &StreamState, is_starved: bool) -> Result<()> {
        let now = self.shared.now();
        let is_stranded = if is_starved {
            state.is_stranded(now, self.deadline)
        } else {
            state.is_dispatcher_lost(now, self.deadline)
        };
        if is_stranded { Err(self.unanswered()) } else { Ok(()) }
    }

    pub(super) fn unanswered(&self) -> Error {
        let seconds = self.deadline.as_secs_f64();
        Error::new(
            ErrorKind::Unavailable,
            format!("the dispatcher at {} did not answer for {seconds:.1} s", self.address),
        )
        .with("address", &self.address)
        .with("split", format!("{} of epoch {}", self.progress.at().ordinal, self.progress.at().epoch))
        .hint("start it again with the same state folder, and go on from the last saved state")
    }
}

fn names_of(missing: &[Missing]) -> String {
    missing.iter().map(|m| m.consumer.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the error for consumers that did not start or report until the bound.
fn absent(job: &str, first: &Missing, missing: &[Missing], bound: Duration) -> Error {
    let seconds = bound.as_secs_f64();
    let names = names_of(missing);
    let error = match first.epoch {
        Some(epoch) => Error::unavailable(format!(
            "consumer {} of job {job:?} is already in epoch {epoch}, and this one waits for its number of batches \
             in an earlier epoch",
            first.consumer
        ))
        .hint("let all consumers load states of the same step"),
        None => Error::unavailable(format!(
            "consumers {names} of job {job:?} had no process that read them for {seconds:.1} s, and the others wait for their numbers \
             of batches"
        ))
        .hint(
            "start all consumers; resumed ones must load saved states of the same step; rank_timeout= sets how long \
             the others wait, and with even=False each consumer ends by itself",
        ),
    };
    error.with("consumers", names)
}
