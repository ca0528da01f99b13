//! The room of a job's skipped samples in the ledger.

use forebay_core::Error;

/// The most bytes that the errors of one job's samples take in the ledger. Beyond these only the kind of an error is
/// kept, not its text.
const SKIPPED_TEXT_BYTES_MAX: u64 = 32 << 20;

/// The room of a job's skipped samples in the ledger.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state::leases) struct SkippedTally {
    samples: u64,
    text_bytes: u64,
}

impl SkippedTally {
    /// Returns the text that the ledger keeps of an error, which came as JSON.
    pub(in crate::state::leases) fn text(&self, json: &str) -> String {
        let json = Error::bound_json(json);
        if self.text_bytes + json.len() as u64 <= SKIPPED_TEXT_BYTES_MAX {
            return json;
        }
        let error = Error::from_json(&json);
        let short = format!(
            "skipped; its error was not kept, because the job has {SKIPPED_TEXT_BYTES_MAX} bytes of other errors"
        );
        let fault = error.get("fault").filter(|fault| fault.len() <= 16);
        let short = Error::new(error.kind(), short);
        fault.into_iter().fold(short, |short, fault| short.with("fault", fault)).to_json()
    }

    pub(in crate::state::leases) fn samples(&self) -> u64 {
        self.samples
    }

    pub(in crate::state::leases) fn add(&mut self, text_bytes: u64) {
        (self.samples, self.text_bytes) = (self.samples + 1, self.text_bytes + text_bytes);
    }
}
