//! Opening a listed file with the user's own rights.

use std::sync::Arc;

use forebay_core::Result;

use crate::allowed::Allowed;
use crate::store::{Found, Object, ReadThrough, stat};

/// Opens a file while the user defines a source. The bytes of a remote file are read through `near`.
pub(crate) fn open_found(file: &Found, near: Option<&dyn ReadThrough>) -> Result<Arc<Object>> {
    // This code runs with the user's own rights.
    let allowed = Allowed::everything();
    let stat = file.stat.clone().map_or_else(|| stat(&file.uri, &allowed), Ok)?;
    Object::open(&file.uri, &stat, near, &allowed).map(Arc::new)
}
