//! TFRecord files: records as they are, or the features of a `tf.train.Example`.

use std::sync::Arc;

use forebay_core::{Error, Result};
use forebay_data::Field;
use forebay_plan::Source;

use super::draft::Features;
use super::format::{FileAccess, Listed, Opening, SourceFormat, counted, recording};
use super::look_up::{empty, first, looked_up};
use crate::formats::{example, tfrecord};
use crate::index::table::Table;
use crate::index::{Inner, Layout};
use crate::readers::{Reader, frames};
use crate::store::{self, Forward, Found, Object, ReadThrough};

/// Records that are read to find the features of an Example.
const RECORDS: u64 = 16;
/// Records that are read at most while all of them together are small.
const RECORDS_MAX: u64 = 100;
const BYTES_MAX: u64 = 1 << 20;

pub(super) struct Tfrecord<'s> {
    pub(super) paths: &'s [String],
    pub(super) features: Option<&'s [Field]>,
    pub(super) verify: bool,
}

pub(super) fn infer(
    paths: Vec<String>,
    features: Features,
    verify: bool,
    near: Option<&dyn ReadThrough>,
) -> Result<Source> {
    let (paths, files) = looked_up(paths)?;
    let features = match features {
        Features::Raw => None,
        Features::Infer => Some(infer_features(&files, near, verify)?),
        Features::Given(fields) => {
            fields.iter().try_for_each(example::check)?;
            Some(fields)
        }
    };
    Ok(Source::Tfrecord { paths, features, verify })
}

impl SourceFormat for Tfrecord<'_> {
    fn list(&self, is_counted: bool, _access: FileAccess<'_>) -> Result<Listed<'_>> {
        let layout = Layout::PerFile { counted: is_counted };
        let key = format!("tfrecord:{}", self.verify);
        Ok(Listed::scanned(store::list(self.paths)?, layout, key, |object, stop| {
            let mut forward = recording(Forward::skipping(object).unpacked(tfrecord::codec)?);
            let table = Table::Frames(tfrecord::starts(&mut forward, self.verify, stop)?);
            counted(table, Some(forward))
        }))
    }

    fn fits(&self, index: &Inner) -> bool {
        matches!(index.layout, Layout::PerFile { .. })
    }

    fn open(&self, opening: Opening<'_>) -> Result<Arc<dyn Reader>> {
        let verify = self.verify;
        let format = match self.features {
            None => frames::Format::Record { verify },
            Some(fields) => {
                fields.iter().try_for_each(example::check)?;
                frames::Format::Example { verify, features: fields.to_vec() }
            }
        };
        Ok(Arc::new(frames::Frames::new(opening.schema.clone(), opening.pool(), format)))
    }
}

fn infer_features(files: &[Found], near: Option<&dyn ReadThrough>, verify: bool) -> Result<Vec<Field>> {
    let look = |object: Arc<Object>| {
        let mut forward = Forward::reading(object.clone()).unpacked(tfrecord::codec)?;
        let mut seen = example::FeatureInference::default();
        let (mut at, mut record) = (0, 0);
        while (record < RECORDS || (record < RECORDS_MAX && at < BYTES_MAX))
            && let Some(len) = tfrecord::next(&mut forward, at, Some(record), verify)?
        {
            let blame = |e: Error| e.with("file", object.uri()).with("offset", at).with("record", record);
            let frame = forward.at(at, len as usize)?;
            let payload = tfrecord::payload(frame, object.uri(), at, Some(record), verify)?;
            seen.push(payload).map_err(blame)?;
            (at, record) = (at + len, record + 1);
        }
        if record == 0 { Ok(None) } else { seen.fields().map(Some).map_err(|e| e.with("file", object.uri())) }
    };
    first(files, near, look)?.ok_or_else(|| empty(files, "record"))
}
