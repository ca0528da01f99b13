//! A row is the same in every way of reading, and no bytes make a reader panic.

use crate::support::{index, open, opened, places, rows, stream_all, tar_of, tfrecord_of, write};
use forebay_core::{Epoch, SampleId};
use forebay_data::Chunk;
use forebay_io::{Draft, Features, ReadOptions, Together, infer};
use proptest::collection::vec;
use proptest::prelude::*;

/// Checks that a source yields the same rows streamed without an index, streamed with one, and gathered in any order.
fn same_either_way(draft: Draft, order: &[prop::sample::Index], step: usize) -> Vec<serde_json::Value> {
    let source = infer(draft, None).expect("infers");
    let counted = index(&source, true).expect("indexes");
    let reader = open(&source, &counted).expect("opens");
    let plain = open(&source, &index(&source, false).expect("lists")).expect("opens");
    let streamed = stream_all(&*plain, counted.blocks(), step).expect("streams");
    let again = stream_all(&*reader, counted.blocks(), step).expect("streams");
    let ids = |chunks: &[Chunk]| chunks.iter().flat_map(|c| c.ids().to_vec()).collect::<Vec<_>>();
    let all = rows(&streamed);
    assert_eq!((ids(&streamed), &all), (ids(&again), &rows(&again)));
    let n = counted.rows().expect("counted");
    assert_eq!(all.len() as u64, n);
    if n > 0 {
        let order: Vec<u64> = order.iter().map(|i| i.index(n as usize) as u64).collect();
        let gathered = reader.gather(&places(order.iter().copied())).expect("gathers");
        let want: Vec<_> = order.iter().map(|&row| all[row as usize].clone()).collect();
        assert_eq!(rows(std::slice::from_ref(&gathered)), want);
        let named: Vec<_> = order.iter().map(|&row| ids(&streamed)[row as usize]).collect();
        assert_eq!(gathered.ids(), named);
    }
    all
}

/// Reads everything, and returns the number of rows or the error: the test checks only that it returns.
fn read(draft: Draft, counted: bool) -> forebay_core::Result<usize> {
    let source = infer(draft, None)?;
    let index = index(&source, counted)?;
    let reader = open(&source, &index)?;
    if let Some(n) = index.rows() {
        return reader.gather(&places(0..n.min(1000))).map(|c| rows(&[c]).len());
    }
    stream_all(&*reader, index.blocks(), 3).map(|c| rows(&c).len())
}

fn corrupt(mut bytes: Vec<u8>, flips: &[(prop::sample::Index, u8)], cut: Option<prop::sample::Index>) -> Vec<u8> {
    for (place, byte) in flips {
        if !bytes.is_empty() {
            let at = place.index(bytes.len());
            bytes[at] ^= byte;
        }
    }
    if let Some(cut) = cut {
        bytes.truncate(cut.index(bytes.len() + 1));
    }
    bytes
}

fn order() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    vec(any::<prop::sample::Index>(), 0..30)
}

