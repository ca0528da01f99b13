//! Errors have their kind, their file, the place in the file and a hint.

use std::os::unix::fs::PermissionsExt;

use crate::support::{index, open, opened, places, stream_all, tar_of, tfrecord_of, write};
use forebay_core::{Error, ErrorKind};
use forebay_io::{Draft, Features, Together, infer};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

fn text(path: &str) -> Draft {
    Draft::Text { paths: vec![path.to_owned()] }
}

fn raw(path: &str, verify: bool) -> Draft {
    Draft::Tfrecord { paths: vec![path.to_owned()], features: Features::Raw, verify }
}

fn tar(path: &str) -> Draft {
    Draft::Tar { paths: vec![path.to_owned()], extensions: None }
}

/// Returns the error of reading everything, counted or not.
fn failure(draft: Draft, counted: bool) -> Error {
    let run = || -> forebay_core::Result<()> {
        let source = infer(draft, None)?;
        let index = index(&source, counted)?;
        let reader = open(&source, &index)?;
        stream_all(&*reader, index.blocks(), 4)?;
        Ok(())
    };
    run().expect_err("it should fail")
}

fn shown(e: &Error, folder: &std::path::Path) -> String {
    format!("{:?}: {e}", e.kind()).replace(folder.to_str().expect("utf-8"), "DIR")
}

#[test]
fn an_empty_glob_names_the_pattern_and_the_folder() {
    let dir = folder();
    let e = failure(text(&format!("{}/*.txt", dir.path().display())), true);
    assert_eq!(
        shown(&e, dir.path()),
        "NotFound: no file matches this pattern\n  file: DIR/*.txt\n  folder: DIR\n  hint: check the pattern: * does not \
         cross folders, ** does"
    );
    let e = failure(text(&format!("{}/no/*.txt", dir.path().display())), true);
    assert_eq!(e.get("hint"), Some("there is no such folder"));
}

#[test]
fn a_missing_file_and_a_folder_are_told_apart() {
    let dir = folder();
    let e = failure(text(&format!("{}/a.txt", dir.path().display())), false);
    assert_eq!(shown(&e, dir.path()), "NotFound: there is no such file\n  file: DIR/a.txt\n  hint: check the path");
    let e = failure(text(&dir.path().display().to_string()), false);
    assert_eq!((e.kind(), e.message()), (ErrorKind::NotFound, "no file matches this pattern"));
}

#[test]
fn a_file_without_permission_is_said_to_be_one() {
    let dir = folder();
    let path = write(dir.path(), "a.txt", b"x\n");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).expect("set");
    if std::fs::File::open(&path).is_ok() {
        return; // the superuser may read everything
    }
    let e = failure(text(&path), true);
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::PermissionDenied, Some(path.as_str())));
}

#[test]
fn a_file_that_changed_is_refused_by_index_and_by_reader() {
    let dir = folder();
    let path = write(dir.path(), "a.txt", b"one\ntwo\n");
    let source = infer(text(&path), None).expect("infers");
    let pinned = index(&source, true).expect("indexes");
    let touched = std::fs::File::options().write(true).open(&path).expect("opens");
    touched.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("set");
    let e = open(&source, &pinned).expect("opens").gather(&places([0])).expect_err("touched");
    assert_eq!(e.get("is"), Some("8 bytes, mtime 0.000000000"));
    write(dir.path(), "a.txt", b"one\ntwo\nthree\n");
    let reader = open(&source, &pinned).expect("opens");
    for e in [
        reader.gather(&places([0])).err(),
        reader.stream(0, forebay_core::Epoch(0), 4).ok().and_then(|mut c| c.next()?.err()),
    ] {
        let e = e.expect("changed");
        assert_eq!((e.kind(), e.message()), (ErrorKind::Data, "this file changed since it was indexed"));
        assert_eq!(e.get("file"), Some(path.as_str()));
        assert!(e.get("was").is_some_and(|w| w.starts_with("8 bytes, mtime ")), "{e}");
        assert!(e.get("is").is_some_and(|w| w.starts_with("14 bytes, mtime ")), "{e}");
        assert!(e.get("hint").is_some());
    }
}

#[test]
fn blank_lines_of_json_are_rows_only_where_others_follow() {
    let dir = folder();
    for counted in [true, false] {
        let e = failure(
            Draft::Jsonl { paths: vec![write(dir.path(), "a.jsonl", &blank_behind(100))], fields: None },
            counted,
        );
        assert_eq!((e.kind(), e.get("file_line"), e.get("offset")), (ErrorKind::Data, Some("101"), Some("800")));
        let e =
            failure(Draft::Jsonl { paths: vec![write(dir.path(), "b.jsonl", b" \n\t\r\n\n")], fields: None }, counted);
        assert_eq!(e.message(), "there is no line in the first files");
    }
}

