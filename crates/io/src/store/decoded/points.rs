//! The access points of a compressed file, at which decoding can begin, found while its rows are counted.

use forebay_core::{Error, Result};

use super::codec::Codec;
use super::inflate::WINDOW;
use crate::index::codec::{Decoder, Encoder};

/// The least distance of two points, in bytes of output. A random row costs half of it on average.
pub(super) const SPACING: u64 = 2 << 20;
/// The most points of a file. When there are more, every other one is dropped, and the spacing doubles. Each point of
/// gzip takes some 10 KiB.
const POINTS_MAX: usize = 1024;
/// The compression level of windows.
const LEVEL: i32 = 3;

/// A place at which decoding can begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Point {
    /// Its offset in the file.
    pub(super) input: u64,
    /// The decompressed bytes before it.
    pub(crate) output: u64,
    /// The state that the decoder needs; `None` where a member, a frame or a stream begins.
    pub(super) state: Option<State>,
}

/// The state that inflate needs between two blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// The number of unread bits of the byte before.
    pub(super) bits: u8,
    /// The output before it, at most [`WINDOW`] bytes, compressed.
    window: Box<[u8]>,
}

impl State {
    pub(super) fn new(bits: u8, output: &[u8]) -> Result<Self> {
        let window = &output[output.len().saturating_sub(WINDOW)..];
        let window = zstd::bulk::compress(window, LEVEL).map_err(|e| Error::internal(format!("zstd: {e}")))?;
        Ok(Self { bits, window: window.into() })
    }

    pub(super) fn window(&self) -> Result<Vec<u8>> {
        zstd::bulk::decompress(&self.window, WINDOW)
            .map_err(|e| Error::data(format!("an index holds a broken point: {e}")))
    }
}

/// The points and the size of a compressed file in an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Points {
    pub(crate) codec: Codec,
    /// The decompressed size of the file.
    pub(crate) size: u64,
    /// From front to back. The first is the file's start.
    points: Vec<Point>,
}

impl Points {
    pub(super) fn new(codec: Codec) -> Self {
        let start = Point { input: 0, output: 0, state: None };
        Self { codec, size: 0, points: vec![start] }
    }

    /// Returns the last point at or before an offset of the output, and the offset of the next one.
    pub(crate) fn before(&self, offset: u64) -> (&Point, Option<u64>) {
        let after = self.points.partition_point(|point| point.output <= offset).max(1);
        (&self.points[after - 1], self.points.get(after).map(|point| point.output))
    }

    /// Says whether a point is due at an offset of the output.
    pub(super) fn is_due(&self, output: u64, spacing: u64) -> bool {
        self.points.last().is_some_and(|last| output >= last.output + spacing)
    }

    /// Adds a point, and returns the distance to the next.
    pub(super) fn push(&mut self, point: Point, spacing: u64) -> u64 {
        self.points.push(point);
        if self.points.len() <= POINTS_MAX {
            return spacing;
        }
        let mut number = 0;
        self.points.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        spacing * 2
    }

    pub(crate) fn encode(points: Option<&Self>, to: &mut Encoder) {
        let Some(points) = points else { return to.int(0) };
        to.int(points.codec.number() + 1);
        to.int(points.size);
        let numbers = |of: fn(&Point) -> u64| points.points.iter().map(of).collect::<Vec<_>>();
        to.rising(&numbers(|point| point.input));
        to.rising(&numbers(|point| point.output));
        for point in &points.points {
            match &point.state {
                None => to.int(0),
                Some(state) => {
                    to.int(u64::from(state.bits) + 1);
                    to.bytes(&state.window);
                }
            }
        }
    }

    /// Decodes the result of [`Points::encode`] for a file of `stored` bytes.
    pub(crate) fn decode(from: &mut Decoder<'_>, stored: u64) -> Result<Option<Self>> {
        let Some(number) = from.int()?.checked_sub(1) else { return Ok(None) };
        let mut points = Self::new(Codec::from_number(number)?);
        points.size = from.int()?;
        let (inputs, outputs) = (from.rising()?, from.rising()?);
        let broken = || Error::data("an index holds broken points of a compressed file");
        let rises = |numbers: &[u64], end: u64| {
            numbers.first() == Some(&0) && numbers.is_sorted() && numbers.last().is_some_and(|last| *last <= end)
        };
        if inputs.len() != outputs.len() || !rises(&inputs, stored) || !rises(&outputs, points.size) {
            return Err(broken());
        }
        points.points.clear();
        for (input, output) in inputs.into_iter().zip(outputs) {
            let state = match from.int()? {
                0 => None,
                bits @ 1..=8 if input > 0 => Some(State { bits: bits as u8 - 1, window: from.bytes()?.into() }),
                _ => return Err(broken()),
            };
            points.points.push(Point { input, output, state });
        }
        Ok(Some(points))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_size_has_so_many_points_at_most() {
        let mut points = Points::new(Codec::Bzip2);
        let mut spacing = SPACING;
        for output in (0..1 << 40).step_by(1 << 20) {
            if points.is_due(output, spacing) {
                spacing = points.push(Point { input: output / 2, output, state: None }, spacing);
            }
        }
        points.size = 1 << 40;
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&points.points.len()), "{}", points.points.len());
        let gaps = points.points.windows(2).map(|pair| pair[1].output - pair[0].output);
        assert!(gaps.max() <= Some(2 * spacing));
        let mut to = Encoder::new(*b"test", 1);
        Points::encode(Some(&points), &mut to);
        let bytes = to.seal();
        let read = |stored| Points::decode(&mut Decoder::open(&bytes, *b"test", 1..=1).expect("sealed"), stored);
        assert_eq!(read(1 << 39).expect("valid"), Some(points));
        assert!(read(1000).is_err(), "points behind the end of the file");
    }
}
