//! Windows of a shuffle whose rows are not counted: together they have each row that streaming has, whichever is read first, by any reader.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_core::Epoch;
use forebay_data::Chunk;
use forebay_io::{Draft, Features, Reader, infer};
use forebay_plan::{EpochLanes, LaneLayout, LaneWindow, Source};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{index, open, rows, stream_all, tar_of, tfrecord_of, write};

/// A source, and its windows in one epoch.
struct Streamed {
    source: Source,
    layout: LaneLayout,
    lanes: Arc<EpochLanes>,
}

impl Streamed {
    fn new(draft: Draft, window_bytes: u64, key: u64) -> Self {
        let source = infer(draft, None).expect("a source");
        let index = index(&source, false).expect("an index");
        let sizes: Vec<u64> = index.files().map(|file| file.size).collect();
        let layout = LaneLayout::new(index.blocks(), index.bytes(), window_bytes, source.divides());
        let lanes = Arc::new(EpochLanes::new(layout, &sizes, key));
        Self { source, layout, lanes }
    }

    fn reader(&self) -> Arc<dyn Reader> {
        open(&self.source, &index(&self.source, false).expect("an index")).expect("opens")
    }

    fn window(&self, reader: &dyn Reader, number: u64) -> forebay_core::Result<Vec<Chunk>> {
        let window = LaneWindow { lanes: self.lanes.clone(), number, epoch: Epoch(3) };
        reader.window(&window, 3)?.collect()
    }

    /// The names and the content of a window's rows.
    fn named(&self, reader: &dyn Reader, number: u64) -> Vec<(u64, serde_json::Value)> {
        let chunks = self.window(reader, number).expect("no row is damaged");
        assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.num_rows() == 3), "only the last chunk may be short");
        let samples = chunks.iter().flat_map(|chunk| chunk.ids().iter().map(|id| id.sample.0));
        samples.zip(rows(&chunks)).collect()
    }
}

/// Reads the windows in order and in `order`, by readers of their own, and compares both with what streaming gives.
fn check(draft: &Draft, window_bytes: u64, key: u64, order: &[prop::sample::Index]) {
    let streamed = Streamed::new(draft.clone(), window_bytes, key);
    let reader = streamed.reader();
    let blocks = index(&streamed.source, false).expect("an index").blocks();
    let all = rows(&stream_all(reader.as_ref(), blocks, 5).expect("no row is damaged"));
    let count = streamed.layout.windows();
    let in_order: Vec<_> = (0..count).map(|number| streamed.named(reader.as_ref(), number)).collect();
    let mut seen = BTreeMap::new();
    for (sample, row) in in_order.iter().flatten() {
        assert!(seen.insert(*sample, row.clone()).is_none(), "a row comes twice");
    }
    // Samples are named by file and offset, so they are in the order of streaming.
    assert_eq!(seen.into_values().collect::<Vec<_>>(), all);
    let other = streamed.reader();
    for at in order {
        let number = at.index(count as usize) as u64;
        assert_eq!(streamed.named(other.as_ref(), number), in_order[number as usize], "window {number}");
    }
}

fn order() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    vec(any::<prop::sample::Index>(), 0..12)
}

fn files(folder: &std::path::Path, contents: impl IntoIterator<Item = Vec<u8>>) -> Vec<String> {
    contents.into_iter().enumerate().map(|(i, bytes)| write(folder, &format!("{i:03}"), &bytes)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines(texts in vec(vec("[a-zé\r]{0,900}", 0..40), 1..6), last: bool, key: u64, order in order(), window in 1u64..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().map(|lines| {
            let text = lines.join("\n") + if last && !lines.is_empty() { "\n" } else { "" };
            text.into_bytes()
        });
        let paths = files(folder.path(), contents);
        check(&Draft::Text { paths }, window, key, &order);
    }

    #[test]
    fn json_lines(texts in vec((vec(any::<i64>(), 1..90), "[ \t\r\n]{0,2000}"), 1..4), key: u64, order in order(), window in 1u64..9000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().map(|(values, end)| {
            let lines: Vec<_> = values.iter().map(|v| format!("{{\"v\": {v}}}")).collect();
            (lines.join("\n") + "\n" + end).into_bytes()
        });
        let paths = files(folder.path(), contents);
        check(&Draft::Jsonl { paths, fields: None }, window, key, &order);
    }

    #[test]
    fn records(texts in vec(vec(0usize..3000, 0..30), 1..5), key: u64, verify: bool, order in order(), window in 1u64..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().enumerate().map(|(file, sizes)| {
            tfrecord_of(&sizes.iter().map(|&size| vec![file as u8; size]).collect::<Vec<_>>())
        });
        let paths = files(folder.path(), contents);
        check(&Draft::Tfrecord { paths, features: Features::Raw, verify }, window, key, &order);
    }

    /// With members that are no part of a sample in front, between and behind.
    #[test]
    fn tars(shards in vec(vec((0usize..2500, 0usize..40, 0u8..4), 1..20), 1..5), key: u64, order in order(), window in 1u64..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let data = [7u8; 2500];
        let contents = shards.iter().map(|samples| {
            let names: Vec<_> = (0..samples.len()).map(|s| [format!("d/{s:03}.jpg"), format!("d/{s:03}.cls"), format!("no-sample-{s}")]).collect();
            let members: Vec<(&str, &[u8])> = samples.iter().zip(&names).flat_map(|((a, b, other), n)| {
                let other = (*other == 0).then_some((n[2].as_str(), &data[..700]));
                other.into_iter().chain([(n[0].as_str(), &data[..*a]), (n[1].as_str(), &data[..*b])])
            }).collect();
            tar_of(&members)
        });
        let paths = files(folder.path(), contents);
        check(&Draft::Tar { paths, extensions: None }, window, key, &order);
    }
}

/// Threads that ask for windows out of order share one pass over the files.
#[test]
fn threads_get_the_windows_that_one_thread_gets() {
    let folder = tempfile::tempdir().expect("a folder");
    let members: Vec<_> = (0..60).map(|i| (format!("{i:03}.bin"), vec![i as u8; 3000])).collect();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect();
    let paths = files(folder.path(), (0..9).map(|_| tar_of(&members)));
    let streamed = Streamed::new(Draft::Tar { paths, extensions: None }, 100_000, 5);
    let alone = streamed.reader();
    let want: Vec<_> = (0..streamed.layout.windows()).map(|n| streamed.named(alone.as_ref(), n)).collect();
    let shared = streamed.reader();
    let next = std::sync::atomic::AtomicU64::new(0);
    let read = || loop {
        let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Some(want) = want.get(number as usize) else { break };
        assert_eq!(&streamed.named(shared.as_ref(), number), want, "window {number}");
    };
    std::thread::scope(|scope| (0..5).for_each(|_| drop(scope.spawn(read))));
}
