//! Windows of a shuffle whose rows are not counted: together they have the same rows as streaming, in any order of
//! reading, by any reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compressed::gzip;
use crate::support::{index, open, rows, stream_all, tar_of, tfrecord_of, write};
use forebay_core::Epoch;
use forebay_data::Chunk;
use forebay_io::{Draft, Features, Reader, SourceIndex, infer};
use forebay_plan::{EpochLanes, LaneLayout, LaneWindow, Source};
use proptest::collection::vec;
use proptest::prelude::*;

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
        let (sizes, extent) = (index.window_sizes(), index.extent());
        let layout = LaneLayout::new(extent.blocks, extent.bytes, window_bytes, !extent.is_compressed);
        let lanes = Arc::new(EpochLanes::new(layout, &sizes, key));
        Self { source, layout, lanes }
    }

    fn reader(&self) -> Arc<dyn Reader> {
        open(&self.source, &index(&self.source, false).expect("an index")).expect("opens")
    }

    fn window(&self, reader: &dyn Reader, number: u64) -> forebay_core::Result<Vec<Chunk>> {
        let window = LaneWindow { lanes: self.lanes.clone(), number, epoch: Epoch(3) };
        reader.window(&window, 3, 0)?.collect()
    }

    /// Returns the ids and the content of a window's rows.
    fn named(&self, reader: &dyn Reader, number: u64) -> Vec<(u64, serde_json::Value)> {
        let chunks = self.window(reader, number).expect("no row is damaged");
        assert!(chunks.iter().rev().skip(1).all(|chunk| chunk.num_rows() == 3), "only the last chunk may be short");
        let samples = chunks.iter().flat_map(|chunk| chunk.ids().iter().map(|id| id.sample.0));
        samples.zip(rows(&chunks)).collect()
    }
}

/// Text that is compressed 4, 9 and more than 40 times gives windows of about the content that their size says.
#[test]
fn windows_of_compressed_files_have_the_bytes_that_their_size_says() {
    const WINDOW_BYTES: u64 = 64 << 10;
    for (name, noise) in [("digits", 32), ("few", 8), ("none", 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut content = 0;
        for file in 0..5u64 {
            let digit = |line: u64, at: u64| {
                let random = (file * 1_000_003 + line * 64 + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                char::from_digit((random % 10) as u32, 10).expect("a digit")
            };
            let line = |line: u64| {
                let random: String = (0..noise).map(|at| digit(line, at)).collect();
                format!("{random} {}\n", "the same words in each line ".repeat(3))
            };
            let lines: String = (0..4000).map(line).collect();
            content += lines.len() as u64;
            std::fs::write(folder.path().join(format!("{file}.txt.gz")), gzip(lines.as_bytes())).expect("written");
        }
        let draft = Draft::Text { paths: vec![format!("{}/*.gz", folder.path().display())] };
        let streamed = Streamed::new(draft, WINDOW_BYTES, 7);
        let reader = streamed.reader();
        let bytes = |chunks: Vec<Chunk>| rows(&chunks).iter().map(|row| row.to_string().len() as u64).sum::<u64>();
        let sizes: Vec<u64> = (0..streamed.layout.windows())
            .map(|number| bytes(streamed.window(reader.as_ref(), number).expect("no row is damaged")))
            .collect();
        assert!(sizes.iter().sum::<u64>() >= content);
        assert!(sizes.iter().max() <= Some(&(2 * WINDOW_BYTES)), "{name}: {sizes:?}");
        let full = sizes.iter().filter(|bytes| **bytes >= WINDOW_BYTES / 2).count();
        assert!(full * 3 >= sizes.len() * 2, "{name}: {sizes:?}");
    }
}

/// The density is in the index of a job. An index without one is as the minor version before writes and reads it, and
/// windows are laid out over the stored bytes then.
#[test]
fn an_index_has_the_density_of_its_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..5000).map(|line| format!("{} with the same words in each line\n", line * 7919)).collect();
    write(folder.path(), "0.txt.gz", &gzip(lines.as_bytes()));
    write(folder.path(), "1.txt", b"one line\n");
    for (pattern, version) in [("*", 3), ("*.txt", 2)] {
        let draft = Draft::Text { paths: vec![format!("{}/{pattern}", folder.path().display())] };
        let index = index(&infer(draft, None).expect("a source"), false).expect("an index");
        let bytes = index.to_bytes();
        assert_eq!(bytes[4], version);
        let read = SourceIndex::from_bytes(&bytes).expect("its own bytes");
        assert_eq!(read.window_sizes(), index.window_sizes());
        assert_eq!(read.extent(), index.extent());
        let (content, estimate) = (lines.len() as u64, read.window_sizes()[0]);
        assert!(version == 2 || (content..=content * 3 / 2).contains(&estimate), "{content} {estimate}");
        assert_eq!(read.window_sizes().last(), Some(&9));
    }
}

