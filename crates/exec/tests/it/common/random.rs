//! Random pipelines over images and numbers, and rows for them: all draws follow from the number of a case.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, Int64Array, LargeBinaryArray};
use forebay_core::rng::SampleRng;
use forebay_core::{Epoch, Result, SampleId, Seed, SystemClock};
use forebay_data::{Chunk, DType, Field, Kind, Memory, RowId, Schema, column_of};
use forebay_exec::{Environment, Executable, Functions, MadeRows, Pickle, Randomness};
use forebay_plan::{
    AutoPolicy, Binary, BlobId, Border, Call, CastType, Class, EpochPlan, Expr, Extent, Function, Graph, ImageMode,
    Interpolation, Layout, Node, Op, Resample, Source, Stages, Unary, ops,
};

use super::samples::{Sample, SampleBlobs, samples};

/// The number of tested pipelines.
pub(crate) const GRAPHS: u64 = 10_000;
pub(crate) const ROWS: usize = 6;
/// Rows, columns of images that have one size.
pub(crate) const SIZED: [usize; 2] = [14, 17];

pub(crate) struct Draw(SampleRng);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SampleRng::new(0x0DE5, SampleId(seed)))
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0.up_to(n as u32 - 1) as usize
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A function whose result depends on all of its input, and on its random stream.
pub(crate) struct Hashed;

impl Hashed {
    fn rows(function: &Function, input: &Chunk, randomness: Option<Randomness>) -> Vec<i64> {
        let hash = |row: usize| {
            let mut hasher = DefaultHasher::new();
            function.name.hash(&mut hasher);
            for (field, column) in input.schema().fields().iter().zip(input.columns()) {
                format!("{} {:?}", field.name, column.slice(row, 1)).hash(&mut hasher);
            }
            if let Some(random) = randomness {
                (random.seed.0, random.random, input.ids()[row].sample.0).hash(&mut hasher);
                input.has_parts().then(|| input.random_id(row)).hash(&mut hasher);
            }
            (hasher.finish() % 1000) as i64
        };
        (0..input.num_rows()).map(hash).collect()
    }
}

/// Returns a WAV file of one channel at 8 kHz, of noise and a length that follow from a hash.
fn wav(hash: i64) -> Vec<u8> {
    let mut draw = Draw::new(hash as u64);
    let samples: Vec<u8> = (0..2 * (200 + hash as usize % 50)).map(|_| draw.below(256) as u8).collect();
    let size = |more: usize| ((samples.len() + more) as u32).to_le_bytes();
    let format = [16u32.to_le_bytes(), [1, 0, 1, 0], 8000u32.to_le_bytes(), 16_000u32.to_le_bytes(), [2, 0, 16, 0]];
    [b"RIFF", &size(36)[..], b"WAVEfmt ", &format.concat(), b"data", &size(0), &samples].concat()
}

/// Makes a column of hashes; or of WAV files, or of tensors that annotate an image of [`SIZED`], by their kind.
fn made(kind: &Kind, hashes: &[i64]) -> Result<ArrayRef> {
    if *kind == Kind::Bytes {
        return Ok(Arc::new(LargeBinaryArray::from_iter_values(hashes.iter().map(|&hash| wav(hash)))));
    }
    let Some(shape) = kind.known_shape().filter(|shape| !shape.is_empty()) else {
        return Ok(Arc::new(Int64Array::from(hashes.to_vec())));
    };
    let number = |hash: i64, at: usize| {
        let (item, corner) = ((at / 4) as i64 + hash, at % 4);
        let (left, top) = (item % 8, item / 7 % 6);
        [left, top, left + 1 + item / 3 % 8, top + 1 + item / 11 % 7][corner]
    };
    let len: usize = shape.iter().product();
    let numbers = hashes.iter().flat_map(|&hash| (0..len).map(move |at| number(hash, at)));
    let bytes: Vec<u8> = match kind.dtype() {
        Some(DType::Float32) => numbers.flat_map(|v| (v as f32).to_ne_bytes()).collect(),
        _ => numbers.map(|v| v as u8).collect(),
    };
    column_of(kind, bytes.into(), hashes.len())
}

