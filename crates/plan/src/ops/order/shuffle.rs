//! Permutes rows: `shuffle`, and how many rows it permutes together.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::spec::{About, Class, Names, OpSpec};

/// Permutes rows, differently in each epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    /// How many rows it permutes together.
    #[serde(default, skip_serializing_if = "ShuffleWindow::is_auto")]
    pub window: ShuffleWindow,
}

/// How many rows a shuffle permutes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShuffleWindow {
    /// All rows; or a window, if the source decodes rows in blocks and takes more than 512 MiB, or consists of record
    /// files in a store.
    #[default]
    Auto,
    /// All rows.
    Global,
    /// At most this many rows.
    Rows(u64),
    /// As many rows as take this many bytes in memory.
    Bytes(u64),
    /// As `Auto`, for one of several datasets that share memory; the number of these datasets.
    /// [`Stages`](crate::Stages) sets it for the datasets of a mix; users cannot write it.
    Shared(u64),
}

impl ShuffleWindow {
    fn is_auto(&self) -> bool {
        *self == ShuffleWindow::Auto
    }
}

impl OpSpec for Shuffle {
    fn about(&self) -> About {
        About { name: "shuffle", class: Class::Order, is_random: true }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        Ok(input.clone())
    }

    fn arguments(&self) -> String {
        match self.window {
            ShuffleWindow::Auto | ShuffleWindow::Shared(_) => String::new(),
            ShuffleWindow::Global => "window=None".to_owned(),
            ShuffleWindow::Rows(rows) => format!("window={rows}"),
            ShuffleWindow::Bytes(bytes) => format!("window=\"{bytes}B\""),
        }
    }

    fn needs(&self, _input: &Schema, after: Names) -> Names {
        after
    }
}
