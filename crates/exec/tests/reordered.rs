//! Pipelines whose ops run in another order, and in two places: the same bytes as in the order as written, for thousands of random
//! pipelines over real images and numbers, in every legal order, not only in the cheapest, and wherever they may be cut.

mod common;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Int64Array, LargeBinaryArray};
use bytes::Bytes;
use common::Empty;
use forebay_core::rng::SampleRng;
use forebay_core::{ConsumerIndex, Epoch, Ordinal, Result, SampleId, Seed, SystemClock};
use forebay_data::{Chunk, DType, Field, Kind, Memory, RowId, Schema, column_of, tensor_values, write_ipc};
use forebay_exec::{Asked, Environment, Executable, Functions, Known, Pickle, Randomness, Scratch, compare};
use forebay_plan::{
    Binary, BlobId, Chosen, EpochPlan, Expr, Extent, Function, Graph, ImageMode, Interpolation, Layout, Node, Op,
    Reorder, RunOrder, Source, Stages,
};

/// Pipelines that are tried.
const GRAPHS: u64 = 10_000;
const ROWS: usize = 6;
/// Rows, columns of images that have one size.
const SIZED: [usize; 2] = [14, 17];

struct Draw(SampleRng);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(SampleRng::new(0x0DE5, SampleId(seed)))
    }

    fn below(&mut self, n: usize) -> usize {
        self.0.up_to(n as u32 - 1) as usize
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A function whose result depends on all that it is given, and on its random stream.
struct Hashed;

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
            }
            (hasher.finish() % 1000) as i64
        };
        (0..input.num_rows()).map(hash).collect()
    }
}

impl Functions for Hashed {
    fn map(
        &self,
        function: &Function,
        _: &Pickle,
        input: &Chunk,
        randomness: Option<Randomness>,
        _: &Arc<Schema>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(Self::rows(function, input, randomness)))])
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
}

fn fields() -> Vec<Field> {
    vec![
        Field::new("png", Kind::Bytes),
        Field::new("sized", Kind::fixed(DType::Uint8, &[SIZED[0], SIZED[1], 3])),
        Field::new("a", Kind::scalar(DType::Int64)),
        Field::new("b", Kind::scalar(DType::Int64)),
    ]
}

fn chunk(images: &[ArrayRef], rows: usize) -> Chunk {
    let numbers = |by: i64| -> ArrayRef { Arc::new((0..rows as i64).map(|i| i * by % 11).collect::<Int64Array>()) };
    let columns = [images, &[numbers(3), numbers(7)]].concat();
    let ids = (0..rows as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    Chunk::new(Arc::new(Schema::new(fields()).expect("a schema")), columns, ids).expect("a chunk")
}

fn encoded() -> [&'static [u8]; 3] {
    [
        include_bytes!("golden/image/rgb.png"),
        include_bytes!("golden/image/palette.png"),
        include_bytes!("golden/image/alpha.png"),
    ]
}

fn rows() -> Chunk {
    let png: ArrayRef = Arc::new(LargeBinaryArray::from_iter_values((0..ROWS).map(|row| encoded()[row % 3])));
    let mut draw = Draw::new(u64::MAX);
    let pixels: Vec<u8> = (0..ROWS * SIZED[0] * SIZED[1] * 3).map(|_| draw.below(256) as u8).collect();
    let sized = column_of(&fields()[1].kind, pixels.into(), ROWS).expect("images");
    chunk(&[png, sized], ROWS)
}

fn col(name: &str) -> Box<Expr> {
    Box::new(Expr::Col { name: name.to_owned() })
}

fn function(draw: &mut Draw, columns: &[&str]) -> Function {
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
    }
}

