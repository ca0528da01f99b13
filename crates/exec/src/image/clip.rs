//! Clips: a chain runs on each frame, and the result is one tensor again. This is the only loop over frames.
//!
//! Invariant: one draw for a clip. A chain's draws follow from the sample and from the size of an image, and all frames
//! of a clip have both in common; only noise takes the number of its frame. Frames are a dimension of any place before
//! rows and columns: 0, or 1 where the channels come before them.

use forebay_core::{Error, ErrorKind, Result};

use super::chain::{Output, Shape};

/// The most numbers of a clip that is made: as many as `decode_video` makes of a row.
const NUMBERS_MAX: usize = 1 << 30;

/// The place of frames in the bytes of a clip.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// How many there are.
    pub(crate) count: usize,
    /// Their dimension, 0 or 1.
    pub(crate) axis: usize,
    /// The shape of one of them.
    pub(crate) shape: [usize; 3],
}

impl Frames {
    /// Returns the shape of the clip.
    pub(crate) fn clip(&self) -> [usize; 4] {
        let [a, b, c] = self.shape;
        if self.axis == 0 { [self.count, a, b, c] } else { [a, self.count, b, c] }
    }

    /// Returns the places of the parts of a frame, which lie together in it, and apart in the clip of so many bytes.
    fn parts(&self, frame: usize, bytes: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let (count, apart) = (self.count, if self.axis == 0 { 1 } else { self.shape[0] });
        let len = bytes / (count * apart).max(1);
        (0..apart).map(move |part| (part * count + frame) * len).map(move |start| start..start + len)
    }

    /// Returns the bytes of a frame; `buffer` holds them where they do not lie together.
    pub(crate) fn read<'a>(&self, clip: &'a [u8], frame: usize, buffer: &'a mut Vec<u8>) -> &'a [u8] {
        if self.axis == 0 {
            return self.parts(frame, clip.len()).next().map_or(&[], |part| &clip[part]);
        }
        buffer.clear();
        self.parts(frame, clip.len()).for_each(|part| buffer.extend_from_slice(&clip[part]));
        buffer
    }

    fn write(&self, clip: &mut [u8], frame: usize, from: &[u8]) {
        let mut left = from;
        for part in self.parts(frame, clip.len()) {
            let (now, rest) = left.split_at(part.len());
            clip[part].copy_from_slice(now);
            left = rest;
        }
    }
}

/// Runs `run` for each of `count` frames, and puts their results at dimension `axis` of a clip. Returns its shape.
///
/// # Errors
/// Any error of `run`; Data when there is no frame; Exhausted when the clip has more than 2^30 numbers.
pub(crate) fn each_frame(
    count: usize,
    axis: usize,
    out: &mut Output<'_>,
    run: &mut dyn FnMut(usize, &mut Output<'_>) -> Result<Shape>,
) -> Result<[usize; 4]> {
    if count == 0 {
        return Err(Error::data("a clip without frames").hint("filter such clips out before"));
    }
    let mut one = Vec::new();
    let shape = run(0, &mut Output::Vec(&mut one))?;
    let numbers = shape.dims.iter().product::<usize>().saturating_mul(count);
    if numbers > NUMBERS_MAX {
        let message = format!("{count} frames of {:?} have {numbers} numbers, more than {NUMBERS_MAX}", shape.dims);
        return Err(Error::new(ErrorKind::Exhausted, message).with("fault", "sample").hint("resize the clip before"));
    }
    let frames = Frames { count, axis, shape: shape.dims };
    let clip = out.take_many(shape, count)?;
    frames.write(clip, 0, &one);
    for frame in 1..count {
        match frames.axis {
            0 => run(frame, &mut Output::Slot(&mut clip[frame * one.len()..][..one.len()]))?,
            _ => {
                let made = run(frame, &mut Output::Slot(&mut one))?;
                frames.write(clip, frame, &one);
                made
            }
        };
    }
    Ok(frames.clip())
}