impl Functions for Hashed {
    fn map(
        &self,
        function: &Function,
        _: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        let hashes = Self::rows(function, input, randomness);
        output.fields().iter().map(|field| made(&field.kind, &hashes)).collect()
    }

    fn filter(
        &self,
        function: &Function,
        _: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
    ) -> Result<BooleanArray> {
        Ok(Self::rows(function, input, randomness).into_iter().map(|hash| Some(hash % 4 != 0)).collect())
    }

    fn flat_map(
        &self,
        function: &Function,
        _: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        output: &Arc<Schema>,
        count: Option<u32>,
    ) -> Result<MadeRows> {
        let hashes = Self::rows(function, input, randomness);
        let counts: Vec<u32> = hashes.iter().map(|hash| count.unwrap_or((hash % 4) as u32)).collect();
        let made = hashes.iter().zip(&counts).flat_map(|(hash, &count)| (0..i64::from(count)).map(move |at| hash + at));
        let column: ArrayRef = Arc::new(made.collect::<Int64Array>());
        Ok(MadeRows { columns: vec![column; output.fields().len()], counts })
    }
}

pub(crate) fn fields() -> Vec<Field> {
    vec![
        Field::new("png", Kind::Bytes),
        Field::new("sized", Kind::fixed(DType::Uint8, &[SIZED[0], SIZED[1], 3])),
        Field::new("a", Kind::scalar(DType::Int64)),
        Field::new("b", Kind::scalar(DType::Int64)),
    ]
}

pub(crate) fn chunk(images: &[ArrayRef], rows: usize) -> Chunk {
    let numbers = |by: i64| -> ArrayRef { Arc::new((0..rows as i64).map(|i| i * by % 11).collect::<Int64Array>()) };
    let columns = [images, &[numbers(3), numbers(7)]].concat();
    let ids = (0..rows as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    Chunk::new(Arc::new(Schema::new(fields()).expect("a schema")), columns, ids).expect("a chunk")
}

pub(crate) fn encoded() -> [&'static [u8]; 3] {
    [
        include_bytes!("../../golden/image/rgb.png"),
        include_bytes!("../../golden/image/palette.png"),
        include_bytes!("../../golden/image/alpha.png"),
    ]
}

pub(crate) fn rows() -> Chunk {
    let png: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values((0..ROWS).map(|row| encoded()[row % 3])));
    let mut draw = Draw::new(u64::MAX);
    let pixels: Vec<u8> = (0..ROWS * SIZED[0] * SIZED[1] * 3).map(|_| draw.below(256) as u8).collect();
    let sized = column_of(&fields()[1].kind, pixels.into(), ROWS).expect("images");
    chunk(&[png, sized], ROWS)
}

pub(crate) fn col(name: &str) -> Box<Expr> {
    Box::new(Expr::Col { name: name.to_owned() })
}

pub(crate) fn function(draw: &mut Draw, columns: &[&str]) -> Function {
    let reads = match draw.below(8) {
        0 => None,
        _ => Some((0..1 + draw.below(2)).map(|_| draw.one(columns).to_owned()).collect::<BTreeSet<_>>()),
    };
    Function {
        blob: BlobId("f".to_owned()),
        code: String::new(),
        name: format!("f{}", draw.below(9)),
        batched: draw.below(6) == 0,
        with_rng: false,
        reads: reads.map(|reads| reads.into_iter().collect()),
        timeout_s: 1.0,
        is_op: false,
    }
}

