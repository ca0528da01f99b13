//! A sample of each op, for the suite `check_op`: its arguments, the ops before it, and arguments that it refuses. A
//! new op is added here once; the suite fails for an op without a sample.

use bytes::Bytes;
use forebay_core::Result;
use forebay_data::{DType, Field, Kind};
use forebay_plan::{
    Annotations, AutoPolicy, Binary, BlobId, Border, BoxFormat, Call, CastType, Corner, Direction, Edge, Expr, Found,
    Function, ImageFormat, ImageMode, Interpolation, Layout, Logarithm, Loudness, Mel, MelNorm, MelScale, Mixing, Op,
    Packing, PadTo, Resample, ShuffleWindow, Table, TimePart, TimeUnit, Values, Window, ops,
};

use super::random::col;

/// An op, and the inputs of the suite for running it over the rows of [`super::random::rows`].
pub(crate) struct Sample {
    pub(crate) op: Op,
    /// The ops that make its input columns.
    pub(crate) before: Vec<Op>,
    /// The op with arguments that it refuses over the same rows.
    pub(crate) refused: Vec<Op>,
}

/// Blobs of samples: a tokenizer, and empty pickles.
pub(crate) struct SampleBlobs;

impl forebay_io::Blobs for SampleBlobs {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        Ok(match id.0.as_str() {
            TOKENIZER => Bytes::from_static(TOKENIZER_JSON.as_bytes()),
            CHAT => Bytes::from(chat_json()),
            _ => Bytes::new(),
        })
    }
}

const TOKENIZER: &str = "tokenizer";

/// Digits to their numbers.
const TOKENIZER_JSON: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {
        "?": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9, "10": 10
    }}
}"#;

const CHAT: &str = "chat";

/// A chat template that writes the numbers of roles and contents.
fn chat_json() -> String {
    let template = "{% for m in messages %}{{ m.role|length }} {{ m.content }} {% endfor %}\
                    {% if add_generation_prompt %}9 {% endif %}";
    serde_json::json!({"template": template, "variables": {}, "date": null, "tokenizer": TOKENIZER_JSON}).to_string()
}

fn sample(op: Op, before: Vec<Op>, refused: Vec<Op>) -> Sample {
    Sample { op, before, refused }
}

