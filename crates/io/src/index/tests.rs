//! An index decodes to an equal index, refuses damaged bytes, and names rows.

use super::*;
use crate::store::Mark;
use forebay_data::DType;
use table::{Documents, Even, Span, TarTable};

fn tars() -> SourceIndex {
    let mut tar = TarTable::default();
    tar.push("a/00", &[Some(Span { offset: 512, len: 9 }), None]);
    tar.push("a/01", &[Some(Span { offset: 2048, len: 0 }), Some(Span { offset: 4096, len: 3 })]);
    let tables = [Table::Tar(tar), Table::Tar(TarTable::default()), Table::Frames(vec![0, 7, 9])].map(Arc::new);
    let stat = |size, mark| Stat { size, mark };
    SourceIndex::new(Inner {
        layout: Layout::PerFile { counted: true },
        uris: ["/d/t-é0.tar", "/d/t-è1.tar", "s3://b/t"].map(Into::into).into(),
        stats: vec![stat(9000, Mark::Mtime(-3)), stat(0, Mark::Mtime(i64::MAX)), stat(9, Mark::Etag("\"x\"".into()))],
        tables: tables.into(),
        points: vec![None; 3],
        ..Inner::default()
    })
    .expect("valid")
}

#[test]
fn an_index_reads_back_what_it_wrote_and_refuses_every_flipped_bit() {
    let bytes = tars().to_bytes();
    assert_eq!(SourceIndex::from_bytes(&bytes).expect("valid"), tars());
    for i in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[i / 8] ^= 1 << (i % 8);
        assert!(SourceIndex::from_bytes(&bad).is_err(), "bit {i}");
        assert!(SourceIndex::from_bytes(&bytes[..i / 8]).is_err(), "first {} bytes", i / 8);
    }
}

fn documents(told_by: &str, starts: &[u64]) -> Documents {
    Documents { dtype: DType::Uint16, told_by: told_by.to_owned(), starts: starts.to_vec() }
}

fn of_tables(tables: Vec<Table>) -> SourceIndex {
    SourceIndex::new(Inner {
        layout: Layout::PerFile { counted: true },
        uris: (0..tables.len()).map(|i| format!("/d/{i}").into()).collect(),
        stats: tables.iter().map(|_| Stat { size: 4096, mark: Mark::Mtime(0) }).collect(),
        tables: tables.into_iter().map(Arc::new).collect(),
        ..Inner::default()
    })
    .expect("valid")
}

#[test]
fn rows_that_other_files_tell_read_back_and_are_named_by_what_told_them() {
    let even = Even { start: 16, step: 8, len: 16, rows: 509 };
    let tables = |told_by| {
        vec![
            Table::Even(even),
            Table::Documents(documents(told_by, &[0, 0, 4096])),
            Table::Shard { rows: 7, bytes: 1 << 40 },
        ]
    };
    let index = of_tables(tables("one"));
    assert_eq!(SourceIndex::from_bytes(&index.to_bytes()), Ok(index.clone()));
    assert_eq!((index.rows(), index.locate(510).to_string()), (Some(509 + 2 + 7), "1:1".to_owned()));
    assert_eq!((even.span(508).map(|span| span.offset), even.span(509)), (Some(16 + 508 * 8), None));
    let other = of_tables(tables("another"));
    let differ: Vec<bool> = (0..3).map(|file| index.identity(file) != other.identity(file)).collect();
    assert_eq!(differ, [false, true, false]);
}

/// A damaged index may state a row of any length, and reading it would allocate that many bytes.
#[test]
fn an_index_with_rows_behind_the_end_of_a_file_is_refused() {
    let mut tar = TarTable::default();
    tar.push("a", &[Some(Span { offset: 512, len: 1 << 40 })]);
    let even = |step, len, rows| Table::Even(Even { start: 16, step, len, rows });
    for table in [
        Table::Tar(tar),
        Table::Frames(vec![0, 4097]),
        Table::Documents(documents("x", &[0, 4097])),
        even(8, 8, 511),
        even(8, u64::MAX, 1),
        even(u64::MAX, 8, 3),
    ] {
        let inner = Inner {
            layout: Layout::PerFile { counted: true },
            uris: ["/d/t.tar".into()].into(),
            stats: vec![Stat { size: 4096, mark: Mark::Mtime(0) }],
            tables: [Arc::new(table)].into(),
            points: vec![None],
            ..Inner::default()
        };
        let error = SourceIndex::from_bytes(&SourceIndex::new(inner).expect("valid").to_bytes()).expect_err("refused");
        assert_eq!(error.get("file"), Some("/d/t.tar"));
    }
}