/// Reads the windows in order and in `order`, each with a new reader, and compares both with streaming.
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
    // Samples are named by file and offset, so they sort in the order of streaming.
    assert_eq!(seen.into_values().collect::<Vec<_>>(), all);
    let other = streamed.reader();
    for (i, at) in order.iter().enumerate() {
        let number = at.index(count as usize) as u64;
        let reader = if i % 2 == 0 { &other } else { &streamed.reader() };
        assert_eq!(streamed.named(reader.as_ref(), number), in_order[number as usize], "window {number}");
    }
}

/// Reads all windows in order, by one reader or each by a new one. Rows equal those of streaming, or a window refuses
/// the file.
fn check_or_refused(draft: &Draft, window_bytes: u64, key: u64, refusal: &str) -> usize {
    let streamed = Streamed::new(draft.clone(), window_bytes, key);
    let reader = streamed.reader();
    let blocks = index(&streamed.source, false).expect("an index").blocks();
    let all = stream_all(reader.as_ref(), blocks, 5).map(|chunks| rows(&chunks));
    let mut refused = 0;
    for alone in [false, true] {
        let mut seen = BTreeMap::new();
        let mut read = |number| {
            let reader = if alone { streamed.reader() } else { reader.clone() };
            let chunks = streamed.window(reader.as_ref(), number)?;
            let samples = chunks.iter().flat_map(|chunk| chunk.ids().iter().map(|id| id.sample.0));
            seen.extend(samples.zip(rows(&chunks)));
            Ok(())
        };
        match (0..streamed.layout.windows()).try_for_each(&mut read) {
            Ok(()) => assert_eq!(seen.into_values().collect::<Vec<_>>(), *all.as_ref().expect("it is not damaged")),
            Err(error) => {
                let error: forebay_core::Error = error;
                assert!(error.to_string().contains(refusal), "{error}");
                refused += 1;
            }
        }
    }
    refused
}

fn order() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    vec(any::<prop::sample::Index>(), 0..12)
}

