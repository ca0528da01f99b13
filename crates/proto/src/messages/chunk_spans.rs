//! The spans of a chunk on its worker, which a consumer that records a trace requests with its ticket.
//!
//! Two machines have two clocks, so a worker says how long ago a span began when it sent the chunk, and the consumer
//! counts back from the arrival of the chunk. What the network takes for the first bytes is the error.
//!
//! Bounds: [`SPANS_MAX`] spans of a chunk, and [`BYTES_MAX`] bytes.

use bytes::Bytes;
use forebay_core::{ChunkPlace, Error, Result, Span, Track, short};

/// The most spans of one chunk; a worker leaves out the others.
const SPANS_MAX: usize = 64;
/// The most bytes that a consumer reads.
const BYTES_MAX: usize = 64 << 10;

/// Name, track, nanoseconds from the span's begin to sending, and its length.
type Sent = (String, Option<String>, u64, u64);

/// Writes spans of a chunk that is sent `now`. No spans are no bytes.
pub fn spans_to_bytes(spans: &[Span], now: u64) -> Bytes {
    let track = |span: &Span| if let Track::Named(name) = &span.track { Some(name.to_string()) } else { None };
    let sent = |span: &Span| (span.name.to_string(), track(span), now.saturating_sub(span.start), span.nanos);
    // The whole is the last one.
    let sent: Vec<Sent> = spans.iter().skip(spans.len().saturating_sub(SPANS_MAX)).map(sent).collect();
    if sent.is_empty() { Bytes::new() } else { serde_json::to_vec(&sent).unwrap_or_default().into() }
}

/// Reads the spans of a chunk that came at `arrived` from a worker.
///
/// # Errors
/// Data for anything else, or more than the bounds.
pub fn spans_from_bytes(bytes: &[u8], arrived: u64, worker: &str, chunk: ChunkPlace) -> Result<Vec<Span>> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let refused =
        |why: String| Error::data(format!("the spans of a chunk cannot be read: {why}")).with("worker", worker);
    if bytes.len() > BYTES_MAX {
        return Err(refused(format!("they have {} bytes", bytes.len())));
    }
    let sent: Vec<Sent> = serde_json::from_slice(bytes).map_err(|e| refused(e.to_string()))?;
    let span = |(name, track, ago, nanos): Sent| Span {
        name: short(&name),
        process: worker.into(),
        track: track.map_or(Track::Split, |name| Track::Named(short(&name))),
        start: arrived.saturating_sub(ago),
        nanos,
        chunk: Some(chunk),
    };
    Ok(sent.into_iter().take(SPANS_MAX).map(span).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_back_from_the_arrival_of_their_chunk() {
        let chunk = ChunkPlace { stream: 1, epoch: 2, split: 3, chunk: 4 };
        let there = |name: &str, track| Span {
            name: name.into(),
            process: "".into(),
            track,
            start: 1_000_000,
            nanos: 70,
            chunk: Some(ChunkPlace { stream: 0, ..chunk }),
        };
        let spans = [there("read", Track::Named("compute".into())), there("lease", Track::Split)];
        let bytes = spans_to_bytes(&spans, 1_000_500);
        let read = spans_from_bytes(&bytes, 9000, "host:1", chunk).expect("they are read");
        for (read, there) in read.iter().zip(spans) {
            assert_eq!(*read, Span { start: 8500, process: "host:1".into(), chunk: Some(chunk), ..there });
        }
        assert_eq!(spans_from_bytes(&spans_to_bytes(&[], 0), 0, "", chunk), Ok(Vec::new()));
        let many = vec![there("read", Track::Split); 1000];
        let read = spans_from_bytes(&spans_to_bytes(&many, 1_000_500), 9000, "", chunk).expect("they are read");
        assert_eq!(read.len(), SPANS_MAX);
        for bad in [&b"["[..], b"{}", &[b' '; BYTES_MAX + 1]] {
            assert!(spans_from_bytes(bad, 0, "", chunk).is_err());
        }
    }
}
