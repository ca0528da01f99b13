//! The tree of an expression: its nodes and operators, the columns that it reads, and its text.
//!
//! Processes exchange it and the dataset id hashes it: additions are fine, renaming changes ids.

use serde::{Deserialize, Serialize};

use super::written::Part;
use super::{Call, CastType};

/// One expression over the columns of a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Part>", into = "Vec<Part>")]
pub enum Expr {
    /// A column.
    Col {
        /// Its name.
        name: String,
    },
    /// An integer.
    Int {
        /// Its value.
        value: i64,
    },
    /// A floating point number.
    Float {
        /// Its value.
        value: f64,
    },
    /// A truth value.
    Bool {
        /// Its value.
        value: bool,
    },
    /// A string, for comparison with string columns.
    Str {
        /// Its value.
        value: String,
    },
    /// Two expressions and an operator.
    Binary {
        /// The operator.
        op: Binary,
        /// The left one.
        left: Box<Expr>,
        /// The right one.
        right: Box<Expr>,
    },
    /// A function of one expression.
    Unary {
        /// The function.
        op: Unary,
        /// Its argument.
        arg: Box<Expr>,
    },
    /// `low` if smaller, `high` if larger.
    Clip {
        /// The clipped value.
        arg: Box<Expr>,
        /// The least value, if any.
        low: Option<f64>,
        /// The greatest value, if any.
        high: Option<f64>,
    },
    /// `yes` if `cond` is true, else `no`.
    Where {
        /// A truth value.
        cond: Box<Expr>,
        /// The value if it is true.
        yes: Box<Expr>,
        /// The value if it is false.
        no: Box<Expr>,
    },
    /// `arg` if it is present, else `value`. The column keeps its dtype.
    FillNull {
        /// The value that may be missing.
        arg: Box<Expr>,
        /// The value instead of a missing one.
        value: Box<Expr>,
    },
    /// A well-mixed hash of the value, modulo `buckets`: int64 in `0..buckets`. Stable for ever.
    HashMod {
        /// A number, a string or bytes.
        arg: Box<Expr>,
        /// The number of buckets; at least 1.
        buckets: u64,
    },
    /// Several numbers of a row as one tensor, side by side.
    Stack {
        /// One number each; at least one.
        args: Vec<Expr>,
    },
    /// Several lists of a row as one, in their order; a single value is a list of one.
    ConcatList {
        /// The lists; at least one.
        args: Vec<Expr>,
    },
    /// A function with arguments that are fixed.
    Call {
        /// The function.
        call: Call,
        /// Its operand.
        arg: Box<Expr>,
    },
    /// Another type, as NumPy's `astype`.
    Cast {
        /// The value to cast.
        arg: Box<Expr>,
        /// The result type.
        dtype: CastType,
    },
}

/// An operator of two expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "Python's operators, by their names")]
pub enum Binary {
    Add,
    Sub,
    Mul,
    TrueDiv,
    FloorDiv,
    Mod,
    Pow,
    Arctan2,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

/// A function of one expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "NumPy's functions, by their names; len is of bytes or characters")]
pub enum Unary {
    Neg,
    Not,
    Abs,
    Sign,
    Log,
    Log1p,
    Log2,
    Log10,
    Exp,
    Exp2,
    Expm1,
    Sqrt,
    Cbrt,
    Sin,
    Cos,
    Tan,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Arcsinh,
    Arccosh,
    Arctanh,
    Degrees,
    Radians,
    Floor,
    Ceil,
    Round,
    IsNan,
    IsNull,
    Len,
}

impl Expr {
    /// Calls `see` with the name of each column that it reads.
    pub fn columns(&self, see: &mut impl FnMut(&str)) {
        match self {
            Expr::Col { name } => see(name),
            Expr::Int { .. } | Expr::Float { .. } | Expr::Bool { .. } | Expr::Str { .. } => {}
            Expr::Binary { left: a, right: b, .. } | Expr::FillNull { arg: a, value: b } => {
                a.columns(see);
                b.columns(see);
            }
            Expr::Unary { arg, .. }
            | Expr::Clip { arg, .. }
            | Expr::HashMod { arg, .. }
            | Expr::Call { arg, .. }
            | Expr::Cast { arg, .. } => arg.columns(see),
            Expr::Where { cond, yes, no } => [cond, yes, no].into_iter().for_each(|e| e.columns(see)),
            Expr::Stack { args } | Expr::ConcatList { args } => args.iter().for_each(|e| e.columns(see)),
        }
    }
}

impl std::fmt::Display for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Expr::Col { name } => f.write_str(name),
            Expr::Int { value } => write!(f, "{value}"),
            Expr::Float { value } => write!(f, "{value:?}"),
            Expr::Bool { value } => write!(f, "{value}"),
            Expr::Str { value } => write!(f, "{value:?}"),
            Expr::Binary { op: Binary::Arctan2, left, right } => write!(f, "arctan2({left}, {right})"),
            Expr::Binary { op, left, right } => write!(f, "({left} {} {right})", op.symbol()),
            Expr::Unary { op, arg } => write!(f, "{}({arg})", format!("{op:?}").to_lowercase()),
            Expr::Clip { arg, low, high } => write!(f, "clip({arg}, {low:?}, {high:?})"),
            Expr::Where { cond, yes, no } => write!(f, "where({cond}, {yes}, {no})"),
            Expr::FillNull { arg, value } => write!(f, "fill_null({arg}, {value})"),
            Expr::HashMod { arg, buckets } => write!(f, "hash_mod({arg}, {buckets})"),
            Expr::Call { call, arg } => write!(f, "{arg}.{call}"),
            Expr::Cast { arg, dtype } => write!(f, "{arg}.cast({dtype})"),
            Expr::Stack { args } | Expr::ConcatList { args } => {
                let name = if matches!(self, Expr::Stack { .. }) { "stack" } else { "concat_list" };
                let args: Vec<String> = args.iter().map(Expr::to_string).collect();
                write!(f, "{name}({})", args.join(", "))
            }
        }
    }
}

impl Binary {
    /// Returns Python's operator.
    pub fn symbol(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Sub => "-",
            Binary::Mul => "*",
            Binary::TrueDiv => "/",
            Binary::FloorDiv => "//",
            Binary::Mod => "%",
            Binary::Pow => "**",
            Binary::Arctan2 => "arctan2",
            Binary::Eq => "==",
            Binary::Ne => "!=",
            Binary::Lt => "<",
            Binary::Le => "<=",
            Binary::Gt => ">",
            Binary::Ge => ">=",
            Binary::And => "&",
            Binary::Or => "|",
        }
    }
}
