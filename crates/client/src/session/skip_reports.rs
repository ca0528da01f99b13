//! The skipped samples of a stream that the dispatcher has not recorded yet. Pure: no clock, no I/O.
//!
//! Invariant: each session sends every sample that is not recorded; a sample that is sent twice is recorded once.

use std::collections::VecDeque;

use forebay_core::Fault;
use forebay_exec::SkippedSample;
use forebay_proto::{Lost as LostMessage, LostSample};

/// Samples in one message.
const BATCH_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct SkipReports {
    waiting: VecDeque<LostSample>,
    /// The number of recorded samples, and of the samples sent in this session; both count from the start
    /// of the stream.
    recorded: u64,
    sent: u64,
}

impl SkipReports {
    /// Adds a sample. Returns its number if it must be recorded before the stream goes on, as it might not fail again.
    pub(crate) fn add(&mut self, lost: &SkippedSample) -> Option<u64> {
        self.waiting.push_back(message_of(lost));
        (lost.loss.error.fault() == Fault::Process).then_some(self.recorded + self.waiting.len() as u64)
    }

    /// Begins a session, in which no sample was sent yet.
    pub(crate) fn restart(&mut self) {
        self.sent = self.recorded;
    }

    /// Returns the next message to send.
    pub(crate) fn next(&mut self) -> Option<LostMessage> {
        let from = (self.sent - self.recorded) as usize;
        let samples: Vec<_> = self.waiting.iter().skip(from).take(BATCH_MAX).cloned().collect();
        self.sent += samples.len() as u64;
        (!samples.is_empty()).then_some(LostMessage { number: self.sent, samples })
    }

    /// Notes that the samples up to `number` are durable.
    pub(crate) fn recorded(&mut self, number: u64) {
        while self.recorded < number && self.waiting.pop_front().is_some() {
            self.recorded += 1;
        }
        self.sent = self.sent.max(self.recorded);
    }

    /// Returns whether the samples up to `number` are durable.
    pub(crate) fn is_recorded(&self, number: u64) -> bool {
        self.recorded >= number
    }
}

/// Returns the message for a skipped sample. It has the error, without the user's stack frames and without the record.
pub(crate) fn message_of(lost: &SkippedSample) -> LostSample {
    let error = &lost.loss.error;
    let kept = error.context().iter().filter(|(key, _)| key != "traceback");
    let error = kept.fold(forebay_core::Error::new(error.kind(), error.message()), |e, (k, v)| e.with(k, v));
    LostSample {
        epoch: lost.epoch.0,
        ordinal: lost.split,
        sample: lost.loss.row.sample.0,
        repetition: lost.loss.row.epoch.0,
        error: error.to_json(),
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::{Epoch, Error, ErrorKind, SampleId};
    use forebay_data::{Loss, RowId};

    use super::*;

    fn lost(sample: u64, fault: &str) -> SkippedSample {
        let error = Error::new(ErrorKind::Function, "raised").with("fault", fault).with("traceback", "frames");
        let row = RowId { sample: SampleId(sample), epoch: Epoch(0) };
        SkippedSample { epoch: Epoch(0), split: 3, loss: Loss { row, error, record: None } }
    }

    #[test]
    fn each_session_sends_every_sample_that_is_not_recorded() {
        let mut reports = SkipReports::default();
        assert_eq!((reports.add(&lost(1, "other")), reports.add(&lost(2, "process"))), (None, Some(2)));
        let sent = reports.next().expect("both");
        assert_eq!((sent.number, sent.samples.len()), (2, 2));
        assert!(!sent.samples[0].error.contains("frames"));
        assert_eq!(reports.next(), None);
        reports.recorded(1);
        assert!(!reports.is_recorded(2));
        reports.restart();
        let again = reports.next().expect("the second");
        assert_eq!((again.number, again.samples[0].sample), (2, 2));
        reports.recorded(2);
        assert!(reports.is_recorded(2) && reports.next().is_none());
    }
}
