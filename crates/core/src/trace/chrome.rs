//! Spans as a Chrome trace (JSON), which <https://ui.perfetto.dev> and `chrome://tracing` open.
//!
//! Each process is a group of tracks. Spans on [`Track::Split`] are asynchronous slices, one line for each split. An arrow
//! leads from the computation of a chunk to the merge that took it. Times are microseconds since the recording began.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ChunkPlace, Recorded, Span, Track};

/// The span in which a chunk was computed, and the one in which its iterator took it.
const COMPUTED: &str = "morsel";
const TAKEN: &str = "merge";

/// Writes a recording. `name` is that of this process.
pub fn to_chrome_json(recorded: &Recorded, name: &str) -> String {
    let mut processes: BTreeMap<&str, usize> = BTreeMap::from([("", 1)]);
    let mut tracks: BTreeMap<(usize, &Track), usize> = BTreeMap::new();
    for span in &recorded.spans {
        let next = processes.len() + 1;
        let process = *processes.entry(&span.process).or_insert(next);
        let next = tracks.len() + 1;
        tracks.entry((process, &span.track)).or_insert(next);
    }
    let mut events = Vec::with_capacity(recorded.spans.len() * 2);
    for (process, number) in &processes {
        let shown = if process.is_empty() { name.to_owned() } else { format!("worker {process}") };
        events.push(meta("process_name", *number, 0, &shown));
    }
    for ((process, track), number) in &tracks {
        let shown = if let Track::Named(name) = track { name } else { "splits" };
        events.push(meta("thread_name", *process, *number, shown));
    }
    let taken: BTreeSet<ChunkPlace> = places(recorded, TAKEN);
    let computed: BTreeSet<ChunkPlace> = places(recorded, COMPUTED);
    for span in &recorded.spans {
        let process = processes[&*span.process];
        let at = At { process, track: tracks[&(process, &span.track)], from: recorded.from };
        at.write(span, &mut events);
        match (&*span.name, span.chunk) {
            (COMPUTED, Some(chunk)) if taken.contains(&chunk) => events.push(at.arrow("s", chunk, span.start)),
            (TAKEN, Some(chunk)) if computed.contains(&chunk) => events.push(at.arrow("f", chunk, span.start)),
            _ => {}
        }
    }
    let seconds = recorded.until.saturating_sub(recorded.from) as f64 / 1e9;
    let said = json!({"spans": recorded.spans.len(), "dropped": recorded.dropped, "seconds": seconds});
    json!({"traceEvents": events, "displayTimeUnit": "ms", "otherData": said}).to_string()
}

fn places(recorded: &Recorded, name: &str) -> BTreeSet<ChunkPlace> {
    recorded.spans.iter().filter(|span| &*span.name == name).filter_map(|span| span.chunk).collect()
}

fn meta(what: &str, process: usize, track: usize, name: &str) -> Value {
    json!({"ph": "M", "name": what, "pid": process, "tid": track, "args": {"name": name}})
}

/// The place of a span in the file.
struct At {
    process: usize,
    track: usize,
    from: u64,
}

impl At {
    /// A span may have begun before the recording did: its time is negative then.
    fn micros(&self, at: u64) -> f64 {
        (at as f64 - self.from as f64) / 1e3
    }

    fn write(&self, span: &Span, events: &mut Vec<Value>) {
        let place = |c: ChunkPlace| json!({"stream": c.stream, "epoch": c.epoch, "split": c.split, "chunk": c.chunk});
        let args = span.chunk.map_or_else(|| json!({}), place);
        let (start, end) = (self.micros(span.start), self.micros(span.start + span.nanos));
        match (&span.track, span.chunk) {
            (Track::Split, Some(ChunkPlace { stream, epoch, split, .. })) => {
                let id = format!("{stream}.{epoch}.{split}");
                for (phase, at) in [("b", start), ("e", end)] {
                    events.push(json!({
                        "ph": phase, "cat": "split", "id": id, "name": span.name, "ts": at,
                        "pid": self.process, "tid": self.track, "args": args,
                    }));
                }
            }
            _ => events.push(json!({
                "ph": "X", "cat": "forebay", "name": span.name, "ts": start, "dur": end - start,
                "pid": self.process, "tid": self.track, "args": args,
            })),
        }
    }

    fn arrow(&self, phase: &str, ChunkPlace { stream, epoch, split, chunk }: ChunkPlace, at: u64) -> Value {
        json!({
            "ph": phase, "bp": "e", "cat": "chunk", "name": "chunk", "id": format!("{stream}.{epoch}.{split}.{chunk}"),
            "ts": self.micros(at), "pid": self.process, "tid": self.track,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, process: &str, track: Track, start: u64, chunk: Option<ChunkPlace>) -> Span {
        Span { name: name.into(), process: process.into(), track, start, nanos: 2000, chunk }
    }

    #[test]
    fn each_process_has_its_tracks_and_a_chunk_its_arrow() {
        let chunk = Some(ChunkPlace { stream: 1, epoch: 2, split: 3, chunk: 4 });
        let spans = vec![
            span("morsel", "host:1", Track::Named("compute".into()), 5000, chunk),
            span("transfer", "", Track::Split, 8000, chunk),
            span("merge", "", Track::Named("<b>".into()), 11_000, chunk),
        ];
        let recorded = Recorded { spans, dropped: 7, from: 4000, until: 1_000_004_000 };
        let file: Value = serde_json::from_str(&to_chrome_json(&recorded, "trainer")).expect("it is JSON");
        let events = file["traceEvents"].as_array().expect("there are events");
        let of = |phase: &str| -> Vec<&Value> { events.iter().filter(|e| e["ph"] == phase).collect() };
        assert_eq!(of("M").len(), 2 + 3);
        let slices = of("X");
        assert_eq!((&slices[0]["ts"], &slices[0]["dur"], &slices[0]["pid"]), (&json!(1.0), &json!(2.0), &json!(2)));
        assert_eq!((of("b").len(), of("e").len()), (1, 1));
        let (start, end) = (of("s")[0], of("f")[0]);
        assert_eq!(start["id"], end["id"]);
        assert_eq!((&start["ts"], &end["ts"]), (&json!(1.0), &json!(7.0)));
        assert_eq!(file["otherData"], json!({"spans": 3, "dropped": 7, "seconds": 1.0}));
    }
}
