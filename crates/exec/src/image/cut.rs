//! Steps that cut or pad an image: the part that stays, reported to the columns that follow the image.

use forebay_core::rng::SampleRng;
use forebay_core::{Error, Result};
use forebay_plan::{Border, Corner};

use super::flow::Flow;
use super::follow::{Change, Follow};
use super::geometry::{center_crop, random_crop, random_zoom_out};
use super::step::Step;
use super::view::Region;

/// Crops or pads an image by step number `at`, and reports it.
///
/// # Errors
/// Data when the part is not inside; Exhausted when the padded image exceeds a limit.
pub(super) fn cut(
    flow: &mut Flow<'_, '_>,
    at: usize,
    step: &Step,
    rng: &impl Fn(u64) -> SampleRng,
    follow: &mut dyn Follow,
) -> Result<()> {
    let mut place = |flow: &mut Flow<'_, '_>, left: usize, top: usize, size: (usize, usize), fill: [u8; 4]| {
        follow.follow(at, Change::Place { left, top, size }, flow.size())?;
        flow.put_on((left, top), size, fill)
    };
    let around = |border: &Border, (width, height): (usize, usize)| {
        let (height, width) = border.around(height, width);
        (width, height)
    };
    let region = match *step {
        Step::CenterCrop { height, width } => {
            let crop = center_crop(flow.size(), (width, height));
            follow.follow(at, Change::Crop(crop.region), flow.size())?;
            flow.crop(crop.region);
            follow.follow(at, Change::Place { left: crop.left, top: crop.top, size: (width, height) }, flow.size())?;
            return flow.put_on((crop.left, crop.top), (width, height), [0; 4]);
        }
        Step::Pad { ref border, fill } => {
            let size = around(border, flow.size());
            return place(flow, border.left, border.top, size, fill);
        }
        Step::RandomCrop { height, width, ref border, fill, key_op } => {
            if !border.is_none() {
                let size = around(border, flow.size());
                place(flow, border.left, border.top, size, fill)?;
            }
            random_crop(flow.size(), (width, height), &mut rng(key_op)).inspect_err(|_| follow.note_failure(at))?
        }
        Step::IouCrop { ref rules, key_op } => {
            let boxes = follow.boxes(at, flow.size())?;
            let Some(region) = rules.draw(flow.size(), &boxes, &mut rng(key_op)) else {
                return follow.follow(at, Change::Keep, flow.size());
            };
            follow.follow(at, Change::CropCentres(region), flow.size())?;
            flow.crop(region);
            return Ok(());
        }
        Step::ZoomOut { side, fill, p, key_op } => {
            let Some(canvas) = random_zoom_out(flow.size(), side, p, &mut rng(key_op)) else {
                return follow.follow(at, Change::Keep, flow.size());
            };
            return place(flow, canvas.left, canvas.top, canvas.size, fill);
        }
        Step::Crop { part, corner } => {
            // A part that does not fit stays as it was given, for the error below.
            let (width, height) = flow.size();
            let far = |from: usize, len: usize, of: usize| of.checked_sub(from + len).unwrap_or(from);
            let (x, y) = (far(part.x, part.width, width), far(part.y, part.height, height));
            match corner {
                Corner::TopLeft => part,
                Corner::TopRight => Region { x, ..part },
                Corner::BottomLeft => Region { y, ..part },
                Corner::BottomRight => Region { x, y, ..part },
            }
        }
        _ => return Err(Error::internal(format!("{} cuts nothing", step.name()))),
    };
    let (width, height) = flow.size();
    if !region.fits(width, height) {
        follow.note_failure(at);
        let Region { x, y, width: w, height: h } = region;
        let message =
            format!("a crop of ({h}, {w}) at row {y}, column {x} of an image of {height} rows, {width} columns");
        return Err(Error::data(message).hint("pad or resize the image before"));
    }
    follow.follow(at, Change::Crop(region), flow.size())?;
    flow.crop(region);
    Ok(())
}