/// Returns a sample of each op.
pub(crate) fn samples() -> Vec<Sample> {
    [
        columns(),
        calls(),
        functions(),
        images(),
        annotated(),
        augmentations(),
        audio(),
        text(),
        training(),
        batches(),
        orders(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn name(of: &str) -> String {
    of.to_owned()
}

fn cast(column: &str, to: CastType) -> Op {
    Op::Cast(ops::Cast { columns: vec![(name(column), to)] })
}

fn less(column: &str, value: i64) -> Expr {
    Expr::Binary { op: Binary::Lt, left: col(column), right: Box::new(Expr::Int { value }) }
}

fn columns() -> Vec<Sample> {
    let select = |columns: &[&str]| Op::Select(ops::Select { columns: columns.iter().map(|c| name(c)).collect() });
    let leave = |column| Op::Drop(ops::Drop { columns: vec![name(column)] });
    let rename = |from, to| Op::Rename(ops::Rename { columns: vec![(name(from), name(to))] });
    let keep = |predicate| Op::FilterExpr(ops::FilterExpr { predicate });
    let add = |value| Op::WithColumn(ops::WithColumn { column: name("c"), value });
    let finite = |column| Op::CheckFinite(ops::CheckFinite { columns: vec![name(column)] });
    vec![
        sample(select(&["b", "sized"]), vec![], vec![select(&["nowhere"])]),
        sample(leave("a"), vec![], vec![leave("nowhere")]),
        sample(rename("a", "c"), vec![], vec![rename("nowhere", "c")]),
        sample(
            cast("a", DType::Float32.into()),
            vec![],
            vec![cast("sized", CastType::String), cast("nowhere", CastType::Bytes)],
        ),
        sample(keep(less("a", 5)), vec![], vec![keep(*col("a")), keep(*col("nowhere"))]),
        sample(
            add(Expr::Binary { op: Binary::Add, left: col("a"), right: col("b") }),
            vec![],
            vec![add(Expr::HashMod { arg: col("a"), buckets: 0 }), add(*col("nowhere"))],
        ),
        sample(finite("a"), vec![cast("a", DType::Float32.into())], vec![finite("b"), finite("nowhere")]),
    ]
}

/// Functions of texts and lists, and look-ups.
fn calls() -> Vec<Sample> {
    let add = |column, call| {
        Op::WithColumn(ops::WithColumn { column: name("c"), value: Expr::Call { call, arg: col(column) } })
    };
    let search = |pattern| Call::Match { pattern: name(pattern), from_start: false };
    let split = |separator| Call::Split { separator: name(separator), index: -1 };
    let among = |values: &[i64]| Call::IsIn { values: Values::Ints(values.to_vec()) };
    let buckets = |bounds: &[f64]| Call::Bucketize { bounds: bounds.to_vec(), right: true };
    let hot = |classes| Call::OneHot { classes };
    let table = |values| Call::Lookup { table: Table { keys: Values::Ints(vec![3]), values: Found::Ints(values) } };
    let year = || Call::Time { part: TimePart::Year, unit: TimeUnit::D };
    let dates = || {
        let value = Expr::Str { value: name("2024-02-29 13:45") };
        vec![Op::WithColumn(ops::WithColumn { column: name("a"), value })]
    };
    let text = || vec![cast("a", CastType::String)];
    let last = || Call::Slice { start: Some(-2), stop: None };
    vec![
        sample(add("a", Call::Upper {}), text(), vec![add("b", Call::Upper {}), add("png", Call::Lower {})]),
        sample(add("a", search("[1-4]$")), text(), vec![add("a", search("(")), add("b", search("1"))]),
        sample(add("a", split("1")), text(), vec![add("a", split(""))]),
        sample(add("a", Call::ToInt { base: 16 }), text(), vec![add("a", Call::ToInt { base: 1 })]),
        sample(add("a", among(&[3, 9])), vec![], vec![add("a", among(&[9, 3])), add("png", among(&[3]))]),
        sample(add("a", table(vec![7])), vec![], vec![add("a", table(vec![])), add("png", table(vec![7]))]),
        sample(add("a", year()), vec![], vec![add("png", year())]),
        sample(
            add("a", Call::ToTime { unit: TimeUnit::Us }),
            dates(),
            vec![add("b", Call::ToTime { unit: TimeUnit::D })],
        ),
        sample(add("a", buckets(&[2.0, 5.5])), vec![], vec![add("a", buckets(&[5.0, 2.0])), add("png", buckets(&[]))]),
        sample(add("a", hot(11)), vec![], vec![add("a", hot(0)), add("sized", hot(11))]),
        sample(add("sized", last()), vec![], vec![add("a", last())]),
        sample(add("sized", Call::Get { index: 1 }), vec![], vec![add("a", Call::Get { index: 1 })]),
        sample(add("sized", Call::Mean {}), vec![], vec![add("a", Call::Mean {}), add("png", Call::Sum {})]),
    ]
}

fn functions() -> Vec<Sample> {
    let function = |reads: &str, with_rng| Function {
        blob: BlobId(name("f")),
        code: String::new(),
        name: name("f"),
        batched: false,
        with_rng,
        reads: Some(vec![name(reads)]),
        timeout_s: 1.0,
    };
    let map = |reads, with_rng| {
        let output = vec![Field::new("c", Kind::scalar(DType::Int64))];
        Op::Map(ops::Map { function: function(reads, with_rng), output, keep_others: true })
    };
    let flat_map = |function, count| {
        let output = vec![Field::new("c", Kind::scalar(DType::Int64)), Field::new("d", Kind::scalar(DType::Int64))];
        Op::FlatMap(ops::FlatMap { function, output, count })
    };
    let explode = |columns: &[&str]| Op::Explode(ops::Explode { columns: columns.iter().map(|c| name(c)).collect() });
    let batched = Function { batched: true, ..function("a", false) };
    let filter = |reads| Op::FilterFunction(ops::FilterFunction { function: function(reads, false) });
    vec![
        sample(map("a", false), vec![], vec![map("nowhere", false)]),
        sample(map("a", true), vec![], vec![]),
        sample(filter("b"), vec![], vec![filter("nowhere")]),
        sample(
            flat_map(function("a", false), None),
            vec![],
            vec![flat_map(function("nowhere", false), None), flat_map(batched, None)],
        ),
        sample(
            flat_map(function("a", true), Some(3)),
            vec![],
            vec![flat_map(function("a", false), Some(0)), flat_map(function("a", false), Some(1 << 17))],
        ),
        sample(flat_map(function("b", false), Some(2)), vec![], vec![]),
        sample(explode(&["sized"]), vec![], vec![explode(&["a"]), explode(&[]), explode(&["sized", "png"])]),
        sample(
            explode(&["png"]),
            vec![Op::DecodeImage(ops::DecodeImage { column: name("png"), mode: ImageMode::Rgb, exif: false })],
            vec![explode(&["nowhere"])],
        ),
    ]
}

const COLUMN: &str = "sized";

fn images() -> Vec<Sample> {
    let column = || name(COLUMN);
    let decode = |column| Op::DecodeImage(ops::DecodeImage { column: name(column), mode: ImageMode::Rgb, exif: false });
    let encode = |format, quality| Op::EncodeImage(ops::EncodeImage { column: column(), format, quality });
    let resize = |height| {
        Op::Resize(ops::Resize {
            column: column(),
            height,
            width: 9,
            antialias: true,
            interpolation: Resample::default(),
        })
    };
    let shorter = |size, max_size| {
        Op::ResizeShorter(ops::ResizeShorter {
            column: column(),
            size,
            max_size,
            antialias: false,
            interpolation: Resample::default(),
        })
    };
    let crop = |width| Op::CenterCrop(ops::CenterCrop { column: column(), height: 20, width });
    let part = |scale| {
        let (column, height, width) = (column(), 8, 7);
        let ratio = (0.5, 2.0);
        Op::RandomResizedCrop(ops::RandomResizedCrop {
            column,
            height,
            width,
            scale,
            ratio,
            antialias: true,
            interpolation: Resample::default(),
        })
    };
    let flip = |probability, direction| Op::RandomFlip(ops::RandomFlip { column: column(), probability, direction });
    let cut = |top, width| {
        let corner = Corner::TopLeft;
        Op::Crop(ops::Crop { column: column(), top, left: 3, height: 9, width, corner })
    };
    let border = |left| Border { left, top: 2, right: 0, bottom: 5 };
    let pad = |left, fill: &[u8]| Op::Pad(ops::Pad { column: column(), border: border(left), fill: fill.to_vec() });
    let some = |height, left, fill: &[u8]| {
        let (border, fill) = (border(left), fill.to_vec());
        Op::RandomCrop(ops::RandomCrop { column: column(), height, width: 8, border, fill })
    };
    let sampled = |interpolation| {
        Op::Resize(ops::Resize { column: column(), height: 30, width: 9, antialias: false, interpolation })
    };
    let zoom = |side_range, fill: &[u8]| {
        Op::RandomZoomOut(ops::RandomZoomOut { column: column(), side_range, fill: fill.to_vec(), probability: 0.5 })
    };
    let normalize = |std: f64| {
        let (mean, layout) = (vec![0.5; 3], Layout::Chw);
        Op::Normalize(ops::Normalize { column: column(), mean, std: vec![std; 3], layout })
    };
    vec![
        sample(
            encode(ImageFormat::Jpeg, Some(80)),
            vec![],
            vec![
                encode(ImageFormat::Jpeg, None),
                encode(ImageFormat::Jpeg, Some(101)),
                encode(ImageFormat::Png, Some(80)),
            ],
        ),
        sample(encode(ImageFormat::Png, None), vec![], vec![]),
        sample(
            Op::DecodeImage(ops::DecodeImage { column: name("png"), mode: ImageMode::Rgba, exif: true }),
            vec![],
            vec![],
        ),
        sample(
            Op::Crop(ops::Crop { column: column(), top: 1, left: 2, height: 9, width: 5, corner: Corner::BottomRight }),
            vec![],
            vec![],
        ),
        sample(decode("png"), vec![], vec![decode("a"), decode("nowhere")]),
        sample(resize(11), vec![], vec![resize(0), resize(100_000)]),
        sample(shorter(9, Some(12)), vec![], vec![shorter(0, None), shorter(9, Some(9))]),
        sample(shorter(9, None), vec![decode("png")], vec![]),
        sample(crop(10), vec![], vec![crop(0)]),
        sample(sampled(Resample::Nearest), vec![], vec![sampled(Resample::Lanczos), sampled(Resample::Box)]),
        sample(cut(2, 10), vec![], vec![cut(2, 0), cut(99_999, 10), cut(6, 10), cut(2, 15)]),
        sample(pad(1, &[7]), vec![], vec![pad(1, &[7, 8]), pad(70_000, &[7])]),
        sample(pad(3, &[1, 2, 3]), vec![], vec![]),
        sample(some(8, 6, &[9]), vec![], vec![some(0, 6, &[9]), some(8, 6, &[]), some(22, 6, &[9])]),
        sample(zoom((1.0, 2.5), &[4]), vec![], vec![zoom((0.5, 2.0), &[4]), zoom((1.0, 2.0), &[4, 5])]),
        sample(part((0.2, 0.9)), vec![], vec![part((0.9, 0.2)), part((0.0, 1.0)), part((f64::NAN, 1.0))]),
        sample(flip(0.5, Direction::Horizontal), vec![], vec![flip(1.5, Direction::Horizontal)]),
        sample(flip(0.5, Direction::Vertical), vec![], vec![flip(f64::NAN, Direction::Vertical)]),
        sample(normalize(0.5), vec![], vec![normalize(0.0), normalize(f64::INFINITY)]),
    ]
}

/// Ops on an image that boxes, a mask and points follow.
fn annotated() -> Vec<Sample> {
    let with = || Annotations {
        boxes: Some(name("boxes")),
        format: BoxFormat::Xyxy,
        labels: vec![name("labels")],
        masks: vec![name("mask")],
        mask_fill: 7.0,
        points: Some(name("points")),
        flip_pairs: vec![(0, 1)],
        min_area: 2.0,
        min_visibility: 0.1,
        ..Annotations::default()
    };
    let before = || {
        let function = Function {
            blob: BlobId(name("f")),
            code: String::new(),
            name: name("f"),
            batched: false,
            with_rng: false,
            reads: Some(vec![name("a")]),
            timeout_s: 1.0,
        };
        let output = vec![
            Field::new("boxes", Kind::fixed(DType::Float32, &[3, 4])),
            Field::new("labels", Kind::fixed(DType::Uint8, &[3])),
            Field::new("mask", Kind::fixed(DType::Uint8, &[14, 17])),
            Field::new("points", Kind::fixed(DType::Float32, &[4, 2])),
        ];
        vec![Op::Map(ops::Map { function, output, keep_others: true })]
    };
    let annotate = |column, with| Op::Annotate(ops::Annotate { column: name(column), with, clip: true });
    let carry = |of: Op, with| Op::Annotated(ops::Annotated { of: Box::new(of), with });
    let part = || {
        let (column, scale, ratio) = (name(COLUMN), (0.2, 0.9), (0.5, 2.0));
        let (height, width, antialias) = (9, 11, true);
        Op::RandomResizedCrop(ops::RandomResizedCrop {
            column,
            height,
            width,
            scale,
            ratio,
            antialias,
            interpolation: Resample::default(),
        })
    };
    let turn = Op::RandomRotation(ops::RandomRotation {
        column: name(COLUMN),
        degrees: (-90.0, 90.0),
        interpolation: Interpolation::Nearest,
        fill: None,
    });
    let grey = Op::RandomGrayscale(ops::RandomGrayscale { column: name(COLUMN), probability: 0.5 });
    let iou = |trials, with| {
        let (column, scale, ratio) = (name(COLUMN), (0.3, 1.0), (0.5, 2.0));
        Op::RandomIouCrop(ops::RandomIouCrop { column, scale, ratio, overlaps: vec![0.0, 0.1, 0.3], trials, with })
    };
    let view = Op::RandomPerspective(ops::RandomPerspective {
        column: name(COLUMN),
        distortion_scale: 0.6,
        probability: 0.8,
        interpolation: Interpolation::Bilinear,
        fill: None,
    });
    let nested = carry(carry(part(), with()), with());
    let of = |boxes: &str| Annotations { boxes: Some(name(boxes)), ..with() };
    let bad = vec![
        annotate("png", with()),
        annotate(COLUMN, Annotations::default()),
        annotate(COLUMN, Annotations { boxes: None, ..with() }),
        annotate(COLUMN, of("nowhere")),
        annotate(COLUMN, of("a")),
        annotate(COLUMN, Annotations { min_area: -1.0, ..with() }),
        annotate(COLUMN, Annotations { min_visibility: f64::NAN, ..with() }),
        annotate(COLUMN, Annotations { mask_fill: 256.0, ..with() }),
        annotate(COLUMN, Annotations { flip_pairs: vec![(0, 4)], ..with() }),
        annotate(COLUMN, Annotations { masks: vec![name("mask"), name("mask")], ..with() }),
    ];
    let refused = vec![carry(part(), of("labels")), carry(grey, with()), nested];
    vec![
        sample(annotate(COLUMN, with()), before(), bad),
        sample(carry(part(), with()), before(), refused),
        sample(carry(turn, with()), before(), vec![]),
        sample(carry(view, with()), before(), vec![]),
        sample(iou(40, Some(with())), before(), vec![iou(40, None), iou(0, Some(with()))]),
    ]
}

fn augmentations() -> Vec<Sample> {
    let column = || name(COLUMN);
    let jitter = |contrast, hue| {
        let (brightness, saturation) = (Some((0.4, 1.6)), Some((0.0, 2.0)));
        let column = column();
        Op::ColorJitter(ops::ColorJitter { column, brightness, contrast, saturation, hue, probability: 0.8 })
    };
    let grey = |column, probability| Op::RandomGrayscale(ops::RandomGrayscale { column: name(column), probability });
    let solarize =
        |threshold, probability| Op::RandomSolarize(ops::RandomSolarize { column: column(), threshold, probability });
    let blur = |kernel_size, sigma| {
        Op::GaussianBlur(ops::GaussianBlur { column: column(), kernel_size, sigma, probability: 0.5 })
    };
    let rotation = |degrees, fill| {
        let interpolation = Interpolation::Bilinear;
        Op::RandomRotation(ops::RandomRotation { column: column(), degrees, interpolation, fill })
    };
    let policy = |num_ops, magnitude, num_magnitude_bins| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, None);
        Op::RandAugment(ops::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill })
    };
    let erasing = |scale, value| {
        let (column, probability, ratio) = (column(), 0.5, (0.3, 3.3));
        Op::RandomErasing(ops::RandomErasing { column, probability, scale, ratio, value })
    };
    let (none, half) = (None, Some((0.5, 1.5)));
    let mut samples = policies();
    samples.extend(levels());
    samples.extend([
        sample(jitter(none, Some((-0.4, 0.4))), vec![], vec![jitter(Some((2.0, 1.0)), none), jitter(none, half)]),
        sample(jitter(half, none), vec![], vec![]),
        sample(grey(COLUMN, 0.5), vec![], vec![grey(COLUMN, -0.1), grey("png", 0.5), grey("a", 0.5)]),
        sample(solarize(100.5, 0.5), vec![], vec![solarize(256.0, 0.5), solarize(f64::NAN, 0.5), solarize(0.0, 2.0)]),
        sample(blur(3, (0.5, 1.5)), vec![], vec![blur(4, (0.5, 1.5)), blur(2001, (0.5, 1.5)), blur(3, (0.0, 1.0))]),
        sample(
            rotation((-40.0, 40.0), Some(vec![9, 0, 255])),
            vec![],
            vec![rotation((3.0, -3.0), None), rotation((0.0, 1.0), Some(vec![1, 2]))],
        ),
        sample(policy(2, 9, 31), vec![], vec![policy(101, 9, 31), policy(2, 31, 31), policy(2, 0, 1)]),
        sample(
            erasing((0.1, 0.5), Some(vec![7.0])),
            vec![],
            vec![erasing((0.1, 0.5), None), erasing((0.1, 0.5), Some(vec![])), erasing((0.5, 1.5), Some(vec![7.0]))],
        ),
    ]);
    samples
}

