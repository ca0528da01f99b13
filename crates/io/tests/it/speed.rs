//! Measures how fast rows are gathered. Run with `--release -- --ignored --nocapture`; prints, and asserts only the
//! orders of magnitude.

use std::sync::Arc;
use std::time::Instant;

use crate::support::{Kept, index, opened, tar_of, tfrecord_of, write};
use arrow_array::Float32Array;
use forebay_core::{Epoch, SampleId};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema, write_ipc};
use forebay_io::{Draft, Features, Place, ReadOptions, Reader};
use forebay_plan::{BlobId, Source};

fn shuffled(rows: u64) -> Vec<Place> {
    (0..rows).map(|i| Place { row: (i * 7_919 + 13) % rows, epoch: Epoch(0) }).collect()
}

fn measure(what: &str, reader: &dyn Reader, places: &[Place], batch: usize) -> f64 {
    let mut best = f64::MAX;
    let mut bytes = 0;
    for _ in 0..5 {
        bytes = 0;
        let start = Instant::now();
        for places in places.chunks(batch) {
            bytes += reader.gather(places).expect("reads").num_bytes();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    let rate = places.len() as f64 / best;
    println!("{what:40} {:8.3} M rows/s {:7.2} GB/s", rate / 1e6, bytes as f64 / best / 1e9);
    rate
}

#[test]
#[ignore = "a measurement"]
fn gather() {
    let rows = 1_000_000;
    for (dtype, n) in [(DType::Float32, 4), (DType::Uint8, 3072)] {
        let rows = if n > 1000 { 100_000 } else { rows };
        let mut tensor = FixedTensorBuilder::new(dtype, &[n], rows);
        tensor.all().iter_mut().enumerate().for_each(|(i, b)| *b = i as u8);
        let fields = vec![Field::new("x", Kind::fixed(dtype, &[n])), Field::new("y", Kind::scalar(DType::Float32))];
        let schema = Arc::new(Schema::new(fields.clone()).expect("valid"));
        let y = Arc::new(Float32Array::from_iter_values((0..rows).map(|i| i as f32)));
        let ids = vec![RowId { sample: SampleId(0), epoch: Epoch(0) }; rows].into();
        let chunk = Chunk::new(schema, vec![tensor.finish().expect("valid"), y], ids).expect("valid");
        let mut blob = Vec::new();
        write_ipc(&[chunk], false, &mut blob).expect("written");
        let blobs = Kept(vec![blob.into()]);
        let source = Source::Memory { blob: BlobId::of(&blobs.0[0]), rows: rows as u64, fields };
        let reader = forebay_io::open(&source, index(&source, true).expect("indexes"), &blobs, ReadOptions::default())
            .expect("opens");
        let order = shuffled(rows as u64);
        for batch in [256, 8192, rows] {
            let rate = measure(&format!("memory {dtype}[{n}] + float32, {batch} at once"), &*reader, &order, batch);
            assert!(n > 1000 || rate > 5e6);
        }
        let in_order: Vec<_> = (0..rows as u64).map(|row| Place { row, epoch: Epoch(0) }).collect();
        measure(&format!("memory {dtype}[{n}] in order"), &*reader, &in_order, 8192);
    }
    let dir = tempfile::tempdir().expect("a folder");
    let records: Vec<Vec<u8>> = (0..200_000).map(|i| vec![i as u8; 100]).collect();
    let path = write(dir.path(), "r", &tfrecord_of(&records));
    for verify in [false, true] {
        let draft = Draft::Tfrecord { paths: vec![path.clone()], features: Features::Raw, verify };
        let reader = opened(draft, true).expect("opens");
        let in_order: Vec<_> = (0..200_000).map(|row| Place { row, epoch: Epoch(0) }).collect();
        measure(&format!("tfrecord 100 B, verify {verify}, in order"), &*reader, &in_order, 1024);
        measure(&format!("tfrecord 100 B, verify {verify}, shuffled"), &*reader, &shuffled(200_000), 1024);
    }
    // Small reads, of one file and of many: the cost of checking that files are unchanged shows most here.
    let draft = Draft::Tfrecord { paths: vec![path], features: Features::Raw, verify: false };
    let reader = opened(draft, true).expect("opens");
    measure("tfrecord 100 B, one at once", &*reader, &shuffled(200_000), 1);
    let part = |i: usize| write(dir.path(), &format!("part-{i}"), &tfrecord_of(&records[..1000]));
    let paths: Vec<String> = (0..200).map(part).collect();
    let reader = opened(Draft::Tfrecord { paths, features: Features::Raw, verify: false }, true).expect("opens");
    measure("tfrecord 100 B in 200 files, shuffled", &*reader, &shuffled(200_000), 256);
    let paths = (0..1000).map(|i| write(dir.path(), &format!("file-{i}"), &[1; 100])).collect();
    let reader = opened(Draft::Files { paths }, true).expect("opens");
    measure("files of 100 B, shuffled", &*reader, &shuffled(1000), 64);
    let names: Vec<_> = (0..2000).map(|i| [format!("{i:05}.cls"), format!("{i:05}.jpg")]).collect();
    let data = vec![1u8; 110_000];
    let members: Vec<(&str, &[u8])> =
        names.iter().flat_map(|[c, j]| [(c.as_str(), &data[..3]), (j.as_str(), &data[..])]).collect();
    let path = write(dir.path(), "t.tar", &tar_of(&members));
    let reader = opened(Draft::Tar { paths: vec![path], extensions: None }, true).expect("opens");
    measure("tar 110 kB, shuffled", &*reader, &shuffled(2000), 64);
}
