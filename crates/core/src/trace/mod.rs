//! Spans of a window of time: which thread did what, when, and for which chunk.
//!
//! A process has one [`Tracer`], as it has one log: threads and connections serve several iterators. While nothing is
//! recorded, a place that could record reads one atomic flag. `chrome` writes spans as a file that Perfetto opens.
//!
//! Invariants: a span reaches no sample and no decision. A recording holds at most [`SPANS_MAX`] spans, and counts the
//! spans that it drops. Times come from one [`Stopwatch`].

mod chrome;

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{Error, Result, Stopwatch, SystemClock};

pub use chrome::to_chrome_json;

/// The most spans of one recording. A span takes about 100 bytes here and 250 in a file.
pub const SPANS_MAX: usize = 2_000_000;
/// The most characters of the name of a span.
const NAME_MAX: usize = 120;

/// The place of a chunk in the streams of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkPlace {
    /// The number of the stream: see [`Tracer::next_stream`].
    pub stream: u64,
    /// The epoch.
    pub epoch: u64,
    /// The split.
    pub split: u64,
    /// The index of the chunk in its split.
    pub chunk: u64,
}

/// The line of a trace on which a span is drawn. Spans of one line do not overlap, or one contains the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Track {
    /// A thread, or an iterator.
    Named(Arc<str>),
    /// The split of the span's chunk, on its way between processes.
    Split,
}

/// A piece of work, or a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The work of a span.
    pub name: Arc<str>,
    /// The process that did it: empty for this one, else the address of a worker.
    pub process: Arc<str>,
    /// The line on which it is drawn.
    pub track: Track,
    /// Its begin, by [`Tracer::now`].
    pub start: u64,
    /// Its length in nanoseconds.
    pub nanos: u64,
    /// The chunk that it served.
    pub chunk: Option<ChunkPlace>,
}

/// Which spans stay when a recording is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The first ones.
    First(usize),
    /// The last ones.
    Last(usize),
}

/// The spans of a recording that ended.
#[derive(Debug, Default)]
pub struct Recorded {
    /// The spans, in the order in which they ended.
    pub spans: Vec<Span>,
    /// How many more there were.
    pub dropped: u64,
    /// The begin and the end of the recording, by [`Tracer::now`].
    pub from: u64,
    /// See `from`.
    pub until: u64,
}

/// Records spans. See the module's documentation.
#[derive(Default)]
pub struct Tracer {
    on: AtomicBool,
    streams: AtomicU64,
    watch: OnceLock<Arc<dyn Stopwatch>>,
    recording: Mutex<Option<Recording>>,
}

struct Recording {
    keep: Keep,
    spans: VecDeque<Span>,
    dropped: u64,
    from: u64,
}

/// Returns the tracer of this process.
pub fn tracer() -> &'static Tracer {
    static TRACER: OnceLock<Tracer> = OnceLock::new();
    TRACER.get_or_init(Tracer::default)
}

impl Tracer {
    /// Makes a tracer with a clock of its own.
    pub fn new(watch: Arc<dyn Stopwatch>) -> Self {
        Self { watch: OnceLock::from(watch), ..Self::default() }
    }

    /// Says whether a recording is running.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// Returns nanoseconds since an arbitrary start.
    pub fn now(&self) -> u64 {
        self.watch.get_or_init(|| Arc::new(SystemClock::default())).nanos()
    }

    /// Returns a number for a new stream.
    pub fn next_stream(&self) -> u64 {
        self.streams.fetch_add(1, Relaxed)
    }

    /// Starts a recording.
    ///
    /// # Errors
    /// Invalid while another recording is running, and for a bound that is 0 or above [`SPANS_MAX`].
    pub fn start(&self, keep: Keep) -> Result<()> {
        let (Keep::First(most) | Keep::Last(most)) = keep;
        if !(1..=SPANS_MAX).contains(&most) {
            return Err(Error::invalid(format!("a trace holds 1 to {SPANS_MAX} spans, not {most}")));
        }
        let from = self.now();
        let mut recording = self.lock();
        if recording.is_some() {
            return Err(Error::invalid("this process records a trace already")
                .hint("end the other trace first: a process records one at a time"));
        }
        *recording = Some(Recording { keep, spans: VecDeque::new(), dropped: 0, from });
        self.on.store(true, Relaxed);
        Ok(())
    }

    /// Ends the recording, and returns its spans; `None` if none is running.
    pub fn stop(&self) -> Option<Recorded> {
        self.on.store(false, Relaxed);
        let Recording { spans, dropped, from, .. } = self.lock().take()?;
        Some(Recorded { spans: spans.into(), dropped, from, until: self.now() })
    }

