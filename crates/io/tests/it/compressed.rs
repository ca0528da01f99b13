//! A compressed file yields the rows of its content in every way of reading; a damaged one never silently lacks rows.

use std::io::Write;
use std::path::Path;

use crate::support::{golden, index, open, places, rows, stream_all, tar_of, tfrecord_of, write};
use forebay_core::{ErrorKind, Fault, Result};
use forebay_data::Chunk;
use forebay_io::{Draft, Features, infer};
use proptest::prelude::*;
use serde_json::Value;

/// Compresses bytes to one member, one frame or one stream.
type Pack = fn(&[u8]) -> Vec<u8>;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    to.write_all(bytes).expect("written");
    to.finish().expect("finished")
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    to.write_all(bytes).expect("written");
    to.finish().expect("finished")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut to = ::zstd::stream::Encoder::new(Vec::new(), 3).expect("made");
    to.include_checksum(true).expect("set");
    to.write_all(bytes).expect("written");
    to.finish().expect("finished")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut to = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::best());
    to.write_all(bytes).expect("written");
    to.finish().expect("finished")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut to = liblzma::write::XzEncoder::new(Vec::new(), 1);
    to.write_all(bytes).expect("written");
    to.finish().expect("finished")
}

const KINDS: [(&str, Pack); 4] = [("gzip", gzip), ("zstd", zstd), ("bzip2", bzip2), ("xz", xz)];

fn text(path: String) -> Draft {
    Draft::Text { paths: vec![path] }
}

fn json(path: String) -> Draft {
    Draft::Jsonl { paths: vec![path], fields: None }
}

fn records(path: String) -> Draft {
    Draft::Tfrecord { paths: vec![path], features: Features::Raw, verify: true }
}

fn tar(path: String) -> Draft {
    Draft::Tar { paths: vec![path], extensions: None }
}

type Drafted = fn(String) -> Draft;

/// One small file of each format: its name, its reader, its content.
fn formats() -> Vec<(&'static str, Drafted, Vec<u8>)> {
    let names: Vec<String> = (0..40).map(|i| format!("{i:03}.bin")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &name.as_bytes()[..3])).collect();
    vec![
        ("text", text, (0..300).map(|i| format!("line {i} {}\r\n", i * i)).collect::<String>().into_bytes()),
        ("json", json, (0..200).map(|i| format!("{{\"i\":{i}}}\n")).collect::<String>().into_bytes()),
        ("records", records, tfrecord_of(&(0..99).map(|i| vec![i; usize::from(i)]).collect::<Vec<_>>())),
        ("tar", tar, tar_of(&members)),
    ]
}

/// Reads everything twice, streamed and counted, and returns the rows if both agree on them or both fail.
fn read(draft: Draft) -> Result<Vec<Value>> {
    let streamed = streamed(draft.clone());
    let counted = counted(draft);
    match (&streamed, &counted) {
        (Ok((ids, rows)), Ok((same_ids, same))) => assert_eq!((ids, rows), (same_ids, same)),
        (Err(_), Err(_)) => {}
        (streamed, counted) => panic!("{streamed:?} and {counted:?}"),
    }
    streamed.map(|(_, rows)| rows)
}

type Rows = (Vec<forebay_data::RowId>, Vec<Value>);

fn both(chunks: &[Chunk]) -> Rows {
    (chunks.iter().flat_map(|chunk| chunk.ids().to_vec()).collect(), rows(chunks))
}

fn streamed(draft: Draft) -> Result<Rows> {
    let source = infer(draft, None)?;
    let index = index(&source, false)?;
    let reader = open(&source, &index)?;
    stream_all(&*reader, index.blocks(), 7).map(|chunks| both(&chunks))
}

/// Gathers every row, the last first, by an index that was encoded and decoded.
fn counted(draft: Draft) -> Result<Rows> {
    let source = infer(draft, None)?;
    let index = index(&source, true)?;
    let reader = open(&source, &index)?;
    let order: Vec<u64> = (0..index.rows().expect("counted")).rev().collect();
    let mut chunks =
        order.chunks(11).map(|part| reader.gather(&places(part.iter().copied()))).collect::<Result<Vec<_>>>()?;
    let (mut ids, mut all) = both(&chunks);
    chunks.clear();
    ids.reverse();
    all.reverse();
    Ok((ids, all))
}

fn error(draft: Draft) -> forebay_core::Error {
    read(draft).expect_err("refused")
}