fn expression(draw: &mut Draw, columns: &[&str]) -> Expr {
    let (op, value) = ([Binary::Add, Binary::Mul, Binary::Mod][draw.below(3)], 1 + draw.below(5) as i64);
    let left = Expr::Binary { op, left: col(draw.one(columns)), right: Box::new(Expr::Int { value }) };
    match draw.below(3) {
        0 => Expr::Binary { op: Binary::Sub, left: Box::new(left), right: col(draw.one(columns)) },
        1 => Expr::HashMod { arg: Box::new(left), buckets: 17 },
        _ => left,
    }
}

fn table_op(draw: &mut Draw) -> Op {
    let columns = ["a", "b", "c", "d"];
    let name = |draw: &mut Draw| draw.one(&columns).to_owned();
    match draw.below(12) {
        0..3 => Op::WithColumn { column: name(draw), value: expression(draw, &columns) },
        3..6 => {
            let right = Box::new(Expr::Int { value: draw.below(5) as i64 });
            let left = Box::new(expression(draw, &columns));
            Op::FilterExpr { predicate: Expr::Binary { op: Binary::Ne, left, right } }
        }
        6..8 => {
            let function = Function { with_rng: draw.coin(), ..function(draw, &columns) };
            let function = Function { batched: function.batched && !function.with_rng, ..function };
            let output = vec![Field::new(name(draw), Kind::scalar(DType::Int64))];
            Op::Map { function, output, keep_others: draw.below(8) > 0 }
        }
        8 => Op::FilterFunction { function: function(draw, &columns) },
        9 => Op::Cast { columns: vec![(name(draw), [DType::Float32, DType::Int16, DType::Int64][draw.below(3)])] },
        10 => match draw.below(3) {
            0 => Op::Rename { columns: vec![(name(draw), name(draw))] },
            1 => Op::Drop { columns: vec![name(draw)] },
            _ => Op::Select { columns: ["png", "sized", "b", "a"].map(str::to_owned).to_vec() },
        },
        _ => [Op::Shuffle {}, Op::Cache { freeze: true }, Op::CheckFinite { columns: vec![name(draw)] }][draw.below(3)]
            .clone(),
    }
}

fn image_op(draw: &mut Draw) -> Op {
    let column = draw.one(&["png", "sized"]).to_owned();
    let (side, factor) = (4 + draw.below(14), Some((0.4, 1.6)));
    let (scale, ratio, antialias, probability) = ((0.2, 0.9), (0.5, 2.0), draw.coin(), 0.5);
    match draw.below(13) {
        0 => Op::Resize { column, height: side, width: side + 1, antialias },
        1 => Op::ResizeShorter { column, size: side, max_size: None, antialias },
        2 | 3 => Op::CenterCrop { column, height: side + draw.below(3), width: side + draw.below(3) },
        4 => Op::RandomResizedCrop { column, height: side, width: side, scale, ratio, antialias },
        5 | 6 => {
            let direction = serde_json::from_value(draw.one(&["horizontal", "vertical"]).into()).expect("a direction");
            Op::RandomFlip { column, probability, direction }
        }
        7 | 8 => Op::ColorJitter {
            column,
            brightness: factor,
            contrast: factor.filter(|_| draw.coin()),
            saturation: factor,
            hue: Some((-0.4, 0.4)),
            probability: 0.8,
        },
        9 => Op::RandomGrayscale { column, probability },
        10 => Op::GaussianBlur { column, kernel_size: 3, sigma: (0.5, 1.5), probability },
        11 => match draw.below(3) {
            0 => {
                let interpolation = Interpolation::Bilinear;
                Op::RandomRotation { column, degrees: (-40.0, 40.0), interpolation, fill: None }
            }
            1 => {
                let (num_ops, magnitude, num_magnitude_bins) = (2, 9, 31);
                let interpolation = Interpolation::Nearest;
                Op::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill: None }
            }
            _ => Op::RandomErasing { column, probability, scale, ratio, value: Some(vec![7.0]) },
        },
        _ => {
            let layout = if draw.coin() { Layout::Chw } else { Layout::Hwc };
            Op::Normalize { column, mean: vec![0.4; 3], std: vec![0.2; 3], layout }
        }
    }
}

