//! The ops that cache the output of the ops before them: `cache` and `autocache`.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use super::spec::{About, Class, Names, OpSpec};

/// Caches the output of the ops before it for each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Whether random ops before it draw once for each sample, the same in every epoch.
    pub freeze: bool,
}

/// May cache the output of the ops before it for each row: each process measures whether and where that pays.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Autocache {}

// A cached row has all columns, so that it does not depend on later ops: the default of `needs`.
impl OpSpec for Cache {
    fn about(&self) -> About {
        About { name: "cache", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        if self.freeze { "freeze=True" } else { "" }.to_owned()
    }

    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
    }
}

impl OpSpec for Autocache {
    fn about(&self) -> About {
        About { name: "autocache", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        String::new()
    }

    fn changed_after(&self, _input: &Schema, changed: Names) -> Names {
        changed
    }
}
