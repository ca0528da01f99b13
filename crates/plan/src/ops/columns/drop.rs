//! Removes columns: `drop`.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::access::Access;
use crate::ops::checks::known;
use crate::ops::spec::{About, Class, OpSpec};

/// Removes these columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drop {
    /// Their names.
    pub columns: Vec<String>,
}

impl OpSpec for Drop {
    fn about(&self) -> About {
        About { name: "drop", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        known(input, &self.columns)?;
        Schema::new(input.fields().iter().filter(|f| !self.columns.contains(&f.name)).cloned().collect())
    }

    fn arguments(&self) -> String {
        self.columns.join(", ")
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access { writes: self.columns.clone(), ..Access::default() })
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        self.columns.retain(|name| input.position(name).is_some());
        !self.columns.is_empty()
    }

    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        true
    }
}
