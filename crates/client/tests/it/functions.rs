//! Functions that fail.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array};
use forebay_client::StreamOptions;
use forebay_core::{Error, ErrorKind, Result};
use forebay_data::{Chunk, DType, Field, Kind, Schema};
use forebay_exec::{Functions, Pickle, Randomness};
use forebay_plan::{BlobId, Function, Op, ops};

use crate::cluster::{BLOB, Cluster, batch, ids, patient, range};

/// A function of the test, which gets the ids of a chunk's rows.
pub(crate) struct Calls<F>(pub(crate) F);

impl<F: Fn(&[i64]) -> Result<()> + Send + Sync> Functions for Calls<F> {
    fn map(
        &self,
        _: &Function,
        pickle: &Pickle,
        input: &Chunk,
        _: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        assert_eq!(pickle.bytes, BLOB);
        let ids = input.columns()[0].as_any().downcast_ref::<Int64Array>().expect("int64");
        (self.0)(ids.values())?;
        Ok(vec![input.columns()[0].clone()])
    }
}

pub(crate) fn mapped() -> Op {
    let function = Function {
        blob: BlobId::of(BLOB),
        code: String::new(),
        name: "f".to_owned(),
        batched: false,
        with_rng: false,
        reads: None,
        timeout_s: 10.0,
    };
    Op::Map(ops::Map { function, output: vec![Field::new("id", Kind::scalar(DType::Int64))], keep_others: false })
}

/// Raises at one row, and panics at another.
fn raises(raise: i64, panic: i64) -> Arc<dyn Functions> {
    Arc::new(Calls(move |ids: &[i64]| {
        assert!(!ids.contains(&panic), "a bug of ours");
        match ids.contains(&raise) {
            true => Err(Error::new(ErrorKind::Function, "ValueError: bad row").with("traceback", "line 1\nline 2")),
            false => Ok(()),
        }
    }))
}

#[test]
fn a_failed_split_is_raised_in_its_turn_with_its_kind_and_traceback() {
    for (functions, kind) in [(raises(3000, -1), ErrorKind::Function), (raises(-1, 3000), ErrorKind::Internal)] {
        let cluster = Cluster::with(2, functions);
        let job = cluster.open("raises", &range(5000, vec![mapped(), batch(10)]), 1, 1).expect("a job");
        let mut stream = cluster.stream(&job, StreamOptions::default());
        let (mut found, mut poll) = (Vec::new(), patient());
        let error = loop {
            match stream.next(&mut poll) {
                Ok(Some(delivery)) => found.push(delivery),
                Ok(None) => panic!("the error was lost"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.get("traceback").is_some(), kind == ErrorKind::Function, "{error}");
        let before = ids(&found);
        assert!(before.len() > 2000 && before.iter().copied().eq(0..before.len() as i64), "{} rows", before.len());
        assert_eq!(stream.next(&mut poll).expect_err("it stays"), error);
    }
}
