//! Boxes, masks and points follow their image: they do not change the image's pixels, fused ops give the bits of single
//! ops, and the moved annotations agree with the moved pixels.

use std::sync::Arc;

use arrow_array::ArrayRef;
use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{
    Chunk, DType, Field, Kind, RowId, Schema, VariableTensorBuilder, tensor_shape_of_row, tensor_values,
};
use forebay_plan::{
    Annotations, Binary, BlobId, Border, Direction, Expr, Graph, Interpolation, Node, Op, Reorder, Resample, Source,
    ops,
};

use crate::common::random::{Draw, col, run};

const ROWS: usize = 12;
const CASES: u64 = 300;

fn kind(dtype: DType, shape: &[Option<usize>]) -> Kind {
    Kind::Tensor { dtype, shape: shape.to_vec() }
}

fn fields() -> Vec<Field> {
    vec![
        Field::new("image", kind(DType::Uint8, &[None, None, Some(3)])),
        Field::new("mask", kind(DType::Uint8, &[None, None, Some(1)])),
        Field::new("shapes", kind(DType::Uint8, &[None, None, None])),
        Field::new("boxes", kind(DType::Float32, &[None, Some(4)])),
        Field::new("labels", kind(DType::Int32, &[None])),
        Field::new("points", kind(DType::Float32, &[None, Some(2), Some(3)])),
        Field::new("n", Kind::scalar(DType::Int64)),
    ]
}

/// A row: an image, its first channel as a mask, and boxes with the mask and two corners of each.
struct Row {
    size: (usize, usize),
    image: Vec<u8>,
    boxes: Vec<[usize; 4]>,
}

fn rows() -> Vec<Row> {
    let mut draw = Draw::new(1 << 50);
    let mut row = || {
        let size @ (width, height) = (8 + draw.below(30), 8 + draw.below(30));
        let image = (0..width * height * 3).map(|_| 1 + draw.below(255) as u8).collect();
        let mut side = |len: usize| {
            let low = draw.below(len - 1);
            (low, low + 1 + draw.below(len - low))
        };
        let mut any = |_| {
            let ((left, right), (top, bottom)) = (side(width), side(height));
            [left, top, right, bottom]
        };
        let boxes = (0..4).map(&mut any).collect();
        Row { size, image, boxes }
    };
    (0..ROWS).map(|_| row()).collect()
}

fn bytes<T: Copy, const N: usize>(values: impl IntoIterator<Item = T>, to: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.into_iter().flat_map(to).collect()
}