fn expression(draw: &mut Draw, columns: &[&str]) -> Expr {
    let (op, value) = ([Binary::Add, Binary::Mul, Binary::Mod][draw.below(3)], 1 + draw.below(5) as i64);
    let left = Expr::Binary { op, left: col(draw.one(columns)), right: Box::new(Expr::Int { value }) };
    match draw.below(5) {
        0 => Expr::Binary { op: Binary::Sub, left: Box::new(left), right: col(draw.one(columns)) },
        2 => {
            let call = Call::Bucketize { bounds: vec![1.0, 2.5, 30.0], right: draw.coin() };
            Expr::Call { call, arg: Box::new(left) }
        }
        3 => {
            let text = Expr::Cast { arg: Box::new(left), dtype: CastType::String };
            let call = Call::Substring { start: Some(-2), stop: None };
            Expr::Unary { op: Unary::Len, arg: Box::new(Expr::Call { call, arg: Box::new(text) }) }
        }
        1 => Expr::HashMod { arg: Box::new(left), buckets: 17 },
        _ => left,
    }
}

pub(crate) fn table_op(draw: &mut Draw) -> Op {
    let columns = ["a", "b", "c", "d"];
    let name = |draw: &mut Draw| draw.one(&columns).to_owned();
    match draw.below(12) {
        0..3 => Op::WithColumn(ops::WithColumn { column: name(draw), value: expression(draw, &columns) }),
        3..6 => {
            let right = Box::new(Expr::Int { value: draw.below(5) as i64 });
            let left = Box::new(expression(draw, &columns));
            Op::FilterExpr(ops::FilterExpr { predicate: Expr::Binary { op: Binary::Ne, left, right } })
        }
        6..8 => {
            let function = Function { with_rng: draw.coin(), ..function(draw, &columns) };
            let function = Function { batched: function.batched && !function.with_rng, ..function };
            let output = vec![Field::new(name(draw), Kind::scalar(DType::Int64))];
            Op::Map(ops::Map { function, output, keep_others: draw.below(8) > 0 })
        }
        8 => Op::FilterFunction(ops::FilterFunction { function: function(draw, &columns) }),
        9 => Op::Cast(ops::Cast {
            columns: vec![(name(draw), [DType::Float32, DType::Int16, DType::Int64][draw.below(3)].into())],
        }),
        10 => match draw.below(3) {
            0 => Op::Rename(ops::Rename { columns: vec![(name(draw), name(draw))] }),
            1 => Op::Drop(ops::Drop { columns: vec![name(draw)] }),
            _ => Op::Select(ops::Select { columns: ["png", "sized", "b", "a"].map(str::to_owned).to_vec() }),
        },
        _ => [
            Op::SHUFFLE,
            Op::Cache(ops::Cache { freeze: true }),
            Op::CheckFinite(ops::CheckFinite { columns: vec![name(draw)] }),
            many_rows_op(draw),
        ][draw.below(4)]
        .clone(),
    }
}

/// An op that makes any number of rows of each row.
fn many_rows_op(draw: &mut Draw) -> Op {
    if draw.coin() {
        return Op::Explode(ops::Explode { columns: vec![draw.one(&["png", "sized"]).to_owned()] });
    }
    let function = Function { with_rng: draw.coin(), batched: false, ..function(draw, &["a", "b", "c", "d"]) };
    let output = ["a", "b"].map(|name| Field::new(name, Kind::scalar(DType::Int64))).to_vec();
    Op::FlatMap(ops::FlatMap { function, output, count: [None, None, Some(2)][draw.below(3)] })
}

