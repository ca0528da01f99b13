//! The recording of a trace, for Python: starts it, ends it, and finds the spans of one batch.

use forebay_core::{Keep, Span, Track, to_chrome_json, tracer};
use forebay_exec::Merge;
use pyo3::prelude::*;

use crate::errors::guard;

/// A span for Python: name, worker (empty for this process), track (`None`: the split), begin and length in nanoseconds,
/// and epoch, split and chunk.
type SpanRow = (String, String, Option<String>, u64, u64, Option<(u64, u64, u64)>);

/// Starts to record at most `spans` spans: the first ones, or with `last` the last ones.
#[pyfunction]
pub(crate) fn trace_start(py: Python<'_>, spans: usize, last: bool) -> PyResult<()> {
    guard(py, || tracer().start(if last { Keep::Last(spans) } else { Keep::First(spans) }))
}

/// Ends the recording. Returns a Chrome trace (JSON), the number of its spans, and of spans that were dropped; `None` if
/// nothing was recorded. `name` is that of this process.
#[pyfunction]
pub(crate) fn trace_stop(py: Python<'_>, name: &str) -> Option<(String, usize, u64)> {
    py.detach(|| {
        let recorded = tracer().stop()?;
        Some((to_chrome_json(&recorded, name), recorded.spans.len(), recorded.dropped))
    })
}

/// Returns nanoseconds since an arbitrary start, by the clock of spans.
#[pyfunction]
pub(crate) fn trace_now() -> u64 {
    tracer().now()
}

/// Returns the spans on the way of the batch that an iterator requested at `since`.
#[pyfunction]
pub(crate) fn trace_of_batch(py: Python<'_>, since: u64, stream: u64) -> Vec<SpanRow> {
    let row = |span: Span| {
        let track = if let Track::Named(name) = &span.track { Some(name.to_string()) } else { None };
        let chunk = span.chunk.map(|chunk| (chunk.epoch, chunk.split, chunk.chunk));
        (span.name.to_string(), span.process.to_string(), track, span.start, span.nanos, chunk)
    };
    py.detach(|| tracer().of_batch(since, &Merge::track(stream)).into_iter().map(row).collect())
}
