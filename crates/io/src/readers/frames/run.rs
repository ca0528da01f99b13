//! Frames in memory.

/// Consecutive frames in memory.
pub(super) struct Run {
    pub(super) bytes: Vec<u8>,
    /// Where each frame begins, and the end.
    pub(super) bounds: Vec<i64>,
    /// Whether the frames are payloads without their framing.
    pub(super) bare: bool,
}

impl Run {
    pub(super) fn frame(&self, row: usize) -> &[u8] {
        &self.bytes[self.bounds[row] as usize..self.bounds[row + 1] as usize]
    }

    pub(super) fn rows(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Keeps the part of each frame that `part` returns, in place, and returns the new bounds.
    pub(super) fn shrink(&mut self, part: impl Fn(&[u8]) -> std::ops::Range<usize>) -> Vec<i64> {
        let mut ends = Vec::with_capacity(self.bounds.len());
        ends.push(0);
        let mut end = 0;
        for row in 0..self.rows() {
            let from = self.bounds[row] as usize;
            let part = part(self.frame(row));
            self.bytes.copy_within(from + part.start..from + part.end, end);
            end += part.len();
            ends.push(end as i64);
        }
        self.bytes.truncate(end);
        ends
    }
}
