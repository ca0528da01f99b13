//! Tests of whole expressions; the comparison with NumPy itself is in the Python tests.

use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float32Type, Int8Type, Int64Type, UInt8Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Int8Array, Int64Array, LargeStringArray, PrimitiveArray, UInt8Array};
use arrow_array::{BooleanArray, LargeBinaryArray, UInt64Array};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use forebay_core::{Epoch, SampleId, Seed, rng};
use forebay_data::{
    Chunk, DType, Field, FixedTensorBuilder, Kind, RowId, Schema, VariableTensorBuilder, tensor_values,
};
use forebay_plan::{Binary, Expr, Op, Unary, ops};

use crate::table::{apply, evaluate, filter};

fn chunk(columns: Vec<(&str, Kind, ArrayRef)>) -> Chunk {
    let rows = columns[0].2.len() as u64;
    let fields = columns.iter().map(|(n, k, c)| Field { nullable: c.null_count() > 0, ..Field::new(*n, k.clone()) });
    let schema = Arc::new(Schema::new(fields.collect()).expect("names differ"));
    let ids = (0..rows).map(|i| RowId { sample: SampleId(i), epoch: Epoch(0) }).collect();
    Chunk::new(schema, columns.into_iter().map(|(_, _, c)| c).collect(), ids).expect("valid")
}

fn scalars<T: ArrowPrimitiveType>(name: &str, values: Vec<Option<T::Native>>) -> (&str, Kind, ArrayRef) {
    let dtype = DType::from_arrow(&T::DATA_TYPE).expect("a dtype");
    (name, Kind::scalar(dtype), Arc::new(values.into_iter().collect::<PrimitiveArray<T>>()))
}

fn bools(name: &str, values: Vec<Option<bool>>) -> (&str, Kind, ArrayRef) {
    let bytes: Int8Array = values.into_iter().map(|v| v.map(i8::from)).collect();
    (name, Kind::scalar(DType::Bool), Arc::new(bytes))
}

fn tensors<T: ArrowNativeType>(dtype: DType, shape: &[usize], rows: usize, values: Vec<T>) -> ArrayRef {
    let mut builder = FixedTensorBuilder::new(dtype, shape, rows);
    builder.all().copy_from_slice(ScalarBuffer::from(values).inner());
    builder.finish().expect("valid")
}

fn col(name: &str) -> Box<Expr> {
    Box::new(Expr::Col { name: name.to_owned() })
}

fn int(value: i64) -> Box<Expr> {
    Box::new(Expr::Int { value })
}

fn join(op: Binary, left: Box<Expr>, right: Box<Expr>) -> Box<Expr> {
    Box::new(Expr::Binary { op, left, right })
}

fn unary(op: Unary, arg: Box<Expr>) -> Box<Expr> {
    Box::new(Expr::Unary { op, arg })
}

fn ints(expr: &Expr, chunk: &Chunk) -> Vec<Option<i64>> {
    let column = evaluate(expr, chunk).expect("valid");
    assert_eq!(column.data_type(), &expr.kind(chunk.schema()).expect("valid").column().arrow());
    let wide = Expr::Cast { arg: Box::new(expr.clone()), dtype: DType::Int64.into() };
    let wide = evaluate(&wide, chunk).expect("valid");
    wide.as_any().downcast_ref::<Int64Array>().expect("int64").iter().collect()
}

fn numbers<T: ArrowNativeType>(expr: &Expr, chunk: &Chunk) -> Vec<T> {
    let kind = expr.kind(chunk.schema()).expect("valid").column();
    let column = evaluate(expr, chunk).expect("valid");
    assert_eq!(column.data_type(), &kind.arrow());
    tensor_values(&kind, &column).expect("numbers").typed_data::<T>().to_vec()
}

#[test]
fn integers_wrap_and_divide_by_zero_to_zero() {
    let c = chunk(vec![
        scalars::<Int8Type>("a", [127, -128, -7, 5].map(Some).to_vec()),
        scalars::<Int8Type>("b", [1, -1, 2, 0].map(Some).to_vec()),
    ]);
    let of = |op| ints(&join(op, col("a"), col("b")), &c).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(of(Binary::Add), [-128, 127, -5, 5]);
    assert_eq!(of(Binary::Mul), [127, -128, -14, 0]);
    assert_eq!(of(Binary::FloorDiv), [127, -128, -4, 0]);
    assert_eq!(of(Binary::Mod), [0, 0, 1, 0]);
    assert_eq!(ints(&unary(Unary::Abs, col("a")), &c), [127, -128, 7, 5].map(Some));
    assert_eq!(ints(&join(Binary::Pow, col("a"), int(2)), &c), [1, 0, 49, 25].map(Some));
}

