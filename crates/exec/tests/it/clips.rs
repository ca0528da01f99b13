//! An image op does to each frame of a clip what it does to an image of the same sample, for every op of the suite.

use forebay_data::{
    Chunk, DType, Field, FixedTensorBuilder, Kind, VariableTensorBuilder, tensor_shape_of_row, tensor_values,
};
use forebay_plan::{Clip, Layout, Op, describe, ops};

use crate::check_op::{SEED, given, run};
use crate::common::random::rows;
use crate::common::samples::samples;

/// More than the channels, so that they are told apart.
const FRAMES: usize = 5;

/// The rows of a column, as bytes, and their shapes.
fn tensors(chunk: &Chunk, column: &str) -> Vec<(Vec<usize>, Vec<u8>)> {
    let kind = &chunk.schema().field(column).expect("a column").kind;
    let array = chunk.column(column).expect("a column");
    let (values, size) = (tensor_values(kind, array).expect("numbers"), kind.dtype().expect("a dtype").size());
    let mut start = 0;
    (0..chunk.num_rows())
        .map(|row| {
            let shape = tensor_shape_of_row(kind, array, row).expect("a row");
            let len = shape.iter().product::<usize>() * size;
            start += len;
            (shape, values[start - len..start].to_vec())
        })
        .collect()
}

/// A chunk with other images in a column: all `FRAMES` frames of each as a clip, or the one of this number.
fn with_frames(chunk: &Chunk, column: &str, only: Option<usize>) -> Chunk {
    let field = chunk.schema().field(column).expect("a column");
    let Kind::Tensor { dtype, shape } = &field.kind else { panic!("{} is no image", field.kind) };
    let frames = only.map_or(0..FRAMES, |frame| frame..frame + 1);
    let lead = if only.is_some() { vec![] } else { vec![FRAMES] };
    let rows = tensors(chunk, column).into_iter().map(|(shape, levels)| {
        let moved = |frame| levels.iter().map(move |level| level.wrapping_mul(3).wrapping_add(frame as u8 * 40));
        ([lead.clone(), shape].concat(), frames.clone().flat_map(moved).collect::<Vec<u8>>())
    });
    let kind = Kind::Tensor { dtype: *dtype, shape: [lead.iter().map(|&n| Some(n)).collect(), shape.clone()].concat() };
    let array = match kind.known_shape() {
        Some(shape) => {
            let mut builder = FixedTensorBuilder::new(*dtype, &shape, chunk.num_rows());
            rows.enumerate().for_each(|(row, (_, levels))| builder.slot(row).copy_from_slice(&levels));
            builder.finish()
        }
        None => {
            let mut builder = VariableTensorBuilder::new(*dtype, lead.len() + 3);
            rows.for_each(|(shape, levels)| builder.push(&shape, &levels).expect("its shape"));
            builder.finish()
        }
    };
    chunk.with_column(Field { kind, ..field.clone() }, array.expect("an array")).expect("as many rows")
}

#[test]
fn each_image_op_does_to_each_frame_what_it_does_to_an_image() {
    let (mut refused, mut done) = (0, 0);
    for sample in samples() {
        let Some(column) = sample.op.image_column() else { continue };
        let (rows, batch) = given(&sample);
        if rows.schema().field(column).is_ok_and(|field| field.kind == Kind::Bytes) {
            continue;
        }
        let clips = with_frames(&rows, column, None);
        if sample.op.annotations().is_some() {
            let error = sample.op.apply(clips.schema()).expect_err("nothing follows a clip");
            assert!(error.to_string().contains("a clip") && error.get("hint").is_some(), "{error}");
            refused += 1;
            continue;
        }
        let made = run(&sample.op, batch, SEED, &clips);
        let (frames, clips) = (Clip::of(&made.schema().field(column).expect("it").kind), tensors(&made, column));
        assert_eq!(frames.expect("a clip").frames, Some(FRAMES), "{}", describe(&sample.op));
        for frame in 0..FRAMES {
            let alone = tensors(&run(&sample.op, batch, SEED, &with_frames(&rows, column, Some(frame))), column);
            for ((shape, clip), (alone_shape, alone)) in clips.iter().zip(alone) {
                assert_eq!(shape[1..], alone_shape, "{}", describe(&sample.op));
                let same = clip[frame * alone.len()..][..alone.len()] == alone;
                // Noise is drawn anew for each frame.
                let is_noise = frame > 0 && matches!(sample.op, Op::GaussianNoise(_));
                assert!(same || is_noise, "frame {frame} of {}", describe(&sample.op));
            }
        }
        done += 1;
    }
    assert!(refused > 3 && done > 30, "{refused} ops are refused, {done} ran");
}

#[test]
fn noise_differs_from_frame_to_frame() {
    let column = "sized".to_owned();
    let still = with_frames(&rows(), &column, Some(0));
    let (shape, levels): (Vec<_>, Vec<_>) = tensors(&still, &column).into_iter().unzip();
    let mut builder = FixedTensorBuilder::new(DType::Uint8, &[&[2], &shape[0][..]].concat(), levels.len());
    levels.iter().enumerate().for_each(|(row, levels)| builder.slot(row).copy_from_slice(&levels.repeat(2)));
    let kind = Kind::fixed(DType::Uint8, &[&[2], &shape[0][..]].concat());
    let clips = still.with_column(Field::new(&column, kind), builder.finish().expect("an array")).expect("rows");
    let noise = Op::GaussianNoise(ops::GaussianNoise {
        column: column.clone(),
        mean: 0.0,
        sigma: (0.1, 0.2),
        probability: 1.0,
    });
    for (_, clip) in tensors(&run(&noise, None, SEED, &clips), &column) {
        let (first, second) = clip.split_at(clip.len() / 2);
        assert_ne!(first, second);
    }
}

#[test]
fn channels_before_frames_are_another_order_of_the_same_numbers() {
    let column = || "sized".to_owned();
    let clips = with_frames(&rows(), "sized", None);
    let normalize = |layout| {
        let (mean, std) = (vec![0.5, 0.4, 0.3], vec![0.2; 3]);
        Op::Normalize(ops::Normalize { column: column(), mean, std, layout })
    };
    let value = Some(vec![1.0, 2.0, 3.0]);
    let (scale, ratio, probability) = ((0.1, 0.3), (0.5, 2.0), 0.5);
    let erase = Op::RandomErasing(ops::RandomErasing { column: column(), probability, scale, ratio, value });
    let both = |layout| run(&erase, None, SEED, &run(&normalize(layout), None, SEED, &clips));
    let (given, across) = (both(Layout::Chw), both(Layout::Cthw));
    for ((shape, frames), (other, across)) in tensors(&given, "sized").iter().zip(tensors(&across, "sized")) {
        assert_eq!(other, [shape[1], shape[0], shape[2], shape[3]]);
        let plane = shape[2] * shape[3] * 4;
        for (at, plane_of) in frames.chunks_exact(plane).enumerate() {
            let (frame, channel) = (at / shape[1], at % shape[1]);
            assert_eq!(plane_of, &across[(channel * shape[0] + frame) * plane..][..plane], "{at}");
        }
    }
    let image = normalize(Layout::Cthw).apply(rows().schema()).expect_err("an image has no frames");
    assert!(image.to_string().contains("has no frames"), "{image}");
}