fn chunk(rows: &[Row]) -> Chunk {
    let floats = |values: Vec<usize>| bytes(values, |v| (v as f32).to_ne_bytes());
    let mut builders: Vec<_> = fields()[..6]
        .iter()
        .map(|field| match &field.kind {
            Kind::Tensor { dtype, shape } => VariableTensorBuilder::new(*dtype, shape.len()),
            other => panic!("{other}"),
        })
        .collect();
    for Row { size: (width, height), image, boxes } in rows {
        let (w, h, n) = (*width, *height, boxes.len());
        let filled = |&[l, t, r, b]: &[usize; 4]| {
            (0..w * h).map(move |at| u8::from((l..r).contains(&(at % w)) && (t..b).contains(&(at / w)))).collect()
        };
        let shapes: Vec<Vec<u8>> = boxes.iter().map(filled).collect();
        let points = |&[l, t, r, b]: &[usize; 4]| [l, t, 2, r, b, 1];
        let made: [(Vec<usize>, Vec<u8>); 6] = [
            (vec![h, w, 3], image.clone()),
            (vec![h, w, 1], image.iter().copied().step_by(3).collect()),
            (vec![n, h, w], shapes.concat()),
            (vec![n, 4], floats(boxes.concat())),
            (vec![n], bytes(0..n as i32, i32::to_ne_bytes)),
            (vec![n, 2, 3], floats(boxes.iter().flat_map(points).collect())),
        ];
        builders.iter_mut().zip(made).for_each(|(to, (shape, bytes))| to.push(&shape, &bytes).expect("fits"));
    }
    let mut columns: Vec<ArrayRef> = builders.into_iter().map(|builder| builder.finish().expect("valid")).collect();
    columns.push(Arc::new((0..rows.len() as i64).collect::<arrow_array::Int64Array>()));
    let ids = (0..rows.len() as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    Chunk::new(Arc::new(Schema::new(fields()).expect("a schema")), columns, ids).expect("a chunk")
}

fn name(of: &str) -> String {
    of.to_owned()
}

fn annotate(rules: Annotations) -> Op {
    let with = Annotations {
        boxes: Some(name("boxes")),
        labels: vec![name("labels")],
        masks: vec![name("mask"), name("shapes")],
        points: Some(name("points")),
        flip_pairs: vec![(0, 1)],
        ..rules
    };
    Op::Annotate(ops::Annotate { column: name("image"), with, clip: false })
}

/// An op that only moves whole pixels.
fn whole_pixels(draw: &mut Draw) -> Op {
    let column = name("image");
    let direction = [Direction::Horizontal, Direction::Vertical][draw.below(2)];
    let border = || Border { left: 3, top: 7, right: 1, bottom: 9 };
    match draw.below(5) {
        0 => Op::Pad(ops::Pad { column, border: border(), fill: vec![0] }),
        1 => {
            let (height, width) = (9, 9 + draw.below(3));
            let (border, fill) = (Border { left: 4, right: 4, ..border() }, vec![0]);
            Op::RandomCrop(ops::RandomCrop { column, height, width, border, fill })
        }
        2 => Op::CenterCrop(ops::CenterCrop { column, height: 6 + draw.below(30), width: 6 + draw.below(30) }),
        _ => Op::RandomFlip(ops::RandomFlip { column, probability: 0.5, direction }),
    }
}

fn any_op(draw: &mut Draw) -> Op {
    let column = name("image");
    let (height, width, antialias) = (6 + draw.below(30), 6 + draw.below(30), draw.coin());
    match draw.below(10) {
        0 => Op::Resize(ops::Resize { column, height, width, antialias, interpolation: Resample::default() }),
        1 => {
            let (scale, ratio) = ((0.2, 0.9), (0.5, 2.0));
            Op::RandomResizedCrop(ops::RandomResizedCrop {
                column,
                height,
                width,
                scale,
                ratio,
                antialias,
                interpolation: Resample::default(),
            })
        }
        2 => Op::RandomGrayscale(ops::RandomGrayscale { column, probability: 0.5 }),
        3 => {
            let (num_ops, magnitude, num_magnitude_bins) = (3, 9, 31);
            let interpolation = Interpolation::Nearest;
            Op::RandAugment(ops::RandAugment {
                column,
                num_ops,
                magnitude,
                num_magnitude_bins,
                interpolation,
                fill: None,
            })
        }
        4 => {
            let interpolation = Interpolation::Bilinear;
            Op::RandomRotation(ops::RandomRotation { column, degrees: (-90.0, 90.0), interpolation, fill: None })
        }
        5 => Op::RandomPerspective(ops::RandomPerspective {
            column,
            distortion_scale: 0.8,
            probability: 0.8,
            interpolation: Interpolation::Bilinear,
            fill: None,
        }),
        6 => Op::RandomAffine(ops::RandomAffine {
            column,
            degrees: (-30.0, 30.0),
            translate: (0.2, 0.3),
            scale: Some((0.6, 1.5)),
            shear: Some([(-10.0, 10.0), (0.0, 0.0)]),
            interpolation: Interpolation::Nearest,
            fill: None,
        }),
        7 => Op::RandomZoomOut(ops::RandomZoomOut { column, side_range: (1.0, 2.0), fill: vec![9], probability: 0.5 }),
        _ => whole_pixels(draw),
    }
}

fn graph(ops: impl IntoIterator<Item = Op>) -> Graph {
    let source = Source::Memory { blob: BlobId(name("x")), rows: ROWS as u64, fields: fields() };
    let graph = Graph::new(source, None).expect("a source").with_reorder(Reorder::Off);
    ops.into_iter().fold(graph, |graph, op| graph.then(Node::new(op)).expect("legal"))
}

/// An op on another column, across which no ops are fused.
fn between() -> Op {
    let value = Expr::Binary { op: Binary::Add, left: col("n"), right: Box::new(Expr::Int { value: 0 }) };
    Op::WithColumn(ops::WithColumn { column: name("n"), value })
}

fn any_rules(draw: &mut Draw) -> Annotations {
    let (min_area, min_visibility) = ([0.0, 20.0][draw.below(2)], [0.0, 0.4][draw.below(2)]);
    Annotations { min_area, min_visibility, mask_fill: [0.0, 255.0][draw.below(2)], ..Annotations::default() }
}

#[test]
fn an_image_has_the_pixels_that_it_has_alone_and_single_ops_give_the_bits_of_fused_ones() {
    let rows = chunk(&rows());
    let mut dropped = 0;
    for case in 0..CASES {
        let mut draw = Draw::new(case);
        let rules = any_rules(&mut draw);
        let ops: Vec<_> = (0..1 + draw.below(5)).map(|_| any_op(&mut draw)).collect();
        let fused = run(&graph([annotate(rules.clone())].into_iter().chain(ops.clone())), &rows).expect("good rows");
        let alone = run(&graph(ops.clone()), &rows).expect("good rows");
        let image = |chunk: &Chunk| chunk.project(&[name("image")]).expect("a column");
        assert!(image(&fused).same_bits(&image(&alone)), "case {case}: {ops:?}");
        let single = [annotate(rules)].into_iter().chain(ops.clone()).flat_map(|op| [op, between()]);
        let single = run(&graph(single), &rows).expect("good rows");
        assert!(fused.same_bits(&single), "case {case}: {ops:?}");
        dropped += (0..ROWS).filter(|&row| shape(&fused, "boxes", row)[0] < 4).count();
        (0..ROWS).for_each(|row| {
            let boxes = shape(&fused, "boxes", row)[0];
            let counts = ["labels", "shapes", "points"].map(|name| shape(&fused, name, row)[0]);
            assert_eq!(counts, [boxes; 3]);
        });
    }
    assert!(dropped > ROWS * CASES as usize / 10, "{dropped}");
}

fn shape(chunk: &Chunk, name: &str, row: usize) -> Vec<usize> {
    let kind = &chunk.schema().field(name).expect("a column").kind;
    tensor_shape_of_row(kind, chunk.column(name).expect("a column"), row).expect("a tensor")
}

fn values(chunk: &Chunk, name: &str, row: usize) -> Vec<u8> {
    let kind = &chunk.schema().field(name).expect("a column").kind;
    let one = chunk.slice(row, 1);
    tensor_values(kind, one.column(name).expect("a column")).expect("numbers").to_vec()
}

fn floats(chunk: &Chunk, name: &str, row: usize) -> Vec<f32> {
    values(chunk, name, row).as_chunks::<4>().0.iter().map(|b| f32::from_ne_bytes(*b)).collect()
}

#[test]
fn boxes_and_masks_are_where_the_pixels_are() {
    let given = rows();
    let rows = chunk(&given);
    for case in 0..CASES {
        let mut draw = Draw::new(1 << 30 | case);
        let ops: Vec<_> = (0..1 + draw.below(5)).map(|_| whole_pixels(&mut draw)).collect();
        let moved =
            run(&graph([annotate(Annotations::default())].into_iter().chain(ops.clone())), &rows).expect("good rows");
        for row in 0..ROWS {
            let channel: Vec<u8> = values(&moved, "image", row).into_iter().step_by(3).collect();
            assert_eq!(values(&moved, "mask", row), channel, "case {case}: {ops:?}");
            let (shapes, boxes) = (values(&moved, "shapes", row), floats(&moved, "boxes", row));
            let width = shape(&moved, "mask", row)[1];
            let planes = shapes.chunks_exact(channel.len());
            assert_eq!(planes.len(), boxes.len() / 4);
            let points = floats(&moved, "points", row);
            for ((plane, found), points) in planes.zip(boxes.chunks_exact(4)).zip(points.chunks_exact(6)) {
                let lit = || plane.iter().enumerate().filter(|(_, v)| **v == 1).map(|(at, _)| (at % width, at / width));
                let (left, top) = (lit().map(|p| p.0).min(), lit().map(|p| p.1).min());
                let (right, bottom) = (lit().map(|p| p.0 + 1).max(), lit().map(|p| p.1 + 1).max());
                let bounds = [left, top, right, bottom].map(|v| v.expect("a kept box has pixels") as f32);
                assert_eq!(bounds, found, "case {case}: {ops:?}");
                // A corner that is still inside is a corner of the box, unless the box was clipped.
                for point in points.chunks_exact(3).filter(|point| point[2] != 0.0) {
                    assert!([found[0], found[2]].contains(&point[0]) && [found[1], found[3]].contains(&point[1]));
                }
            }
        }
    }
}

#[test]
fn a_mask_turns_with_its_image() {
    let rows = chunk(&rows());
    let (column, interpolation) = (name("image"), Interpolation::Nearest);
    let turn = Op::RandomRotation(ops::RandomRotation { column, degrees: (-180.0, 180.0), interpolation, fill: None });
    let crop = Op::CenterCrop(ops::CenterCrop { column: name("image"), height: 20, width: 9 });
    let moved = run(&graph([annotate(Annotations::default()), turn.clone(), crop, turn]), &rows).expect("good rows");
    for row in 0..ROWS {
        let channel: Vec<u8> = values(&moved, "image", row).into_iter().step_by(3).collect();
        assert_eq!(values(&moved, "mask", row), channel);
        // The box of a turned shape has all of its pixels, up to half a pixel at its edge.
        let (shapes, boxes) = (values(&moved, "shapes", row), floats(&moved, "boxes", row));
        for (plane, found) in shapes.chunks_exact(channel.len()).zip(boxes.chunks_exact(4)) {
            for at in plane.iter().enumerate().filter(|(_, v)| **v == 1).map(|(at, _)| at) {
                let (x, y) = ((at % 9) as f32 + 0.5, (at / 9) as f32 + 0.5);
                let inside = |v: f32, low: f32, high: f32| low - 0.75 <= v && v <= high + 0.75;
                assert!(inside(x, found[0], found[2]) && inside(y, found[1], found[3]), "{x}, {y}: {found:?}");
            }
        }
    }
}

#[test]
fn only_needed_annotations_are_read() {
    let select = Op::Select(ops::Select { columns: vec![name("image"), name("labels")] });
    let crop = Op::CenterCrop(ops::CenterCrop { column: name("image"), height: 6, width: 6 });
    let graph = graph([annotate(Annotations::default()), crop, select]);
    let stages = forebay_plan::Stages::new(&graph).expect("stages");
    let read: Vec<_> = stages.source.schema().expect("a schema").fields().iter().map(|f| f.name.clone()).collect();
    assert_eq!(read, ["image", "boxes", "labels"], "boxes decide about labels");
}

#[test]
fn bad_rows_are_named_with_the_op_that_found_them() -> Result<()> {
    let rows = rows();
    let bad = |change: fn(&mut Row)| {
        let mut rows: Vec<_> =
            rows.iter().map(|row| Row { image: row.image.clone(), boxes: row.boxes.clone(), ..*row }).collect();
        change(&mut rows[3]);
        let crop = Op::CenterCrop(ops::CenterCrop { column: name("image"), height: 6, width: 6 });
        let ops = [annotate(Annotations::default()), crop.clone(), crop];
        let fused = run(&graph(ops.clone()), &chunk(&rows)).expect_err("a bad row");
        let single = run(&graph(ops.into_iter().flat_map(|op| [op, between()])), &chunk(&rows)).expect_err("a bad row");
        assert_eq!(fused.to_string(), single.to_string());
        assert_eq!((fused.get("op"), fused.get("sample")), (Some("annotate"), Some("0:3")));
        fused.message().to_owned()
    };
    let inverted = bad(|row| row.boxes[2].swap(0, 2));
    assert!(inverted.starts_with("box 2 of column \"boxes\" is inverted"), "{inverted}");
    let outside = bad(|row| row.boxes[1][2] = row.size.0 + 2);
    assert!(outside.starts_with("box 1 of column \"boxes\" reaches over the image"), "{outside}");
    let empty = bad(|row| row.boxes[0][2] = row.boxes[0][0]);
    assert!(empty.starts_with("box 0 of column \"boxes\" is empty"), "{empty}");
    Ok(())
}
