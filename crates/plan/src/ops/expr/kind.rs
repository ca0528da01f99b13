//! The type of an expression over a schema: the dtype and shape of its column, found before anything runs.
//!
//! Types follow NumPy's arrays ([`promote`](fn@super::promote)), except that a Python number never widens the column
//! beside it (NumPy 2's rule): a literal has no dtype until it is combined with a column, or is a column itself
//! ([`ExprKind`]).
//! Invariant: `exec` computes every expression that [`Expr::kind`] accepts, with exactly that kind.

use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, Schema};

use super::concat::concat_kind;
use super::promote::{ExprKind, meet, no_arithmetic};
use super::{Binary, Expr, Unary};

impl Expr {
    /// Returns the type of the expression over rows of `schema`.
    ///
    /// # Errors
    /// NotFound for a column that is not there; Invalid for operands whose types do not match.
    pub fn kind(&self, schema: &Schema) -> Result<ExprKind> {
        let scalar = |dtype| Ok(ExprKind::Column(Kind::scalar(dtype)));
        match self {
            Expr::Col { name } => Ok(ExprKind::Column(schema.field(name)?.kind.clone())),
            Expr::Int { .. } => Ok(ExprKind::Int),
            Expr::Float { .. } => Ok(ExprKind::Float),
            Expr::Bool { .. } => scalar(DType::Bool),
            Expr::Str { .. } => Ok(ExprKind::Column(Kind::Utf8)),
            Expr::Binary { op, left, right } => {
                let (a, b) = (left.kind(schema)?, right.kind(schema)?);
                let kind = binary_kind(*op, &a, &b)?;
                check_literals(*op, (left, &a), (right, &b))?;
                Ok(kind)
            }
            Expr::Unary { op, arg } => unary_kind(*op, arg.kind(schema)?),
            Expr::Clip { arg, low, high } => clip_kind(arg.kind(schema)?, [*low, *high]),
            Expr::Where { cond, yes, no } => where_kind(&cond.kind(schema)?, &yes.kind(schema)?, &no.kind(schema)?),
            Expr::FillNull { arg, value } => fill_kind((arg, arg.kind(schema)?), (value, value.kind(schema)?)),
            Expr::HashMod { arg, buckets } => {
                if !(1..=i64::MAX as u64).contains(buckets) {
                    return Err(Error::invalid(format!("hash_mod: {buckets} buckets is out of range"))
                        .hint("use 1 to 9223372036854775807"));
                }
                match arg.kind(schema)? {
                    ExprKind::Column(kind @ Kind::Tensor { .. }) => {
                        with_shape(DType::Int64, &ExprKind::Column(kind), &ExprKind::Int)
                    }
                    ExprKind::Column(Kind::Texts) => {
                        Err(Error::invalid("hash_mod: this is a list of texts, not one value")
                            .hint("join them first, as .list.join(\",\")"))
                    }
                    _ => scalar(DType::Int64),
                }
            }
            Expr::Stack { args } => {
                let kinds = args.iter().map(|arg| arg.kind(schema)).collect::<Result<Vec<_>>>()?;
                let dtype = stack_dtype(args, &kinds)?;
                Ok(ExprKind::Column(Kind::fixed(dtype, &[args.len()])))
            }
            Expr::ConcatList { args } => {
                let kinds = args.iter().map(|arg| arg.kind(schema)).collect::<Result<Vec<_>>>()?;
                concat_kind(args, &kinds).map(ExprKind::Column)
            }
            Expr::Call { call, arg } => Ok(ExprKind::Column(call.kind(&arg.kind(schema)?.column())?)),
            Expr::Cast { arg, dtype } => Ok(ExprKind::Column(dtype.kind(&arg.kind(schema)?.column())?)),
        }
    }

    /// Checks that a Python integer keeps its value in a column of `dtype`; NumPy refuses it too.
    ///
    /// # Errors
    /// Invalid, with the number and the dtype, when it does not. Floats accept any integer.
    pub fn literal_fits(value: i64, dtype: DType) -> Result<()> {
        let (low, high): (i64, i64) = match dtype {
            DType::Bool => (0, 1),
            DType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DType::Uint8 => (0, u8::MAX.into()),
            DType::Uint16 => (0, u16::MAX.into()),
            DType::Uint32 => (0, u32::MAX.into()),
            DType::Uint64 => (0, i64::MAX),
            DType::Int64 | DType::Float16 | DType::Float32 | DType::Float64 => return Ok(()),
        };
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(Error::invalid(format!("the integer {value} is out of range for {dtype}"))
            .hint("cast the column to a wider dtype first, for example .cast(\"int64\")"))
    }
}

