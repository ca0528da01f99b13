//! The steps of the image kernels, made of a plan's ops.

use forebay_core::{Error, Result};
use forebay_plan::Op;

use crate::image::{self, Augment, Filter, IouCrop, Region};

/// Returns the kernel of an op. `key_op` names its random stream.
///
/// # Errors
/// Internal when it is no image op.
pub(super) fn kernel(op: &Op, key_op: u64) -> Result<image::Step> {
    if let Some(augment) = Augment::of(op) {
        return Ok(image::Step::Augment { augment, key_op });
    }
    Ok(match op {
        Op::Annotated(op) => return kernel(&op.of, key_op),
        Op::Annotate(op) => image::Step::Annotate { clip: op.clip },
        Op::Resize(op) => {
            let filter = Filter::of(op.interpolation, op.antialias);
            image::Step::Resize { height: op.height, width: op.width, filter }
        }
        Op::ResizeShorter(op) => {
            let filter = Filter::of(op.interpolation, op.antialias);
            image::Step::ResizeShorter { size: op.size, max_size: op.max_size, filter }
        }
        Op::CenterCrop(op) => image::Step::CenterCrop { height: op.height, width: op.width },
        Op::Crop(op) => {
            let part = Region { x: op.left, y: op.top, width: op.width, height: op.height };
            image::Step::Crop { part, corner: op.corner }
        }
        Op::RandomIouCrop(op) => {
            let (scale, ratio, overlaps, trials) = (op.scale, op.ratio, op.overlaps.clone(), op.trials);
            image::Step::IouCrop { rules: IouCrop { scale, ratio, overlaps, trials }, key_op }
        }
        Op::RandomZoomOut(op) => {
            let (side, fill, p) = (op.side_range, colour(&op.fill), op.probability);
            image::Step::ZoomOut { side, fill, p, key_op }
        }
        Op::Pad(op) => image::Step::Pad { border: op.border, fill: colour(&op.fill) },
        Op::RandomCrop(op) => {
            let (height, width, border, fill) = (op.height, op.width, op.border, colour(&op.fill));
            image::Step::RandomCrop { height, width, border, fill, key_op }
        }
        Op::RandomResizedCrop(op) => image::Step::RandomResizedCrop {
            height: op.height,
            width: op.width,
            scale: op.scale,
            ratio: op.ratio,
            filter: Filter::of(op.interpolation, op.antialias),
            key_op,
        },
        Op::RandomFlip(op) => image::Step::Flip { direction: op.direction, p: op.probability, key_op },
        Op::Normalize(op) => image::Step::Normalize {
            mean: op.mean.iter().map(|&m| m as f32).collect(),
            std: op.std.iter().map(|&s| s as f32).collect(),
            layout: op.layout.of_frame(),
        },
        other => return Err(Error::internal(format!("{} is no image op", other.name()))),
    })
}

/// Returns the colour of one level, or of one for each channel.
fn colour(levels: &[u8]) -> [u8; 4] {
    std::array::from_fn(|c| levels.get(c).or(levels.first()).copied().unwrap_or(0))
}
