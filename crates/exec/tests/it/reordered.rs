//! Pipelines whose ops run in another order: the same bytes as in the order as written, for thousands of random
//! pipelines over real images and numbers, in any legal order, not only in the cheapest.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::common::random::*;
use crate::common::samples::samples;
use arrow_array::{Array, Float32Array};
use forebay_core::{Epoch, SampleId};
use forebay_data::{Chunk, DType, Field, Kind, RowId, Schema, column_of, tensor_values};
use forebay_exec::compare;
use forebay_plan::{
    Binary, BlobId, Chosen, Expr, Function, Graph, Layout, Node, Op, Reorder, RunOrder, Source, Stages, ops,
};

/// An order that is reached by swaps of neighbours, each of them legal in a mode.
fn legal_order(draw: &mut Draw, graph: &Graph, mode: Reorder) -> Graph {
    let graph = graph.clone().with_reorder(mode);
    let mut places: Vec<usize> = (0..graph.nodes().len()).collect();
    let mut found = graph.clone();
    for _ in 0..3 * places.len() {
        let at = draw.below(places.len().max(2) - 1);
        let mut other = places.clone();
        other.swap(at, (at + 1).min(places.len() - 1));
        if let Ok(legal) = graph.clone().with_chosen(Chosen { mode, places: other.clone(), speedup: 1.0 }) {
            (places, found) = (other, legal);
        }
    }
    found
}

#[test]
fn every_exact_order_gives_the_same_bytes() {
    let rows = rows();
    let (mut cheaper, mut other, mut pairs) = (0_u64, 0_u64, BTreeSet::new());
    for seed in 0..GRAPHS {
        let mut draw = Draw::new(seed);
        let graph = pipeline(&mut draw);
        let Ok(want) = run(&graph.clone().with_reorder(Reorder::Off), &rows) else { continue };
        let legal = legal_order(&mut draw, &graph, Reorder::Exact);
        for (graph, count) in [(&graph, &mut cheaper), (&legal, &mut other)] {
            let order = RunOrder::of(graph).expect("an order");
            let got = run(graph, &rows).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", told(graph)));
            assert!(got.ids() == want.ids() && got.same_bits(&want), "{seed}\n{}", told(graph));
            *count += u64::from(!order.moves().is_empty());
            let name = |place: usize| graph.nodes()[place].op.name();
            pairs.extend(order.moves().iter().flat_map(|m| m.past.iter().map(move |&past| (name(m.op), name(past)))));
        }
    }
    // Checks that most rules were tested.
    assert!(cheaper > GRAPHS / 8 && other > GRAPHS / 3, "{cheaper} and {other} moved");
    assert!(pairs.len() > 100, "{} pairs: {pairs:?}", pairs.len());
    let seen = |a, b| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
    assert!(seen("center_crop", "color_jitter") && seen("center_crop", "random_grayscale"));
    assert!(seen("random_flip", "center_crop") && seen("random_flip", "color_jitter"));
    assert!(seen("random_solarize", "center_crop") && seen("random_solarize", "random_flip"));
    assert!(seen("filter", "decode_image") && seen("filter", "map") && seen("map", "normalize"));
}

#[test]
fn every_row_op_gives_the_same_bytes_in_every_exact_order() {
    let (rows, samples) = (rows(), samples());
    let (mut moved, mut seen) = (0_u64, BTreeSet::new());
    for seed in 0..GRAPHS / 4 {
        let mut draw = Draw::new(1 << 41 | seed);
        let graph = pipeline_of(&mut draw, &samples);
        let Ok(want) = run(&graph.clone().with_reorder(Reorder::Off), &rows) else { continue };
        seen.extend(graph.nodes().iter().map(|node| node.op.variant()));
        let legal = legal_order(&mut draw, &graph, Reorder::Exact);
        for graph in [&graph, &legal] {
            let got = run(graph, &rows).unwrap_or_else(|e| panic!("{seed}: {e}\n{}", told(graph)));
            assert!(got.ids() == want.ids() && got.same_bits(&want), "{seed}\n{}", told(graph));
            moved += u64::from(!RunOrder::of(graph).expect("an order").moves().is_empty());
        }
    }
    assert!(moved > GRAPHS / 20, "{moved} moved");
    let unseen: Vec<_> = row_ops().difference(&seen).copied().collect();
    assert!(unseen.is_empty(), "no random pipeline has {unseen:?}");
}