/// Augmentations of levels.
fn levels() -> Vec<Sample> {
    let column = || name(COLUMN);
    let posterize =
        |bits, probability| Op::RandomPosterize(ops::RandomPosterize { column: column(), bits, probability });
    let invert = |probability| Op::RandomInvert(ops::RandomInvert { column: column(), probability });
    let stretch = |probability| Op::RandomAutocontrast(ops::RandomAutocontrast { column: column(), probability });
    let darker = Op::ColorJitter(ops::ColorJitter {
        column: column(),
        brightness: Some((0.5, 0.5)),
        contrast: None,
        saturation: None,
        hue: None,
        probability: 1.0,
    });
    let larger = Op::Resize(ops::Resize {
        column: column(),
        height: 40,
        width: 50,
        antialias: true,
        interpolation: Resample::default(),
    });
    let spread = |probability| Op::RandomEqualize(ops::RandomEqualize { column: column(), probability });
    let sharpen =
        |factor| Op::RandomAdjustSharpness(ops::RandomAdjustSharpness { column: column(), factor, probability: 0.5 });
    let permute = |column: &str| Op::RandomChannelPermutation(ops::RandomChannelPermutation { column: name(column) });
    let noise = |mean, sigma| Op::GaussianNoise(ops::GaussianNoise { column: column(), mean, sigma, probability: 0.8 });
    vec![
        sample(posterize(3, 0.5), vec![], vec![posterize(0, 0.5), posterize(9, 0.5), posterize(3, 2.0)]),
        sample(invert(0.5), vec![], vec![invert(-1.0)]),
        // The rows have all levels, so they are darkened before.
        sample(stretch(0.5), vec![darker], vec![stretch(f64::NAN)]),
        // Pillow leaves an image of fewer than 256 pixels as it is.
        sample(spread(0.5), vec![larger], vec![spread(2.0)]),
        sample(sharpen(2.0), vec![], vec![sharpen(-1.0), sharpen(f64::NAN)]),
        sample(permute(COLUMN), vec![], vec![permute("a"), permute("png")]),
        sample(noise(0.1, (0.05, 0.2)), vec![], vec![noise(2.0, (0.1, 0.1)), noise(0.0, (-0.1, 0.1))]),
    ]
}