/// A pipeline of a few ops, each of which was legal where it was added.
fn pipeline(draw: &mut Draw) -> Graph {
    let source = Source::Memory { blob: BlobId("x".to_owned()), rows: ROWS as u64, fields: fields() };
    let mut graph = Graph::new(source, None).expect("a source");
    let decode = Op::DecodeImage { column: "png".to_owned(), mode: ImageMode::Rgb };
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

fn run(graph: &Graph, rows: &Chunk) -> Result<Chunk> {
    let stages = Arc::new(Stages::new(graph)?);
    let extent = Extent { rows: Some(rows.num_rows() as u64), blocks: 1, bytes: 0 };
    let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(5), 1, None)?);
    let environment = Environment {
        blobs: Arc::new(Empty),
        functions: Arc::new(Hashed),
        memory: Memory::default(),
        keeping: None,
        watch: Arc::new(SystemClock::default()),
    };
    Executable::for_rows(stages, plan, &environment)?.finish(rows.clone(), 0)
}

/// An order that is reached by changes of neighbours, each of them legal in a mode.
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
    // That most rules were put to the test.
    assert!(cheaper > GRAPHS / 8 && other > GRAPHS / 3, "{cheaper} and {other} moved");
    assert!(pairs.len() > 100, "{} pairs: {pairs:?}", pairs.len());
    let seen = |a, b| pairs.contains(&(a, b)) || pairs.contains(&(b, a));
    assert!(seen("center_crop", "color_jitter") && seen("center_crop", "random_grayscale"));
    assert!(seen("random_flip", "center_crop") && seen("random_flip", "color_jitter"));
    assert!(seen("filter", "decode_image") && seen("filter", "map") && seen("map", "normalize"));
}

#[test]
fn a_relaxed_order_changes_no_bit_of_a_column_that_it_does_not_touch() {
    let rows = rows();
    let (mut changed, mut left, mut passed_on) = (0_u64, 0_u64, 0_u64);
    for seed in 0..GRAPHS / 4 {
        let mut draw = Draw::new(seed);
        let reads = Some([draw.one(&["png", "sized"]).to_owned()].to_vec());
        let function = Function { reads, batched: false, with_rng: false, ..function(&mut draw, &["a"]) };
        let output = vec![Field::new("made", Kind::scalar(DType::Int64))];
        let made = Node::new(Op::Map { function, output, keep_others: true });
        let graph = pipeline(&mut draw);
        let graph = graph.then(made).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
        let legal = legal_order(&mut draw, &graph, Reorder::Relaxed);
        let touched = Stages::new(&legal).expect("stages").touched().expect("columns");
        let exact = RunOrder::of(&legal).expect("an order").is_exact();
        assert!(!exact || touched.is_empty(), "{seed}: {touched:?}\n{}", told(&legal));
        let Ok(want) = run(&graph.clone().with_reorder(Reorder::Off), &rows) else { continue };
        // Whoever looks at other pixels may fail on them, or keep other rows.
        let Some(got) = run(&legal, &rows).ok().filter(|got| got.ids() == want.ids()) else {
            assert!(!exact, "{seed}\n{}", told(&legal));
            continue;
        };
        for ((field, a), b) in want.schema().fields().iter().zip(want.columns()).zip(got.columns()) {
            let same = a.to_data() == b.to_data();
            assert!(same || touched.contains(&field.name), "{seed}: {}\n{}", field.name, told(&legal));
            changed += u64::from(!same);
            left += u64::from(!exact && !touched.contains(&field.name));
            passed_on += u64::from(!same && field.kind.row_bytes() == Some(8));
        }
    }
    assert!(
        changed > 100 && left > 100 && passed_on > 10,
        "{changed} changed, {left} did not, {passed_on} were made of them"
    );
}

