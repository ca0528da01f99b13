//! The effects of a row op: the columns that it reads, makes, changes or removes; whether it can fail and whether it
//! filters.
//!
//! Invariant: an op that declares no access never moves, and no op moves past it. A Python function declares `reads=`,
//! the only columns that it gets.

/// The effects of an op on a row, as far as they concern its order among other ops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// Columns whose values it reads.
    pub reads: Vec<String>,
    /// Columns that it changes, renames or removes.
    pub writes: Vec<String>,
    /// Whether it may remove rows.
    pub filters: bool,
    /// Whether a row can make it fail.
    pub may_fail: bool,
    /// Whether it gets rows in groups: the groups must not change, although they should not matter.
    pub grouped: bool,
}

impl Access {
    /// Returns the access of an op that changes columns in place.
    pub(super) fn in_place<'a>(columns: impl IntoIterator<Item = &'a String>) -> Self {
        let columns: Vec<_> = columns.into_iter().cloned().collect();
        Self { reads: columns.clone(), writes: columns, ..Self::default() }
    }
}
