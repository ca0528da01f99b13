//! A few small sources of each format: a function for each variant of `Source`. No two rows of a sample are equal.

use std::path::Path;

use crate::support::{golden, tar_of, tfrecord_of, write};
use bytes::Bytes;
use forebay_data::{Chunk, DType, Field, Kind, write_ipc};
use forebay_io::saved::Format;
use forebay_io::{CsvDraft, CsvHeader, Draft, Features, Together};
use forebay_plan::{BlobId, Combined, Combining, Graph, Node, Op, Source, SourcePart, Stop, ops};

use super::makers::{
    Sample, arrow_stream_of, divided, golden_folder, gzip, npy, parquet_of, rows_from, saved, write_megatron,
};

/// Writes files, and returns their paths.
fn written<B: AsRef<[u8]>>(folder: &Path, files: &[(&str, B)]) -> Vec<String> {
    files.iter().map(|(name, bytes)| write(folder, name, bytes.as_ref())).collect()
}

fn all_below(folder: &Path, pattern: &str) -> Vec<String> {
    vec![format!("{}/{pattern}", folder.display())]
}

pub(super) fn files() -> Vec<Sample> {
    let make = |folder: &Path| Draft::Files {
        paths: written(folder, &[("a.bin", &b"first"[..]), ("b/ü c.bin", b""), ("b/d.bin", &[7; 3000])]),
    };
    vec![Sample::of_files("files", 3, make)]
}

pub(super) fn image_folder() -> Vec<Sample> {
    let make = |folder: &Path| {
        written(folder, &[("cat/1.jpg", "one"), ("cat/2.png", "two"), ("dog/1.jpg", "three"), ("dog/notes.txt", "no")]);
        Draft::ImageFolder { root: folder.display().to_string() }
    };
    vec![Sample::of_files("image folder", 3, make)]
}

/// The rows of a chunk as tar archives have them: texts, numbers and bytes.
fn members(rows: &Chunk) -> Chunk {
    let fields = [("n", "n"), ("text", "txt"), ("blob", "bin")];
    let kept = rows.project(&fields.map(|(from, _)| from.to_owned())).expect("its columns");
    let renamed = fields.iter().zip(kept.schema().fields()).map(|((_, to), field)| Field::new(*to, field.kind.clone()));
    let schema = forebay_data::Schema::new(renamed.collect()).expect("a schema");
    Chunk::new(schema.into(), kept.columns().to_vec(), kept.ids().into()).expect("a chunk")
}

pub(super) fn tar() -> Vec<Sample> {
    let archive = |first: usize, rows: usize| {
        let names: Vec<[String; 2]> =
            (first..first + rows).map(|n| [format!("d/{n}.jpg"), format!("d/{n}.cls")]).collect();
        let data: Vec<Vec<u8>> = (first..first + rows).map(|n| vec![n as u8; n * 131 % 1500]).collect();
        let of_row = |(i, [jpg, cls]): (usize, &[String; 2])| {
            [(jpg.clone(), data[i].clone()), (cls.clone(), jpg.clone().into_bytes())]
        };
        let members: Vec<_> = names.iter().enumerate().flat_map(of_row).collect();
        tar_of(&members.iter().map(|(name, data)| (name.as_str(), data.as_slice())).collect::<Vec<_>>())
    };
    let some = Some(vec!["cls".to_owned(), "jpg".to_owned(), "json?".to_owned()]);
    vec![
        Sample::of_files("tar", 11, |folder| {
            let paths =
                written(folder, &[("0.tar", archive(0, 5)), ("1.tar", archive(5, 1)), ("2.tar", archive(6, 5))]);
            Draft::Tar { paths, extensions: some }
        }),
        Sample::of_files("tar, compressed", 8, |folder| {
            let paths = written(folder, &[("0.tar.gz", gzip(&archive(0, 5))), ("1.tar.gz", gzip(&archive(5, 3)))]);
            Draft::Tar { paths, extensions: None }
        }),
        Sample::of_files("tar, as it is saved", 30, |folder| {
            saved(folder, &members(&rows_from(0, 30)), Format::Tar, 400);
            Draft::Tar { paths: all_below(folder, "*.tar"), extensions: None }
        }),
    ]
}

