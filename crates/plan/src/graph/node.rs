//! An op in its place: its name, its line, and whether it may be moved.

use forebay_core::Error;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use crate::ops::{Access, Op};

/// A line of the user's code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A source or an op of a graph, for people and to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenOp {
    /// It as the user would write it, at most 60 characters of it.
    pub text: String,
    /// Six hexadecimal digits that differ where the computation does.
    pub digest: String,
    /// The user's line.
    pub site: Option<Site>,
}

/// An op in its place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The op.
    pub op: Op,
    /// The user's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether the optimiser must leave it where it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_position: bool,
    /// The line where the user wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Site>,
}

impl Node {
    /// Makes a node without label or site.
    pub fn new(op: Op) -> Self {
        Self { op, label: None, keep_position: false, site: None }
    }

    /// Returns the effects of the op on rows of `input`; `None` if it has to stay at its place.
    pub(crate) fn access(&self, input: &Schema) -> Option<Access> {
        if self.keep_position { None } else { self.op.access(input) }
    }

    /// Adds the op and the user's line to an error.
    pub fn blame(&self, error: Error) -> Error {
        let error = error.with("op", self.title());
        match &self.site {
            Some(site) => error.with("line", site),
            None => error,
        }
    }

    /// Returns its name for people: the op, and the user's name for it.
    pub fn title(&self) -> String {
        let own = self.op.function().filter(|function| function.is_op);
        let name = own.map_or(self.op.name(), |function| &function.name);
        match &self.label {
            Some(label) => format!("{name} ({label})"),
            None => name.to_owned(),
        }
    }
}
