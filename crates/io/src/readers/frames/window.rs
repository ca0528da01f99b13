//! The frames of a window of a lane.

use forebay_core::{Epoch, Result, SampleId};
use forebay_data::{Chunk, RowId};

use super::Frames;
use super::format::Format;
use super::run::Run;
use super::walk::Walk;
use crate::formats::{lines, tfrecord};
use crate::readers::bytes::pool::Pool;
use crate::readers::windows::{Sequential, content_offset, end_position, offset_of, position, sample_at};
use crate::store::{CodecOf, Forward};

/// The frames of a window, concatenated.
pub(crate) struct WindowFrames {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
    samples: Vec<SampleId>,
}

impl WindowFrames {
    fn frame(&self, row: usize) -> &[u8] {
        &self.bytes[row.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[row]]
    }
}

impl Sequential for Frames {
    type Cursor = Walk;
    type Rows = WindowFrames;

    fn pool(&self) -> &Pool {
        &self.pool
    }

    fn codec_of(&self) -> CodecOf {
        self.format.codec_of()
    }

    /// The byte before may be the end of a line.
    fn bytes_before(&self) -> u64 {
        u64::from(self.format.has_lines())
    }

    fn begin(&self, mut forward: Forward, offset: u64) -> Result<Walk> {
        let has_lines = self.format.has_lines();
        if offset > 0 {
            self.check_header(&forward)?;
        }
        let at = match () {
            () if offset == 0 => self.format.first(&mut forward)?,
            // A header is the first line, so for an offset within it the first row is the first row of the file.
            () if has_lines => lines::find(&mut forward, offset)?,
            () => offset,
        };
        Ok(Walk { forward, at, solid: 0, is_over: false, is_found: has_lines || offset == 0 })
    }

    fn forward<'c>(&self, cursor: &'c mut Walk) -> &'c mut Forward {
        &mut cursor.forward
    }

    fn position(&self, cursor: &Walk) -> u64 {
        if cursor.is_over { end_position(&cursor.forward) } else { position(&cursor.forward, cursor.at) }
    }

    fn read(&self, file: usize, cursor: &mut Walk, end: u64, mut rows: Option<&mut WindowFrames>) -> Result<()> {
        if !cursor.is_found {
            let found = tfrecord::find(&mut cursor.forward, cursor.at, end)?;
            (cursor.at, cursor.is_found) = (found.unwrap_or(end.max(cursor.at)), found.is_some());
        }
        let begin = self.position(cursor);
        while self.position(cursor) < end {
            let Some((at, frame)) = cursor.next(&self.format, None)? else { break };
            if let Some(rows) = &mut rows {
                rows.bytes.extend_from_slice(frame);
                rows.ends.push(rows.bytes.len());
                rows.samples.push(sample_at(file, at)?);
            }
        }
        match &self.format {
            // A reader that begins at `end` must find the same record.
            Format::Record { verify } | Format::Example { verify, .. }
                if begin < end && !cursor.forward.is_decoded() =>
            {
                tfrecord::check_find(&mut cursor.forward, end, cursor.at, *verify)
            }
            _ => Ok(()),
        }
    }

    /// In text and JSON lines a row begins behind any line end, so the cursor of a compressed file decodes the content up
    /// to `start` and looks for the next line end.
    fn skip_to(&self, file: usize, cursor: &mut Walk, start: u64) -> Result<()> {
        let begins_at_lines = matches!(self.format, Format::Text | Format::Jsonl { .. });
        if !begins_at_lines || !cursor.forward.is_decoded() {
            return self.read(file, cursor, start, None);
        }
        let offset = content_offset(&cursor.forward, start);
        if offset > cursor.at {
            match lines::next(&mut cursor.forward, offset - 1, None)? {
                Some(len) => cursor.at = offset - 1 + len,
                None => cursor.is_over = true,
            }
        }
        Ok(())
    }

    fn rows(&self, bytes: usize) -> WindowFrames {
        WindowFrames { bytes: Vec::with_capacity(bytes), ends: Vec::new(), samples: Vec::new() }
    }

    fn len(rows: &WindowFrames) -> usize {
        rows.samples.len()
    }

    fn chunk(&self, rows: &WindowFrames, places: &[u64], epoch: Epoch) -> Result<Chunk> {
        let bytes = places.iter().map(|&place| rows.frame(place as usize).len()).sum();
        let mut run = Run { bytes: Vec::with_capacity(bytes), bounds: vec![0], bare: false };
        for &place in places {
            run.bytes.extend_from_slice(rows.frame(place as usize));
            run.bounds.push(run.bytes.len() as i64);
        }
        let samples = || places.iter().map(|&place| rows.samples[place as usize]);
        let starts: Vec<u64> = samples().map(|sample| offset_of(sample).unwrap_or(0)).collect();
        self.decode_streamed(&mut run, samples().map(|sample| RowId { sample, epoch }).collect(), &starts)
    }
}
