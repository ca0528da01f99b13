//! A chain yields the same bits as its steps one by one.

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, ErrorKind, Seed};
use forebay_data::DType;
use forebay_plan::{Direction, ImageMode, Interpolation, Layout, Op, ops};

use super::{any_jpeg, draw, picture, rng};
use crate::image::{Augment, Chain, Depth, Filter, Input, Limits, Output, Scratch, Shape, Step};

fn any_flip(rng: &mut SampleRng, key_op: u64) -> Step {
    Step::Flip { direction: [Direction::Horizontal, Direction::Vertical][draw(rng, 0, 1)], p: 0.5, key_op }
}

fn column() -> String {
    "image".to_owned()
}

fn augment(op: &Op, key_op: u64) -> Step {
    Step::Augment { augment: Augment::of(op).expect("an augmentation"), key_op }
}

fn erasing(value: Option<Vec<f64>>, probability: f64) -> Op {
    let (column, scale, ratio) = (column(), (0.02, 0.8), (0.3, 3.3));
    Op::RandomErasing(ops::RandomErasing { column, probability, scale, ratio, value })
}

fn any_augment(rng: &mut SampleRng) -> Op {
    let (column, probability) = (column(), [0.5, 1.0][draw(rng, 0, 1)]);
    let interpolation = [Interpolation::Nearest, Interpolation::Bilinear][draw(rng, 0, 1)];
    let fill = [None, Some(vec![3, 200, 90])][draw(rng, 0, 1)].clone();
    match draw(rng, 0, 11) {
        7 => Op::GaussianNoise(ops::GaussianNoise { column, mean: 0.0, sigma: (0.01, 0.2), probability }),
        8 => Op::RandomPerspective(ops::RandomPerspective {
            column,
            distortion_scale: 1.0,
            probability,
            interpolation,
            fill,
        }),
        9 => Op::RandomAffine(ops::RandomAffine {
            column,
            degrees: (-20.0, 20.0),
            translate: (0.3, 0.1),
            scale: Some((0.5, 2.0)),
            shear: Some([(-10.0, 10.0), (0.0, 5.0)]),
            interpolation,
            fill,
        }),
        10 => Op::AugMix(ops::AugMix {
            column,
            severity: 10,
            mixture_width: draw(rng, 1, 3),
            chain_depth: None,
            alpha: 1.0,
            all_ops: true,
            interpolation,
            fill,
        }),
        11 => Op::TrivialAugment(ops::TrivialAugment { column, num_magnitude_bins: 31, interpolation, fill }),
        6 => erasing(Some(vec![9.0, 0.0, 255.0]), probability),
        0 => Op::ColorJitter(ops::ColorJitter {
            column,
            brightness: Some((0.6, 1.4)),
            contrast: [None, Some((0.5, 1.5))][draw(rng, 0, 1)],
            saturation: Some((0.0, 2.0)),
            hue: Some((-0.5, 0.5)),
            probability,
        }),
        1 => Op::RandomGrayscale(ops::RandomGrayscale { column, probability }),
        2 => Op::RandomRotation(ops::RandomRotation { column, degrees: (-200.0, 200.0), interpolation, fill }),
        3 | 4 => {
            let (num_ops, magnitude, num_magnitude_bins) = (draw(rng, 0, 3), draw(rng, 0, 9), 10);
            Op::RandAugment(ops::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill })
        }
        _ => {
            let (kernel_size, sigma) = (2 * draw(rng, 0, 12) + 1, (0.1, 9.0));
            Op::GaussianBlur(ops::GaussianBlur { column, kernel_size, sigma, probability })
        }
    }
}

fn any_step(rng: &mut SampleRng, key_op: u64) -> Step {
    let filters = [Filter::Nearest, Filter::Linear, Filter::Box, Filter::Triangle, Filter::Bicubic, Filter::Lanczos];
    let filter = filters[draw(rng, 0, 5)];
    let (height, width) = (draw(rng, 1, 90), draw(rng, 1, 90));
    match draw(rng, 0, 8) {
        0 => Step::Resize { height, width, filter },
        1 => {
            let size = draw(rng, 5, 60);
            let max_size = [None, Some(size + draw(rng, 1, 60))][draw(rng, 0, 1)];
            Step::ResizeShorter { size, max_size, filter }
        }
        2 | 3 => Step::CenterCrop { height, width },
        4 => Step::RandomResizedCrop { height, width, scale: (0.08, 1.0), ratio: (0.75, 4.0 / 3.0), filter, key_op },
        5 | 6 => any_flip(rng, key_op),
        _ => augment(&any_augment(rng), key_op),
    }
}

fn any_chain(rng: &mut SampleRng, channels: usize) -> Vec<Step> {
    let mut steps: Vec<_> = (0..draw(rng, 0, 5)).map(|op| any_step(rng, op as u64)).collect();
    if draw(rng, 0, 1) == 0 {
        let layout = [Layout::Hwc, Layout::Chw][draw(rng, 0, 1)];
        let (mean, std) = (vec![0.485, 0.456, 0.406], vec![0.229, 0.224, 0.225]);
        steps.push(Step::Normalize { mean: mean[..channels].to_vec(), std: std[..channels].to_vec(), layout });
        (0..draw(rng, 0, 2)).for_each(|op| steps.push(any_flip(rng, 100 + op as u64)));
        let value = [None, Some(vec![0.5]), Some(vec![1.0, -2.0, 0.0])][draw(rng, 0, 2)].clone();
        (0..draw(rng, 0, 1)).for_each(|op| {
            steps.push(augment(&erasing(value.clone(), 0.8), 200 + op as u64));
        });
    }
    steps
}