#[test]
fn missing_rows_stay_missing_and_never_fail() {
    let c = chunk(vec![
        scalars::<Int64Type>("a", vec![Some(1), None, Some(3)]),
        scalars::<Int64Type>("b", vec![Some(2), Some(-5), None]),
    ]);
    assert_eq!(ints(&join(Binary::Add, col("a"), col("b")), &c), [Some(3), None, None]);
    assert_eq!(ints(&join(Binary::Lt, col("a"), int(2)), &c), [Some(1), None, Some(0)]);
    assert_eq!(ints(&unary(Unary::IsNull, col("a")), &c), [0, 1, 0].map(Some));
    // The one negative exponent is in a missing row.
    assert_eq!(ints(&join(Binary::Pow, col("a"), col("b")), &c), [Some(1), None, None]);
    assert!(evaluate(&join(Binary::Pow, int(2), col("b")), &c).is_err());
    let chosen = Expr::Where { cond: join(Binary::Lt, col("a"), int(2)), yes: int(7), no: col("b") };
    assert_eq!(ints(&chosen, &c), [Some(7), Some(-5), None]);
    assert_eq!(filter(&join(Binary::Gt, col("a"), int(0)), &c).expect("valid").num_rows(), 2);
}

#[test]
fn and_and_or_are_kleenes() {
    let three = [Some(false), Some(true), None];
    let pairs: Vec<_> = three.iter().flat_map(|a| three.map(|b| (*a, b))).collect();
    let (a, b) = pairs.iter().copied().unzip();
    let c = chunk(vec![bools("a", a), bools("b", b)]);
    let want = |op, decides: bool| {
        let of = |(a, b): &(Option<bool>, Option<bool>)| match (a, b) {
            (Some(x), _) | (_, Some(x)) if *x == decides => Some(i64::from(decides)),
            (Some(_), Some(x)) if *x == decides => Some(i64::from(decides)),
            (Some(_), Some(_)) => Some(i64::from(!decides)),
            _ => None,
        };
        assert_eq!(ints(&join(op, col("a"), col("b")), &c), pairs.iter().map(of).collect::<Vec<_>>());
    };
    want(Binary::And, false);
    want(Binary::Or, true);
    let literal = join(Binary::And, col("a"), Box::new(Expr::Bool { value: false }));
    assert_eq!(ints(&literal, &c), vec![Some(0); 9]);
}

#[test]
fn integers_compare_by_value() {
    let c = chunk(vec![
        scalars::<UInt64Type>("u", vec![Some(u64::MAX), Some(1 << 53), Some(3)]),
        scalars::<Int64Type>("i", vec![Some(-1), Some((1 << 53) + 1), Some(3)]),
        scalars::<UInt8Type>("b", vec![Some(0), Some(255), None]),
    ]);
    assert_eq!(ints(&join(Binary::Gt, col("u"), col("i")), &c), [1, 0, 0].map(Some));
    assert_eq!(ints(&join(Binary::Lt, col("i"), col("u")), &c), [1, 0, 0].map(Some));
    assert_eq!(ints(&join(Binary::Eq, col("u"), col("i")), &c), [0, 0, 1].map(Some));
    assert_eq!(ints(&join(Binary::Lt, col("b"), int(256)), &c), [Some(1), Some(1), None]);
    assert_eq!(ints(&join(Binary::Lt, int(-1), col("b")), &c), [Some(1), Some(1), None]);
    assert_eq!(ints(&join(Binary::Eq, col("b"), int(-1)), &c), [Some(0), Some(0), None]);
}

#[test]
fn scalars_broadcast_over_the_numbers_of_their_row() {
    let t = tensors(DType::Float32, &[2], 3, vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let kind = Kind::fixed(DType::Float32, &[2]);
    let c = chunk(vec![("t", kind, t), scalars::<Float32Type>("s", vec![Some(10.0), Some(20.0), Some(30.0)])]);
    let sum = join(Binary::Add, col("s"), col("t"));
    assert_eq!(numbers::<f32>(&sum, &c), [11.0, 12.0, 23.0, 24.0, 35.0, 36.0]);
    assert_eq!(numbers::<f32>(&sum, &c.slice(1, 2)), [23.0, 24.0, 35.0, 36.0]);
    let chosen = Expr::Where { cond: join(Binary::Gt, col("t"), int(3)), yes: col("s"), no: int(0) };
    assert_eq!(numbers::<f32>(&chosen, &c), [0.0, 0.0, 0.0, 20.0, 30.0, 30.0]);
    assert_eq!(numbers::<f32>(&sum, &c.slice(0, 0)), [0f32; 0]);
}

#[test]
fn variable_tensors_keep_their_shapes() {
    let mut builder = VariableTensorBuilder::new(DType::Uint8, 2);
    builder.push(&[1, 2], &[1, 2]).expect("fits");
    builder.push(&[3, 1], &[3, 4, 5]).expect("fits");
    let kind = Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None] };
    let scale = scalars::<UInt8Type>("s", vec![Some(10), Some(100)]);
    let c = chunk(vec![("v", kind.clone(), builder.finish().expect("valid")), scale]);
    let sum = join(Binary::Add, col("v"), col("s"));
    assert_eq!(numbers::<u8>(&sum, &c), [11, 12, 103, 104, 105]);
    let last = c.slice(1, 1);
    assert_eq!(numbers::<u8>(&sum, &last), [103, 104, 105]);
    let column = evaluate(&sum, &last).expect("valid");
    assert_eq!(forebay_data::tensor_shape_of_row(&kind, &column, 0).expect("tensor"), [3, 1]);
    let chosen = Expr::Where { cond: join(Binary::Gt, col("s"), int(50)), yes: sum, no: col("v") };
    assert_eq!(numbers::<u8>(&chosen, &c), [1, 2, 103, 104, 105]);
}

