//! Samples of ops that decode, move and annotate images.

use super::*;

pub(super) fn images() -> Vec<Sample> {
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
pub(super) fn annotated() -> Vec<Sample> {
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
            is_op: false,
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
        mosaics(&with(), before()),
        sample(iou(40, Some(with())), before(), vec![iou(40, None), iou(0, Some(with()))]),
    ]
}

/// Mosaics of images that boxes and labels follow, in batches.
fn mosaics(with: &Annotations, mut before: Vec<Op>) -> Sample {
    let boxed = || Annotations { points: None, flip_pairs: vec![], ..with.clone() };
    let mosaic = |column, low, probability, with| {
        Op::Mosaic(ops::Mosaic { column: name(column), center_range: (low, 0.8), probability, with })
    };
    before.push(Op::Annotate(ops::Annotate { column: name(COLUMN), with: boxed(), clip: true }));
    before.push(Op::PaddedBatch(ops::PaddedBatch {
        size: 3,
        drop_remainder: false,
        padding: None,
        valid: None,
        ragged: vec![name("boxes"), name("labels")],
    }));
    let refused = vec![
        mosaic(COLUMN, 0.1, 0.7, None),
        mosaic(COLUMN, 0.1, 1.7, Some(boxed())),
        mosaic(COLUMN, 0.9, 0.7, Some(boxed())),
        mosaic(COLUMN, 0.1, 0.7, Some(with.clone())),
        mosaic("png", 0.1, 0.7, Some(boxed())),
    ];
    sample(mosaic(COLUMN, 0.1, 0.7, Some(boxed())), before, refused)
}
