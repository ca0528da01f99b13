//! Sources without files: arrays in memory, numbers, and objects that Python reads.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat};
use crate::index::{Inner, Layout};
use crate::readers::{Reader, memory, range};

pub(super) struct Computed<'s> {
    pub(super) source: &'s Source,
}

impl SourceFormat for Computed<'_> {
    fn list(&self, counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        if let Some(rows) = self.source.rows() {
            let row_bytes = self.source.schema()?.row_bytes(64) as u64;
            return Ok(Listed::of(Vec::new(), Layout::Computed { rows, row_bytes }));
        }
        if counted {
            return Err(
                Error::invalid("a generator cannot be counted").hint("use from_map_dataset, or write it to files")
            );
        }
        Ok(Listed::of(Vec::new(), Layout::Unknown))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::Computed { rows, .. } if Some(rows) == self.source.rows())
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let Opening { schema, index, blobs, .. } = opening;
        Ok(match self.source {
            Source::Memory { blob, .. } => Arc::new(memory::Memory::open(schema, index, blobs.get(blob)?)?),
            Source::Range { start, step, .. } => Arc::new(range::Range::new(schema, index, *start, *step)),
            other => return Err(Error::internal(format!("{} is read by python", other.name()))),
        })
    }
}