#[test]
fn texts_compare_have_lengths_and_become_numbers() {
    let words: ArrayRef = Arc::new(LargeStringArray::from(vec![Some("12"), None, Some(" -3 "), Some("äö")]));
    let raw: ArrayRef = Arc::new(LargeBinaryArray::from_vec(vec![b"a", b"", b"bc", b"\xff"]));
    let c = chunk(vec![("w", Kind::Utf8, words), ("r", Kind::Bytes, raw)]);
    let word = |value: &str| Box::new(Expr::Str { value: value.to_owned() });
    assert_eq!(ints(&join(Binary::Eq, col("w"), word("12")), &c), [Some(1), None, Some(0), Some(0)]);
    assert_eq!(ints(&join(Binary::Lt, word("1"), col("w")), &c), [Some(1), None, Some(0), Some(1)]);
    assert_eq!(ints(&unary(Unary::Len, col("w")), &c), [Some(2), None, Some(4), Some(2)]);
    assert_eq!(ints(&unary(Unary::Len, col("r")), &c), [1, 0, 2, 1].map(Some));
    let cast = Expr::Cast { arg: col("w"), dtype: DType::Int8.into() };
    assert_eq!(ints(&cast, &c.slice(0, 3)), [Some(12), None, Some(-3)]);
    let e = evaluate(&cast, &c).expect_err("no number");
    assert_eq!(e.message(), "cannot read \"äö\" as int8");
    let chosen = Expr::Where { cond: join(Binary::Eq, col("w"), word("12")), yes: word("yes"), no: col("w") };
    let column = evaluate(&chosen, &c).expect("valid");
    let got: Vec<_> = column.as_any().downcast_ref::<LargeStringArray>().expect("strings").iter().collect();
    assert_eq!(got, [Some("yes"), None, Some(" -3 "), Some("äö")]);
}

#[test]
fn literals_fill_columns_only_at_the_end() {
    let c = chunk(vec![scalars::<Float32Type>("x", vec![Some(1.0), Some(2.0)])]);
    assert_eq!(numbers::<i64>(&join(Binary::Add, int(1), int(2)), &c), [3, 3]);
    let half = join(Binary::TrueDiv, int(1), int(2));
    assert_eq!(numbers::<f64>(&half, &c), [0.5, 0.5]);
    assert_eq!(numbers::<f32>(&join(Binary::Mul, col("x"), half), &c), [0.5, 1.0]);
    let clip = Expr::Clip { arg: col("x"), low: None, high: Some(1.5) };
    assert_eq!(numbers::<f32>(&clip, &c), [1.0, 1.5]);
    assert_eq!(numbers::<i64>(&Expr::Clip { arg: int(5), low: None, high: Some(3.0) }, &c), [3, 3]);
    assert_eq!(ints(&unary(Unary::IsNull, int(1)), &c), [0, 0].map(Some));
    let one = Box::new(Expr::Cast { arg: int(1), dtype: DType::Float16.into() });
    assert_eq!(numbers::<u16>(&unary(Unary::Log, one.clone()), &c), [0, 0]);
    assert_eq!(numbers::<f32>(&join(Binary::Sub, col("x"), one), &c), [0.0, 1.0]);
    let same = join(Binary::Eq, Box::new(Expr::Str { value: "a".into() }), Box::new(Expr::Str { value: "a".into() }));
    assert_eq!(ints(&same, &c), [1, 1].map(Some));
}

