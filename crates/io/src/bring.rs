//! Fetches remote files in full through the cache of their bytes, before any row of them is needed.

use std::collections::VecDeque;

use forebay_core::{Error, Result};

use crate::store::{Object, Pending};
use crate::{Progress, ReadThrough, SourceIndex};

/// Bytes of one request.
const STEP: u64 = 4 << 20;
/// Requests in flight together.
const AHEAD: usize = 16;

/// Reads every byte of the files of an index through `near`, one file after another, and holds none of them. Reports to
/// `progress` how many bytes are done, of how many.
///
/// # Errors
/// Any error of reading a file; any error that `progress` returns.
pub fn bring(index: &SourceIndex, near: &dyn ReadThrough, progress: Progress<'_>) -> Result<()> {
    let all = index.bytes();
    let (mut done, mut waiting, mut bytes) = (0, VecDeque::new(), Vec::new());
    for (uri, stat) in index.inner().uris.iter().zip(&index.inner().stats) {
        let object = Object::open(uri, stat, Some(near), &index.inner().allowed)?;
        for start in (0..stat.size).step_by(STEP as usize) {
            let len = STEP.min(stat.size - start);
            let nearer = || Error::invalid("this file is here already").with("file", uri);
            waiting.push_back((len, object.request(start, len as usize).ok_or_else(nearer)?));
            if waiting.len() == AHEAD {
                done += land(&mut waiting, &mut bytes)?;
                progress(done, all)?;
            }
        }
    }
    while !waiting.is_empty() {
        done += land(&mut waiting, &mut bytes)?;
        progress(done, all)?;
    }
    Ok(())
}

fn land(waiting: &mut VecDeque<(u64, Pending)>, bytes: &mut Vec<u8>) -> Result<u64> {
    let Some((len, pending)) = waiting.pop_front() else { return Ok(0) };
    bytes.resize(len as usize, 0);
    pending.fill(bytes)?;
    Ok(len)
}