#[test]
fn a_relaxed_order_changes_bits_of_its_changed_columns_alone() {
    let rows = rows();
    let (mut changed, mut left, mut passed_on) = (0_u64, 0_u64, 0_u64);
    for seed in 0..GRAPHS / 4 {
        let mut draw = Draw::new(seed);
        let reads = Some([draw.one(&["png", "sized"]).to_owned()].to_vec());
        let function = Function { reads, batched: false, with_rng: false, ..function(&mut draw, &["a"]) };
        let output = vec![Field::new("made", Kind::scalar(DType::Int64))];
        let made = Node::new(Op::Map(ops::Map { function, output, keep_others: true }));
        let graph = pipeline(&mut draw);
        let graph = graph.then(made).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
        let legal = legal_order(&mut draw, &graph, Reorder::Relaxed);
        let may_change = Stages::new(&legal).expect("stages").changed_columns().expect("columns");
        let exact = RunOrder::of(&legal).expect("an order").is_exact();
        assert!(!exact || may_change.is_empty(), "{seed}: {may_change:?}\n{}", told(&legal));
        let Ok(want) = run(&graph.clone().with_reorder(Reorder::Off), &rows) else { continue };
        // An op that sees other pixels may fail on them, or keep other rows.
        let Some(got) = run(&legal, &rows).ok().filter(|got| got.ids() == want.ids()) else {
            assert!(!exact, "{seed}\n{}", told(&legal));
            continue;
        };
        for ((field, a), b) in want.schema().fields().iter().zip(want.columns()).zip(got.columns()) {
            let same = a.to_data() == b.to_data();
            assert!(same || may_change.contains(&field.name), "{seed}: {}\n{}", field.name, told(&legal));
            changed += u64::from(!same);
            left += u64::from(!exact && !may_change.contains(&field.name));
            passed_on += u64::from(!same && field.kind.row_bytes() == Some(8));
        }
    }
    assert!(
        changed > 70 && left > 100 && passed_on > 10,
        "{changed} changed, {left} did not, {passed_on} were made of them"
    );
}

#[test]
fn an_order_that_changes_what_it_does_not_touch_is_not_taken() {
    let rows = rows();
    let executable = |graph: &Graph| executable(graph, None).expect("runs");
    let with = |by: i64, mode| {
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: ROWS as u64, fields: fields() };
        let column = || "sized".to_owned();
        let flip =
            Op::RandomFlip(ops::RandomFlip { column: column(), probability: 0.5, direction: Default::default() });
        let smaller = Op::Resize(ops::Resize {
            column: column(),
            height: 7,
            width: 7,
            antialias: true,
            interpolation: Default::default(),
        });
        let value = Expr::Binary { op: Binary::Add, left: col("a"), right: Box::new(Expr::Int { value: by }) };
        let ops = [Op::WithColumn(ops::WithColumn { column: "a".to_owned(), value }), flip, smaller];
        let graph = Graph::new(source, None).expect("a source");
        ops.into_iter().try_fold(graph, |graph, op| graph.then(Node::new(op))).expect("legal").with_reorder(mode)
    };
    let tried = |by| {
        let (written, other) = (with(0, Reorder::Off), with(by, Reorder::Relaxed));
        compare(&executable(&written), &executable(&other), Reorder::Relaxed, &rows, &|| Duration::ZERO).expect("runs")
    };
    assert!(tried(0).is_some() && tried(1).is_none(), "labels that are one off are a mistake");
}

