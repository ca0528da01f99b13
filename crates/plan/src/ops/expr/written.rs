//! The serialized form of an expression: a list of its parts in postfix order, operands before operators.
//!
//! A nested form would be as deep as the expression, and JSON parsers bound the depth; a list does not nest. Invariant:
//! an expression that was read is at most [`DEPTH_MAX`] deep, because functions over expressions recurse.

use forebay_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{Binary, Call, CastType, Expr, Unary};

/// The most levels of an expression: a sum of so many columns. Evaluation takes less than 1 KiB of stack for each.
const DEPTH_MAX: usize = 1000;

/// An expression without its operands, which are the parts before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "expr", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Part {
    Col { name: String },
    Int { value: i64 },
    Float { value: f64 },
    Bool { value: bool },
    Str { value: String },
    Binary { op: Binary },
    Unary { op: Unary },
    Clip { low: Option<f64>, high: Option<f64> },
    Where {},
    FillNull {},
    HashMod { buckets: u64 },
    Stack { count: usize },
    ConcatList { count: usize },
    Call { call: Call },
    Cast { dtype: CastType },
}

impl From<Expr> for Vec<Part> {
    fn from(expr: Expr) -> Self {
        let mut parts = Vec::new();
        write(expr, &mut parts);
        parts
    }
}

fn write(expr: Expr, parts: &mut Vec<Part>) {
    let part = match expr {
        Expr::Col { name } => Part::Col { name },
        Expr::Int { value } => Part::Int { value },
        Expr::Float { value } => Part::Float { value },
        Expr::Bool { value } => Part::Bool { value },
        Expr::Str { value } => Part::Str { value },
        Expr::Binary { op, left, right } => {
            write(*left, parts);
            write(*right, parts);
            Part::Binary { op }
        }
        Expr::Unary { op, arg } => {
            write(*arg, parts);
            Part::Unary { op }
        }
        Expr::Clip { arg, low, high } => {
            write(*arg, parts);
            Part::Clip { low, high }
        }
        Expr::Where { cond, yes, no } => {
            [cond, yes, no].into_iter().for_each(|e| write(*e, parts));
            Part::Where {}
        }
        Expr::FillNull { arg, value } => {
            [arg, value].into_iter().for_each(|e| write(*e, parts));
            Part::FillNull {}
        }
        Expr::HashMod { arg, buckets } => {
            write(*arg, parts);
            Part::HashMod { buckets }
        }
        Expr::Stack { args } => Part::Stack { count: write_all(args, parts) },
        Expr::ConcatList { args } => Part::ConcatList { count: write_all(args, parts) },
        Expr::Call { call, arg } => {
            write(*arg, parts);
            Part::Call { call }
        }
        Expr::Cast { arg, dtype } => {
            write(*arg, parts);
            Part::Cast { dtype }
        }
    };
    parts.push(part);
}

/// Writes operands; returns their number.
fn write_all(args: Vec<Expr>, parts: &mut Vec<Part>) -> usize {
    let count = args.len();
    args.into_iter().for_each(|arg| write(arg, parts));
    count
}

impl TryFrom<Vec<Part>> for Expr {
    type Error = Error;

    fn try_from(parts: Vec<Part>) -> Result<Self> {
        let mut read = Reader::default();
        parts.into_iter().try_for_each(|part| read.part(part))?;
        match (read.made.pop(), read.made.is_empty()) {
            (Some((expr, _)), true) => Ok(expr),
            _ => Err(Error::invalid("these parts are not one expression")),
        }
    }
}

/// The expressions that were read and are not yet operands of another, each with its depth.
#[derive(Default)]
struct Reader {
    made: Vec<(Expr, usize)>,
}

impl Reader {
    fn part(&mut self, part: Part) -> Result<()> {
        let mut depth = 0;
        let expr = match part {
            Part::Col { name } => Expr::Col { name },
            Part::Int { value } => Expr::Int { value },
            Part::Float { value } => Expr::Float { value },
            Part::Bool { value } => Expr::Bool { value },
            Part::Str { value } => Expr::Str { value },
            Part::Binary { op } => {
                let (right, left) = (self.operand(&mut depth)?, self.operand(&mut depth)?);
                Expr::Binary { op, left, right }
            }
            Part::Unary { op } => Expr::Unary { op, arg: self.operand(&mut depth)? },
            Part::Clip { low, high } => Expr::Clip { arg: self.operand(&mut depth)?, low, high },
            Part::Where {} => {
                let (no, yes) = (self.operand(&mut depth)?, self.operand(&mut depth)?);
                Expr::Where { cond: self.operand(&mut depth)?, yes, no }
            }
            Part::FillNull {} => {
                let value = self.operand(&mut depth)?;
                Expr::FillNull { arg: self.operand(&mut depth)?, value }
            }
            Part::HashMod { buckets } => Expr::HashMod { arg: self.operand(&mut depth)?, buckets },
            Part::Stack { count } => Expr::Stack { args: self.operands(count, &mut depth)? },
            Part::ConcatList { count } => Expr::ConcatList { args: self.operands(count, &mut depth)? },
            Part::Call { call } => Expr::Call { call, arg: self.operand(&mut depth)? },
            Part::Cast { dtype } => Expr::Cast { arg: self.operand(&mut depth)?, dtype },
        };
        if depth >= DEPTH_MAX {
            return Err(Error::invalid(format!("an expression has more than {DEPTH_MAX} levels")).hint(
                "compute a part of it as a column of its own first, with with_column; or use a function, with map or filter",
            ));
        }
        self.made.push((expr, depth + 1));
        Ok(())
    }

    /// Takes the last operands; `depth` becomes that of the deepest.
    fn operands(&mut self, count: usize, depth: &mut usize) -> Result<Vec<Expr>> {
        let from = self.made.len().checked_sub(count).ok_or_else(too_few)?;
        let args = self.made.split_off(from);
        *depth = args.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        Ok(args.into_iter().map(|(arg, _)| arg).collect())
    }

    /// Takes the last operand; `depth` becomes at least its own.
    fn operand(&mut self, depth: &mut usize) -> Result<Box<Expr>> {
        let (expr, deep) = self.made.pop().ok_or_else(too_few)?;
        *depth = deep.max(*depth);
        Ok(Box::new(expr))
    }
}

fn too_few() -> Error {
    Error::invalid("a part of an expression has too few operands")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(terms: usize) -> Vec<Part> {
        let mut parts = vec![Part::Col { name: "x".to_owned() }];
        for _ in 1..terms {
            parts.extend([Part::Int { value: 1 }, Part::Binary { op: Binary::Add }]);
        }
        parts
    }

    #[test]
    fn a_deep_expression_is_read_and_written_and_a_deeper_one_is_refused() {
        let json = serde_json::to_string(&chain(DEPTH_MAX)).expect("parts");
        let expr: Expr = serde_json::from_str(&json).expect("as deep as may be");
        assert_eq!(serde_json::to_string(&expr).expect("an expression"), json);
        let e = Expr::try_from(chain(DEPTH_MAX + 1)).expect_err("deeper");
        assert_eq!(e.message(), "an expression has more than 1000 levels");
    }

    #[test]
    fn parts_that_are_no_expression_are_refused() {
        let add = || Part::Binary { op: Binary::Add };
        let one = || Part::Int { value: 1 };
        for parts in [vec![], vec![add()], vec![one(), add()], vec![one(), one()], vec![Part::Stack { count: 1 }]] {
            assert!(Expr::try_from(parts.clone()).is_err(), "{parts:?}");
        }
    }
}