    /// Adds spans to the recording, if one is running.
    pub fn add(&self, spans: impl IntoIterator<Item = Span>) {
        if !self.is_on() {
            return;
        }
        if let Some(recording) = &mut *self.lock() {
            spans.into_iter().for_each(|span| recording.add(span));
        }
    }

    /// Adds a span that ends now.
    pub fn ended(&self, name: &str, track: Track, start: u64, chunk: Option<ChunkPlace>) {
        if self.is_on() {
            let nanos = self.now().saturating_sub(start);
            self.add([Span { name: name.into(), process: "".into(), track, start, nanos, chunk }]);
        }
    }

    /// Returns the spans that ended since `since` on the way of the chunks that one track merged since then, and the
    /// spans of that track. The recording goes on.
    pub fn of_batch(&self, since: u64, track: &Track) -> Vec<Span> {
        let recording = self.lock();
        let Some(recording) = &*recording else { return Vec::new() };
        let of_track = |span: &&Span| span.process.is_empty() && span.track == *track && span.start >= since;
        let merged: BTreeSet<_> = recording.spans.iter().filter(of_track).filter_map(|span| span.chunk).collect();
        let is_of = |span: &&Span| of_track(span) || span.chunk.is_some_and(|chunk| merged.contains(&chunk));
        recording.spans.iter().filter(is_of).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Recording>> {
        self.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recording {
    fn add(&mut self, span: Span) {
        match self.keep {
            Keep::First(most) if self.spans.len() >= most => self.dropped += 1,
            Keep::Last(most) if self.spans.len() >= most => {
                self.spans.pop_front();
                self.dropped += 1;
                self.spans.push_back(span);
            }
            _ => self.spans.push_back(span),
        }
    }
}

impl Track {
    /// Returns the track of this thread.
    pub fn of_this_thread() -> Self {
        static THREADS: AtomicU64 = AtomicU64::new(1);
        thread_local! {
            // Threads of two iterators have the same name.
            static NAME: Arc<str> = {
                let thread = std::thread::current();
                let (name, number) = (thread.name().unwrap_or("thread"), THREADS.fetch_add(1, Relaxed));
                format!("{name} ({number})").into()
            };
        }
        Self::Named(NAME.with(Arc::clone))
    }
}

/// Cuts the name of a span to 120 characters.
pub fn short(name: &str) -> Arc<str> {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64) -> Span {
        let track = Track::Named("t".into());
        Span { name: "work".into(), process: "".into(), track, start, nanos: 1, chunk: None }
    }

    fn starts(recorded: &Recorded) -> Vec<u64> {
        recorded.spans.iter().map(|span| span.start).collect()
    }

    #[test]
    fn a_full_recording_counts_what_it_drops() {
        let tracer = Tracer::default();
        tracer.add([span(0)]);
        for (keep, kept) in [(Keep::First(3), [1, 2, 3]), (Keep::Last(3), [3, 4, 5])] {
            tracer.start(keep).expect("none is running");
            assert!(tracer.start(keep).is_err(), "one at a time");
            tracer.add((1..=5).map(span));
            let recorded = tracer.stop().expect("it was running");
            assert_eq!((starts(&recorded), recorded.dropped), (kept.to_vec(), 2));
        }
        assert!(tracer.stop().is_none());
        assert!(tracer.start(Keep::First(0)).is_err());
        assert!(tracer.start(Keep::Last(SPANS_MAX + 1)).is_err());
    }

    #[test]
    fn a_batch_has_the_spans_of_its_chunks_and_of_its_track() {
        let tracer = Tracer::default();
        tracer.start(Keep::Last(100)).expect("none is running");
        let place = |chunk| Some(ChunkPlace { stream: 0, epoch: 0, split: 0, chunk });
        let mine = Track::Named("mine".into());
        let on = |track: &Track, start, chunk| Span { track: track.clone(), chunk, ..span(start) };
        let elsewhere = Track::Named("compute".into());
        tracer.add([
            on(&elsewhere, 1, place(0)),
            on(&elsewhere, 2, place(1)),
            on(&mine, 3, place(0)),
            on(&mine, 10, place(1)),
            on(&mine, 11, None),
            on(&elsewhere, 12, None),
        ]);
        let starts: Vec<_> = tracer.of_batch(10, &mine).iter().map(|span| span.start).collect();
        assert_eq!(starts, [2, 10, 11]);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(short(&"é".repeat(NAME_MAX)).chars().count(), NAME_MAX);
        assert_eq!(short(&"é".repeat(NAME_MAX + 5)).chars().count(), NAME_MAX + 1);
    }
}
