//! Calls a Python function on a row, or on columns: `map`.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use super::Function;
use crate::ops::access::Access;
use crate::ops::spec::{About, Class, Names, OpSpec, names, with_read};

/// Calls a Python function on a row, or on columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Map {
    /// The function.
    pub function: Function,
    /// The columns that it writes, beside the others if `writes` was set, otherwise instead of them.
    pub output: Vec<Field>,
    /// Whether other columns stay.
    pub keep_others: bool,
}

impl OpSpec for Map {
    fn about(&self) -> About {
        About { name: "map", class: Class::RowWise, is_random: self.function.with_rng }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.function.check(input)?;
        self.output.iter().try_for_each(Field::check)?;
        let base = if self.keep_others { input.clone() } else { Schema::default() };
        Ok(Schema::new(self.output.clone())?.fields().iter().fold(base, |s, f| s.with(f.clone())))
    }

    fn arguments(&self) -> String {
        self.function.arguments()
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        if !self.keep_others {
            return None;
        }
        Some(Access {
            reads: self.function.reads.clone()?,
            writes: self.output.iter().map(|field| field.name.clone()).collect(),
            may_fail: true,
            grouped: self.function.batched,
            filters: false,
        })
    }

    fn needs(&self, input: &Schema, after: Names) -> Names {
        match &self.function.reads {
            Some(reads) if self.keep_others => with_read(input, after, reads),
            Some(reads) => reads.iter().cloned().collect(),
            None => names(input),
        }
    }

    fn changed_after(&self, _input: &Schema, mut changed: Names) -> Names {
        let differs = match &self.function.reads {
            Some(reads) => reads.iter().any(|name| changed.contains(name)),
            None => !changed.is_empty(),
        };
        changed.retain(|name| self.keep_others && !self.output.iter().any(|field| field.name == *name));
        changed.extend(self.output.iter().filter(|_| differs).map(|field| field.name.clone()));
        changed
    }

    fn runs_per_batch(&self) -> bool {
        true
    }

    fn function(&self) -> Option<&Function> {
        Some(&self.function)
    }

    fn function_mut(&mut self) -> Option<&mut Function> {
        Some(&mut self.function)
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        Function::ns(read, made)
    }
}
