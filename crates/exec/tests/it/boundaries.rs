//! Pipelines that run in two places: at each boundary of random pipelines, a worker and a consumer together give the
//! same bytes as one process.

use std::sync::Arc;

use crate::common::random::*;
use crate::common::samples::{SampleBlobs, samples};
use bytes::Bytes;
use forebay_core::{ConsumerIndex, Epoch, Ordinal, Result, Seed};
use forebay_data::{DType, write_ipc};
use forebay_exec::{Executable, KnownSkips, MorselRequest, Scratch};
use forebay_plan::{BlobId, EpochPlan, Layout, Node, Op, Stages, ops};

/// The rows of a source of arrays, beside the blobs of samples.
struct Arrays(Bytes);

impl forebay_io::Blobs for Arrays {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        if id.0 == "x" { Ok(self.0.clone()) } else { SampleBlobs.get(id) }
    }
}

/// Draws an op that may run at a consumer, if it is legal there.
fn light_op(draw: &mut Draw) -> Op {
    let (name, other) = (draw.one(&["a", "b", "c", "sized"]).to_owned(), draw.one(&["a", "b", "z"]).to_owned());
    match draw.below(7) {
        0..3 => {
            let (column, layout) = (draw.one(&["png", "sized"]).to_owned(), [Layout::Chw, Layout::Hwc][draw.below(2)]);
            Op::Normalize(ops::Normalize { column, mean: vec![0.4; 3], std: vec![0.2; 3], layout })
        }
        3 | 4 => Op::Cast(ops::Cast {
            columns: vec![(name, [DType::Float32, DType::Int16, DType::Float64][draw.below(3)].into())],
        }),
        5 => Op::Rename(ops::Rename { columns: vec![(name, other)] }),
        _ => Op::Drop(ops::Drop { columns: vec![name] }),
    }
}

#[test]
fn wherever_a_pipeline_is_cut_its_reader_makes_the_same_bytes() {
    let mut blob = Vec::new();
    write_ipc(&[rows()], false, &mut blob).expect("arrays");
    let environment = environment(Arc::new(Arrays(blob.into())));
    let (mut cut, mut smaller, samples) = (0_u64, 0_u64, samples());
    for seed in 0..GRAPHS / 4 {
        let mut draw = Draw::new(seed);
        let mut graph = if seed % 4 == 3 { pipeline_of(&mut draw, &samples) } else { pipeline(&mut draw) };
        for _ in 0..1 + draw.below(4) {
            let node = Node::new(light_op(&mut draw));
            graph = graph.then(node).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
        }
        let stages = Arc::new(Stages::new(&graph).expect("legal"));
        let index = forebay_io::index(
            graph.source(),
            &forebay_io::Allowed::everything(),
            stages.counted,
            None,
            None,
            1,
            &|_, _| Ok(()),
        )
        .expect("an index");
        let plan = Arc::new(EpochPlan::new(&stages, index.extent(), Seed(5), 1, None).expect("a plan"));
        let (index, here) = (Some(index), ConsumerIndex(0));
        let whole = Executable::new(stages.clone(), plan.clone(), index.clone(), &environment).expect("opens");
        let worker = Executable::for_worker(stages.clone(), plan.clone(), index, &environment).expect("opens");
        let consumer = Executable::for_consumer(stages, plan.clone(), &environment).expect("a consumer");
        let boundaries: Vec<_> = worker.boundaries().map(|(ops, schema)| (ops, schema.clone())).collect();
        assert!(
            consumer.boundaries().map(|(ops, _)| ops).eq(boundaries.iter().map(|(ops, _)| *ops)),
            "they agree on the boundaries"
        );
        cut += u64::from(boundaries.len() > 1);
        for morsel in plan.morsels(here, Ordinal(0)) {
            let compute = |executable: &Executable, ops: u32| {
                let (mut chunks, known_skips) = (Vec::new(), KnownSkips::default());
                let request = MorselRequest {
                    epoch: Epoch(1),
                    consumer: here,
                    morsel,
                    first_chunk: 0,
                    known_skips: &known_skips,
                    ops,
                };
                executable.morsel(&request, &mut Scratch::default(), &mut |chunk| {
                    chunks.push(chunk);
                    Ok(())
                })?;
                Ok::<_, forebay_core::Error>(chunks.remove(0))
            };
            let Ok(want) = compute(&whole, whole.resolve_boundary(None)) else { continue };
            for (ops, schema) in &boundaries {
                let sent = compute(&worker, *ops).expect("a pipeline that runs whole runs in two parts");
                assert_eq!(sent.schema(), schema, "{seed}\n{}", told(&graph));
                smaller += u64::from(sent.num_bytes() < want.num_bytes());
                let got = consumer.finish(sent, *ops).expect("the rest");
                assert!(got.ids() == want.ids() && got.same_bits(&want), "{seed}: {ops}\n{}", told(&graph));
            }
            assert!(consumer.finish(want, u32::MAX).is_err(), "no boundary is there");
        }
    }
    assert!(cut > GRAPHS / 8 && smaller > GRAPHS / 20, "{cut} could be cut, and {smaller} were smaller");
}