/// Augmentations that move pixels by a map, and policies of several operations.
fn policies() -> Vec<Sample> {
    let column = || name(COLUMN);
    let affine = |share, scale, slope: f64| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, Some(vec![3]));
        let (degrees, translate, shear) = ((-30.0, 30.0), (share, 0.2), Some([(-slope, slope), (0.0, 5.0)]));
        Op::RandomAffine(ops::RandomAffine { column, degrees, translate, scale, shear, interpolation, fill })
    };
    let view = |distortion_scale, probability| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, Some(vec![3, 4, 5]));
        Op::RandomPerspective(ops::RandomPerspective { column, distortion_scale, probability, interpolation, fill })
    };
    let trivial = |num_magnitude_bins| {
        let (column, interpolation) = (column(), Interpolation::Nearest);
        Op::TrivialAugment(ops::TrivialAugment { column, num_magnitude_bins, interpolation, fill: None })
    };
    let auto = |policy, fill| {
        let (column, interpolation) = (column(), Interpolation::Bilinear);
        Op::AutoAugment(ops::AutoAugment { column, policy, interpolation, fill })
    };
    let mix = |severity, chain_depth, alpha| {
        let (column, mixture_width, all_ops, interpolation) = (column(), 3, true, Interpolation::Bilinear);
        Op::AugMix(ops::AugMix {
            column,
            severity,
            mixture_width,
            chain_depth,
            alpha,
            all_ops,
            interpolation,
            fill: None,
        })
    };
    let half = Some((0.5, 1.5));
    vec![
        sample(mix(3, None, 1.0), vec![], vec![mix(0, None, 1.0), mix(3, Some(0), 1.0), mix(3, None, 0.0)]),
        sample(
            affine(0.1, half, 9.0),
            vec![],
            vec![affine(1.5, half, 9.0), affine(0.1, Some((0.0, 1.0)), 9.0), affine(0.1, half, 90.0)],
        ),
        sample(view(0.5, 0.7), vec![], vec![view(1.5, 0.5), view(f64::NAN, 0.5), view(0.5, 2.0)]),
        sample(trivial(31), vec![], vec![trivial(1)]),
        sample(auto(AutoPolicy::Imagenet, None), vec![], vec![auto(AutoPolicy::Imagenet, Some(vec![1, 2]))]),
        sample(auto(AutoPolicy::Cifar10, None), vec![], vec![]),
        sample(auto(AutoPolicy::Svhn, Some(vec![7])), vec![], vec![]),
    ]
}