pub(super) fn tfrecord() -> Vec<Sample> {
    let record = |n: usize| vec![n as u8; 1 + n * 37 % 200];
    let file = |first: usize, rows: usize| tfrecord_of(&(first..first + rows).map(record).collect::<Vec<_>>());
    let raw = |verify: bool| {
        move |folder: &Path| {
            let paths = written(folder, &[("a", file(0, 7)), ("b", file(7, 4)), ("c", file(11, 6))]);
            Draft::Tfrecord { paths, features: Features::Raw, verify }
        }
    };
    let examples = std::fs::read(golden("tensorflow.tfrecord")).expect("a golden file");
    let rows = crate::support::stream_all(
        &*crate::support::opened(
            Draft::Tfrecord { paths: vec![golden("tensorflow.tfrecord")], features: Features::Raw, verify: true },
            true,
        )
        .expect("opens"),
        1,
        1,
    );
    let rows = rows.expect("streams").len() as u64;
    let (first, second) = divided(&examples, 5);
    vec![
        Sample::of_files("tfrecord", 17, raw(true)),
        Sample::of_files("tfrecord, not verified", 17, raw(false)),
        Sample::of_files("tfrecord, features", rows, |folder| {
            let paths = written(folder, &[("a.tfrecord", first), ("b.tfrecord", second)]);
            Draft::Tfrecord { paths, features: Features::Infer, verify: true }
        }),
    ]
}

fn table(first: i64, rows: usize) -> arrow_array::RecordBatch {
    rows_from(first, rows).to_record_batch(false).expect("a batch")
}

/// Without the columns that other writers of Parquet store in another form.
fn plain_table(first: i64, rows: usize) -> arrow_array::RecordBatch {
    table(first, rows).project(&[0, 1, 2]).expect("its columns")
}

pub(super) fn parquet() -> Vec<Sample> {
    let draft = |paths: Vec<String>, partitions: bool, merged: bool| {
        let together = Together { partitions, merged };
        Draft::Parquet { paths, columns: None, nullable: None, together }
    };
    vec![
        Sample::of_files("parquet, as it is saved", 40, |folder| {
            saved(folder, &rows_from(0, 40), Format::Parquet, 900);
            draft(all_below(folder, "*.parquet"), false, false)
        }),
        Sample::of_files("parquet, row groups and folders with columns", 25, |folder| {
            let parts =
                [("year=2024/a.parquet", 0, 12), ("year=2025/a.parquet", 12, 4), ("year=2025/b.parquet", 16, 9)];
            let files = parts.map(|(name, first, rows)| (name, parquet_of(&plain_table(first, rows), 5)));
            draft(written(folder, &files), true, false)
        }),
        Sample::of_files("parquet, files of other columns", 9, |folder| {
            let narrow = plain_table(5, 4).project(&[0, 2]).expect("its columns");
            let files = [("a.parquet", parquet_of(&plain_table(0, 5), 2)), ("b.parquet", parquet_of(&narrow, 2))];
            draft(written(folder, &files), false, true)
        }),
    ]
}

pub(super) fn arrow() -> Vec<Sample> {
    let draft = |paths: Vec<String>, partitions: bool| {
        let together = Together { partitions, merged: false };
        Draft::Arrow { paths, columns: None, nullable: None, together }
    };
    vec![
        Sample::of_files("arrow, as it is saved", 40, |folder| {
            saved(folder, &rows_from(0, 40), Format::Arrow, 900);
            draft(all_below(folder, "*.arrow"), false)
        }),
        Sample::of_files("arrow, streams in folders with columns", 21, |folder| {
            let parts = [("k=a/0.arrow", 0, 10), ("k=b/0.arrow", 10, 11)];
            let files = parts.map(|(name, first, rows)| (name, arrow_stream_of(&table(first, rows), 4)));
            draft(written(folder, &files), true)
        }),
    ]
}

