//! Whether all rows of a batch have one shape in the column of an expression, as behind a padded batch.
//!
//! Invariant: if the answer is yes, `exec` makes rows of one shape of every batch. An expression about which this module
//! knows nothing may make rows of any shape.

use forebay_data::{Kind, Schema};

use super::{Call, Expr};

/// The shapes of the rows of an expression.
struct Lengths {
    /// Whether they are equal within each batch.
    uniform: bool,
    /// Names them: expressions of one name have equal shapes in each row.
    name: String,
}

impl Expr {
    /// Returns whether all rows of a batch of `schema` have the same shape.
    pub fn is_uniform(&self, schema: &Schema) -> bool {
        self.lengths(schema).is_some_and(|lengths| lengths.uniform)
    }

    /// Returns the shapes of its rows; `None` if it has one number for each row, or a shape that the schema tells.
    fn lengths(&self, schema: &Schema) -> Option<Lengths> {
        let is_open = |kind: &Kind| matches!(kind, Kind::Tensor { .. }) && kind.known_shape().is_none();
        match self {
            Expr::Col { name } => {
                let field = schema.field(name).ok().filter(|field| is_open(&field.kind))?;
                Some(Lengths { uniform: field.uniform, name: name.clone() })
            }
            Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } | Expr::Stack { .. } => None,
            Expr::Unary { arg, .. } | Expr::Clip { arg, .. } | Expr::HashMod { arg, .. } | Expr::Cast { arg, .. } => {
                arg.lengths(schema).filter(|_| self.kind(schema).is_ok_and(|kind| is_open(&kind.column())))
            }
            Expr::Binary { left: a, right: b, .. } | Expr::FillNull { arg: a, value: b } => {
                equal([a.lengths(schema), b.lengths(schema)])
            }
            Expr::Where { cond, yes, no } => match (cond.lengths(schema), yes.lengths(schema), no.lengths(schema)) {
                // A row has the shape of one side or the other.
                (None, Some(yes), Some(no)) if yes.name != no.name => {
                    Some(Lengths { uniform: false, name: format!("where({}, {})", yes.name, no.name) })
                }
                (None, yes, no) if yes.is_some() != no.is_some() && self.is_of_two_shapes(schema) => {
                    Some(Lengths { uniform: false, name: self.to_string() })
                }
                (cond, yes, no) => equal([cond, yes, no]),
            },
            Expr::ConcatList { args } => {
                self.kind(schema).ok().filter(|kind| is_open(&kind.clone().column()))?;
                let lengths: Vec<_> = args.iter().filter_map(|arg| arg.lengths(schema)).collect();
                let uniform = lengths.iter().all(|lengths| lengths.uniform);
                Some(Lengths { uniform, name: self.to_string() })
            }
            Expr::Call { call, arg } => {
                let kind = self.kind(schema).ok().filter(|kind| is_open(&kind.clone().column()))?;
                let of = arg.lengths(schema);
                match call {
                    Call::Slice { .. } => of.map(|of| Lengths { name: format!("{}.{call}", of.name), ..of }),
                    Call::IsIn { .. } | Call::Bucketize { .. } | Call::Time { .. } | Call::LookupItems { .. } => of,
                    other => Some(Lengths { uniform: false, name: format!("{other} of {:?}", kind.column()) }),
                }
            }
        }
    }

    /// Returns whether it is a `where` of two tensors.
    fn is_of_two_shapes(&self, schema: &Schema) -> bool {
        let is_tensor = |expr: &Expr| expr.kind(schema).is_ok_and(|kind| matches!(kind.column(), Kind::Tensor { .. }));
        matches!(self, Expr::Where { yes, no, .. } if is_tensor(yes) && is_tensor(no))
    }
}

/// Returns the shapes of a value that is computed number by number: the operands have equal shapes in each row.
fn equal<const N: usize>(operands: [Option<Lengths>; N]) -> Option<Lengths> {
    operands.into_iter().flatten().reduce(|a, b| Lengths { uniform: a.uniform || b.uniform, ..a })
}

#[cfg(test)]
mod tests {
    use forebay_data::{DType, Field};

    use super::*;

    fn col(name: &str) -> Box<Expr> {
        Box::new(Expr::Col { name: name.to_owned() })
    }

    #[test]
    fn rows_stay_of_one_shape_where_each_row_keeps_its_own() {
        let list = |name: &str, uniform| Field {
            uniform,
            ..Field::new(name, Kind::Tensor { dtype: DType::Int64, shape: vec![None] })
        };
        let truth = Field::new("t", Kind::scalar(DType::Bool));
        let fields = vec![list("padded", true), list("mask", true), list("ragged", false), truth];
        let schema = Schema::new(fields).expect("names differ");
        let times = |name: &str| {
            let two = Box::new(Expr::Int { value: 2 });
            Box::new(Expr::Binary { op: crate::Binary::Mul, left: col(name), right: two })
        };
        let choose = |cond, yes, no| Expr::Where { cond, yes, no };
        let slice = |arg| Expr::Call { call: Call::Slice { start: Some(1), stop: None }, arg };
        let cases = [
            (*times("padded"), true),
            (*times("ragged"), false),
            (slice(times("padded")), true),
            (choose(col("t"), col("padded"), times("padded")), true),
            (choose(col("t"), col("padded"), col("mask")), false),
            (choose(col("t"), Box::new(slice(col("padded"))), col("padded")), false),
            (choose(col("t"), col("padded"), Box::new(Expr::Int { value: 0 })), true),
            (Expr::Unary { op: crate::Unary::Len, arg: col("padded") }, false),
        ];
        for (expr, want) in cases {
            assert_eq!(expr.is_uniform(&schema), want, "{expr}");
        }
    }
}
