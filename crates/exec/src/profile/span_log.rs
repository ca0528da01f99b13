//! The spans of one morsel, or of one chunk in the merge, while a trace is recorded: the whole, and each op in it.
//!
//! Threads that compute a morsel together write to one log. Invariant: without a log nothing is timed for a trace.

use std::sync::{Arc, Mutex};

use forebay_core::{ChunkPlace, Span, Track, tracer};

use crate::lock::lock;

/// The spans of one morsel. See the module's documentation.
#[derive(Debug)]
pub struct SpanLog {
    chunk: ChunkPlace,
    /// The track of all spans; `None` for the track of the thread that did the work.
    track: Option<Track>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    start: u64,
    spans: Vec<Span>,
}

impl SpanLog {
    /// Begins the whole now.
    pub fn begin(chunk: ChunkPlace, track: Option<Track>) -> Arc<Self> {
        Arc::new(Self { chunk, track, state: Mutex::new(State { start: tracer().now(), spans: Vec::new() }) })
    }

    /// As [`SpanLog::begin`], if a trace is recorded in this process.
    pub fn if_traced(chunk: ChunkPlace, track: impl FnOnce() -> Option<Track>) -> Option<Arc<Self>> {
        tracer().is_on().then(|| Self::begin(chunk, track()))
    }

    /// Adds a part.
    pub(crate) fn add(&self, name: Arc<str>, (start, end): (u64, u64)) {
        let span = self.span(name, (start, end));
        lock(&self.state).spans.push(span);
    }

    /// Adds a span as it is.
    pub fn put(&self, span: Span) {
        lock(&self.state).spans.push(span);
    }

    /// Ends the whole, and takes all spans. The next whole begins now: the next chunk of a source block.
    pub fn take(&self, name: &str) -> Vec<Span> {
        let now = tracer().now();
        let mut state = lock(&self.state);
        let whole = self.span(name.into(), (state.start, now));
        state.start = now;
        state.spans.push(whole);
        std::mem::take(&mut state.spans)
    }

    /// Ends the whole, and adds all spans to the trace of this process.
    pub fn end(&self, name: &str) {
        tracer().add(self.take(name));
    }

    fn span(&self, name: Arc<str>, (start, end): (u64, u64)) -> Span {
        let track = self.track.clone().unwrap_or_else(Track::of_this_thread);
        let nanos = end.saturating_sub(start);
        Span { name, process: "".into(), track, start, nanos, chunk: Some(self.chunk) }
    }
}
