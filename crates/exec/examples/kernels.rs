//! Runs one kernel a number of times, for counting its instructions: `kernels NAME ROUNDS` (see `bench/instructions.py`).
//! Without arguments it prints the names.

use std::hint::black_box;
use std::sync::Arc;

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Epoch, Error, Result, SampleId, Seed};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema};
use forebay_exec::image::{Chain, Decoder, Filter, Image, Input, Limits, Normalizer, Output, Resizer, Scratch, Step};
use forebay_exec::table::evaluate;
use forebay_plan::{Binary, Direction, Expr, ImageMode, Layout, Permutation, Unary};

/// Runs the kernel this many times.
type Kernel = fn(u64) -> Result<()>;

const KERNELS: [(&str, Kernel); 6] = [
    ("jpeg, whole", jpeg),
    ("jpeg to 224 x 224 float32, cropped", chain),
    ("resize 500 x 375 to 224 x 224", resize),
    ("normalise 224 x 224", normalise),
    ("log1p(x) * 2 + 1, 16,384 rows of 4", expression),
    ("shuffle, 65,536 places of 10^10", shuffle),
];
/// A picture of 500 by 418 pixels with the detail of a photograph, written by Pillow.
const PICTURE: &[u8] = include_bytes!("../../../bench/data/picture.jpg");
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const STD: [f32; 3] = [0.229, 0.224, 0.225];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = &arguments[..] else {
        KERNELS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let kernel = KERNELS.iter().find(|(known, _)| known == name);
    let (_, kernel) = kernel.ok_or_else(|| Error::invalid(format!("no kernel is called {name:?}")))?;
    kernel(rounds.parse().map_err(|e| Error::invalid(format!("{rounds}: {e}")))?)
}

fn jpeg(rounds: u64) -> Result<()> {
    let mut decoder = Decoder::default();
    (0..rounds).try_for_each(|_| {
        black_box(decoder.decode(PICTURE, ImageMode::Rgb, &Limits::default())?);
        Ok(())
    })
}

fn chain(rounds: u64) -> Result<()> {
    let (scale, ratio) = ((0.08, 1.0), (3.0 / 4.0, 4.0 / 3.0));
    let steps = vec![
        Step::RandomResizedCrop { height: 224, width: 224, scale, ratio, filter: Filter::Triangle, key_op: 0 },
        Step::Flip { direction: Direction::Horizontal, p: 0.5, key_op: 1 },
        Step::Normalize { mean: MEAN.to_vec(), std: STD.to_vec(), layout: Layout::Chw },
    ];
    let chain = Chain::new(Some(ImageMode::Rgb), steps)?;
    let mut scratch = Scratch::new(Limits::default());
    let mut slot = vec![0; 3 * 224 * 224 * 4];
    (0..rounds).try_for_each(|i| {
        let draws = |op| SampleRng::new(op_key(Seed(1), Epoch(0), op), SampleId(i));
        chain.run(Input::Encoded(PICTURE), draws, &mut scratch, &mut Output::Slot(&mut slot)).map(drop)
    })
}

fn resize(rounds: u64) -> Result<()> {
    let (mut resizer, mut small) = (Resizer::new(), vec![0; 224 * 224 * 3]);
    let pixels: Vec<u8> = (0..500 * 375 * 3).map(|i| (i * 7 % 251) as u8).collect();
    let image = Image::packed(&pixels, 500, 375, 3)?;
    (0..rounds).try_for_each(|_| resizer.resize(image, 224, 224, Filter::Triangle, black_box(&mut small)))
}

fn normalise(rounds: u64) -> Result<()> {
    let normalizer = Normalizer::new(&MEAN, &STD, Layout::Chw)?;
    let pixels: Vec<u8> = (0..224 * 224 * 3).map(|i| (i * 7 % 251) as u8).collect();
    let image = Image::packed(&pixels, 224, 224, 3)?;
    let mut slot = vec![0; pixels.len() * 4];
    (0..rounds).try_for_each(|i| normalizer.write(image, i % 2 == 0, black_box(&mut slot)))
}

fn expression(rounds: u64) -> Result<()> {
    const ROWS: usize = 16_384;
    let schema = Arc::new(Schema::new(vec![Field::new("x", Kind::fixed(DType::Float32, &[4]))])?);
    let mut x = FixedTensorBuilder::new(DType::Float32, &[4], ROWS);
    x.all().chunks_exact_mut(4).enumerate().for_each(|(i, b)| b.copy_from_slice(&(i as f32).to_le_bytes()));
    let ids: Arc<[RowId]> = (0..ROWS as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    let chunk = Chunk::new(schema, vec![x.finish()?], ids)?;
    let log = Expr::Unary { op: Unary::Log1p, arg: Box::new(Expr::Col { name: "x".to_owned() }) };
    let join = |op, left, value| Expr::Binary { op, left: Box::new(left), right: Box::new(Expr::Int { value }) };
    let expr = join(Binary::Add, join(Binary::Mul, log, 2), 1);
    (0..rounds).try_for_each(|_| evaluate(&expr, &chunk).map(|column| drop(black_box(column))))
}

fn shuffle(rounds: u64) -> Result<()> {
    for round in 0..rounds {
        let permutation = Permutation::new(10_000_000_000, round);
        let mut places: Vec<u64> = (0..65_536).collect();
        permutation.map(&mut places);
        black_box(places);
    }
    Ok(())
}
