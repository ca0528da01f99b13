//! The name of a block: its prefix, its kind, and a part that is unique.

#![expect(clippy::disallowed_methods, reason = "blocks have random names")]

use crate::key::PrefixKey;

/// The name of a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) prefix: PrefixKey,
    pub(crate) kind: Kind,
    /// A unique part, without a meaning.
    pub(crate) name: String,
}

impl Name {
    /// Names a new block of rows.
    pub(crate) fn new_of(prefix: PrefixKey) -> Self {
        Self { kind: Kind::Rows, prefix, name: uuid::Uuid::new_v4().simple().to_string() }
    }
}

/// The kind of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Rows of a prefix.
    Rows,
    /// Pages of the remote files of a source.
    Pages,
}

impl Kind {
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Kind::Rows => "arrow",
            Kind::Pages => "pages",
        }
    }

    /// Splits the name of a file into its kind and the rest.
    pub(crate) fn of(file: &str) -> Option<(Self, &str)> {
        let (name, extension) = file.rsplit_once('.')?;
        [Kind::Rows, Kind::Pages].into_iter().find(|kind| kind.extension() == extension).map(|kind| (kind, name))
    }
}