/// Returns the common dtype of the parts of a stack; literals adapt to the columns among them.
///
/// # Errors
/// Invalid when there is no part, or one is not a number for each row.
pub fn stack_dtype(args: &[Expr], kinds: &[ExprKind]) -> Result<DType> {
    if let Some((arg, kind)) = args.iter().zip(kinds).find(|(_, k)| matches!(k, ExprKind::Column(c) if !is_scalar(c))) {
        let kind = kind.clone().column();
        return Err(Error::invalid(format!("stack: {arg} is {kind}, not one number for each row"))
            .hint("stack takes columns of numbers"));
    }
    // As NumPy's `result_type` of many: floats first, so that two integers widen no float that can hold both; literals
    // last.
    let order = |kind: &&ExprKind| match kind {
        ExprKind::Column(column) if column.dtype().is_some_and(DType::is_float) => 0,
        ExprKind::Column(_) => 1,
        _ => 2,
    };
    let mut sorted: Vec<_> = kinds.iter().collect();
    sorted.sort_by_key(order);
    let (first, rest) = sorted
        .split_first()
        .ok_or_else(|| Error::invalid("stack: there is nothing to stack").hint("name at least one column"))?;
    let together = |a: ExprKind, b: &&ExprKind| meet(&a, b).map(|dtype| ExprKind::Column(Kind::scalar(dtype)));
    let dtype = rest.iter().try_fold((*first).clone(), together)?.column().dtype();
    let dtype = dtype.ok_or_else(|| Error::internal("a stack has a dtype"))?;
    for arg in args {
        if let Expr::Int { value } = arg {
            Expr::literal_fits(*value, dtype)?;
        }
    }
    Ok(dtype)
}

fn is_scalar(kind: &Kind) -> bool {
    matches!(kind, Kind::Scalar { .. })
}

fn is_bool(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Column(k) if k.dtype() == Some(DType::Bool))
}

fn truth(kind: &ExprKind) -> Result<()> {
    if is_bool(kind) {
        return Ok(());
    }
    let kind = kind.clone().column();
    Err(Error::invalid(format!("{kind} is not a truth value")).hint("compare it with something, for example > 0"))
}

/// Returns a column of `dtype` with the common shape of the two sides: equal shapes, or one side a scalar. Dimensions
/// that differ from row to row are compared when the pipeline runs.
fn with_shape(dtype: DType, a: &ExprKind, b: &ExprKind) -> Result<ExprKind> {
    let shape = |k: &ExprKind| match k {
        ExprKind::Column(Kind::Tensor { shape, .. }) => Some(shape.clone()),
        _ => None,
    };
    Ok(ExprKind::Column(match (shape(a), shape(b)) {
        (None, None) => Kind::scalar(dtype),
        (Some(shape), None) | (None, Some(shape)) => Kind::Tensor { dtype, shape },
        (Some(x), Some(y)) if x == y => Kind::Tensor { dtype, shape: x },
        _ => {
            let (a, b) = (a.clone().column(), b.clone().column());
            return Err(Error::invalid(format!("shapes do not match: {a} and {b}")).hint("crop or resize first"));
        }
    }))
}

/// Checks the values of literals: they must fit the column beside them, and integers have no negative powers.
fn check_literals(op: Binary, left: (&Expr, &ExprKind), right: (&Expr, &ExprKind)) -> Result<()> {
    let whole = |kind: &ExprKind| !kind.clone().column().dtype().is_none_or(DType::is_float);
    if let (Binary::Pow, Expr::Int { value: ..0 }, true) = (op, right.0, whole(left.1)) {
        return Err(Error::invalid("integers have no negative integer powers").hint("cast to a float first"));
    }
    if !matches!(op, Binary::Add | Binary::Sub | Binary::Mul | Binary::FloorDiv | Binary::Mod | Binary::Pow) {
        return Ok(());
    }
    for (literal, other) in [(left.0, right.1), (right.0, left.1)] {
        if let (Expr::Int { value }, ExprKind::Column(_)) = (literal, other) {
            Expr::literal_fits(*value, meet(&ExprKind::Int, other)?)?;
        }
    }
    Ok(())
}

fn clip_kind(kind: ExprKind, bounds: [Option<f64>; 2]) -> Result<ExprKind> {
    let dtype = match kind.clone().column() {
        Kind::Scalar { dtype } | Kind::Tensor { dtype, .. } if dtype != DType::Bool => dtype,
        other => return Err(Error::invalid(format!("cannot clip {other}"))),
    };
    for bound in bounds.into_iter().flatten() {
        if bound.is_nan() {
            return Err(Error::invalid("a bound of clip is not a number"));
        }
        if !dtype.is_float() && bound.fract() != 0.0 {
            return Err(Error::invalid(format!("cannot clip {dtype} at {bound}")).hint("cast to a float first"));
        }
    }
    Ok(kind)
}