/// Some lines, a blank one, another, and more blank ones.
fn blank_behind(lines: usize) -> Vec<u8> {
    [b"{\"a\":1}\n".repeat(lines).as_slice(), b"\n{\"a\":2}\n\n \n"].concat()
}

/// Overwrites a file, until the change is visible.
fn overwrite(path: &str, bytes: &[u8]) {
    use std::os::unix::fs::FileExt;
    let modified = || std::fs::metadata(path).expect("there").modified().expect("known");
    let (before, start) = (modified(), std::time::Instant::now());
    let file = std::fs::File::options().write(true).open(path).expect("opens");
    file.set_len(bytes.len() as u64).expect("cut");
    while modified() == before {
        assert!(start.elapsed().as_secs() < 30, "the file's time does not move");
        file.write_all_at(bytes, 0).expect("written");
    }
}

#[test]
fn a_file_that_is_written_over_while_it_is_open_is_refused_from_then_on() {
    let dir = folder();
    let lines = |n: usize, digit: &str| format!("{}\n", digit.repeat(9)).repeat(n).into_bytes();
    let archive = |byte: u8| tar_of(&[("0.jpg", &[byte; 700]), ("1.jpg", &[byte; 40_000])]);
    let records = |byte: u8| tfrecord_of(&[vec![byte; 50], vec![byte; 40_000]]);
    type Drafted = fn(String) -> Draft;
    let kinds: [(&str, Drafted, Vec<u8>, Vec<u8>); 4] = [
        ("a.txt", |path| text(&path), lines(9, "1"), lines(9, "2")),
        ("a.tar", |path| tar(&path), archive(1), archive(2)),
        ("a.tfrecord", |path| raw(&path, false), records(1), records(2)),
        ("a.bin", |path| Draft::Files { paths: vec![path] }, vec![1; 70], vec![2; 70]),
    ];
    for (name, draft, old, new) in kinds {
        for new in [new, Vec::new()] {
            let path = write(dir.path(), name, &old);
            let reader = opened(draft(path.clone()), true).expect("opens");
            reader.gather(&places([0])).expect("it is as it was");
            overwrite(&path, &new);
            for rows in [places([0]), places([0, 0])] {
                let e = reader.gather(&rows).expect_err("changed");
                assert_eq!(
                    (e.message(), e.get("file")),
                    ("this file changed since it was indexed", Some(path.as_str()))
                );
                assert_eq!(
                    (e.kind(), e.fault()),
                    (ErrorKind::Data, forebay_core::Fault::Other),
                    "it is no sample's fault"
                );
            }
        }
    }
}

#[test]
fn a_file_that_is_written_over_while_it_is_streamed_gives_rows_of_before_and_then_an_error() {
    let dir = folder();
    let lines = |digit: &str| format!("{}\n", digit.repeat(99)).repeat(60_000).into_bytes();
    let path = write(dir.path(), "a.txt", &lines("1"));
    let reader = opened(text(&path), false).expect("opens");
    let mut chunks = reader.stream(0, forebay_core::Epoch(0), 1000).expect("streams");
    let mut seen = 0;
    let e = loop {
        match chunks.next().expect("an error comes before the end") {
            Ok(chunk) => assert!(crate::support::rows(&[chunk]).iter().all(|row| row["text"] == "1".repeat(99))),
            Err(e) => break e,
        }
        seen += 1;
        if seen == 3 {
            overwrite(&path, &lines("2"));
        }
    };
    assert_eq!(e.message(), "this file changed since it was indexed");
}

#[test]
fn a_truncated_tar_names_the_member() {
    let dir = folder();
    let whole = tar_of(&[("a/0.jpg", &[1; 700]), ("a/1.jpg", &[2; 700])]);
    let path = write(dir.path(), "t.tar", &whole[..512 + 1024 + 512 + 100]);
    for counted in [true, false] {
        let e = failure(tar(&path), counted);
        assert_eq!(
            shown(&e, dir.path()),
            "Data: the archive ends within a member\n  file: DIR/t.tar\n  hint: the file is truncated or corrupt: write or \
             fetch it again\n  offset: 1536\n  member: a/1.jpg"
        );
    }
    let path = write(dir.path(), "h.tar", &whole[..512 + 1024 + 100]);
    let e = failure(tar(&path), true);
    assert_eq!((e.message(), e.get("offset")), ("the archive ends within a header", Some("1536")));
    let mut broken = whole;
    broken[1536 + 3] ^= 1;
    let e = failure(tar(&write(dir.path(), "b.tar", &broken)), true);
    assert_eq!((e.message(), e.get("offset")), ("broken tar header: its checksum differs", Some("1536")));
}

