//! What a stream has left out and the dispatcher has not written down yet. Pure: no clock, no I/O.
//!
//! Invariant: each sample is said until it is recorded, over as many sessions as that takes; saying it twice is harmless.

use std::collections::VecDeque;

use forebay_core::Fault;
use forebay_exec::SkippedSample as Loss;
use forebay_proto::{Lost, LostSample};

/// Samples in one message.
const TOGETHER_MAX: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Reports {
    waiting: VecDeque<LostSample>,
    /// Samples that are recorded, and those that were said in this session: counted from the start of the stream.
    recorded: u64,
    said: u64,
}

impl Reports {
    /// Adds a sample. Returns the number to wait for before the stream goes on, if it has to: the sample might not fail
    /// again.
    pub(crate) fn add(&mut self, loss: &Loss) -> Option<u64> {
        self.waiting.push_back(sample(loss));
        (loss.loss.error.fault() == Fault::Process).then_some(self.recorded + self.waiting.len() as u64)
    }

    /// A new session has heard nothing.
    pub(crate) fn restart(&mut self) {
        self.said = self.recorded;
    }

    /// Returns what is to be said next.
    pub(crate) fn next(&mut self) -> Option<Lost> {
        let from = (self.said - self.recorded) as usize;
        let samples: Vec<_> = self.waiting.iter().skip(from).take(TOGETHER_MAX).cloned().collect();
        self.said += samples.len() as u64;
        (!samples.is_empty()).then_some(Lost { number: self.said, samples })
    }

    /// Everything up to `number` is durable.
    pub(crate) fn recorded(&mut self, number: u64) {
        while self.recorded < number && self.waiting.pop_front().is_some() {
            self.recorded += 1;
        }
        self.said = self.said.max(self.recorded);
    }

    /// Says whether everything up to `number` is durable.
    pub(crate) fn is_recorded(&self, number: u64) -> bool {
        self.recorded >= number
    }
}

/// The ledger is told what went wrong, without the user's frames and the record.
pub(crate) fn sample(lost: &Loss) -> LostSample {
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
    use forebay_data::{Loss as Row, RowId};

    use super::*;

    fn loss(sample: u64, fault: &str) -> Loss {
        let error = Error::new(ErrorKind::Function, "raised").with("fault", fault).with("traceback", "frames");
        let row = RowId { sample: SampleId(sample), epoch: Epoch(0) };
        Loss { epoch: Epoch(0), split: 3, loss: Row { row, error, record: None } }
    }

    #[test]
    fn each_sample_is_said_until_it_is_recorded() {
        let mut reports = Reports::default();
        assert_eq!((reports.add(&loss(1, "other")), reports.add(&loss(2, "process"))), (None, Some(2)));
        let said = reports.next().expect("both");
        assert_eq!((said.number, said.samples.len()), (2, 2));
        assert!(!said.samples[0].error.contains("frames"));
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