pub(crate) fn image_op(draw: &mut Draw) -> Op {
    let column = draw.one(&["png", "sized"]).to_owned();
    let (side, factor) = (4 + draw.below(14), Some((0.4, 1.6)));
    let (scale, ratio, antialias, probability) = ((0.2, 0.9), (0.5, 2.0), draw.coin(), 0.5);
    let interpolation = [Resample::Bilinear, Resample::Nearest][draw.below(2)];
    match draw.below(16) {
        0 => Op::Resize(ops::Resize { column, height: side, width: side + 1, antialias, interpolation }),
        1 => Op::ResizeShorter(ops::ResizeShorter {
            column,
            size: side,
            max_size: None,
            antialias,
            interpolation: Resample::default(),
        }),
        2 | 3 => Op::CenterCrop(ops::CenterCrop { column, height: side + draw.below(3), width: side + draw.below(3) }),
        4 => {
            let (height, width) = (side, side);
            Op::RandomResizedCrop(ops::RandomResizedCrop {
                column,
                height,
                width,
                scale,
                ratio,
                antialias,
                interpolation,
            })
        }
        5 | 6 => {
            let direction = serde_json::from_value(draw.one(&["horizontal", "vertical"]).into()).expect("a direction");
            Op::RandomFlip(ops::RandomFlip { column, probability, direction })
        }
        7 | 8 => Op::ColorJitter(ops::ColorJitter {
            column,
            brightness: factor,
            contrast: factor.filter(|_| draw.coin()),
            saturation: factor,
            hue: Some((-0.4, 0.4)),
            probability: 0.8,
        }),
        9 if antialias => Op::RandomGrayscale(ops::RandomGrayscale { column, probability }),
        15 => augmentation(draw, column),
        9 => Op::RandomSolarize(ops::RandomSolarize { column, threshold: 100.0, probability }),
        10 => Op::GaussianBlur(ops::GaussianBlur { column, kernel_size: 3, sigma: (0.5, 1.5), probability }),
        11 => match draw.below(3) {
            0 => {
                let interpolation = Interpolation::Bilinear;
                Op::RandomRotation(ops::RandomRotation { column, degrees: (-40.0, 40.0), interpolation, fill: None })
            }
            1 => {
                let (num_ops, magnitude, num_magnitude_bins) = (2, 9, 31);
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
            _ => Op::RandomErasing(ops::RandomErasing { column, probability, scale, ratio, value: Some(vec![7.0]) }),
        },
        12 => {
            let (border, fill) =
                (Border { left: 9, top: 10, right: 9, bottom: 8 + draw.below(3) }, vec![draw.below(256) as u8]);
            Op::RandomCrop(ops::RandomCrop { column, height: side, width: side, border, fill })
        }
        13 => {
            let border = Border { left: draw.below(5), top: draw.below(5), right: 1, bottom: 0 };
            Op::Pad(ops::Pad { column, border, fill: vec![9, 0, 255] })
        }
        _ => {
            let layout = if draw.coin() { Layout::Chw } else { Layout::Hwc };
            Op::Normalize(ops::Normalize { column, mean: vec![0.4; 3], std: vec![0.2; 3], layout })
        }
    }
}

/// A random op on levels or places.
fn augmentation(draw: &mut Draw, column: String) -> Op {
    let (probability, interpolation, fill) = (0.6, Interpolation::Nearest, None);
    match draw.below(12) {
        10 => Op::AugMix(ops::AugMix {
            column,
            severity: 5,
            mixture_width: 2,
            chain_depth: None,
            alpha: 1.0,
            all_ops: true,
            interpolation,
            fill,
        }),
        0 => Op::RandomPosterize(ops::RandomPosterize { column, bits: 3, probability }),
        1 => Op::RandomInvert(ops::RandomInvert { column, probability }),
        2 => Op::RandomAutocontrast(ops::RandomAutocontrast { column, probability }),
        3 => Op::RandomEqualize(ops::RandomEqualize { column, probability }),
        4 => Op::RandomAdjustSharpness(ops::RandomAdjustSharpness { column, factor: 2.0, probability }),
        5 => Op::RandomChannelPermutation(ops::RandomChannelPermutation { column }),
        6 => Op::GaussianNoise(ops::GaussianNoise { column, mean: 0.0, sigma: (0.0, 0.3), probability }),
        7 => Op::RandomPerspective(ops::RandomPerspective {
            column,
            distortion_scale: 0.7,
            probability,
            interpolation: Interpolation::Bilinear,
            fill,
        }),
        8 => Op::RandomAffine(ops::RandomAffine {
            column,
            degrees: (-30.0, 30.0),
            translate: (0.2, 0.1),
            scale: Some((0.7, 1.4)),
            shear: None,
            interpolation,
            fill,
        }),
        9 => {
            let policy = AutoPolicy::Svhn;
            Op::AutoAugment(ops::AutoAugment { column, policy, interpolation, fill })
        }
        _ => Op::RandomZoomOut(ops::RandomZoomOut { column, side_range: (1.0, 2.0), fill: vec![7], probability }),
    }
}

/// A pipeline of a few ops, each of which was legal where it was added.
pub(crate) fn pipeline(draw: &mut Draw) -> Graph {
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: ROWS as u64, fields: fields() };
    let mut graph = Graph::new(source, None).expect("a source");
    let decode = Op::DecodeImage(ops::DecodeImage { column: "png".to_owned(), mode: ImageMode::Rgb, exif: false });
    let (ops, decoded) = (3 + draw.below(8), draw.below(5));
    for at in 0..ops {
        let op = match draw.coin() {
            _ if at == decoded => decode.clone(),
            true => image_op(draw),
            false => table_op(draw),
        };
        let node = Node { keep_position: draw.below(12) == 0, ..Node::new(op) };
        graph = graph.then(node).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
    }
    graph
}

