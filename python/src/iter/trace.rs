//! The spans of an iterator in a trace: its waits for deliveries, and the training between them.

use std::sync::atomic::{AtomicU64, Ordering};

use forebay_core::{Span, tracer};
use forebay_exec::Merge;

/// The waits of an iterator, for a trace: times by the tracer's clock, or 0 if none was recorded.
pub(super) struct StreamTrace {
    /// The number of the stream.
    pub(super) stream: u64,
    /// When the last delivery was requested, and when it came.
    asked: AtomicU64,
    got: AtomicU64,
}

impl StreamTrace {
    pub(super) fn of(stream: u64) -> Self {
        Self { stream, asked: AtomicU64::new(0), got: AtomicU64::new(0) }
    }

    /// Returns when the last delivery was requested.
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Notes that a delivery is requested: training since the last one ends.
    pub(super) fn ask(&self) {
        let now = if tracer().is_on() { tracer().now() } else { 0 };
        self.asked.store(now, Ordering::Relaxed);
        self.ended("train", self.got.swap(0, Ordering::Relaxed), now);
    }

    /// Notes that a delivery has come.
    pub(super) fn got(&self) {
        let asked = self.asked();
        if asked > 0 {
            let now = tracer().now();
            self.ended("wait", asked, now);
            self.got.store(now, Ordering::Relaxed);
        }
    }

    fn ended(&self, name: &str, start: u64, end: u64) {
        if start > 0 && end > 0 {
            let (name, process, track) = (name.into(), "".into(), Merge::track(self.stream));
            let nanos = end.saturating_sub(start);
            tracer().add([Span { name, process, track, start, nanos, chunk: None }]);
        }
    }
}