fn damage() -> impl Strategy<Value = (Vec<(prop::sample::Index, u8)>, Option<prop::sample::Index>)> {
    (vec((any::<prop::sample::Index>(), 1u8..), 0..4), proptest::option::of(any::<prop::sample::Index>()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lines(files in vec(vec("[a-zé\r]{0,12}", 0..9), 1..4), last in any::<bool>(), order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut want = Vec::new();
        for (i, lines) in files.iter().enumerate() {
            let mut text = lines.iter().enumerate().map(|(i, l)| format!("{l}{}", if i % 2 == 0 { "\n" } else { "\r\n" })).collect::<String>();
            if last { text.push('x'); }
            let mut split: Vec<&str> = text.split('\n').collect();
            let rest = split.pop().filter(|r| !r.is_empty());
            want.extend(split.into_iter().map(|l| l.strip_suffix('\r').unwrap_or(l).to_owned()).chain(rest.map(str::to_owned)));
            write(folder.path(), &format!("{i}.txt"), text.as_bytes());
        }
        let paths = vec![format!("{}/*.txt", folder.path().display())];
        let got = same_either_way(Draft::Text { paths }, &order, step);
        let got: Vec<_> = got.iter().map(|row| row["text"].as_str().expect("text")).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn json_lines(files in vec((vec(any::<i64>(), 0..9), "[ \\t\\r\\n]{0,8}"), 0..4), order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut want = vec![7];
        write(folder.path(), "0.jsonl", b"{\"n\":7}\n\n");
        for (i, (numbers, end)) in files.iter().enumerate() {
            let text: Vec<String> = numbers.iter().map(|n| format!("{{\"n\":{n}}}")).collect();
            write(folder.path(), &format!("{}.jsonl", i + 1), format!("{}{end}", text.join("\n")).as_bytes());
            want.extend(numbers);
        }
        let paths = vec![format!("{}/*.jsonl", folder.path().display())];
        let got = same_either_way(Draft::Jsonl { paths, fields: None }, &order, step);
        let got: Vec<_> = got.iter().map(|row| row["n"].as_i64().expect("a number")).collect();
        prop_assert_eq!(got, want);
    }

    #[test]
    fn records(files in vec(vec(vec(any::<u8>(), 0..40), 0..9), 1..4), verify in any::<bool>(), order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = files.iter().enumerate().map(|(i, f)| write(folder.path(), &format!("{i}"), &tfrecord_of(f))).collect();
        let got = same_either_way(Draft::Tfrecord { paths, features: Features::Raw, verify }, &order, step);
        let got: Vec<_> = got.iter().map(|row| row["record"].as_str().expect("hex").to_owned()).collect();
        let hex = |r: &Vec<u8>| r.iter().map(|b| format!("{b:02x}")).collect::<String>();
        prop_assert_eq!(got, files.iter().flatten().map(hex).collect::<Vec<_>>());
    }

    #[test]
    fn tokens(files in vec(vec(any::<u16>(), 0..60), 1..4), length in 1usize..9, stride in 1usize..9, order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        let written = |i: usize, ids: &Vec<u16>| {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            write(folder.path(), &format!("{i}.bin"), &bytes)
        };
        let paths: Vec<String> = files.iter().enumerate().map(|(i, ids)| written(i, ids)).collect();
        let want: Vec<Vec<u16>> = files.iter().flat_map(|ids| ids.windows(length).step_by(stride).map(<[u16]>::to_vec)).collect();
        let draft = Draft::Tokens {
            paths,
            dtype: forebay_data::DType::Uint16,
            length: length as u64,
            stride: Some(stride as u64),
            column: "ids".to_owned(),
        };
        if want.is_empty() {
            prop_assert!(infer(draft, None).expect_err("no row").message().contains("there is no row"));
        } else {
            let got: Vec<_> = same_either_way(draft, &order, step).iter().map(|row| row["ids"].clone()).collect();
            prop_assert_eq!(serde_json::json!(got), serde_json::json!(want));
        }
    }

    #[test]
    fn arrays(values in vec((any::<i64>(), vec(any::<u8>(), 17), proptest::option::of("[a-zé]{0,5}")), 1..300), order in order()) {
        use forebay_data::{DType, Field, Kind};
        let floats = |n: usize| Kind::fixed(DType::Uint8, &[n]);
        let mut fields = vec![Field::new("i", Kind::scalar(DType::Int64)), Field::new("t", Kind::Utf8), Field::new("b", Kind::scalar(DType::Bool))];
        fields[1].nullable = true;
        let widths = [1usize, 2, 4, 8, 12, 16, 17];
        fields.extend(widths.iter().map(|w| Field::new(format!("w{w}"), floats(*w))));
        let mut columns: Vec<arrow_array::ArrayRef> = vec![
            std::sync::Arc::new(arrow_array::Int64Array::from_iter_values(values.iter().map(|v| v.0))),
            std::sync::Arc::new(values.iter().map(|v| v.2.clone()).collect::<arrow_array::LargeStringArray>()),
            std::sync::Arc::new(arrow_array::Int8Array::from_iter_values(values.iter().map(|v| (v.0 & 1) as i8))),
        ];
        for width in widths {
            let mut tensor = forebay_data::FixedTensorBuilder::new(DType::Uint8, &[width], values.len());
            values.iter().enumerate().for_each(|(i, v)| tensor.slot(i).copy_from_slice(&v.1[..width]));
            columns.push(tensor.finish().expect("valid"));
        }
        let schema = std::sync::Arc::new(forebay_data::Schema::new(fields.clone()).expect("valid"));
        let ids = vec![forebay_data::RowId { sample: SampleId(0), epoch: Epoch(0) }; values.len()];
        let chunk = Chunk::new(schema, columns, ids.into()).expect("valid");
        let (first, second) = (chunk.slice(0, values.len() / 2), chunk.slice(values.len() / 2, values.len() - values.len() / 2));
        for parts in [vec![chunk.clone()], vec![first, second]] {
            let mut blob = Vec::new();
            forebay_data::write_ipc(&parts, false, &mut blob).expect("written");
            let blobs = crate::support::Kept(vec![blob.into()]);
            let source = forebay_plan::Source::Memory { blob: forebay_plan::BlobId::of(&blobs.0[0]), rows: values.len() as u64, fields: fields.clone() };
            let reader = forebay_io::open(&source, index(&source, true).expect("fits"), &blobs, ReadOptions::default()).expect("opens");
            let all = rows(std::slice::from_ref(&chunk));
            prop_assert_eq!(&rows(&stream_all(&*reader, 1, 7).expect("streams")), &all);
            let order: Vec<u64> = order.iter().map(|i| i.index(values.len()) as u64).collect();
            let want: Vec<_> = order.iter().map(|&i| all[i as usize].clone()).collect();
            prop_assert_eq!(rows(&[reader.gather(&places(order)).expect("gathers")]), want);
        }
    }

    #[test]
    fn tars(shards in vec(vec((0usize..1500, 0usize..40), 1..9), 1..4), order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        let data = [7u8; 1500];
        for (i, samples) in shards.iter().enumerate() {
            let names: Vec<_> = (0..samples.len()).map(|s| [format!("d/{s:03}.jpg"), format!("d/{s:03}.cls"), format!("d/{s:03}.other")]).collect();
            let members: Vec<(&str, &[u8])> = samples.iter().zip(&names).enumerate().flat_map(|(s, ((a, b), n))| {
                let extra = (s > 0).then_some((n[2].as_str(), &data[..3]));
                [(n[0].as_str(), &data[..*a]), (n[1].as_str(), &data[..*b])].into_iter().chain(extra)
            }).collect();
            write(folder.path(), &format!("{i:03}.tar"), &tar_of(&members));
        }
        let paths = vec![format!("{}/{{000..{:03}}}.tar", folder.path().display(), shards.len() - 1)];
        let got = same_either_way(Draft::Tar { paths, extensions: None }, &order, step);
        prop_assert_eq!(got.len(), shards.iter().map(Vec::len).sum::<usize>());
        prop_assert_eq!(&got[0]["__key__"], "d/000");
    }

    #[test]
    fn whole_files(sizes in vec(0usize..3000, 1..6), order in order(), step in 1usize..5) {
        let folder = tempfile::tempdir().expect("a folder");
        sizes.iter().enumerate().for_each(|(i, n)| drop(write(folder.path(), &format!("{i}.bin"), &vec![i as u8; *n])));
        let paths = vec![format!("{}/*", folder.path().display())];
        prop_assert_eq!(same_either_way(Draft::Files { paths }, &order, step).len(), sizes.len());
    }

    #[test]
    fn corrupt_bytes_are_reported_or_give_whole_rows((flips, cut) in damage(), counted in any::<bool>(), verify in any::<bool>()) {
        let folder = tempfile::tempdir().expect("a folder");
        let bad = |name: &str| corrupt(std::fs::read(crate::support::golden(name)).expect("there"), &flips, cut);
        let path = |name: &str| vec![write(folder.path(), name, &bad(name))];
        for name in ["webdataset.tar", "pax.tar", "gnu.tar"] {
            let _ = read(Draft::Tar { paths: path(name), extensions: None }, counted);
        }
        let records = read(Draft::Tfrecord { paths: path("tensorflow.tfrecord"), features: Features::Raw, verify }, counted);
        if verify && !flips.is_empty() && cut.is_none() {
            let e = records.expect_err("a flipped bit is found");
            prop_assert!(e.get("file").is_some() && e.get("offset").is_some(), "{}", e);
        }
        let _ = read(Draft::Tfrecord { paths: path("tensorflow.tfrecord"), features: Features::Infer, verify: false }, counted);
        let _ = read(Draft::Jsonl { paths: path("python.jsonl"), fields: None }, counted);
        let _ = read(Draft::Text { paths: path("python.jsonl") }, counted);
        let _ = read(Draft::Parquet { paths: path("pyarrow.parquet"), columns: None, nullable: None, together: Together::default() }, counted);
    }
}

#[test]
fn a_range_of_a_million_million_rows_costs_nothing_and_names_its_rows() {
    let source = forebay_plan::Source::Range { start: 5, stop: 2_000_000_000_005, step: 2 };
    let index = index(&source, false).expect("fits");
    assert_eq!(index.rows(), Some(1_000_000_000_000));
    let reader = open(&source, &index).expect("opens");
    let last = reader.gather(&places([999_999_999_999, 0])).expect("reads");
    assert_eq!(
        rows(std::slice::from_ref(&last)),
        [serde_json::json!({"id": 2_000_000_000_003i64}), serde_json::json!({"id": 5})]
    );
    assert_eq!(last.ids()[0].sample, SampleId::new(15_258_789, 4095));
    let block = reader.stream(15_258_789, Epoch(0), 4000).expect("a block").map(|c| c.expect("reads").num_rows());
    assert_eq!(block.collect::<Vec<_>>(), [4000, 96]);
    assert!(reader.gather(&places([1_000_000_000_000])).is_err());
    assert!(opened(Draft::Files { paths: vec![] }, true).is_err());
}

#[test]
fn image_folders_label_by_the_sorted_names_of_their_classes() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["b/2.PNG", "b/deep/1.jpg", "a/1.jpg", "a/notes.txt", "c/.hidden.jpg", "loose.jpg"] {
        write(folder.path(), name, name.as_bytes());
    }
    let root = folder.path().display().to_string();
    let draft = Draft::ImageFolder { root: format!("{root}/") };
    let row = |label: i64, path: &str| {
        let hex: String = path.bytes().map(|b| format!("{b:02x}")).collect();
        serde_json::json!({"image": hex, "label": label, "path": format!("{root}/{path}")})
    };
    let got = same_either_way(draft, &[], 2);
    assert_eq!(got, [row(0, "a/1.jpg"), row(1, "b/2.PNG"), row(1, "b/deep/1.jpg")]);
}

#[test]
fn paths_keep_the_users_order_and_globs_are_sorted() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["z.txt", "b/2.txt", "b/1.txt", "b/c/3.txt", "b/.4.txt", "odd[1].txt"] {
        write(folder.path(), name, b"");
    }
    let root = folder.path().display().to_string();
    let listed = |patterns: &[&str]| {
        let paths = patterns.iter().map(|p| format!("{root}/{p}")).collect();
        let index = index(&infer(Draft::Text { paths }, None).expect("infers"), false).expect("lists");
        index.files().map(|f| f.uri.trim_start_matches(&format!("{root}/")).to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(listed(&["z.txt", "b/*.txt", "z.txt"]), "z.txt b/1.txt b/2.txt z.txt");
    assert_eq!(listed(&["b/**/*.txt"]), "b/1.txt b/2.txt b/c/3.txt");
    assert_eq!(listed(&["b/{2,1}.txt", "odd[1].txt", "b/[!2].txt"]), "b/2.txt b/1.txt odd[1].txt b/1.txt");
}
