//! Times the training chain on one thread: decode, random resized crop to 224, flip, normalise to CHW; and
//! augmentations of 224 by 224 pixels.
//!
//!     cargo run --release -p forebay-exec --example image_chain -- FILE.jpg [ROUNDS]
//!
//! Prints the least and the mean processor time of an image in each part, in milliseconds.

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, SampleId, Seed};
use forebay_exec::image::{
    Augment, Chain, Decoder, Depth, Filter, Image, Input, Limits, Normalizer, Output, Region, Resizer, Scratch, Step,
    random_resized_crop,
};
use forebay_plan::{Direction, ImageMode, Interpolation, Layout, Op, ops};

const SCALE: (f64, f64) = (0.08, 1.0);
const RATIO: (f64, f64) = (3.0 / 4.0, 4.0 / 3.0);
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("usage: image_chain FILE [ROUNDS]");
    let rounds: u64 = args.next().map_or(2000, |n| n.parse().expect("a number of rounds"));
    let bytes = std::fs::read(&file).expect("a readable file");

    let limits = Limits::default();
    let draws = |sample: u64| move |op: u64| SampleRng::new(op_key(Seed(1), Epoch(0), op), SampleId(sample));
    let mut slot = vec![0; 3 * 224 * 224 * 4];

    let mut decoder = Decoder::default();
    let whole = decoder.decode(&bytes, ImageMode::Rgb, &limits).expect("an image");
    let (width, height) = (whole.width(), whole.height());
    let pixels: Vec<u8> = whole.rows().flatten().copied().collect();
    println!("{file}: {width}x{height}, {} bytes", bytes.len());
    let crop = |sample| random_resized_crop((width, height), SCALE, RATIO, &mut draws(sample)(0));

    time("decode whole", rounds, |_| {
        black_box(decoder.decode(&bytes, ImageMode::Rgb, &limits).expect("an image"));
    });
    time("decode region", rounds, |i| {
        black_box(decoder.decode_region(&bytes, ImageMode::Rgb, &limits, crop(i)).expect("an image"));
    });
    let image = Image::packed(&pixels, width, height, 3).expect("its size");
    let (mut resizer, mut small) = (Resizer::new(), vec![0; 224 * 224 * 3]);
    time("resize", rounds, |i| {
        let view = image.crop(crop(i)).expect("inside");
        resizer.resize(view, 224, 224, Filter::Triangle, &mut small).expect("valid");
    });
    let view = image.crop(Region::whole(224.min(width), 224.min(height))).expect("inside");
    let normalizer = Normalizer::new(&MEAN, &STD, Layout::Chw).expect("valid");
    let len = view.width() * view.height() * 12;
    time("flip and normalise", rounds, |i| normalizer.write(view, i % 2 == 0, &mut slot[..len]).expect("valid"));

    let (column, factor, interpolation) = ("image".to_owned(), Some((0.2, 1.8)), Interpolation::Nearest);
    let jitter = Op::ColorJitter(ops::ColorJitter {
        column: column.clone(),
        brightness: factor,
        contrast: factor,
        saturation: factor,
        hue: Some((-0.2, 0.2)),
        probability: 1.0,
    });
    let (kernel_size, sigma, probability) = (23, (0.1, 2.0), 1.0);
    let blur = Op::GaussianBlur(ops::GaussianBlur { column: column.clone(), kernel_size, sigma, probability });
    let (num_ops, magnitude, num_magnitude_bins, fill) = (2, 9, 31, None);
    let policy =
        Op::RandAugment(ops::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill });
    let mut scratch = Scratch::new(limits);
    for (name, op) in [("color jitter", jitter), ("gaussian blur", blur), ("rand augment", policy)] {
        let augment = Augment::of(&op).expect("an augmentation");
        let chain = Chain::new(None, vec![Step::Augment { augment, key_op: 2 }]).expect("valid");
        let input =
            Input::Pixels { height: 224, width: 224, channels: 3, depth: Depth::Eight, frame: 0, pixels: &small };
        let mut changed = vec![0; small.len()];
        time(name, rounds, |i| {
            chain.run(input, draws(i), &mut scratch, &mut Output::Slot(&mut changed)).expect("pixels");
        });
    }

    let steps = vec![
        Step::RandomResizedCrop {
            height: 224,
            width: 224,
            scale: SCALE,
            ratio: RATIO,
            filter: Filter::Triangle,
            key_op: 0,
        },
        Step::Flip { direction: Direction::Horizontal, p: 0.5, key_op: 1 },
        Step::Normalize { mean: MEAN.to_vec(), std: STD.to_vec(), layout: Layout::Chw },
    ];
    let chain = Chain::new(Some(ImageMode::Rgb), steps).expect("valid");
    time("chain", rounds, |i| {
        let out = &mut Output::Slot(&mut slot);
        chain.run(Input::Encoded(&bytes), draws(i), &mut scratch, out).expect("an image");
    });
}

fn time(name: &str, rounds: u64, mut f: impl FnMut(u64)) {
    // The least of several means: the cost of the code without disturbance.
    let turns = 5;
    let means: Vec<f64> = (0..turns)
        .map(|_| {
            let (start, busy) = (Instant::now(), processor_time());
            (0..rounds).for_each(&mut f);
            let spent = busy.and_then(|busy| Some(processor_time()? - busy)).unwrap_or_else(|| start.elapsed());
            spent.as_secs_f64() * 1e3 / rounds as f64
        })
        .collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    println!("{name:20} {least:.3} ms, mean {:.3} ms", means.iter().sum::<f64>() / f64::from(turns));
}

/// Returns the processor time of this thread, without waits for a busy machine; Linux only.
fn processor_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}
