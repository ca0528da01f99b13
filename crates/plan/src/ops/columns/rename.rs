//! Renames columns: `rename`.

use forebay_core::Result;
use forebay_data::{Field, Schema};
use serde::{Deserialize, Serialize};

use crate::ops::access::Access;
use crate::ops::checks::known;
use crate::ops::spec::{About, Class, Names, OpSpec};

/// Renames columns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// Old and new name.
    pub columns: Vec<(String, String)>,
}

impl Rename {
    /// Returns the new name of a column.
    fn to(&self, name: &String) -> String {
        self.columns.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to).clone()
    }

    /// Returns the old name of a column.
    fn from(&self, name: &String) -> String {
        self.columns.iter().find(|(_, to)| to == name).map_or(name, |(from, _)| from).clone()
    }
}

impl OpSpec for Rename {
    fn about(&self) -> About {
        About { name: "rename", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        known(input, self.columns.iter().map(|(from, _)| from))?;
        Schema::new(input.fields().iter().map(|f| Field { name: self.to(&f.name), ..f.clone() }).collect())
    }

    fn arguments(&self) -> String {
        self.columns.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(", ")
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        Some(Access::in_place(self.columns.iter().flat_map(|(from, to)| [from, to])))
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after.iter().map(|name| self.from(name)).collect()
    }

    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed.iter().map(|name| self.to(name)).collect()
    }

    fn restrict(&mut self, input: &Schema) -> bool {
        self.columns.retain(|(from, _)| input.position(from).is_some());
        !self.columns.is_empty()
    }

    fn may_run_on_consumer(&self, _input: &Schema) -> bool {
        true
    }
}