/// A column of sound, one of noise, one of encoded sound, and one of spectra.
fn sounds() -> Vec<Op> {
    let function = Function {
        blob: BlobId(name("f")),
        code: String::new(),
        name: name("f"),
        batched: false,
        with_rng: false,
        reads: Some(vec![name("a")]),
        timeout_s: 1.0,
    };
    let output = vec![
        Field::new("sound", Kind::fixed(DType::Float32, &[300])),
        Field::new("stereo", Kind::fixed(DType::Float32, &[90, 2])),
        Field::new("noise", Kind::fixed(DType::Float32, &[70])),
        Field::new("spectrum", Kind::fixed(DType::Float32, &[20, 12])),
        Field::new("wav", Kind::Bytes),
    ];
    vec![Op::Map(ops::Map { function, output, keep_others: true })]
}

fn audio() -> Vec<Sample> {
    let decode = |column, sample_rate, max_seconds| {
        let (column, output, rate) = (name(column), name("decoded"), Some(name("rate")));
        let (mono, channels) = (true, None);
        Op::DecodeAudio(ops::DecodeAudio { column, output, sample_rate, mono, channels, max_seconds, rate })
    };
    let channels = |channels, mono| {
        let (column, output, channels) = (name("wav"), name("wav"), Some(channels));
        let (sample_rate, max_seconds, rate) = (None, 1.0, None);
        Op::DecodeAudio(ops::DecodeAudio { column, output, sample_rate, mono, channels, max_seconds, rate })
    };
    let resample = |column, sample_rate| {
        Op::ResampleAudio(ops::ResampleAudio { column: name(column), from_rate: 8000, sample_rate })
    };
    let crop = |column, length| Op::CropAudio(ops::CropAudio { column: name(column), start: 40, length, pad: true });
    let offset = |column, length| Op::RandomOffset(ops::RandomOffset { column: name(column), length, pad: false });
    let normalize = |column, to, db| Op::NormalizeAudio(ops::NormalizeAudio { column: name(column), to, db });
    let gain = |column, db, probability| Op::RandomGain(ops::RandomGain { column: name(column), db, probability });
    let noise = |column, noise: Option<&str>, snr_db| {
        let (column, noise, probability) = (name(column), noise.map(name), 0.8);
        Op::RandomNoise(ops::RandomNoise { column, noise, snr_db, probability })
    };
    let mask = |column, time_ratio| {
        let (freq_masks, freq_width, time_masks, time_width, value) = (2, 5, 1, 9, -1.0);
        let (column, time_first) = (name(column), true);
        Op::SpecAugment(ops::SpecAugment {
            column,
            time_first,
            freq_masks,
            freq_width,
            time_masks,
            time_width,
            time_ratio,
            value,
        })
    };
    let standard = Loudness::Standard;
    let mut all = vec![
        sample(decode("wav", Some(16_000), 1.0), sounds(), vec![decode("a", None, 1.0), decode("wav", Some(9), 1.0)]),
        sample(channels(2, false), sounds(), vec![channels(2, true), channels(0, false), decode("wav", None, 0.0)]),
        sample(resample("sound", 11_025), sounds(), vec![resample("sound", 1), resample("wav", 16_000)]),
        sample(resample("stereo", 4000), sounds(), vec![resample("sized", 16_000)]),
        sample(crop("sound", 280), sounds(), vec![crop("sound", 0), crop("a", 280), crop("sound", 1 << 29)]),
        sample(offset("stereo", 33), sounds(), vec![offset("stereo", 0), offset("wav", 33)]),
        sample(normalize("sound", standard, 0.0), sounds(), vec![normalize("sound", standard, f64::NAN)]),
        sample(normalize("stereo", Loudness::Rms, -9.0), sounds(), vec![normalize("wav", Loudness::Peak, 0.0)]),
        sample(
            gain("sound", (-6.0, 6.0), 0.9),
            sounds(),
            vec![gain("sound", (6.0, -6.0), 0.9), gain("a", (0.0, 1.0), 1.0)],
        ),
        sample(noise("sound", Some("noise"), (0.0, 9.0)), sounds(), vec![noise("sound", Some("stereo"), (0.0, 9.0))]),
        sample(noise("stereo", None, (0.0, 9.0)), sounds(), vec![noise("stereo", None, (9.0, 0.0))]),
        sample(mask("spectrum", 0.3), sounds(), vec![mask("spectrum", 1.5), mask("sound", 0.3)]),
    ];
    all.extend(spectra());
    all
}