#[test]
fn every_codec_gives_the_rows_of_what_it_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    for (format, draft, bytes) in formats() {
        let want = read(draft(write(folder.path(), format, &bytes))).expect("reads");
        let zlib = (format == "records").then_some(("zlib", zlib as Pack));
        for (kind, pack) in KINDS.into_iter().chain(zlib) {
            let parts: Vec<u8> = bytes.chunks(700).flat_map(pack).collect();
            let mut padded = [pack(&bytes), pack(b"")].concat();
            if matches!(kind, "gzip" | "xz") {
                padded.extend_from_slice(&[0; 512]);
            }
            for (how, packed) in [("one", pack(&bytes)), ("many", parts), ("padded", padded)] {
                let path = write(folder.path(), &format!("{format}.{kind}.{how}"), &packed);
                assert_eq!(read(draft(path)).unwrap_or_else(|e| panic!("{format} {kind} {how}: {e}")), want);
            }
        }
    }
}

#[test]
fn compressed_and_plain_files_are_one_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = |i: usize| (0..50).map(|n| format!("{i} {n}\n")).collect::<String>().into_bytes();
    let mut paths = vec![write(folder.path(), "plain", &part(0))];
    paths.extend(KINDS.iter().enumerate().map(|(i, (kind, pack))| write(folder.path(), kind, &pack(&part(i + 1)))));
    paths.push(write(folder.path(), "empty", b""));
    paths.push(write(folder.path(), "empty.gz", &gzip(b"")));
    let got = read(Draft::Text { paths }).expect("reads");
    let want: Vec<_> = (0..5).flat_map(|i| (0..50).map(move |n| format!("{i} {n}"))).collect();
    assert_eq!(got.iter().map(|row| row["text"].as_str().expect("text")).collect::<Vec<_>>(), want);
}

#[test]
fn a_skippable_frame_is_no_part_of_what_zstd_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let skipped = b"\x5e\x2a\x4d\x18\x03\0\0\0abc".to_vec();
    let packed = [skipped.clone(), zstd(b"one\ntw"), skipped.clone(), zstd(b"o\n"), skipped].concat();
    let got = read(text(write(folder.path(), "a", &packed))).expect("reads");
    assert_eq!(got.iter().map(|row| row["text"].as_str().expect("text")).collect::<Vec<_>>(), ["one", "two"]);
}