#[test]
fn an_order_that_changes_what_it_does_not_touch_is_not_taken() {
    let rows = rows();
    let executable = |graph: &Graph| {
        let stages = Arc::new(Stages::new(graph).expect("stages"));
        let extent = Extent { rows: None, blocks: 1, bytes: 0 };
        let plan = Arc::new(EpochPlan::new(&stages, extent, Seed(5), 1, None).expect("a plan"));
        let environment = Environment {
            blobs: Arc::new(Empty),
            functions: Arc::new(Hashed),
            memory: Memory::default(),
            keeping: None,
            watch: Arc::new(SystemClock::default()),
        };
        Executable::for_rows(stages, plan, &environment).expect("runs")
    };
    let with = |by: i64, mode| {
        let source = Source::Memory { blob: BlobId("x".to_owned()), rows: ROWS as u64, fields: fields() };
        let column = || "sized".to_owned();
        let flip = Op::RandomFlip { column: column(), probability: 0.5, direction: Default::default() };
        let smaller = Op::Resize { column: column(), height: 7, width: 7, antialias: true };
        let value = Expr::Binary { op: Binary::Add, left: col("a"), right: Box::new(Expr::Int { value: by }) };
        let ops = [Op::WithColumn { column: "a".to_owned(), value }, flip, smaller];
        let graph = Graph::new(source, None).expect("a source");
        ops.into_iter().try_fold(graph, |graph, op| graph.then(Node::new(op))).expect("legal").with_reorder(mode)
    };
    let tried = |by| {
        let (written, other) = (with(0, Reorder::Off), with(by, Reorder::Relaxed));
        compare(&executable(&written), &executable(&other), Reorder::Relaxed, &rows, &|| Duration::ZERO).expect("runs")
    };
    assert!(tried(0).is_some() && tried(1).is_none(), "labels that are one off are a mistake");
}

/// The rows, for a source that is arrays; other blobs are pickles, and empty.
struct Arrays(Bytes);

impl forebay_io::Blobs for Arrays {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        Ok(if id.0 == "x" { self.0.clone() } else { Bytes::new() })
    }
}

/// An op that may run at a reader, if it is legal there.
fn light_op(draw: &mut Draw) -> Op {
    let (name, other) = (draw.one(&["a", "b", "c", "sized"]).to_owned(), draw.one(&["a", "b", "z"]).to_owned());
    match draw.below(7) {
        0..3 => {
            let (column, layout) = (draw.one(&["png", "sized"]).to_owned(), [Layout::Chw, Layout::Hwc][draw.below(2)]);
            Op::Normalize { column, mean: vec![0.4; 3], std: vec![0.2; 3], layout }
        }
        3 | 4 => Op::Cast { columns: vec![(name, [DType::Float32, DType::Int16, DType::Float64][draw.below(3)])] },
        5 => Op::Rename { columns: vec![(name, other)] },
        _ => Op::Drop { columns: vec![name] },
    }
}