fn spectra() -> Vec<Sample> {
    let mel = |bands, fmax, scale| Some(Mel { bands, fmin: 20.0, fmax, scale, norm: MelNorm::Slaney });
    let spectrogram = |column, mel, log, mfcc| {
        Op::Spectrogram(ops::Spectrogram {
            column: name(column),
            output: name("spectra"),
            sample_rate: 16_000,
            n_fft: 64,
            win_length: 60,
            hop: 16,
            window: Window::Hann,
            edge: Some(Edge::Reflect),
            drop_last: true,
            remove_mean: false,
            preemphasis: 0.0,
            power: 2,
            mel,
            log,
            mfcc,
            time_first: false,
        })
    };
    let plain = |n_fft, hop| {
        Op::Spectrogram(ops::Spectrogram {
            column: name("sound"),
            output: name("sound"),
            sample_rate: 16_000,
            n_fft,
            win_length: n_fft,
            hop,
            window: Window::Povey,
            edge: None,
            drop_last: false,
            remove_mean: true,
            preemphasis: 0.97,
            power: 1,
            mel: None,
            log: None,
            mfcc: None,
            time_first: true,
        })
    };
    let decibels = |floor| Some(Logarithm::Decibels { floor, top_db: Some(80.0) });
    let (slaney, whisper) = (MelScale::Slaney, Some(Logarithm::Whisper {}));
    vec![
        sample(plain(45, 20), sounds(), vec![plain(0, 20), plain(45, 0), plain(1 << 16, 20)]),
        sample(
            spectrogram("sound", mel(8, 8000.0, slaney), whisper, None),
            sounds(),
            vec![
                spectrogram("sound", mel(8, 8001.0, slaney), None, None),
                spectrogram("sound", mel(0, 8000.0, slaney), None, None),
                spectrogram("stereo", None, None, None),
                spectrogram("wav", None, None, None),
            ],
        ),
        sample(
            spectrogram("sound", mel(9, 8000.0, MelScale::Htk), decibels(1e-10), Some(5)),
            sounds(),
            vec![
                spectrogram("sound", mel(9, 8000.0, MelScale::Htk), decibels(1e-10), Some(10)),
                spectrogram("sound", None, decibels(1e-10), Some(5)),
                spectrogram("sound", None, decibels(0.0), None),
            ],
        ),
        sample(
            spectrogram("sound", mel(9, 8000.0, MelScale::Kaldi), Some(Logarithm::Natural { floor: 1e-7 }), None),
            sounds(),
            vec![],
        ),
    ]
}