/// Every prefix of a compressed file is an error, or yields the rows of the whole file.
#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error_or_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    for (format, draft, bytes) in formats() {
        let bytes = if format == "tar" {
            tar_of(&[("a.x", b"1"), ("b.x", b"2")])
        } else {
            bytes[..bytes.len().min(900)].to_vec()
        };
        if format == "records" {
            continue;
        }
        for (kind, pack) in KINDS {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            let whole = [pack(first), pack(second)].concat();
            let between = pack(first).len();
            for cut in 1..whole.len() {
                // A file that ends between two members is complete for its codec.
                if cut == between {
                    continue;
                }
                let path = write(folder.path(), "cut", &whole[..cut]);
                // Shorter than the bytes that identify the codec, it is text; as a tar it is an error.
                if let Ok(got) = read(draft(path)) {
                    assert!(cut < 12 && format == "text", "{format} {kind} cut at {cut}: {} rows", got.len());
                }
            }
        }
    }
    let bytes = tfrecord_of(&[vec![1; 40], vec![2; 50], vec![3; 60]]);
    for pack in [gzip as Pack, zlib, zstd, bzip2, xz] {
        let whole = pack(&bytes);
        for cut in 1..whole.len() {
            assert!(read(records(write(folder.path(), "cut", &whole[..cut]))).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn what_is_wrong_with_a_compressed_file_is_said_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes: Vec<u8> = (0..5000).map(|i| format!("line {i}\n")).collect::<String>().into_bytes();
    for (kind, pack) in KINDS {
        let whole = pack(&bytes);
        let mut flipped = whole.clone();
        let at = flipped.len() - if kind == "xz" { 60 } else { 3 };
        flipped[at] ^= 0x55;
        for (what, damaged, message) in [
            ("cut", whole[..whole.len() / 2].to_vec(), "the file ends within its compressed data"),
            ("more", [&whole[..], b"more"].concat(), "there is more behind the end"),
            ("flipped", flipped, ""),
        ] {
            let path = write(folder.path(), what, &damaged);
            let e = error(text(path.clone()));
            assert_eq!((e.kind(), e.fault()), (ErrorKind::Data, Fault::Other), "{kind} {what}: {e}");
            assert!(e.message().starts_with(&format!("a file compressed with {kind} cannot be read on: ")), "{e}");
            assert!(e.message().contains(message), "{kind} {what}: {e}");
            assert_eq!(e.get("file"), Some(path.as_str()));
            let offset: u64 = e.get("offset").and_then(|at| at.parse().ok()).expect("an offset");
            assert!(offset <= damaged.len() as u64, "{e}");
            assert!(e.get("hint").is_some());
        }
        let twice = error(text(write(folder.path(), "twice", &gzip(&whole))));
        assert_eq!(twice.message(), format!("this file is compressed twice: with gzip, and what it holds with {kind}"));
    }
}

#[test]
fn what_asks_for_too_much_memory_is_refused_before_it_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut to = ::zstd::stream::Encoder::new(Vec::new(), 1).expect("made");
    to.window_log(28).expect("set");
    to.include_contentsize(false).expect("set");
    to.write_all(b"a line\n").expect("written");
    let e = error(text(write(folder.path(), "wide", &to.finish().expect("finished"))));
    assert_eq!(e.kind(), ErrorKind::Exhausted, "{e}");
    assert!(e.message().contains("a window of more than 2^27 bytes"), "{e}");

    // The dictionary size of the only filter of the first block, at the third byte of its header.
    let mut packed = xz(b"a line\n");
    let end = 12 + (usize::from(packed[12]) + 1) * 4;
    packed[16] = 39;
    let mut sum = flate2::Crc::new();
    sum.update(&packed[12..end - 4]);
    packed[end - 4..end].copy_from_slice(&sum.sum().to_le_bytes());
    let e = error(text(write(folder.path(), "wide.xz", &packed)));
    assert_eq!(e.kind(), ErrorKind::Exhausted, "{e}");
    assert!(e.message().contains("more memory than 268435456 bytes"), "{e}");
}

/// Rows of a file with many stretches, with one and with many blocks each, in any order.
#[test]
fn a_row_is_found_anywhere_in_a_large_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |i: u64| format!("{i} {:x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bytes: Vec<u8> = (0..250_000).map(|i| line(i) + "\n").collect::<String>().into_bytes();
    assert!(bytes.len() > 5 << 20);
    for (kind, pack) in KINDS {
        for (how, packed) in [("one", pack(&bytes)), ("many", bytes.chunks(3_000_000).flat_map(pack).collect())] {
            let source = infer(text(write(folder.path(), kind, &packed)), None).expect("infers");
            let counted = index(&source, true).expect("counts");
            assert_eq!(counted.rows(), Some(250_000), "{kind} {how}");
            assert_eq!(counted.extent().bytes, bytes.len() as u64);
            let reader = open(&source, &counted).expect("opens");
            let order = (0..200).map(|i| i * 786_433 % 250_000).chain(1000..1010).collect::<Vec<u64>>();
            for part in order.chunks(30) {
                let got = rows(&[reader.gather(&places(part.iter().copied())).expect("gathers")]);
                let got: Vec<_> = got.iter().map(|row| row["text"].as_str().expect("text").to_owned()).collect();
                assert_eq!(got, part.iter().map(|&i| line(i)).collect::<Vec<_>>(), "{kind} {how}");
            }
        }
    }
}

#[test]
fn records_that_tensorflow_compressed_are_read() {
    let plain = records(golden("tensorflow.tfrecord"));
    let packed = records(golden("gzip.tfrecord"));
    assert!(!read(packed).expect("reads").is_empty());
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = std::fs::read(golden("tensorflow.tfrecord")).expect("there");
    let want = read(plain).expect("reads");
    assert_eq!(read(records(write(folder.path(), "z", &zlib(&bytes)))).expect("reads"), want);
}

/// The length of a record may begin like zlib or gzip.
#[test]
fn a_record_whose_length_looks_compressed_is_a_record() {
    let folder = tempfile::tempdir().expect("a folder");
    for len in [0x0178, 0x9c78, 0x08_8b1f] {
        let path = write(folder.path(), "plain", &tfrecord_of(&[vec![7; len]]));
        assert_eq!(read(records(path)).expect("reads").len(), 1);
    }
}

fn damaged(folder: &Path, pack: Pack, bytes: &[u8], flips: &[(prop::sample::Index, u8)]) -> String {
    let mut packed = pack(bytes);
    for (place, bits) in flips {
        let at = place.index(packed.len());
        packed[at] ^= bits;
    }
    write(folder, "damaged", &packed)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn flipped_bits_are_found_or_change_nothing(flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 1..3)) {
        let folder = tempfile::tempdir().expect("a folder");
        for (format, draft, bytes) in formats() {
            let want = read(draft(write(folder.path(), "plain", &bytes))).expect("reads");
            for (kind, pack) in KINDS {
                let got = read(draft(damaged(folder.path(), pack, &bytes, &flips)));
                // Without the bytes that identify the codec it is text, which is another file.
                if let Ok(got) = got {
                    let is_told = flips.iter().all(|(place, _)| place.index(pack(&bytes).len()) >= 10);
                    prop_assert!(got == want || !is_told, "{} {}", format, kind);
                }
            }
        }
    }
}