pub(super) fn text() -> Vec<Sample> {
    let lines = |first: usize, rows: usize| -> String {
        (first..first + rows).map(|n| format!("{n} {}\n", "é".repeat(n * 13 % 60))).collect()
    };
    vec![
        Sample::of_files("text", 62, |folder| {
            let ends = lines(31, 30).replace('\n', "\r\n") + "the last one";
            let paths = written(folder, &[("a.txt", lines(0, 31)), ("b.txt", String::new()), ("c.txt", ends)]);
            Draft::Text { paths }
        }),
        Sample::of_files("text, compressed", 40, |folder| {
            let files = [("a.txt.gz", gzip(lines(0, 20).as_bytes())), ("b.txt.gz", gzip(lines(20, 20).as_bytes()))];
            Draft::Text { paths: written(folder, &files) }
        }),
    ]
}

pub(super) fn jsonl() -> Vec<Sample> {
    let line = |n: usize| {
        let missing = if n.is_multiple_of(3) { "null".to_owned() } else { format!("\"{}\"", "ü".repeat(n)) };
        format!(
            "{{\"n\":{n},\"x\":{}.5,\"s\":{missing},\"l\":{:?},\"d\":{{\"e\":{}}}}}\n",
            n,
            vec![n; n % 4],
            n.is_multiple_of(2)
        )
    };
    let lines = |first: usize, rows: usize| (first..first + rows).map(line).collect::<String>();
    vec![Sample::of_files("json lines", 23, |folder| {
        let paths = written(folder, &[("a.jsonl", lines(0, 9)), ("b.jsonl", lines(9, 1)), ("c.jsonl", lines(10, 13))]);
        Draft::Jsonl { paths, fields: None }
    })]
}

pub(super) fn json() -> Vec<Sample> {
    let row =
        |n: usize| format!("{{\"n\": {n},\n \"s\": \"a, ]{}\\\"\", \"l\": {:?}}}", "é".repeat(n % 5), vec![n; n % 3]);
    let rows = move |first: usize, rows: usize| (first..first + rows).map(row).collect::<Vec<_>>().join(" ,\n");
    let member =
        move |first, count| format!("{{\"a\": [{{\"n\": \"]}}\"}}], \"rows\": [ {} ], \"z\": 1}}", rows(first, count));
    let array = move |first, count| format!("[{}]\n", rows(first, count));
    let draft = |paths, field: Option<&str>| Draft::Json { paths, field: field.map(str::to_owned), fields: None };
    vec![
        Sample::of_files("json documents", 23, move |folder| {
            draft(written(folder, &[("a.json", array(0, 9)), ("b.json", array(9, 1)), ("c.json", array(10, 13))]), None)
        }),
        Sample::of_files("a member of json documents, compressed", 20, move |folder| {
            let files = [("a.json.gz", gzip(member(0, 12).as_bytes())), ("b.json.gz", gzip(member(12, 8).as_bytes()))];
            draft(written(folder, &files), Some("rows"))
        }),
    ]
}