/// Writes files; `packed`, with gzip, so that each is read from its start.
fn files(folder: &std::path::Path, contents: impl IntoIterator<Item = Vec<u8>>, packed: bool) -> Vec<String> {
    let named = |(i, bytes): (usize, Vec<u8>)| match packed {
        true => write(folder, &format!("{i:03}.gz"), &gzip(&bytes)),
        false => write(folder, &format!("{i:03}"), &bytes),
    };
    contents.into_iter().enumerate().map(named).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines(texts in vec(vec("[a-zé\r]{0,900}", 0..40), 1..6), last: bool, packed: bool, key: u64, order in order(), window in 1u64..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().map(|lines| {
            let text = lines.join("\n") + if last && !lines.is_empty() { "\n" } else { "" };
            text.into_bytes()
        });
        let paths = files(folder.path(), contents, packed);
        check(&Draft::Text { paths }, window, key, &order);
    }

    #[test]
    fn json_lines(texts in vec((vec(any::<i64>(), 1..90), "[ \t\r\n]{0,2000}"), 1..4), packed: bool, key: u64, order in order(), window in 1u64..9000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().map(|(values, end)| {
            let lines: Vec<_> = values.iter().map(|v| format!("{{\"v\": {v}}}")).collect();
            (lines.join("\n") + "\n" + end).into_bytes()
        });
        let paths = files(folder.path(), contents, packed);
        check(&Draft::Jsonl { paths, fields: None }, window, key, &order);
    }

    #[test]
    fn records(texts in vec(vec(0usize..3000, 0..30), 1..5), packed: bool, key: u64, verify: bool, order in order(), window in 1u64..60_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let contents = texts.iter().enumerate().map(|(file, sizes)| {
            tfrecord_of(&sizes.iter().map(|&size| vec![file as u8; size]).collect::<Vec<_>>())
        });
        let paths = files(folder.path(), contents, packed);
        check(&Draft::Tfrecord { paths, features: Features::Raw, verify }, window, key, &order);
    }

    /// With members that are no part of a sample before, between and after the samples.
    #[test]
    fn tars(shards in vec(vec((0usize..2500, 0usize..40, 0u8..4), 1..20), 1..5), packed: bool, key: u64, order in order(), window in 1u64..60_000) {
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
        let paths = files(folder.path(), contents, packed);
        check(&Draft::Tar { paths, extensions: None }, window, key, &order);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A reader that begins in the middle of a member that is an archive finds the headers in it. It must not treat
    /// them as the shard's.
    #[test]
    fn archives_in_archives(members in vec((0usize..1200, 0usize..9), 1..30), key: u64, window in 1u64..40_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let inner: Vec<_> = members.iter().map(|&(size, count)| {
            let names: Vec<_> = (0..count).map(|i| format!("inner/{i}.txt")).collect();
            tar_of(&names.iter().map(|name| (name.as_str(), &[b'x'; 1200][..size])).collect::<Vec<_>>())
        }).collect();
        let names: Vec<_> = (0..members.len()).map(|i| format!("{i:03}.tar")).collect();
        let shard = tar_of(&names.iter().zip(&inner).map(|(name, data)| (name.as_str(), data.as_slice())).collect::<Vec<_>>());
        let paths = files(folder.path(), [shard], false);
        check_or_refused(&Draft::Tar { paths, extensions: None }, window, key, "looks like an archive's header");
    }

    #[test]
    fn records_in_records(inner in vec(vec(0usize..500, 0..9), 1..30), verify: bool, key: u64, window in 1u64..9000) {
        let folder = tempfile::tempdir().expect("a folder");
        let records: Vec<_> = inner.iter().map(|sizes| tfrecord_of(&sizes.iter().map(|&size| vec![1; size]).collect::<Vec<_>>())).collect();
        let paths = files(folder.path(), [tfrecord_of(&records)], false);
        check_or_refused(&Draft::Tfrecord { paths, features: Features::Raw, verify }, window, key, "looks like the header of a record");
    }

    /// A reader that begins in the middle passes over a damaged length as over any bytes. The reader before it must
    /// not.
    #[test]
    fn records_with_a_damaged_length(sizes in vec(0usize..3000, 1..30), at: prop::sample::Index, verify: bool, key: u64, window in 1u64..40_000) {
        let folder = tempfile::tempdir().expect("a folder");
        let at = at.index(sizes.len());
        let mut records = tfrecord_of(&sizes.iter().map(|&size| vec![1; size]).collect::<Vec<_>>());
        let header: usize = sizes[..at].iter().map(|size| size + 16).sum();
        records[header + 9] ^= 1;
        let paths = files(folder.path(), [records], false);
        let refused = check_or_refused(&Draft::Tfrecord { paths, features: Features::Raw, verify }, window, key, "the checksum of a record's length differs");
        prop_assert!(!verify || refused == 2);
    }
}

/// Threads that request windows out of order take turns.
#[test]
fn threads_get_the_windows_that_one_thread_gets() {
    let folder = tempfile::tempdir().expect("a folder");
    let members: Vec<_> = (0..60).map(|i| (format!("{i:03}.bin"), vec![i as u8; 3000])).collect();
    let members: Vec<(&str, &[u8])> = members.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect();
    let paths = files(folder.path(), (0..9).map(|_| tar_of(&members)), false);
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
    // Two threads read a split that is leased a second time.
    let twice = streamed.reader();
    let read = || {
        for (number, want) in want.iter().enumerate() {
            assert_eq!(&streamed.named(twice.as_ref(), number as u64), want, "window {number}");
        }
    };
    std::thread::scope(|scope| (0..5).for_each(|_| drop(scope.spawn(read))));
}