#[test]
fn a_sample_without_an_extension_names_both() {
    let dir = folder();
    let path = write(
        dir.path(),
        "t.tar",
        &tar_of(&[("0.jpg", b"a"), ("0.cls", b"b"), ("1.jpg", b"c"), ("2.jpg", b"d"), ("2.cls", b"e")]),
    );
    let needed = || {
        let extensions = ["jpg", "cls"].map(str::to_owned);
        Draft::Tar { paths: vec![path.clone()], extensions: Some(extensions.into()) }
    };
    for counted in [true, false] {
        let e = failure(needed(), counted);
        assert_eq!((e.kind(), e.message()), (ErrorKind::Data, "a sample has no \"cls\""));
        assert_eq!((e.get("key"), e.get("file")), (Some("1"), Some(path.as_str())));
    }
    let reader = opened(needed(), true).expect("opens");
    assert_eq!(reader.gather(&places([2, 0])).expect("these are whole").num_rows(), 2);
    let twice = write(dir.path(), "u.tar", &tar_of(&[("0.jpg", b"a"), ("0.jpg", b"b")]));
    let e = failure(tar(&twice), true);
    assert_eq!((e.message(), e.get("offset")), ("a sample holds the same extension twice", Some("1024")));
}

#[test]
fn a_bad_checksum_names_the_record() {
    let dir = folder();
    let mut bytes = tfrecord_of(&[b"first".to_vec(), b"second".to_vec()]);
    bytes[21 + 12 + 2] ^= 4;
    let path = write(dir.path(), "t", &bytes);
    for counted in [true, false] {
        let e = failure(raw(&path, true), counted);
        assert_eq!((e.kind(), e.message()), (ErrorKind::Data, "the checksum of a record differs"));
        assert_eq!((e.get("file"), e.get("offset"), e.get("record")), (Some(path.as_str()), Some("21"), Some("1")));
        assert_eq!(e.get("sample"), Some(format!("{path}#1").as_str()));
    }
    opened(raw(&path, false), true).expect("opens").gather(&places([1])).expect("is not verified");
    bytes[21] ^= 1;
    let e = failure(raw(&write(dir.path(), "u", &bytes), true), true);
    assert_eq!((e.message(), e.get("offset")), ("the checksum of a record's length differs", Some("21")));
    let e = failure(raw(&write(dir.path(), "v", &bytes[..30]), false), true);
    assert_eq!(
        (e.message(), e.get("offset"), e.get("record")),
        ("the file ends within a record", Some("21"), Some("1"))
    );
}

#[test]
fn features_that_are_not_there_or_of_another_shape_are_named() {
    let fields = |name: &str, n: usize| {
        Features::Given(vec![forebay_data::Field::new(
            name,
            forebay_data::Kind::fixed(forebay_data::DType::Float32, &[n]),
        )])
    };
    let draft = |features| Draft::Tfrecord {
        paths: vec![crate::support::golden("tensorflow.tfrecord")],
        features,
        verify: true,
    };
    let e = failure(draft(fields("bix", 4)), true);
    assert_eq!((e.message(), e.get("record")), ("a record has no feature \"bix\"", Some("0")));
    let e = failure(draft(fields("box", 3)), true);
    assert_eq!(e.message(), "feature \"box\" should be float32[3], and is a list of 4 float32");
    assert!(failure(draft(fields("label", 1)), true).message().ends_with("is a list of 1 int64"));
}

#[test]
fn lines_that_are_not_utf8_or_not_json_are_named_by_number() {
    let dir = folder();
    let path = write(dir.path(), "t.txt", b"fine\n\xc3\n\xa9\n");
    for counted in [true, false] {
        let e = failure(text(&path), counted);
        assert_eq!((e.kind(), e.message()), (ErrorKind::Data, "a line is not utf-8"));
        assert_eq!((e.get("file"), e.get("offset"), e.get("file_line")), (Some(path.as_str()), Some("5"), Some("2")));
    }
    let good = "{\"a\": 1}\n".repeat(100);
    for (line, message) in [
        ("{\"a\": 1.5}", "field \"a\" should be int64"),
        ("{\"b\": 1}", "a line has no field \"a\""),
        ("[1]", "a line is json, but not an object"),
        ("", "a line is not json: EOF while parsing a value at byte 0"),
    ] {
        let path = write(dir.path(), "t.jsonl", format!("{good}{line}\n{good}").as_bytes());
        let e = failure(Draft::Jsonl { paths: vec![path.clone()], fields: None }, true);
        assert_eq!((e.kind(), e.message()), (ErrorKind::Data, message));
        assert_eq!(
            (e.get("file"), e.get("offset"), e.get("file_line")),
            (Some(path.as_str()), Some("900"), Some("101"))
        );
    }
}