pub(super) fn csv() -> Vec<Sample> {
    let draft = |paths: Vec<String>, header: CsvHeader, multiline: Option<bool>| {
        let (delimiter, quote, null) = (None, Some('"'), vec![String::new(), "NA".to_owned()]);
        Draft::Csv(CsvDraft { paths, header, delimiter, quote, null, multiline, fields: None, columns: None })
    };
    let record = |n: usize, between: &str| {
        let missing = if n.is_multiple_of(4) { "NA".to_owned() } else { format!("{}.25", n) };
        [n.to_string(), missing, format!("\"a, \"\"{}\"\"\"", "ß".repeat(n % 7))].join(between) + "\n"
    };
    let records = move |first: usize, rows: usize, between: &str| -> String {
        (first..first + rows).map(|n| record(n, between)).collect()
    };
    let with_breaks = |first: usize, rows: usize| -> String {
        let record = |n: usize| format!("{n},\"line\nof {n}\r\n\",{}\n", n.is_multiple_of(2));
        "n,text,even\n".to_owned() + &(first..first + rows).map(record).collect::<String>()
    };
    vec![
        Sample::of_files("csv", 24, |folder| {
            let file = |first, rows| "n,x,text\n".to_owned() + &records(first, rows, ",");
            let paths = written(folder, &[("a.csv", file(0, 11)), ("b.csv", file(11, 13))]);
            draft(paths, CsvHeader::InFiles, Some(false))
        }),
        Sample::of_files("csv, quoted line breaks", 15, |folder| {
            let paths = written(folder, &[("a.csv", with_breaks(0, 7)), ("b.csv", with_breaks(7, 8))]);
            draft(paths, CsvHeader::InFiles, None)
        }),
        Sample::of_files("tsv without names, compressed", 20, |folder| {
            let file = |first| gzip(records(first, 10, "\t").as_bytes());
            draft(written(folder, &[("a.tsv.gz", file(0)), ("b.tsv.gz", file(10))]), CsvHeader::Numbered, Some(false))
        }),
    ]
}

pub(super) fn tokens() -> Vec<Sample> {
    let ids = |first: u16, count: u16| (first..first + count).collect::<Vec<u16>>();
    let raw = move |first, count| ids(first, count).iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>();
    let draft = |paths, length, stride| {
        let (dtype, column) = (DType::Uint16, "ids".to_owned());
        Draft::Tokens { paths, dtype, length, stride, column }
    };
    vec![
        Sample::of_files("token ids", 26, |folder| {
            draft(written(folder, &[("a.bin", raw(0, 45)), ("b.bin", raw(45, 3)), ("c.bin", raw(48, 37))]), 4, Some(3))
        }),
        Sample::of_files("token ids of numpy", 9, |folder| {
            draft(written(folder, &[("a.npy", npy(&ids(0, 22))), ("b.npy", npy(&ids(22, 25)))]), 5, None)
        }),
    ]
}

fn documents(first: u16, documents: u16) -> Vec<Vec<u16>> {
    (first..first + documents).map(|n| (0..n % 9).map(|id| id + n).collect()).collect()
}

pub(super) fn megatron() -> Vec<Sample> {
    // The documents of lengths 1 to 8: an empty one is a row as well, and one is enough.
    let make = |folder: &Path| {
        let paths = vec![write_megatron(folder, "a", &documents(1, 8)), write_megatron(folder, "b", &documents(9, 8))];
        Draft::Megatron { paths, column: "ids".to_owned() }
    };
    vec![Sample::of_files("megatron", 16, make)]
}

/// The samples of the folders that another library wrote: their number is in the index beside them.
fn counted_by(folder: &str, list: &str, count: &str) -> u64 {
    let path = format!("{}/../../python/tests/golden/{folder}/index.json", env!("CARGO_MANIFEST_DIR"));
    let index: serde_json::Value = serde_json::from_slice(&std::fs::read(path).expect("an index")).expect("JSON");
    let rows = index[list].as_array().expect("a list").iter().map(|shard| shard[count].as_u64().expect("a number"));
    rows.sum()
}

pub(super) fn mds() -> Vec<Sample> {
    let golden = |name: &str| {
        let from = format!("mds/{name}");
        let rows = counted_by(&from, "shards", "samples");
        let make = |folder: &Path| Draft::Mds { paths: vec![golden_folder(&from, folder)], columns: None };
        Sample::of_files(&format!("mds, {name}"), rows, make)
    };
    vec![
        Sample::of_files("mds, as it is saved", 40, |folder| {
            let parts = [(folder.join("a"), 0, 25), (folder.join("b"), 25, 15)];
            let paths = parts.map(|(folder, first, rows)| {
                saved(&folder, &rows_from(first, rows), Format::Mds, 900);
                folder.display().to_string()
            });
            Draft::Mds { paths: paths.into(), columns: None }
        }),
        golden("gz"),
        golden("zstd"),
    ]
}

