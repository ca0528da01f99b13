//! Changes the types of columns: `cast`.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::access::Access;
use crate::ops::expr::{CastType, Expr, cast_may_fail};
use crate::ops::spec::{About, BYTE_NS, Class, NUMBER_NS, Names, OpSpec};

/// Changes types, as NumPy's `astype`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cast {
    /// Column and type.
    pub columns: Vec<(String, CastType)>,
}

impl OpSpec for Cast {
    fn about(&self) -> About {
        About { name: "cast", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        self.columns.iter().try_fold(input.clone(), |schema, (column, dtype)| {
            let kind = Expr::Cast { arg: Box::new(Expr::Col { name: column.clone() }), dtype: *dtype }.kind(input)?;
            Ok(schema.with(Field { kind: kind.column(), ..input.field(column)?.clone() }))
        })
    }

    fn arguments(&self) -> String {
        self.columns.iter().map(|(c, d)| format!("{c}={d}")).collect::<Vec<_>>().join(", ")
    }

    fn access(&self, input: &Schema) -> Option<Access> {
        let columns = self.columns.iter().map(|(column, _)| column);
        Some(Access { may_fail: cast_may_fail(&self.columns, input), ..Access::in_place(columns) })
    }

    /// Each column depends only on itself.
    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
    }

    fn may_run_on_consumer(&self, input: &Schema) -> bool {
        !cast_may_fail(&self.columns, input)
    }

    fn ns(&self, read: f64, made: f64) -> f64 {
        NUMBER_NS + (read + made) * BYTE_NS
    }
}
