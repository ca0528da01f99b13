//! A folder of images with one sub-folder per class.

use std::sync::Arc;

use forebay_core::{Error, ErrorKind, Result};
use forebay_plan::Source;

use super::format::{FileAccess, Listed, Opening, SourceFormat};
use crate::index::{Inner, Layout};
use crate::readers::{Reader, files};
use crate::store::{self, Found};

/// The file name endings that count as images, in lower case.
const ENDINGS: [&str; 9] = ["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm"];

pub(super) struct ImageFolder<'s> {
    pub(super) root: &'s str,
}

pub(super) fn infer(root: &str) -> Result<Source> {
    let root = store::absolute(root)?.trim_end_matches('/').to_owned();
    list(&root)?;
    Ok(Source::ImageFolder { root })
}

impl SourceFormat for ImageFolder<'_> {
    fn list(&self, _counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let (found, labels) = list(self.root)?;
        Ok(Listed { labels, ..Listed::of(found, Layout::Files) })
    }

    fn fits(&self, index: &Inner) -> bool {
        index.layout == Layout::Files && index.labels.len() == index.uris.len()
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        Ok(Arc::new(files::Files::new(opening.schema.clone(), opening.pool())))
    }
}

/// Returns the images below the class folders, sorted by path, and each one's class: the place of its folder among the
/// sorted names.
fn list(root: &str) -> Result<(Vec<Found>, Vec<u64>)> {
    let root = root.trim_end_matches('/');
    let (classes, files) = store::walk(if root.is_empty() { "/" } else { root }, &is_image)?;
    let base = root.strip_prefix("file://").unwrap_or(root).len();
    let mut images = Vec::new();
    let mut labels = Vec::new();
    for file in files {
        let Some((class, _)) = file.uri.get(base..).and_then(|t| t.trim_start_matches('/').split_once('/')) else {
            continue;
        };
        if let Ok(label) = classes.binary_search_by(|c| c.as_str().cmp(class)) {
            images.push(file);
            labels.push(label as u64);
        }
    }
    if images.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, "there is no image in any class folder")
            .with("file", root)
            .with("classes", classes.len())
            .hint(format!("a sub-folder is a class, and holds files ending in {}", ENDINGS.join(", "))));
    }
    Ok((images, labels))
}

fn is_image(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}
