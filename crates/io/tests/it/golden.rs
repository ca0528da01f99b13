//! Files that other libraries wrote yield the rows that the same libraries read (`golden/write.py`).

use crate::support::{assert_rows, golden, index, open, places, rows, stream_all};
use forebay_core::{Epoch, ErrorKind, Fault};
use forebay_io::{Draft, Features, Together, infer};
use serde_json::Value;

fn expected(name: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(golden(name)).expect("there")).expect("json")
}

fn check(draft: Draft, name: &str, schema: &str) {
    check_rows(draft, &expected(name), schema);
}

fn check_rows(draft: Draft, want: &[Value], schema: &str) {
    let source = infer(draft, None).expect("infers");
    assert_eq!(source.schema().expect("valid").to_string(), schema);
    let counted = index(&source, true).expect("indexes");
    let n = want.len() as u64;
    assert_eq!(counted.rows(), Some(n));
    let reader = open(&source, &counted).expect("opens");
    assert_rows(&rows(&[reader.gather(&places(0..n)).expect("reads")]), want);
    let backwards: Vec<Value> = want.iter().rev().cloned().collect();
    assert_rows(&rows(&[reader.gather(&places((0..n).rev())).expect("reads")]), &backwards);
    let streamed = open(&source, &index(&source, false).expect("lists")).expect("opens");
    assert_rows(&rows(&stream_all(&*streamed, counted.blocks(), 4).expect("reads")), want);
}

#[test]
fn webdataset_shards() {
    let tar = |name: &str| Draft::Tar { paths: vec![golden(name)], extensions: None };
    check(tar("webdataset.tar"), "webdataset.tar.json", "{__key__: string, cls: bytes, jpg: bytes, seg.PNG: bytes}");
    for name in ["pax.tar", "gnu.tar", "ustar.tar"] {
        check(tar(name), &format!("{name}.json"), "{__key__: string, bin: bytes, txt: bytes}");
    }
}

#[test]
fn tensorflow_records_raw_and_parsed() {
    for verify in [true, false] {
        let draft = |features| Draft::Tfrecord { paths: vec![golden("tensorflow.tfrecord")], features, verify };
        check(draft(Features::Raw), "tensorflow.tfrecord.raw.json", "{record: bytes}");
        let schema = "{box: float32[?], ids: int64[?], image: bytes, label: int64, score: float32}";
        check(draft(Features::Infer), "tensorflow.tfrecord.json", schema);
    }
}

#[test]
fn pyarrow_tables() {
    let schema = "{id: int64, x: float32?, flag: bool?, name: string?, raw: bytes, bits: bool[2], image: uint8[2, 3], \
                  user.age: int16?, user.at.lat: float64?}";
    let columns = ["id", "x", "flag", "name", "raw", "bits", "image", "user.age", "user.at.lat"].map(str::to_owned);
    let mut want = expected("pyarrow.parquet.json");
    want.iter_mut().for_each(|row| drop(row.as_object_mut().map(|row| row.remove("list"))));
    let draft = Draft::Parquet {
        paths: vec![golden("pyarrow.parquet")],
        columns: Some(columns.into()),
        nullable: None,
        together: Together::default(),
    };
    check_rows(draft, &want, schema);
}

#[test]
fn a_list_that_is_missing_is_an_error_of_its_row_and_of_no_other() {
    let want = expected("pyarrow.parquet.json");
    let (lack, have): (Vec<u64>, Vec<u64>) = (0..want.len() as u64).partition(|&i| want[i as usize]["list"].is_null());
    let kept: Vec<Value> = have.iter().map(|&i| want[i as usize].clone()).collect();
    let source = infer(
        Draft::Parquet {
            paths: vec![golden("pyarrow.parquet")],
            columns: None,
            nullable: None,
            together: Together::default(),
        },
        None,
    )
    .expect("infers");
    let index = index(&source, true).expect("indexes");
    let reader = open(&source, &index).expect("opens");
    assert_rows(&rows(&[reader.gather(&places(have.iter().copied())).expect("reads")]), &kept);
    let named = |row: u64| Some(index.describe_sample(index.locate(row)));
    for &row in &lack {
        let e = reader.gather(&places([have[0], row, lack[0]])).expect_err("it has no list");
        assert_eq!((e.get("sample").map(str::to_owned), e.get("column")), (named(row), Some("list")));
        assert_eq!((e.kind(), e.fault()), (ErrorKind::Data, Fault::Sample));
    }
    let (mut streamed, mut lost) = (Vec::new(), Vec::new());
    for block in 0..index.blocks() {
        for chunk in reader.stream(block, Epoch(0), 4).expect("streams") {
            let chunk = chunk.expect("reads");
            lost.extend(chunk.losses().iter().map(|loss| index.describe_sample(loss.row.sample)));
            streamed.push(chunk);
        }
    }
    assert_rows(&rows(&streamed), &kept);
    assert_eq!(lost, lack.iter().filter_map(|&row| named(row)).collect::<Vec<_>>());
}

#[test]
fn json_lines() {
    let schema = "{id: int64, score: float64, name: string, ok: bool, ids: int64[?], pair: float64[?], user.age: int64?, \
                  user.tags: string[?]}";
    check(Draft::Jsonl { paths: vec![golden("python.jsonl")], fields: None }, "python.jsonl.json", schema);
}

#[test]
fn a_selection_of_columns_reads_only_those_in_the_order_asked_for() {
    let columns = Some(vec!["user.at.lat".to_owned(), "id".to_owned()]);
    let source = infer(
        Draft::Parquet {
            paths: vec![golden("pyarrow.parquet")],
            columns,
            nullable: None,
            together: Together::default(),
        },
        None,
    )
    .expect("infers");
    assert_eq!(source.schema().expect("valid").to_string(), "{user.at.lat: float64?, id: int64}");
    let columns = Some(vec!["n".to_owned()]);
    assert!(
        infer(
            Draft::Parquet {
                paths: vec![golden("timestamp.parquet")],
                columns,
                nullable: None,
                together: Together::default()
            },
            None
        )
        .is_ok()
    );
}

#[test]
fn times_are_whole_numbers() {
    let draft = Draft::Parquet {
        paths: vec![golden("timestamp.parquet")],
        columns: None,
        nullable: None,
        together: Together::default(),
    };
    check_rows(draft, &[serde_json::json!({"when": 0, "n": 1})], "{when: int64, n: int64}");
}
