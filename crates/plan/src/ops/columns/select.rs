//! Keeps some columns, in an order: `select`.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::access::Access;
use crate::ops::spec::{About, Class, OpSpec};

/// Keeps these columns, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// Their names.
    pub columns: Vec<String>,
}

impl OpSpec for Select {
    fn about(&self) -> About {
        About { name: "select", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Schema::new(self.columns.iter().map(|c| input.field(c).cloned()).collect::<Result<_>>()?)
    }

    fn arguments(&self) -> String {
        self.columns.join(", ")
    }

    /// It reads nothing: the schema check of every order finds a missing column.
    fn access(&self, input: &Schema) -> Option<Access> {
        let gone = input.fields().iter().map(|field| &field.name).filter(|name| !self.columns.contains(name));
        Some(Access { writes: gone.cloned().collect(), ..Access::default() })
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        self.columns.retain(|name| input.position(name).is_some());
        !self.columns.iter().eq(input.fields().iter().map(|field| &field.name))
    }

    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        true
    }
}