#[test]
fn relaxed_orders_keep_shapes_and_the_distribution() {
    const IMAGES: usize = 600;
    let side = [40, 44];
    let field = Field::new("image", Kind::fixed(DType::Uint8, &[side[0], side[1], 3]));
    let schema = Arc::new(Schema::new(vec![field.clone()]).expect("a schema"));
    let ids = (0..IMAGES as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    let images =
        column_of(&field.kind, (0..IMAGES as u64).flat_map(|i| scene(i, side)).collect::<Vec<u8>>().into(), IMAGES);
    let rows = Chunk::new(schema, vec![images.expect("images")], ids).expect("a chunk");
    let column = || "image".to_owned();
    let factor = Some((0.6, 1.4));
    let jitter = Op::ColorJitter(ops::ColorJitter {
        column: column(),
        brightness: factor,
        contrast: factor,
        saturation: factor,
        hue: Some((-0.1, 0.1)),
        probability: 0.8,
    });
    let grey = Op::RandomGrayscale(ops::RandomGrayscale { column: column(), probability: 0.2 });
    let flip = Op::RandomFlip(ops::RandomFlip { column: column(), probability: 0.5, direction: Default::default() });
    let normalize =
        Op::Normalize(ops::Normalize { column: column(), mean: vec![0.5; 3], std: vec![0.25; 3], layout: Layout::Chw });
    let resize = Op::Resize(ops::Resize {
        column: column(),
        height: 20,
        width: 22,
        antialias: true,
        interpolation: Default::default(),
    });
    let crop = Op::CenterCrop(ops::CenterCrop { column: column(), height: 23, width: 25 });
    let (scale, ratio, antialias) = ((0.3, 1.0), (0.75, 1.5), true);
    let part = Op::RandomResizedCrop(ops::RandomResizedCrop {
        column: column(),
        height: 16,
        width: 16,
        scale,
        ratio,
        antialias,
        interpolation: Default::default(),
    });
    for smaller in [resize, crop, part] {
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: IMAGES as u64, fields: vec![field.clone()] };
        let ops = [flip.clone(), jitter.clone(), grey.clone(), smaller.clone(), normalize.clone()];
        let graph = Graph::new(source, None).expect("a source");
        let graph = ops.into_iter().try_fold(graph, |graph, op| graph.then(Node::new(op))).expect("legal");
        let (written, relaxed) = (graph.clone().with_reorder(Reorder::Off), graph.with_reorder(Reorder::Relaxed));
        assert!(!RunOrder::of(&relaxed).expect("an order").is_exact(), "{}", told(&relaxed));
        let (a, b) = (run(&written, &rows).expect("runs"), run(&relaxed, &rows).expect("runs"));
        assert!(a.schema() == b.schema() && a.ids() == b.ids() && !a.same_bits(&b));
        let ((mean, deviation), (other_mean, other_deviation)) = (moments(&a), moments(&b));
        // A level is 0.016 here, and the deviation of a mean over the images is less than a level.
        assert!((mean - other_mean).abs() < 0.03, "{mean} and {other_mean}\n{}", told(&relaxed));
        assert!((deviation - other_deviation).abs() < 0.03, "{deviation} and {other_deviation}\n{}", told(&relaxed));
    }
}

/// Draws a picture: a gradient of colours and a bright box.
fn scene(number: u64, [height, width]: [usize; 2]) -> Vec<u8> {
    let mut draw = Draw::new(1 << 40 | number);
    let colours: Vec<usize> = (0..9).map(|_| draw.below(200)).collect();
    let (top, left) = (draw.below(height - 8), draw.below(width - 8));
    let pixel = |y: usize, x: usize, c: usize| {
        let inside = (top..top + 8).contains(&y) && (left..left + 8).contains(&x);
        let slope = colours[c] + colours[3 + c] * y / height / 4 + colours[6 + c] * x / width / 4;
        (if inside { 255 - slope / 2 } else { slope }).min(255) as u8
    };
    (0..height * width * 3).map(|at| pixel(at / 3 / width, at / 3 % width, at % 3)).collect()
}

/// Returns mean and standard deviation of all pixels.
fn moments(chunk: &Chunk) -> (f64, f64) {
    let kind = &chunk.schema().fields()[0].kind;
    let values = tensor_values(kind, &chunk.columns()[0]).expect("numbers");
    let values = Float32Array::new(values.into(), None);
    let n = values.len() as f64;
    let mean = values.values().iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let square = values.values().iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
    (mean, square.sqrt())
}