fn mask(probability: f64) -> Op {
    Op::MaskTokens(ops::MaskTokens {
        column: name("ids"),
        labels: name("labels"),
        mask_id: 0,
        vocab_size: 11,
        probability,
        mask_replace: 0.5,
        random_replace: 0.25,
        special_ids: vec![2],
    })
}

/// Ids that no other sample has: twelve for each row.
fn many_ids() -> Vec<Op> {
    let value = Expr::Str { value: name("1 2 3 4 5 6 7 8 9 10 1 2") };
    let (column, output, tokenizer) = (name("text"), name("ids"), BlobId(name(TOKENIZER)));
    vec![
        Op::WithColumn(ops::WithColumn { column: name("text"), value }),
        Op::Tokenize(ops::Tokenize { column, output, tokenizer, add_special_tokens: false, max_length: None }),
    ]
}

fn masked() -> Vec<Op> {
    many_ids().into_iter().chain([mask(0.5)]).collect()
}

fn training() -> Vec<Sample> {
    let corrupt = |density, mean_length| {
        let (column, labels, sentinel_ids) = (name("ids"), name("labels"), vec![90, 91, 92]);
        Op::CorruptSpans(ops::CorruptSpans { column, labels, sentinel_ids, density, mean_length, eos_id: Some(99) })
    };
    let middle =
        |rate, tokens| Op::FillInMiddle(ops::FillInMiddle { column: name("ids"), tokens, rate, spm_rate: 0.5 });
    let (marks, texts) = (ops::MiddleTokens::Ids([90, 91, 92]), ["<P>", "<S>", "<M>"].map(name));
    let prefix =
        |labels| Op::PrefixLm(ops::PrefixLm { column: name("ids"), labels: name(labels), prefix_length: name("n") });
    let messages = r#"[{"role": "user", "content": "1 2"}, {"role": "assistant", "content": "3"}]"#;
    let messages = Op::WithColumn(ops::WithColumn { column: name("text"), value: Expr::Str { value: name(messages) } });
    let chat = |column, max_length| {
        Op::Chat(ops::Chat {
            column: name(column),
            output: name("ids"),
            labels: Some(name("labels")),
            mask: Some(name("mask")),
            text: Some(name("rendered")),
            tools: None,
            learn: ops::Learn::Assistant,
            add_generation_prompt: true,
            max_length,
            chat: BlobId(name(CHAT)),
        })
    };
    vec![
        sample(mask(0.5), many_ids(), vec![mask(1.5)]),
        sample(corrupt(0.4, 2.0), many_ids(), vec![corrupt(1.0, 2.0), corrupt(0.4, 0.5)]),
        sample(
            middle(0.8, marks.clone()),
            many_ids(),
            vec![middle(2.0, marks), middle(0.8, ops::MiddleTokens::Texts(texts))],
        ),
        sample(prefix("labels"), many_ids(), vec![prefix("n")]),
        sample(chat("text", Some(9)), vec![messages], vec![chat("a", Some(9)), chat("text", Some(0))]),
    ]
}

