//! Clips: columns of frames. An image op does the same to each frame of a clip, with one draw for all of them.

use forebay_data::{DType, Kind};

/// A column of clips, as frames of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    /// The number of frames, if all clips have the same.
    pub frames: Option<usize>,
    /// The dimension of the frames: 0, or 1 where the channels come before the frames.
    pub axis: usize,
    /// The kind of a frame.
    pub frame: Kind,
}

impl Clip {
    /// Returns the clips of a column of four dimensions: `[frames, height, width, channels]` of uint8 or uint16, or float32
    /// in an order of `normalize`. `None` for other columns, and where lengths of 1 or 3 leave open which dimension has
    /// the channels.
    pub fn of(kind: &Kind) -> Option<Self> {
        let Kind::Tensor { dtype, shape } = kind else { return None };
        if shape.len() != 4 {
            return None;
        }
        let has_channels = |axis: usize| matches!(shape[axis], Some(1 | 3));
        let axis = match dtype {
            DType::Uint8 | DType::Uint16 => 0,
            DType::Float32 => match [3, 1, 0].map(has_channels) {
                [true, false, false] | [false, true, false] => 0,
                [false, false, true] => 1,
                _ => return None,
            },
            _ => return None,
        };
        let mut shape = shape.clone();
        let frames = shape.remove(axis);
        Some(Self { frames, axis, frame: Kind::Tensor { dtype: *dtype, shape } })
    }

    /// Returns the kind of the frames of a column of clips; that of a column of images is their own.
    pub fn frame_of(kind: &Kind) -> Kind {
        Self::of(kind).map_or_else(|| kind.clone(), |clip| clip.frame)
    }

    /// Returns the kind of as many frames of another kind; `axis` is the dimension of the frames.
    pub(super) fn of_frames(&self, frame: Kind, axis: usize) -> Kind {
        match frame {
            Kind::Tensor { dtype, mut shape } => {
                shape.insert(axis, self.frames);
                Kind::Tensor { dtype, shape }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(dtype: DType, shape: [usize; 4]) -> Kind {
        Kind::fixed(dtype, &shape)
    }

    #[test]
    fn the_dimension_of_frames_follows_from_the_one_of_channels() {
        let axis = |dtype, shape| Clip::of(&kind(dtype, shape)).map(|clip| clip.axis);
        assert_eq!(axis(DType::Uint8, [3, 3, 3, 3]), Some(0));
        assert_eq!(axis(DType::Float32, [16, 9, 9, 3]), Some(0));
        assert_eq!(axis(DType::Float32, [16, 3, 9, 9]), Some(0));
        assert_eq!(axis(DType::Float32, [3, 16, 9, 9]), Some(1));
        assert_eq!(axis(DType::Float32, [3, 3, 9, 9]), None);
        assert_eq!(axis(DType::Float32, [16, 9, 9, 9]), None);
        assert_eq!(axis(DType::Int64, [16, 9, 9, 3]), None);
        let clip = Clip::of(&kind(DType::Float32, [3, 16, 9, 8])).expect("a clip");
        assert_eq!((clip.frames, clip.frame), (Some(16), Kind::fixed(DType::Float32, &[3, 9, 8])));
    }
}