/// Returns the kind of `where`: a row-wise condition chooses whole rows of any kind, lists of any length among them; a
/// condition with a shape chooses numbers.
fn where_kind(cond: &ExprKind, yes: &ExprKind, no: &ExprKind) -> Result<ExprKind> {
    truth(cond)?;
    let by_row = matches!(cond, ExprKind::Column(Kind::Scalar { .. }));
    if by_row && yes == no && !yes.is_literal() {
        return Ok(yes.clone());
    }
    let dtype = meet(yes, no).map_err(|_| {
        let [yes, no] = [yes, no].map(|kind| kind.clone().column());
        Error::invalid(format!("where chooses between {yes} and {no}, and a column has one type"))
            .hint("cast one of them, for example .cast(\"string\")")
    })?;
    if let (true, ExprKind::Column(Kind::Tensor { shape: a, .. }), ExprKind::Column(Kind::Tensor { shape: b, .. })) =
        (by_row, yes, no)
        && let Some(shape) = either_shape(a, b)
    {
        return Ok(ExprKind::Column(Kind::Tensor { dtype, shape }));
    }
    with_shape(dtype, &with_shape(dtype, yes, no)?, cond)
}

/// Returns the shape of rows that have one of two shapes: the first dimension may differ, and each that differs from row
/// to row on either side. `None`: no column holds both.
fn either_shape(a: &[Option<usize>], b: &[Option<usize>]) -> Option<Vec<Option<usize>>> {
    let dim = |(place, (a, b)): (usize, (&Option<usize>, &Option<usize>))| match (a, b) {
        (a, b) if a == b => Some(*a),
        (Some(_), Some(_)) if place > 0 => None,
        _ => Some(None),
    };
    (a.len() == b.len()).then(|| a.iter().zip(b).enumerate().map(dim).collect()).flatten()
}

/// Returns the kind of a filled column, which keeps its dtype: the value must fit it.
fn fill_kind((arg, kind): (&Expr, ExprKind), (value, filling): (&Expr, ExprKind)) -> Result<ExprKind> {
    let (of, with) = (kind.clone().column(), filling.clone().column());
    let refused = |why: &str| {
        Err(Error::invalid(format!("fill_null: {arg} is {of}, and cannot be filled with {value}: {why}"))
            .hint("give a value of the column's type, or cast the column first"))
    };
    match (&of, &with) {
        _ if kind.is_literal() => return Ok(kind),
        (Kind::Utf8, Kind::Utf8) | (Kind::Bytes, Kind::Bytes) | (Kind::Texts, Kind::Texts) => return Ok(kind),
        (Kind::Tensor { shape, .. }, _) if shape.iter().any(Option::is_none) => {
            return refused("how many numbers a missing row has is not known");
        }
        (Kind::Utf8 | Kind::Bytes | Kind::Texts, _) | (_, Kind::Utf8 | Kind::Bytes | Kind::Texts) => {
            return refused(&format!("that is {with}"));
        }
        _ => {}
    }
    let dtype = meet(&kind, &filling)?;
    if kind.clone().column().dtype() != Some(dtype) {
        return refused(&format!("that is {with}"));
    }
    if let Expr::Int { value } = value {
        Expr::literal_fits(*value, dtype)?;
    }
    match with_shape(dtype, &kind, &filling)? {
        filled if filled == kind => Ok(kind),
        _ => refused(&format!("that is {with}")),
    }
}