#[test]
fn wherever_a_pipeline_is_cut_its_reader_makes_the_same_bytes() {
    let mut blob = Vec::new();
    write_ipc(&[rows()], false, &mut blob).expect("arrays");
    let environment = Environment {
        blobs: Arc::new(Arrays(blob.into())),
        functions: Arc::new(Hashed),
        memory: Memory::default(),
        keeping: None,
        watch: Arc::new(SystemClock::default()),
    };
    let (mut cut, mut smaller) = (0_u64, 0_u64);
    for seed in 0..GRAPHS / 4 {
        let mut draw = Draw::new(seed);
        let mut graph = pipeline(&mut draw);
        for _ in 0..1 + draw.below(4) {
            let node = Node::new(light_op(&mut draw));
            graph = graph.then(node).ok().filter(|graph| Stages::new(graph).is_ok()).unwrap_or(graph);
        }
        let stages = Arc::new(Stages::new(&graph).expect("legal"));
        let index = forebay_io::index(graph.source(), stages.counted, None, None, 1, &|_, _| Ok(())).expect("an index");
        let plan = Arc::new(EpochPlan::new(&stages, index.extent(), Seed(5), 1, None).expect("a plan"));
        let (index, here) = (Some(index), ConsumerIndex(0));
        let whole = Executable::new(stages.clone(), plan.clone(), index.clone(), &environment).expect("opens");
        let worker = Executable::for_worker(stages.clone(), plan.clone(), index, &environment).expect("opens");
        let reader = Executable::for_reader(stages, plan.clone(), &environment).expect("a reader");
        let stops: Vec<_> = worker.stops().map(|(ops, schema)| (ops, schema.clone())).collect();
        assert!(reader.stops().map(|(ops, _)| ops).eq(stops.iter().map(|(ops, _)| *ops)), "they agree on the places");
        cut += u64::from(stops.len() > 1);
        for morsel in plan.morsels(here, Ordinal(0)) {
            let compute = |executable: &Executable, ops: u32| {
                let (mut chunks, known) = (Vec::new(), Known::default());
                let asked = Asked { epoch: Epoch(1), consumer: here, morsel, known: &known, ops };
                executable.morsel(&asked, &mut Scratch::default(), &mut |chunk| {
                    chunks.push(chunk);
                    Ok(())
                })?;
                Ok::<_, forebay_core::Error>(chunks.remove(0))
            };
            let Ok(want) = compute(&whole, whole.stop(None)) else { continue };
            for (ops, schema) in &stops {
                let sent = compute(&worker, *ops).expect("what runs as a whole runs in two");
                assert_eq!(sent.schema(), schema, "{seed}\n{}", told(&graph));
                smaller += u64::from(sent.num_bytes() < want.num_bytes());
                let got = reader.finish(sent, *ops).expect("the rest");
                assert!(got.ids() == want.ids() && got.same_bits(&want), "{seed}: {ops}\n{}", told(&graph));
            }
            assert!(reader.finish(want, u32::MAX).is_err(), "nobody cuts there");
        }
    }
    assert!(cut > GRAPHS / 8 && smaller > GRAPHS / 20, "{cut} could be cut, and {smaller} were smaller");
}

fn told(graph: &Graph) -> String {
    forebay_plan::explain(&Stages::new(graph).expect("stages"), None)
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
    let jitter = Op::ColorJitter {
        column: column(),
        brightness: factor,
        contrast: factor,
        saturation: factor,
        hue: Some((-0.1, 0.1)),
        probability: 0.8,
    };
    let grey = Op::RandomGrayscale { column: column(), probability: 0.2 };
    let flip = Op::RandomFlip { column: column(), probability: 0.5, direction: Default::default() };
    let normalize = Op::Normalize { column: column(), mean: vec![0.5; 3], std: vec![0.25; 3], layout: Layout::Chw };
    let resize = Op::Resize { column: column(), height: 20, width: 22, antialias: true };
    let crop = Op::CenterCrop { column: column(), height: 23, width: 25 };
    let (scale, ratio, antialias) = ((0.3, 1.0), (0.75, 1.5), true);
    let part = Op::RandomResizedCrop { column: column(), height: 16, width: 16, scale, ratio, antialias };
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
        // A level is 0.016 here, and the deviation of a mean over the images less than a level.
        assert!((mean - other_mean).abs() < 0.03, "{mean} and {other_mean}\n{}", told(&relaxed));
        assert!((deviation - other_deviation).abs() < 0.03, "{deviation} and {other_deviation}\n{}", told(&relaxed));
    }
}

/// A picture of its own: a slope of colours and a bright box.
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

/// Mean and standard deviation of all pixels.
fn moments(chunk: &Chunk) -> (f64, f64) {
    let kind = &chunk.schema().fields()[0].kind;
    let values = tensor_values(kind, &chunk.columns()[0]).expect("numbers");
    let values = Float32Array::new(values.into(), None);
    let n = values.len() as f64;
    let mean = values.values().iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let square = values.values().iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n;
    (mean, square.sqrt())
}
