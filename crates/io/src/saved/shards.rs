//! The index of MDS files, which MosaicML's reader needs: written once every writer is done.

use forebay_core::{Error, ErrorKind, Result};
use forebay_data::Schema;

use super::Format;
use super::encode;
use super::head::{Head, head_of};
use super::place::Place;

/// The name of the index for MosaicML's reader.
pub(super) const INDEX: &str = "index.json";

/// Writes the index, if files need one and all of them are complete. Each writer calls this when it is done, so the
/// last one writes it.
///
/// # Errors
/// NotFound when a file is gone; any error of the disk or the store.
pub(super) fn write_index(place: &Place, head: &Head) -> Result<()> {
    if head.files.format != Format::Mds {
        return Ok(());
    }
    let Some(heads) = all(place, head)? else { return Ok(()) };
    let names: Vec<String> =
        heads.iter().flat_map(|head| (0..head.so_far.parts).map(|number| head.part(number))).collect();
    let found = place.beginnings(&names, 4)?;
    let shards: Vec<_> = names.into_iter().zip(found).map(|(name, (size, first))| (name, size, first)).collect();
    let has_rows = heads.iter().any(|head| head.so_far.rows > 0);
    let counted =
        shards.into_iter().filter(|(_, _, first)| !has_rows || first.iter().any(|&byte| byte != 0)).collect::<Vec<_>>();
    place.put(INDEX, encode::index(&Schema::new(head.schema.clone())?, &counted)?)
}

/// Returns the heads of all writers, if all are done.
fn all(place: &Place, own: &Head) -> Result<Option<Vec<Head>>> {
    let Some((_, n)) = own.consumer else { return Ok(Some(vec![own.clone()])) };
    let mut heads = Vec::new();
    for i in 0..n {
        let Some(head) = place.head(&head_of((i, n)))?.0.filter(|head| head.complete.is_some()) else {
            return Ok(None);
        };
        if let Some((is, was)) = own.differs(&head) {
            return Err(Error::new(ErrorKind::Conflict, format!("two saves are mixed here: {is}, and {was}"))
                .with("file", place.named(&head.file()))
                .hint("save again to an empty folder, each consumer with the same pipeline, seed and options"));
        }
        heads.push(head);
    }
    Ok(Some(heads))
}