fn binary_kind(op: Binary, a: &ExprKind, b: &ExprKind) -> Result<ExprKind> {
    let text = |k: &ExprKind| matches!(k, ExprKind::Column(Kind::Utf8 | Kind::Bytes));
    match op {
        Binary::And | Binary::Or => {
            truth(a)?;
            truth(b)?;
            with_shape(DType::Bool, a, b)
        }
        Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => {
            if text(a) != text(b) || (text(a) && a != b) {
                let (a, b) = (a.clone().column(), b.clone().column());
                return Err(Error::invalid(format!("{a} and {b} cannot be compared")).hint(
                    "compare values of one type: cast the text to a number, as .cast(\"int64\"), or write the \
                           value as what the column holds",
                ));
            }
            if !text(a) {
                meet(a, b)?;
            }
            with_shape(DType::Bool, a, b)
        }
        Binary::Add if text(a) && a == b => Ok(a.clone()),
        Binary::Add if text(a) || text(b) => {
            let (a, b) = (a.clone().column(), b.clone().column());
            Err(Error::invalid(format!("{a} and {b} cannot be added"))
                .hint("+ joins texts: write what is no text as one, .cast(str); fb.format and fb.concat_str do so"))
        }
        _ => {
            let dtype = match (op, meet(a, b)?) {
                (Binary::Arctan2, d) => Unary::real(d),
                (Binary::TrueDiv, d) if !d.is_float() => DType::Float64,
                (
                    Binary::Sub | Binary::Pow | Binary::FloorDiv | Binary::Mod | Binary::Add | Binary::Mul,
                    DType::Bool,
                ) => {
                    return Err(Error::invalid("truth values have no arithmetic").hint("cast them to a number first"));
                }
                (_, d) => d,
            };
            if a.is_literal() && b.is_literal() {
                return Ok(if dtype.is_float() { ExprKind::Float } else { ExprKind::Int });
            }
            with_shape(dtype, a, b)
        }
    }
}

fn unary_kind(op: Unary, arg: ExprKind) -> Result<ExprKind> {
    let kind = arg.clone().column();
    let dtype = match op {
        Unary::IsNull => return Ok(ExprKind::Column(Kind::scalar(DType::Bool))),
        Unary::Len => {
            return match kind {
                Kind::Bytes | Kind::Utf8 | Kind::Texts | Kind::Tensor { .. } => {
                    Ok(ExprKind::Column(Kind::scalar(DType::Int64)))
                }
                other => Err(Error::invalid(format!("{other} has no length"))),
            };
        }
        _ => kind.dtype().ok_or_else(|| no_arithmetic(&kind))?,
    };
    let dtype = match op {
        Unary::Not => {
            truth(&arg)?;
            DType::Bool
        }
        Unary::IsNan => DType::Bool,
        op if op.is_real() => Unary::real(dtype),
        Unary::Neg | Unary::Abs | Unary::Sign if dtype == DType::Bool => {
            return Err(Error::invalid("truth values have no arithmetic").hint("cast them to a number first"));
        }
        _ => dtype,
    };
    if arg.is_literal() && op != Unary::IsNan {
        return Ok(if dtype.is_float() { ExprKind::Float } else { ExprKind::Int });
    }
    with_shape(dtype, &arg, &ExprKind::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn col(name: &str) -> Box<Expr> {
        Box::new(Expr::Col { name: name.to_owned() })
    }

    fn int(value: i64) -> Box<Expr> {
        Box::new(Expr::Int { value })
    }

    fn join(op: Binary, left: Box<Expr>, right: Box<Expr>) -> Expr {
        Expr::Binary { op, left, right }
    }

    #[test]
    fn literals_bend_after_they_met_each_other() {
        let schema = Schema::new(vec![forebay_data::Field::new("x", Kind::scalar(DType::Float32))]).expect("valid");
        let third = join(Binary::TrueDiv, int(1), Box::new(Expr::Float { value: 3.0 }));
        let negative = Expr::Unary { op: Unary::Neg, arg: Box::new(third) };
        let scaled = join(Binary::Mul, col("x"), Box::new(negative));
        assert_eq!(scaled.kind(&schema).expect("valid").column(), Kind::scalar(DType::Float32));
    }

    #[test]
    fn a_literal_that_the_column_cannot_hold_is_refused_but_compared() {
        let schema = Schema::new(vec![forebay_data::Field::new("x", Kind::scalar(DType::Uint8))]).expect("valid");
        let e = join(Binary::Add, col("x"), int(300)).kind(&schema).expect_err("out of range");
        assert_eq!(e.message(), "the integer 300 is out of range for uint8");
        assert!(join(Binary::Pow, col("x"), int(-1)).kind(&schema).is_err());
        assert!(join(Binary::Lt, col("x"), int(300)).kind(&schema).is_ok());
        assert!(join(Binary::TrueDiv, col("x"), int(300)).kind(&schema).is_ok());
    }

    #[test]
    fn where_has_the_shape_of_its_condition() {
        let x = forebay_data::Field::new("x", Kind::fixed(DType::Int8, &[2]));
        let schema = Schema::new(vec![x]).expect("valid");
        let cond = Box::new(join(Binary::Gt, col("x"), int(0)));
        let kind = Expr::Where { cond, yes: int(1), no: int(2) }.kind(&schema).expect("valid");
        assert_eq!(kind, ExprKind::Column(Kind::fixed(DType::Int64, &[2])));
    }
}