#[test]
fn rows_are_named_by_block_and_described() {
    let index = tars();
    let names: Vec<_> = (0..4).map(|row| index.locate(row).to_string()).collect();
    assert_eq!(names, ["0:0", "0:1", "2:0", "2:1"]);
    assert_eq!(index.describe_sample(index.locate(1)), "/d/t-é0.tar#1 (key a/01)");
    assert_eq!((index.rows(), index.blocks(), index.bytes()), (Some(4), 3, 9009));
    assert_eq!(index.block_rows(1), Some(2..2));
}

#[test]
fn rows_keep_their_origin_when_files_come_before_them() {
    let origins: Vec<_> = (0..5).map(|row| tars().origin(row)).collect();
    assert_eq!(origins, [Some((0, 0)), Some((0, 1)), Some((2, 0)), Some((2, 1)), None]);
    let parquet = |groups: &[&[u64]]| {
        let stat = |i| Stat { size: i, mark: Mark::Etag("x".into()) };
        SourceIndex::new(Inner {
            layout: Layout::Groups,
            uris: groups.iter().map(|_| "p".into()).collect(),
            stats: (0..groups.len() as u64).map(stat).collect(),
            tables: groups.iter().map(|rows| Arc::new(Table::Groups(rows.to_vec()))).collect(),
            ..Inner::default()
        })
        .expect("valid")
    };
    let index = parquet(&[&[2, 1], &[], &[3, 3]]);
    assert_eq!([0, 1, 2, 3, 4].map(|block| index.file_of(block)), [(0, 0), (0, 1), (2, 0), (2, 1), (0, 0)]);
    let origins: Vec<_> = [0, 2, 3, 6, 8, 9].map(|row| index.origin(row)).into();
    assert_eq!(origins, [Some((0, 0)), Some((0, 2)), Some((2, 0)), Some((2, 3)), Some((2, 5)), None]);
    assert_ne!(index.identity(0), index.identity(2));
}

#[test]
fn computed_rows_take_no_memory_and_their_limit_is_said() {
    let range = |rows| SourceIndex::new(Inner { layout: Layout::Computed { rows, row_bytes: 8 }, ..Inner::default() });
    let index = range(1_000_000_000_000).expect("fits");
    assert!(index.to_bytes().len() < 64);
    assert_eq!(index.locate(999_999_999_999).to_string(), "15258789:4095");
    let e = range(u64::MAX).expect_err("too many");
    assert!(e.message().contains("at most 16777216 can be named"), "{e}");
}

#[test]
fn indexes_of_several_datasets_are_one_whose_rows_have_different_ids() {
    let part = |name: &str, index| IndexPart { name: name.into(), index };
    let range = SourceIndex::new(Inner { layout: Layout::Computed { rows: 3, row_bytes: 8 }, ..Inner::default() });
    let inner = SourceIndex::joined(vec![part("x", tars()), part("y", range.expect("fits"))], None).expect("joined");
    let all = SourceIndex::joined(vec![part("a", tars()), part("b", inner)], None).expect("joined");
    assert_eq!((all.rows(), all.blocks(), all.bytes()), (Some(4 + 4 + 3), 3 + 3 + 1, 9009 * 2 + 24));
    let names: Vec<_> = (0..11).map(|row| all.locate(row).to_string()).collect();
    assert_eq!(names, ["0:0", "0:1", "2:0", "2:1", "3:0", "3:1", "5:0", "5:1", "6:0", "6:1", "6:2"]);
    assert_eq!(all.describe_sample(all.locate(5)), "/d/t-é0.tar#1 (key a/01) (part x) (part b)");
    assert_eq!(all.describe_sample(all.locate(9)), "row 1 (part y) (part b)");
    assert_eq!([1, 6, 9].map(|row| all.origin(row)), [Some((0, 1)), Some((5, 0)), None]);
    assert_eq!(all.files().map(|file| file.uri).collect::<Vec<_>>()[2..4], ["s3://b/t", "/d/t-é0.tar"]);
    assert_eq!((all.block_rows(3), all.block_rows(6)), (Some(4..6), Some(8..11)));
    assert_eq!((all.part_of(7), all.identity(4)), (Some((1, 3)), tars().identity(1)));
    assert_eq!(SourceIndex::from_bytes(&all.to_bytes()), Ok(all.clone()));
    let zipped = SourceIndex::joined(vec![part("a", tars()), part("b", all)], Some(4)).expect("zipped");
    assert_eq!((zipped.rows(), zipped.blocks(), zipped.part_of(0)), (Some(4), 1, None));
    assert!(!zipped.content().is_empty());
    assert_eq!(SourceIndex::from_bytes(&zipped.to_bytes()), Ok(zipped));
    let deep = (0..20).fold(tars(), |index, _| SourceIndex::joined(vec![part("p", index)], None).expect("joined"));
    assert!(SourceIndex::from_bytes(&deep.to_bytes()).is_err());
}
