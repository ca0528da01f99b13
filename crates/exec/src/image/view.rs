//! A view of pixels: 8 bits a channel, channels together, rows a stride apart; the stride is negative upside down.
//!
//! Invariant: every row of a view is inside its slice, so a kernel that reads [`Image::row`] cannot read outside. A
//! crop, or the image upside down, is a view of the same bytes, without a copy.

use forebay_core::{Error, Result};
use forebay_plan::Direction;

/// A rectangle of pixels; `x` and `y` are its left and upper edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Columns left of it.
    pub x: usize,
    /// Rows above it.
    pub y: usize,
    /// Its columns.
    pub width: usize,
    /// Its rows.
    pub height: usize,
}

impl Region {
    /// The whole of an image.
    pub fn whole(width: usize, height: usize) -> Self {
        Self { x: 0, y: 0, width, height }
    }

    /// Says whether it has pixels and all of them lie inside an image of this size.
    pub fn fits(&self, width: usize, height: usize) -> bool {
        let inside = |from: usize, len: usize, of: usize| len > 0 && from.checked_add(len).is_some_and(|end| end <= of);
        inside(self.x, self.width, width) && inside(self.y, self.height, height)
    }
}

/// The directions in which an image is mirrored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mirror {
    /// Left to right.
    pub horizontal: bool,
    /// Upside down.
    pub vertical: bool,
}

impl Mirror {
    /// Mirrors once more, if the coin is heads.
    pub fn turn(&mut self, direction: Direction, heads: bool) {
        match direction {
            Direction::Horizontal => self.horizontal ^= heads,
            Direction::Vertical => self.vertical ^= heads,
        }
    }
}

/// A borrowed image, see the module's documentation.
#[derive(Debug, Clone, Copy)]
pub struct Image<'a> {
    pixels: &'a [u8],
    width: usize,
    height: usize,
    channels: usize,
    /// Where the first row begins.
    first: usize,
    stride: isize,
}

impl<'a> Image<'a> {
    /// Views `pixels` as rows without gaps.
    ///
    /// # Errors
    /// Invalid when the size is not `height * width * channels`, or zero.
    pub fn packed(pixels: &'a [u8], width: usize, height: usize, channels: usize) -> Result<Self> {
        let len = width.checked_mul(channels).and_then(|row| row.checked_mul(height));
        if len != Some(pixels.len()) || pixels.is_empty() {
            let got = pixels.len();
            return Err(Error::invalid(format!(
                "{got} bytes are not an image of shape [{height}, {width}, {channels}]"
            )));
        }
        Ok(Self { pixels, width, height, channels, first: 0, stride: (width * channels) as isize })
    }

    /// Returns the columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the bytes of a pixel.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Returns the bytes of row `y`.
    ///
    /// # Panics
    /// When the row does not exist.
    #[inline]
    pub fn row(&self, y: usize) -> &'a [u8] {
        &self.pixels[self.start(y)..][..self.width * self.channels]
    }

    /// Returns the rows in order.
    pub fn rows(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let image = *self;
        (0..image.height).map(move |y| image.row(y))
    }

    /// Returns the bytes when rows have no gaps between them.
    pub fn as_packed(&self) -> Option<&'a [u8]> {
        let row = self.width * self.channels;
        (self.stride == row as isize).then(|| &self.pixels[self.first..][..row * self.height])
    }

    /// Views a part.
    ///
    /// # Errors
    /// Invalid when the region is empty or not inside.
    pub fn crop(&self, region: Region) -> Result<Self> {
        let Region { x, y, width, height } = region;
        if !region.fits(self.width, self.height) {
            let (w, h) = (self.width, self.height);
            return Err(Error::invalid(format!(
                "a crop of {width}x{height} at ({x}, {y}) is not inside an image of {w}x{h}"
            )));
        }
        Ok(Self { first: self.start(y) + x * self.channels, width, height, ..*self })
    }

    /// Views the rows in the other order.
    pub fn upside_down(&self) -> Self {
        Self { first: self.start(self.height - 1), stride: -self.stride, ..*self }
    }

    #[inline]
    fn start(&self, y: usize) -> usize {
        self.first.wrapping_add_signed(y as isize * self.stride)
    }
}

/// Returns the first `len` bytes of a buffer that is kept from call to call, with unspecified content.
///
/// A buffer much larger than needed is freed, so that one huge image does not hold its memory for ever.
pub(super) fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    const KEPT_BYTES: usize = 64 << 20;
    if buffer.len() > KEPT_BYTES && buffer.len() / 4 > len {
        *buffer = Vec::new();
    }
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
