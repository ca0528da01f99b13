//! Whole files, one per sample.

use std::sync::Arc;

use forebay_core::Result;
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat};
use super::look_up::looked_up;
use crate::index::{Inner, Layout};
use crate::readers::{Reader, files};
use crate::store;

pub(super) struct Files<'s> {
    pub(super) paths: &'s [String],
}

pub(super) fn infer(paths: Vec<String>) -> Result<Source> {
    Ok(Source::Files { paths: looked_up(paths)?.0 })
}

impl SourceFormat for Files<'_> {
    fn list(&self, _counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        Ok(Listed::of(store::list(self.paths)?, Layout::Files))
    }

    fn fits(&self, index: &Inner) -> bool {
        index.layout == Layout::Files
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        Ok(Arc::new(files::Files::new(opening.schema.clone(), opening.pool())))
    }
}