fn text() -> Vec<Sample> {
    let tokenize = |column, max_length| {
        let (output, tokenizer) = (name("ids"), BlobId(name(TOKENIZER)));
        let column = name(column);
        Op::Tokenize(ops::Tokenize { column, output, tokenizer, add_special_tokens: false, max_length })
    };
    let pack = |column, length| {
        let packing = Packing::Concat { segments: false, drop_remainder: false };
        let column = name(column);
        Op::Pack(ops::Pack { column, length, packing, eos_id: None, pad_id: 0, along: vec![], cu_seqlens: false })
    };
    let pack_along = |column, pad| {
        Op::Pack(ops::Pack {
            column: name("ids"),
            length: 8,
            packing: Packing::BestFit { window: 4 },
            eos_id: Some(9),
            pad_id: 0,
            along: vec![ops::Along { column: name(column), pad }],
            cu_seqlens: true,
        })
    };
    let bucket = |column, boundaries: &[usize]| {
        Op::BucketByLength(ops::Bucket {
            column: name(column),
            boundaries: boundaries.to_vec(),
            batch_sizes: vec![2; boundaries.len() + 1],
            pad_to: PadTo::Longest,
            padding: vec![],
            drop_remainder: false,
        })
    };
    let padded = |padding, valid| Op::PaddedBatch(ops::PaddedBatch { size: 4, drop_remainder: false, padding, valid });
    let padding = |column: &str, to: Option<usize>, multiple_of: Option<usize>| {
        let of = |number: Option<usize>| number.map(|n| (name(column), n)).into_iter().collect::<Vec<_>>();
        let truncate = to.map(|_| name(column)).into_iter().collect();
        let (values, lengths) = (vec![(name(column), -1.0)], vec![(name(column), name("n"))]);
        Some(ops::Padding { values, to: of(to), multiple_of: of(multiple_of), truncate, lengths })
    };
    let words = || vec![cast("a", CastType::String)];
    let ids = || vec![cast("a", CastType::String), tokenize("a", None)];
    vec![
        sample(tokenize("a", Some(3)), words(), vec![tokenize("b", None), tokenize("a", Some(0))]),
        sample(pack("ids", 8), ids(), vec![pack("a", 8), pack("ids", 0)]),
        sample(pack_along("labels", -100.0), masked(), vec![pack_along("labels", 0.5), pack_along("b", 0.0)]),
        sample(
            padded(padding("ids", Some(2), None), None),
            ids(),
            vec![padded(padding("b", None, None), None), padded(padding("ids", Some(2), Some(2)), None)],
        ),
        sample(
            padded(padding("ids", None, Some(3)), Some(name("valid"))),
            ids(),
            vec![padded(None, Some(name("ids")))],
        ),
        sample(bucket("ids", &[2, 4]), ids(), vec![bucket("b", &[2]), bucket("ids", &[4, 2]), bucket("ids", &[])]),
    ]
}

fn batches() -> Vec<Sample> {
    let batch = |size| Op::Batch(ops::Batch { size, drop_remainder: false });
    let prefetch = |count| Op::Prefetch(ops::Prefetch { count });
    let mix = |how, classes, alpha| {
        let (column, label) = (name(COLUMN), name("a"));
        Op::Mix(ops::Mix { how, column, label, classes, alpha, probability: 0.8 })
    };
    let float = || vec![cast(COLUMN, DType::Float32.into()), batch(3)];
    let (mixup, cutmix) = (Mixing::Mixup, Mixing::Cutmix);
    vec![
        sample(batch(3), vec![], vec![batch(0)]),
        sample(prefetch(3), vec![], vec![prefetch(0), prefetch(5000)]),
        sample(mix(mixup, 11, 0.4), float(), vec![mix(mixup, 0, 0.4), mix(mixup, 11, 0.0)]),
        sample(mix(cutmix, 11, 1.0), vec![batch(2)], vec![mix(mixup, 11, 0.4)]),
    ]
}

fn orders() -> Vec<Sample> {
    let repeat = |count| Op::Repeat(ops::Repeat { count });
    let shard = |count, index| Op::Shard(ops::Shard { count, index });
    let shuffle = |window| Op::Shuffle(ops::Shuffle { window });
    let enumerate = |start| Op::Enumerate(ops::Enumerate { column: name("c"), start });
    let part = |share, rest| Op::Part(ops::Part { share, from: None, seed: 3, rest });
    vec![
        sample(Op::SHUFFLE, vec![], vec![]),
        sample(shuffle(ShuffleWindow::Rows(3)), vec![], vec![]),
        sample(repeat(Some(2)), vec![], vec![repeat(Some(0))]),
        sample(Op::Take(ops::Take { count: 3 }), vec![], vec![]),
        sample(Op::Skip(ops::Skip { count: 3 }), vec![], vec![]),
        sample(shard(3, 1), vec![], vec![shard(3, 3), shard(0, 0)]),
        sample(Op::SelectRows(ops::SelectRows { rows: vec![4, 0, 4] }), vec![], vec![]),
        sample(enumerate(-3), vec![], vec![]),
        sample(part(1 << 30, false), vec![], vec![part(0, false), part(1 << 32, false)]),
        sample(part(1 << 30, true), vec![], vec![]),
        sample(Op::Cache(ops::Cache { freeze: false }), vec![], vec![]),
        sample(Op::Autocache(ops::Autocache {}), vec![], vec![]),
    ]
}
