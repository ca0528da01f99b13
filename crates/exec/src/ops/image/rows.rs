//! The images or clips of a column, one by one, as the input of a chain.

use arrow_array::{Array, ArrayRef, LargeBinaryArray};
use arrow_buffer::Buffer;
use forebay_core::{Error, Result};
use forebay_data::{DType, Kind, tensor_shape_of_row, tensor_values};
use forebay_plan::{Clip, Layout, image_layout};

use crate::image::{Depth, Frames, Input};

/// The images or clips of a column.
pub(crate) enum Images<'a> {
    Encoded(&'a LargeBinaryArray),
    /// Numbers of `size` bytes; the shape and the first number of each image.
    Numbers {
        values: Buffer,
        size: usize,
        depth: Depth,
        layout: Layout,
        /// Of clips, the frames of each; the images then have the shape of one frame.
        clips: Option<Vec<Frames>>,
        images: Vec<([usize; 3], usize)>,
    },
}

impl<'a> Images<'a> {
    pub(crate) fn new(kind: &Kind, column: &'a ArrayRef) -> Result<Self> {
        if *kind == Kind::Bytes {
            let bytes = column.as_any().downcast_ref().ok_or_else(|| Error::internal("bytes are large binary"))?;
            return Ok(Images::Encoded(bytes));
        }
        let clip = Clip::of(kind);
        let mut clips = clip.as_ref().map(|_| Vec::with_capacity(column.len()));
        let mut images = Vec::with_capacity(column.len());
        let mut start = 0;
        for row in 0..column.len() {
            let mut shape = tensor_shape_of_row(kind, column, row)?;
            let len: usize = shape.iter().product();
            let count = clip.as_ref().map(|clip| shape.remove(clip.axis));
            let shape: [usize; 3] = shape.try_into().map_err(|_| Error::internal("an image has 3 dimensions"))?;
            if let (Some(clips), Some(clip), Some(count)) = (&mut clips, &clip, count) {
                clips.push(Frames { count, axis: clip.axis, shape });
            }
            images.push((shape, start));
            start += len;
        }
        let dtype = kind.dtype().unwrap_or(DType::Uint8);
        let layout = image_layout(&Clip::frame_of(kind)).unwrap_or(Layout::Hwc);
        let (values, size, depth) = (tensor_values(kind, column)?, dtype.size(), Depth::of(dtype));
        Ok(Images::Numbers { values, size, depth, layout, clips, images })
    }

    /// Returns an image.
    ///
    /// # Errors
    /// Data when it is missing.
    pub(crate) fn row(&self, row: usize) -> Result<Input<'_>> {
        match self {
            Images::Encoded(bytes) if bytes.is_null(row) => Err(Error::data("the image is missing")),
            Images::Encoded(bytes) => Ok(Input::Encoded(bytes.value(row))),
            Images::Numbers { images, .. } => {
                let (shape, _) = images[row];
                Ok(self.input(shape, 0, self.bytes(row, shape.iter().product())))
            }
        }
    }

    /// Returns the number of frames of a clip.
    pub(crate) fn frames(&self, row: usize) -> usize {
        self.clip(row).map_or(1, |frames| frames.count)
    }

    /// Returns a frame of a clip; `buffer` may hold it.
    ///
    /// # Errors
    /// Internal for a column without clips.
    pub(crate) fn frame<'b>(&'b self, row: usize, frame: usize, buffer: &'b mut Vec<u8>) -> Result<Input<'b>> {
        let frames = self.clip(row).ok_or_else(|| Error::internal("frames of a column without clips"))?;
        let clip = self.bytes(row, frames.clip().iter().product());
        Ok(self.input(frames.shape, frame, frames.read(clip, frame, buffer)))
    }

    fn clip(&self, row: usize) -> Option<&Frames> {
        match self {
            Images::Numbers { clips: Some(clips), .. } => clips.get(row),
            _ => None,
        }
    }

    /// Returns the bytes of so many numbers of a row.
    fn bytes(&self, row: usize, numbers: usize) -> &[u8] {
        match self {
            Images::Numbers { values, size, images, .. } => {
                &values.as_slice()[images[row].1 * size..][..numbers * size]
            }
            Images::Encoded(bytes) => bytes.value(row),
        }
    }

    fn input<'b>(&self, shape: [usize; 3], frame: usize, bytes: &'b [u8]) -> Input<'b> {
        let [height, width, channels] = shape;
        match self {
            Images::Numbers { size: 4, layout, .. } => Input::Floats { shape, layout: *layout, bytes },
            Images::Numbers { depth, .. } => {
                Input::Pixels { height, width, channels, depth: *depth, frame, pixels: bytes }
            }
            Images::Encoded(_) => Input::Encoded(bytes),
        }
    }
}
