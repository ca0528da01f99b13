//! `Files` and `ImageFolder`: a whole file is a row.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use forebay_core::{Epoch, Result};
use forebay_data::{Chunk, Kind, Schema};

use super::bytes::pieces::Layout;
use super::bytes::pool::Pool;
use super::reader::{Chunks, Place, Reader, check, ids, stream_counted};
use crate::columns::{Binary, binary};
use crate::limits;
use crate::store::{Object, Pending};

pub(crate) struct Files {
    schema: Arc<Schema>,
    pool: Pool,
}

/// Remote files that are requested ahead of their use.
const AHEAD: usize = 16;

impl Files {
    pub(crate) fn new(schema: Arc<Schema>, pool: Pool) -> Self {
        Self { schema, pool }
    }

    fn contents(&self, places: &[Place]) -> Result<ArrayRef> {
        let inner = self.pool.index.inner();
        let mut layout = Layout::new(places.len());
        for place in places {
            let (row, size) = (place.row as usize, inner.stats.get(place.row as usize).map_or(0, |s| s.size));
            limits::record(inner.uris.get(row).map_or("", |u| u), 0, "a file", size)?;
            layout.push(size as usize);
        }
        let mut values = layout.buffer()?;
        let mut rest = values.as_mut_slice();
        let mut waiting: std::collections::VecDeque<(Object, Option<Pending>)> = Default::default();
        let mut next = places.iter();
        loop {
            while waiting.len() < AHEAD
                && let Some(place) = next.next()
            {
                let object = self.pool.open(place.row as usize)?;
                let pending = if object.size() > 0 { object.request(0, object.size() as usize) } else { None };
                let local = pending.is_none();
                waiting.push_back((object, pending));
                if local {
                    break;
                }
            }
            let Some((object, pending)) = waiting.pop_front() else { break };
            let (slot, after) = rest.split_at_mut(object.size() as usize);
            match pending {
                Some(pending) => pending.fill(slot)?,
                None => object.read_at(0, slot)?,
            }
            rest = after;
        }
        binary(&Kind::Bytes, layout.offsets, values, None)
    }
}

impl Reader for Files {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn gather(&self, places: &[Place]) -> Result<Chunk> {
        let index = &self.pool.index;
        check(index, places)?;
        let mut paths = Binary::new();
        for place in places {
            paths.push(index.inner().uris.get(place.row as usize).map_or(&[], |u| u.as_bytes()));
        }
        let paths = paths.finish(&Kind::Utf8, None)?;
        let contents = self.contents(places)?;
        let columns = if index.inner().labels.is_empty() {
            vec![paths, contents]
        } else {
            let label = |p: &Place| index.inner().labels.get(p.row as usize).map_or(0, |&l| l as i64);
            vec![contents, Arc::new(Int64Array::from_iter_values(places.iter().map(label))), paths]
        };
        Chunk::new(self.schema.clone(), columns, ids(index, places))
    }

    fn stream(&self, block: u64, epoch: Epoch, rows: usize) -> Result<Chunks<'_>> {
        stream_counted(self, &self.pool.index, block, epoch, rows)
    }
}
