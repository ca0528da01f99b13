//! A function that triples ids, for pipelines without Python.

#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod random;
pub(crate) mod samples;

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array};
use bytes::Bytes;
use forebay_core::Result;
use forebay_data::{Chunk, DType, Field, Kind};
use forebay_plan::{BlobId, Op, ops};

/// Every pickle is empty: the test's functions are known by name.
pub(crate) struct Empty;

impl forebay_io::Blobs for Empty {
    fn get(&self, _: &BlobId) -> Result<Bytes> {
        Ok(Bytes::new())
    }
}

/// The op that calls the function, for rows or for batches of them.
pub(crate) fn triple(batched: bool) -> Op {
    let function =
        serde_json::json!({"blob": "", "name": "triple", "batched": batched, "with_rng": false, "timeout_s": 1.0});
    Op::Map(ops::Map {
        function: serde_json::from_value(function).expect("a function"),
        output: vec![Field::new("tripled", Kind::scalar(DType::Int64))],
        keep_others: true,
    })
}

/// Returns the ids of rows.
pub(crate) fn ids(input: &Chunk) -> Result<Int64Array> {
    Ok(input.column("id")?.as_any().downcast_ref::<Int64Array>().expect("int64").clone())
}

/// Returns the output of the function.
pub(crate) fn tripled(ids: &Int64Array) -> Vec<ArrayRef> {
    let tripled: Int64Array = ids.values().iter().map(|id| id * 3).collect();
    vec![Arc::new(tripled)]
}