/// T-2: cutting a chunk anywhere changes nothing, for random expressions over random numbers.
#[test]
fn rows_do_not_depend_on_their_neighbours() {
    let mut draw = rng::SampleRng::new(rng::op_key(Seed(1), Epoch(0), 0), SampleId(0));
    let mut below = move |n: u64| u64::from(draw.next_u32()) % n;
    let a: UInt8Array = (0..64).map(|_| (below(5) > 0).then(|| below(256) as u8)).collect();
    let b: Float32Array = (0..64).map(|_| (below(5) > 0).then(|| below(100) as f32 - 50.0)).collect();
    let u: UInt64Array = (0..64).map(|_| Some(below(1 << 32))).collect();
    let t = tensors(DType::Int8, &[3], 64, (0..192).map(|_| below(256) as u8 as i8).collect());
    let c = chunk(vec![
        ("a", Kind::scalar(DType::Uint8), Arc::new(a) as ArrayRef),
        ("b", Kind::scalar(DType::Float32), Arc::new(b)),
        ("u", Kind::scalar(DType::Uint64), Arc::new(u)),
        ("t", Kind::fixed(DType::Int8, &[3]), t),
    ]);
    let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::TrueDiv, Binary::FloorDiv, Binary::Mod, Binary::Lt];
    for _ in 0..200 {
        let mut expr = col(["a", "b", "u", "t"][below(4) as usize]);
        for _ in 0..below(4) {
            let other = if below(3) == 0 { int(below(100) as i64) } else { col(["a", "b", "t"][below(3) as usize]) };
            let op = ops[below(7) as usize];
            expr = if below(2) == 0 { join(op, expr, other) } else { join(op, other, expr) };
        }
        if expr.kind(c.schema()).is_err() {
            continue;
        }
        let whole = evaluate(&expr, &c).expect("valid");
        let at = below(64) as usize;
        for part in [(0, at), (at, 64 - at)] {
            let alone = evaluate(&expr, &c.slice(part.0, part.1)).expect("valid");
            assert_eq!(alone.to_data(), whole.slice(part.0, part.1).to_data(), "{expr}");
        }
    }
}

#[test]
fn inputs_are_never_written_over() {
    let c = chunk(vec![scalars::<Float32Type>("x", vec![Some(1.0), Some(2.0)])]);
    let twice = join(Binary::Mul, col("x"), int(2));
    assert_eq!(numbers::<f32>(&join(Binary::Add, twice, col("x")), &c), [3.0, 6.0]);
    assert_eq!(numbers::<f32>(&col("x"), &c), [1.0, 2.0]);
}

#[test]
fn ops_give_the_planned_schema_and_share_what_they_do_not_compute() {
    let c = chunk(vec![
        scalars::<Int8Type>("a", vec![Some(1), Some(2)]),
        scalars::<Int8Type>("b", vec![Some(3), Some(4)]),
        bools("keep", vec![Some(false), Some(true)]),
    ]);
    let run = |op: Op| {
        let schema = Arc::new(op.apply(c.schema()).expect("valid"));
        let out = apply(&op, &c, &schema).expect("valid");
        assert_eq!(out.schema(), &schema);
        out
    };
    let s = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let selected = run(Op::Select(ops::Select { columns: s(&["b", "a"]) }));
    assert!(Arc::ptr_eq(&selected.columns()[0], &c.columns()[1]));
    assert_eq!(run(Op::Drop(ops::Drop { columns: s(&["a"]) })).columns().len(), 2);
    let renamed = run(Op::Rename(ops::Rename { columns: vec![("a".into(), "b".into()), ("b".into(), "a".into())] }));
    assert!(Arc::ptr_eq(renamed.column("b").expect("there"), &c.columns()[0]));
    let cast = run(Op::Cast(ops::Cast { columns: vec![("b".into(), DType::Float32.into())] }));
    assert_eq!(cast.columns()[1].data_type(), &DType::Float32.arrow());
    let more =
        run(Op::WithColumn(ops::WithColumn { column: "a".into(), value: *join(Binary::Add, col("a"), col("b")) }));
    assert_eq!(ints(&col("a"), &more), [4, 6].map(Some));
    let kept = run(Op::FilterExpr(ops::FilterExpr { predicate: *col("keep") }));
    assert_eq!((kept.num_rows(), kept.ids()[0].sample), (1, SampleId(1)));
    let nulls = scalars::<Int8Type>("n", vec![None, Some(1)]);
    let nullable = join(Binary::Add, col("n"), int(1));
    assert!(nullable.is_nullable(chunk(vec![nulls]).schema()) && !nullable.is_nullable(c.schema()));
    assert!(apply(&Op::SHUFFLE, &c, c.schema()).is_err());
    let mask = BooleanArray::from(vec![false, true]);
    assert!(kept.same_bits(&c.filter(&mask).expect("valid")));
}