pub(super) fn litdata() -> Vec<Sample> {
    let golden = |name: &str, columns: Option<&[&str]>| {
        let from = format!("litdata/{name}");
        let rows = counted_by(&from, "chunks", "chunk_size");
        let columns = columns.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let make = |folder: &Path| Draft::Litdata { paths: vec![golden_folder(&from, folder)], columns };
        Sample::of_files(&format!("litdata, {name}"), rows, make)
    };
    let plain = ["int", "float", "text", "blob", "flag", "matrix", "ids", "tensor", "tokens", "point", "mask"];
    let mut samples: Vec<_> = ["chunk", "batch", "sample"].map(|name| golden(name, None)).into();
    samples.push(golden("plain", Some(&plain)));
    samples
}

pub(super) fn memory() -> Vec<Sample> {
    let rows = rows_from(0, 30);
    let mut blob = Vec::new();
    write_ipc(&[rows.slice(0, 11), rows.slice(11, 19)], false, &mut blob).expect("written");
    let blob = Bytes::from(blob);
    let source = Source::Memory { blob: BlobId::of(&blob), rows: 30, fields: rows.schema().fields().to_vec() };
    vec![Sample::of_none("arrays", 30, source, vec![blob])]
}

/// A source that Python reads.
fn python_fields() -> (BlobId, String, Vec<Field>) {
    (BlobId::of(b"a pickle"), String::new(), vec![Field::new("n", Kind::scalar(DType::Int64))])
}

pub(super) fn map_dataset() -> Vec<Sample> {
    let (blob, code, fields) = python_fields();
    vec![Sample::of_none("map dataset", 5, Source::MapDataset { blob, code, rows: 5, fields }, vec![])]
}

pub(super) fn generator() -> Vec<Sample> {
    let (blob, code, fields) = python_fields();
    vec![Sample::of_none("generator", 0, Source::Generator { blob, code, fields }, vec![])]
}

pub(super) fn range() -> Vec<Sample> {
    let make =
        |name: &str, start, stop, step, rows| Sample::of_none(name, rows, Source::Range { start, stop, step }, vec![]);
    vec![make("range", 3, 43, 1, 40), make("range, downwards", 10, -11, -3, 7)]
}

pub(super) fn combined() -> Vec<Sample> {
    let range = |start: i64, stop: i64| Graph::new(Source::Range { start, stop, step: 1 }, None).expect("a range");
    let renamed = Op::Rename(ops::Rename { columns: vec![("id".to_owned(), "other".to_owned())] });
    let of = |how: Combining, parts: [Graph; 2]| {
        let part = |(name, graph): (&str, Graph)| SourcePart { name: name.to_owned(), graph: graph.into() };
        let parts = ["first", "second"].into_iter().zip(parts).map(part).collect();
        Source::Combined(Combined { how, parts, column: None })
    };
    let mix = || Combining::Mix { weights: vec![1.0, 2.0], stop: Stop::First, changes: None, per_batch: Some(4) };
    let other = range(10, 14).then(Node::new(renamed)).expect("an op");
    let zip = Combining::Zip { strict: false };
    let inner = Graph::new(of(mix(), [range(0, 5), range(0, 6)]), None).expect("a graph");
    vec![
        Sample::of_none("mix", 7, of(mix(), [range(0, 3), range(0, 4)]), vec![]),
        Sample::of_none("concatenate, of a mix", 14, of(Combining::Concatenate, [range(0, 3), inner]), vec![]),
        Sample::of_none("zip", 3, of(zip, [range(0, 3), other]), vec![]),
    ]
}
