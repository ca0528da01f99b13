//! Mosaics of whole batches (Bochkovskiy et al., 2020): the corners of four images of a batch meet at a drawn place, and
//! the result has the size of one image.
//!
//! Each image draws its coin, its place and its three partners from its own stream, so a mosaic depends on the images of
//! the batch alone. All annotations of the batch are checked before any draw: a draw does not decide whether a row fails.

use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, tensor_values};
use forebay_plan::{Op, Step, ops};

use crate::annotations::{Rows, Tile};
use crate::image::Region;
use crate::ops::mix_op::Planes;

pub(crate) struct MosaicOp {
    pub(crate) step: Step,
    seed: Seed,
}

impl MosaicOp {
    pub(crate) fn new(step: &Step, seed: Seed) -> Self {
        Self { step: step.clone(), seed }
    }

    /// Makes the mosaics of one batch.
    ///
    /// # Errors
    /// Data with the sample whose annotations do not fit its image.
    pub(crate) fn run(&self, batch: &Chunk) -> Result<Chunk> {
        let Op::Mosaic(ops::Mosaic { column, center_range, probability, with: Some(with) }) = &self.step.node.op else {
            return Err(Error::internal("an op that makes no mosaics"));
        };
        let field = batch.schema().field(column)?;
        let (planes, values) = (Planes::of(&field.kind)?, tensor_values(&field.kind, batch.column(column)?)?);
        let (size, count) = (planes.size, batch.num_rows());
        let rows = Rows::new(with, batch.schema(), batch.columns())?;
        let check = |row| rows.checked(row, size).map_err(|e| e.with("sample", batch.ids()[row].sample));
        let mut made = (0..count).map(check).collect::<Result<Vec<_>>>()?;
        let mut images = planes.builder(count);
        images.all().copy_from_slice(&values);
        for (row, made) in made.iter_mut().enumerate() {
            let id = batch.random_id(row);
            let mut rng = SampleRng::new(op_key(self.seed, id.epoch, self.step.random), id.sample);
            if rng.unit() >= *probability {
                continue;
            }
            let tiles = tiles(size, *center_range, row, count, &mut rng);
            let to = images.slot(row);
            tiles.iter().for_each(|tile| planes.copy(&values, tile.row, tile.part, to, tile.at));
            *made = rows.joined(&tiles, size)?;
        }
        let mut result = batch.with_column(field.clone(), images.finish()?)?;
        for (field, column) in rows.made(&self.step.schema, &made)? {
            result = result.with_column(field, column)?;
        }
        Ok(result)
    }
}

/// Draws the four parts of a mosaic in row `row` of `count` images of one size: the parts are at the upper left, the upper
/// right, the lower left and the lower right, and the row's own image is the first.
fn tiles(size: (usize, usize), centre: (f64, f64), row: usize, count: usize, rng: &mut SampleRng) -> [Tile; 4] {
    // For the parts before and behind the place, the first pixel and the number of pixels of the image, and its place.
    let mut side = |len: usize| {
        let place = ((rng.uniform(centre.0, centre.1) * len as f64).round() as usize).min(len);
        [(len - place, place, 0), (0, len - place, place)]
    };
    let (columns, lines) = (side(size.0), side(size.1));
    let images = partners(row, count, rng);
    std::array::from_fn(|at| {
        let ((x, width, left), (y, height, top)) = (columns[at % 2], lines[at / 2]);
        Tile { row: images[at], part: Region { x, y, width, height }, at: (left, top) }
    })
}

/// Draws three other rows, each once, behind `row`. A batch of fewer than four rows gives some again.
fn partners(row: usize, count: usize, rng: &mut SampleRng) -> [usize; 4] {
    let mut taken = vec![row];
    let mut images = [row; 4];
    for image in &mut images[1..] {
        if taken.len() == count {
            taken.clear();
        }
        *image = rng.up_to((count - taken.len() - 1) as u32) as usize;
        // The drawn row among rows that are not taken; `taken` is sorted.
        taken.iter().for_each(|&other| *image += usize::from(*image >= other));
        taken.insert(taken.partition_point(|&other| other < *image), *image);
    }
    images
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn parts_cover_the_image_and_come_from_different_images() {
        for sample in 0..2_000 {
            let mut rng = SampleRng::new(7, SampleId(sample));
            let (row, count, size) = (sample as usize % 6, 6, (9, 5));
            let tiles = tiles(size, (0.0, 1.0), row, count, &mut rng);
            let mut pixels = [0; 45];
            for Tile { part, at: (left, top), .. } in tiles {
                assert!(part.x + part.width <= size.0 && part.y + part.height <= size.1);
                (0..part.height)
                    .for_each(|y| pixels[(top + y) * 9 + left..][..part.width].iter_mut().for_each(|n| *n += 1));
            }
            assert_eq!(pixels, [1; 45]);
            let mut images = tiles.map(|tile| tile.row);
            assert_eq!(images[0], row);
            images.sort_unstable();
            assert!(images.windows(2).all(|two| two[0] < two[1]) && images[3] < count, "{images:?}");
        }
    }

    #[test]
    fn a_small_batch_gives_images_again() {
        let drawn = |row, count| partners(row, count, &mut SampleRng::new(8, SampleId(0)));
        assert_eq!(drawn(0, 1), [0; 4]);
        let [own, first, second, third] = drawn(1, 3);
        assert_eq!((own, first + second), (1, 2));
        assert!(third < 3);
    }
}
