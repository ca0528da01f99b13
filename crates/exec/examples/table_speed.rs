//! Measures `x * 2 + 1` over float32[4] in chunks of 16,384 rows, compared with one multiplication of the same memory,
//! which is the minimum for any evaluation.
//!
//! `cargo run --release -p forebay-exec --example table_speed`

#![expect(clippy::disallowed_methods, reason = "it measures")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema};
use forebay_exec::table::evaluate;
use forebay_plan::{Binary, Expr};

const ROWS: usize = 16_384;
const ROUNDS: usize = 2_000;

fn main() -> Result<()> {
    let schema = Arc::new(Schema::new(vec![Field::new("x", Kind::fixed(DType::Float32, &[4]))])?);
    let mut x = FixedTensorBuilder::new(DType::Float32, &[4], ROWS);
    x.all().chunks_exact_mut(4).enumerate().for_each(|(i, b)| b.copy_from_slice(&(i as f32).to_le_bytes()));
    let ids: Arc<[RowId]> = (0..ROWS as u64).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    let chunk = Chunk::new(schema, vec![x.finish()?], ids)?;

    let join = |op, left, value| Expr::Binary { op, left: Box::new(left), right: Box::new(Expr::Int { value }) };
    let expr = join(Binary::Add, join(Binary::Mul, Expr::Col { name: "x".to_owned() }, 2), 1);
    report(&format!("{expr}"), || evaluate(&expr, &chunk).map(|column| drop(black_box(column))))?;

    // A loop and not `copy_from_slice`: on some processors the placement of two buffers makes large copies up to 15
    // times slower, and a baseline must not depend on that.
    let (from, mut to, factor) = (vec![1f32; ROWS * 4], vec![0f32; ROWS * 4], black_box(2f32));
    report("one pass into memory that is there", || {
        to.iter_mut().zip(black_box(&from)).for_each(|(y, x)| *y = x * factor);
        black_box(&to);
        Ok(())
    })
}

/// Prints the median of many rounds.
fn report(name: &str, mut round: impl FnMut() -> Result<()>) -> Result<()> {
    let mut seconds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[ROUNDS / 2];
    let (rows, bytes) = (ROWS as f64 / median / 1e6, (ROWS * 16) as f64 / median / 1e9);
    println!("{name}: {rows:.0} M rows/s, {bytes:.1} GB/s read ({:.1} us a chunk)", median * 1e6);
    Ok(())
}