/// Returns the variants of row ops that have a sample and need no batch: all of them, as the suite `check_op` makes sure.
pub(crate) fn row_ops() -> BTreeSet<&'static str> {
    let needs_batch = |sample: &Sample| sample.before.iter().any(|op| op.class() == Class::Group);
    let samples = samples();
    let row_ops = samples.iter().filter(|sample| is_row_op(&sample.op) && !needs_batch(sample));
    row_ops.map(|sample| sample.op.variant()).collect()
}

/// Whether an op runs inside splits, on rows.
pub(crate) fn is_row_op(op: &Op) -> bool {
    matches!(op.class(), Class::RowWise | Class::Filter | Class::Expand) && !op.is_cache_point()
}

/// A pipeline of samples of row ops with the ops that make their columns, and of other ops between them. Each op was
/// legal where it was added.
pub(crate) fn pipeline_of(draw: &mut Draw, samples: &[Sample]) -> Graph {
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: ROWS as u64, fields: fields() };
    let mut graph = Graph::new(source, None).expect("a source");
    for _ in 0..2 + draw.below(4) {
        let sample = &samples[draw.below(samples.len())];
        let added = match draw.below(6) {
            0 => vec![image_op(draw)],
            1 => vec![table_op(draw)],
            _ => sample.before.iter().chain([&sample.op]).cloned().collect(),
        };
        for op in added.into_iter().filter(is_row_op) {
            let node = Node { keep_position: draw.below(12) == 0, ..Node::new(op) };
            graph = graph.then(node).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
        }
    }
    graph
}

/// The environment of pipelines without files; `blobs` has their arrays.
pub(crate) fn environment(blobs: Arc<dyn forebay_io::Blobs>) -> Environment {
    let (functions, watch) = (Arc::new(Hashed), Arc::new(SystemClock::default()));
    Environment { blobs, functions, memory: Memory::default(), cache_context: None, watch }
}

/// A pipeline over given rows, `rows` of them if that is known.
pub(crate) fn executable(graph: &Graph, rows: Option<usize>) -> Result<Arc<Executable>> {
    let stages = Arc::new(Stages::new(graph)?);
    let extent =
        Extent { rows: rows.map(|rows| rows as u64), blocks: 1, bytes: 0, is_compressed: false, parts: Vec::new() };
    let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(5), 1, None)?);
    Executable::for_rows(stages, plan, &environment(Arc::new(SampleBlobs)))
}

pub(crate) fn run(graph: &Graph, rows: &Chunk) -> Result<Chunk> {
    // A source reads only the columns that the pipeline needs.
    let read = Stages::new(graph)?.source.schema()?;
    let names: Vec<_> = read.fields().iter().map(|field| field.name.clone()).collect();
    executable(graph, Some(rows.num_rows()))?.finish(rows.project(&names)?, 0)
}

/// Returns the order in which a pipeline runs, for the message of a failed test.
pub(crate) fn told(graph: &Graph) -> String {
    forebay_plan::explain(&Stages::new(graph).expect("stages"), None)
}