#[test]
fn what_is_not_parquet_is_said_to_be_no_parquet() {
    let dir = folder();
    let path = write(dir.path(), "t.parquet", b"PAR1 this is not one");
    let e = failure(
        Draft::Parquet { paths: vec![path.clone()], columns: None, nullable: None, together: Together::default() },
        true,
    );
    assert_eq!((e.kind(), e.get("file")), (ErrorKind::Data, Some(path.as_str())));
    assert!(e.message().starts_with("not a parquet file that can be read"), "{e}");
    let columns = Some(vec!["imge".to_owned()]);
    let e = failure(
        Draft::Parquet {
            paths: vec![crate::support::golden("pyarrow.parquet")],
            columns,
            nullable: None,
            together: Together::default(),
        },
        true,
    );
    assert_eq!((e.kind(), e.get("hint")), (ErrorKind::NotFound, Some("did you mean \"image\"?")));
}

#[test]
fn an_index_of_another_source_is_refused() {
    let dir = folder();
    let path = write(dir.path(), "t.txt", b"x\n");
    let (text, files) =
        (infer(text(&path), None).expect("infers"), infer(Draft::Files { paths: vec![path] }, None).expect("infers"));
    let index = index(&text, true).expect("indexes");
    assert_eq!(open(&files, &index).err().expect("refused").kind(), ErrorKind::Internal);
}

#[test]
fn progress_hears_of_every_file_and_can_cancel() {
    let dir = folder();
    (0..50).for_each(|i| drop(write(dir.path(), &format!("{i}.txt"), b"x\n")));
    let source = infer(text(&format!("{}/*.txt", dir.path().display())), None).expect("infers");
    let last = std::sync::Mutex::new((0, 0));
    let note = |done, total| {
        *last.lock().expect("no panic") = (done, total);
        Ok(())
    };
    forebay_io::index(&source, &forebay_io::Allowed::everything(), true, None, None, 3, &note).expect("indexes");
    assert_eq!(*last.lock().expect("no panic"), (50, 50));
    let cancel = |_, _| Err(Error::new(ErrorKind::Closed, "interrupted"));
    let e = forebay_io::index(&source, &forebay_io::Allowed::everything(), true, None, None, 3, &cancel)
        .expect_err("cancelled");
    assert_eq!(e.message(), "interrupted");
}

#[test]
fn the_cache_is_used_while_the_file_is_the_same_and_never_when_corrupt() {
    let (dir, cache) = (folder(), folder());
    let path = write(dir.path(), "a.txt", b"one\ntwo\n");
    let source = infer(text(&path), None).expect("infers");
    let rows = || {
        forebay_io::index(
            &source,
            &forebay_io::Allowed::everything(),
            true,
            Some(cache.path()),
            None,
            1,
            &crate::support::quiet,
        )
        .expect("indexes")
        .rows()
    };
    let entry = || std::fs::read_dir(cache.path()).expect("there").next().expect("one").expect("readable").path();
    assert_eq!(rows(), Some(2));
    let kept = std::fs::read(entry()).expect("kept");
    assert_eq!(rows(), Some(2));
    for i in 0..kept.len() {
        let mut bad = kept.clone();
        bad[i] ^= 0x10;
        std::fs::write(entry(), &bad).expect("written");
        assert_eq!(rows(), Some(2));
        assert_eq!(std::fs::read(entry()).expect("kept"), kept, "byte {i} was mended");
    }
    write(dir.path(), "a.txt", b"one\ntwo\nthree\n");
    assert_eq!(rows(), Some(3));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).expect("set");
}

#[test]
fn an_unsupported_compression_is_named_for_a_file_of_any_name() {
    let dir = folder();
    type Drafted = fn(String) -> Draft;
    let drafts: [Drafted; 3] =
        [|path| text(&path), |path| tar(&path), |path| Draft::Jsonl { paths: vec![path], fields: None }];
    let bytes = [b"\x04\x22\x4d\x18\x64\x40\xa7\0\0\0", [7; 2000].as_slice()].concat();
    let path = write(dir.path(), "plain", &bytes);
    for (draft, counted) in drafts.iter().flat_map(|draft| [(draft, true), (draft, false)]) {
        let e = failure(draft(path.clone()), counted);
        assert_eq!(e.message(), "this file is compressed with lz4, which is not supported");
        assert_eq!((e.kind(), e.fault()), (ErrorKind::Data, forebay_core::Fault::Other), "it is no sample's fault");
        assert!(e.get("hint").is_some_and(|h| h.contains("unlz4")), "{e}");
        assert_eq!(e.get("file"), Some(path.as_str()));
    }
}
