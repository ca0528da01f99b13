//! Errors of a bounded size: the message of a user's function may be a gigabyte, and is stored for every sample that
//! fails.
//!
//! Invariants: the cut depends on the error alone, and a cut error is not cut again, so an error that several processes
//! bound stays the same.

use crate::Error;

/// Bytes of a cut text that are left for the note about its full length.
const MARK_BYTES: usize = 48;

impl Error {
    /// The most bytes of one text of an error that is stored or sent for a sample.
    pub const TEXT_BYTES_MAX: usize = 4 << 10;
    /// The most bytes of the whole error, as JSON.
    pub const KEPT_BYTES_MAX: usize = 16 << 10;

    /// Returns the error as it is stored and sent for a sample: of a bounded size, with the start and the end of long
    /// texts.
    #[must_use]
    pub fn bounded(self) -> Self {
        self.within(Self::TEXT_BYTES_MAX, Self::KEPT_BYTES_MAX)
    }

    /// Bounds the JSON of an error from another process.
    pub fn bound_json(json: &str) -> String {
        if json.len() <= Self::KEPT_BYTES_MAX { json.to_owned() } else { Self::from_json(json).bounded().to_json() }
    }

    /// Cuts texts to so many bytes, and to fewer if the whole error still takes more than `json_max` as JSON.
    #[must_use]
    pub fn within(self, text_max: usize, json_max: usize) -> Self {
        let long = |text: &str| text.len() > text_max;
        let is_long = long(self.message()) || self.context().iter().any(|(key, value)| long(key) || long(value));
        if !is_long && self.to_json().len() <= json_max {
            return self;
        }
        let mut limit = text_max;
        loop {
            let error = self.shortened(limit);
            // This ends however many pieces of context there are: at the limit 0 only the fault is kept.
            if limit == 0 || error.to_json().len() <= json_max {
                return error;
            }
            limit /= 2;
        }
    }

    fn shortened(&self, limit: usize) -> Self {
        let start = Error::new(self.kind(), cut(self.message(), limit));
        let is_fault = |key: &str, value: &str| key == "fault" && value.len() <= MARK_BYTES;
        let kept =
            self.context().iter().enumerate().filter(|(i, (key, value))| *i < limit / 16 || is_fault(key, value));
        kept.fold(start, |error, (_, (key, value))| error.with(&cut(key, limit), cut(value, limit)))
    }
}

/// Keeps the start and the end of a text, because messages and tracebacks have their main parts there.
fn cut(text: &str, limit: usize) -> String {
    if text.len() <= limit.max(MARK_BYTES) {
        return text.to_owned();
    }
    let room = limit.saturating_sub(MARK_BYTES);
    let head = text.floor_char_boundary(room - room / 4);
    let tail = text.ceil_char_boundary(text.len() - room / 4);
    format!("{}… ({} bytes in all) …{}", &text[..head], text.len(), &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, Fault};

    fn long(parts: usize) -> Error {
        let text = "é\n\u{0}".repeat(1 << 17);
        let start = Error::new(ErrorKind::Function, &text).with("traceback", &text);
        let full = (0..parts).fold(start, |error, i| error.with(&format!("key {i}"), &text[..2000]));
        full.with("fault", "process")
    }

    #[test]
    fn what_is_cut_keeps_its_kind_and_fault_says_how_long_it_was_and_is_not_cut_again() {
        for parts in [0, 7, 2000] {
            let error = long(parts).bounded();
            assert!(error.to_json().len() <= Error::KEPT_BYTES_MAX, "{parts}: {}", error.to_json().len());
            assert_eq!((error.kind(), error.fault()), (ErrorKind::Function, Fault::Process));
            assert!(error.message().contains("… (524288 bytes in all) …"), "{}", error.message());
            assert_eq!(error.clone().bounded(), error);
            let json = error.to_json();
            assert_eq!(Error::bound_json(&json), json);
        }
        let garbage = Error::bound_json(&"{".repeat(1 << 20));
        assert!(garbage.len() <= Error::KEPT_BYTES_MAX && Error::from_json(&garbage).kind() == ErrorKind::Internal);
    }

    #[test]
    fn what_is_short_stays_as_it_is() {
        let error = Error::data("x".repeat(Error::TEXT_BYTES_MAX)).with("file", "a.tar").hint("rewrite it");
        assert_eq!(error.clone().bounded(), error);
    }
}