fn pixels([height, width, channels]: [usize; 3], pixels: &[u8]) -> Input<'_> {
    Input::Pixels { height, width, channels, depth: Depth::Eight, frame: 0, pixels }
}

fn run(chain: &Chain, input: Input<'_>, draws: &impl Fn(u64) -> SampleRng, scratch: &mut Scratch) -> (Shape, Vec<u8>) {
    let mut out = Vec::new();
    let shape = chain.run(input, draws, scratch, &mut Output::Vec(&mut out)).expect("a good image");
    assert_eq!(shape.bytes(), out.len());
    (shape, out)
}

#[test]
fn fused_and_unfused_chains_give_the_same_bits() {
    let mut rng = rng(31);
    let mut scratch = Scratch::new(Limits::default());
    for case in 0..500 {
        let (width, height) = (draw(&mut rng, 1, 120), draw(&mut rng, 1, 120));
        let mode = [ImageMode::Rgb, ImageMode::Rgb, ImageMode::Grey][draw(&mut rng, 0, 2)];
        let encoded = draw(&mut rng, 0, 3) > 0;
        let bytes = match encoded {
            true => any_jpeg(&mut rng, width, height),
            false => picture(&mut rng, width, height, mode.channels()),
        };
        let given = [height, width, mode.channels()];
        let input = if encoded { Input::Encoded(&bytes) } else { pixels(given, &bytes) };
        let steps = any_chain(&mut rng, mode.channels());
        let key = rng.next_u64();
        let draws = |op| super::rng(op_key(Seed(key), Epoch(0), op));

        let decode = encoded.then_some(mode);
        let chain = Chain::new(decode, steps.clone()).expect("valid");
        let (shape, fused) = run(&chain, input, &draws, &mut scratch);
        let mut slot = vec![9; shape.bytes()];
        chain.run(input, draws, &mut scratch, &mut Output::Slot(&mut slot)).expect("the same");
        assert_eq!(slot, fused);

        let mut now = run(&Chain::new(decode, vec![]).expect("valid"), input, &draws, &mut scratch);
        let mut order = Layout::Hwc;
        for step in &steps {
            let one = Chain::new(None, vec![step.clone()]).expect("valid");
            let input = match now.0.dtype {
                DType::Uint8 => pixels(now.0.dims, &now.1),
                _ => Input::Floats { shape: now.0.dims, layout: order, bytes: &now.1 },
            };
            now = run(&one, input, &draws, &mut scratch);
            if let Step::Normalize { layout, .. } = step {
                order = *layout;
            }
        }
        assert_eq!((shape, &fused), (now.0, &now.1), "case {case}: {width}x{height} {decode:?} {steps:?}");
    }
}

#[test]
fn what_cannot_work_is_refused_when_it_is_built() {
    let normalize = || Step::Normalize { mean: vec![0.5], std: vec![0.5], layout: Layout::Chw };
    let crop = Step::CenterCrop { height: 2, width: 2 };
    let message = |decode, steps| Chain::new(decode, steps).expect_err("refused").message().to_owned();
    assert_eq!(message(None, vec![normalize(), crop]), "center crop after normalize");
    assert_eq!(message(Some(ImageMode::Rgb), vec![normalize()]), "normalize has 1 channels, the decoded image has 3");
    assert_eq!(
        message(None, vec![Step::Flip { direction: Direction::Vertical, p: 1.5, key_op: 0 }]),
        "flip with probability 1.5, not within 0 and 1"
    );
    assert_eq!(
        message(None, vec![Step::ResizeShorter { size: 0, max_size: None, filter: Filter::Triangle }]),
        "resize shorter side to 0 pixels, not within 1 and 1048576"
    );
    let reversed = Step::RandomResizedCrop {
        height: 2,
        width: 2,
        scale: (0.5, 0.1),
        ratio: (1.0, 1.0),
        filter: Filter::Triangle,
        key_op: 0,
    };
    assert!(message(None, vec![reversed]).starts_with("random resized crop with scale (0.5, 0.1)"));
}

#[test]
fn what_does_not_fit_the_slot_or_the_limits_is_an_error() {
    let mut scratch = Scratch::new(Limits { pixels_max: 10_000 });
    let thin = [0; 2 * 900];
    let input = Input::Pixels { height: 900, width: 2, channels: 1, depth: Depth::Eight, frame: 0, pixels: &thin };
    let chain = Chain::new(None, vec![Step::ResizeShorter { size: 50, max_size: None, filter: Filter::Triangle }])
        .expect("valid");
    let mut out = Vec::new();
    let e = chain.run(input, super::rng, &mut scratch, &mut Output::Vec(&mut out)).expect_err("too large");
    assert_eq!(e.kind(), ErrorKind::Exhausted);
    let chain = Chain::new(None, vec![Step::CenterCrop { height: 4, width: 4 }]).expect("valid");
    let e = chain.run(input, super::rng, &mut scratch, &mut Output::Slot(&mut [0; 15])).expect_err("too small");
    assert_eq!(e.message(), "an image of uint8 [4, 4, 1] in a slot of 15 bytes");
    let e =
        chain.run(Input::Encoded(&thin), super::rng, &mut scratch, &mut Output::Vec(&mut out)).expect_err("encoded");
    assert_eq!(e.kind(), ErrorKind::Invalid);
}
