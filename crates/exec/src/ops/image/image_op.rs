//! Fused image ops over a column: each image goes through the whole chain once, straight into its slot of the batch, on
//! any idle thread of the pool. Boxes, masks and points that follow the image are moved in the same pass.

use std::sync::{Arc, OnceLock};

use arrow_array::ArrayRef;
use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Error, Result, Seed};
use forebay_data::{Chunk, FixedTensorBuilder, Memory, RowId, Schema, VariableTensorBuilder, column_of};
use forebay_plan::{Annotations, Clip, Layout, Op, Step};

use crate::annotations::{MadeRow, Moving, Rows};
use crate::image::{Alone, Chain, Change, Follow, Input, Output, each_frame};
use crate::ops::image::image_steps::kernel;
use crate::ops::image::rows::Images;
use crate::ops::scratch::Scratch;

/// Makes the image of a row, and returns its shape.
type MakeImage<'a> = dyn Fn(usize, &mut Scratch, &mut Output<'_>) -> Result<Vec<usize>> + Sync + 'a;

pub(crate) struct FusedImageOp {
    column: String,
    steps: Vec<Step>,
    chain: Chain,
    /// The columns that follow the image, if there are any.
    annotations: Option<Annotations>,
    /// For each step of the chain, whether the annotations follow it.
    carries: Vec<bool>,
    /// For clips, the dimension of the frames in the result.
    frames_axis: Option<usize>,
    seed: Seed,
    schema: Arc<Schema>,
    memory: Memory,
}

impl FusedImageOp {
    pub(crate) fn new(column: &str, steps: &[Step], input: &Arc<Schema>, seed: Seed, memory: Memory) -> Result<Self> {
        let (mut decode, mut exif) = (None, false);
        let (mut chain, mut carries) = (Vec::new(), Vec::new());
        for step in steps {
            match &step.node.op {
                Op::DecodeImage(op) => (decode, exif) = (Some(op.mode), op.exif),
                op => {
                    carries.push(op.annotations().is_some());
                    chain.push(kernel(op, step.random)?);
                }
            }
        }
        let chain = Chain::new(decode, chain).map_err(|e| steps[0].node.blame(e))?.with_exif(exif);
        let schema = steps.last().map_or_else(|| input.clone(), |s| s.schema.clone());
        let annotations = steps.iter().find_map(|step| step.node.op.annotations());
        let annotations = annotations.filter(|with| with.columns().next().is_some()).cloned();
        let puts_channels_first = |step: &Step| matches!(&step.node.op, Op::Normalize(op) if op.layout == Layout::Cthw);
        let clip = Clip::of(&input.field(column)?.kind);
        let frames_axis = clip.map(|clip| if steps.iter().any(puts_channels_first) { 1 } else { clip.axis });
        let (column, steps) = (column.to_owned(), steps.to_vec());
        Ok(Self { column, steps, chain, annotations, carries, frames_axis, seed, schema, memory })
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The column that it changes.
    pub(crate) fn column(&self) -> &str {
        &self.column
    }

    pub(crate) fn run(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let images = self.images(chunk)?;
        if let Some(annotations) = &self.annotations {
            return self.run_annotated(annotations, &images, chunk, scratch);
        }
        if let Some(column) = self.as_they_are(&images)? {
            return chunk.with_column(self.schema.field(&self.column)?.clone(), column);
        }
        let row = |row: usize, scratch: &mut Scratch, out: &mut Output<'_>| {
            self.row(&images, row, chunk.random_id(row), scratch, out)
        };
        let column = self.make(chunk.num_rows(), scratch, &row)?;
        chunk.with_column(self.schema.field(&self.column)?.clone(), column)
    }

    /// Runs the chain, and moves the annotations of each row with its image.
    fn run_annotated(
        &self,
        annotations: &Annotations,
        images: &Images<'_>,
        chunk: &Chunk,
        scratch: &mut Scratch,
    ) -> Result<Chunk> {
        let rows = Rows::new(annotations, chunk.schema(), chunk.columns())?;
        let made: Vec<OnceLock<Vec<MadeRow>>> = (0..chunk.num_rows()).map(|_| OnceLock::new()).collect();
        let row = |row: usize, scratch: &mut Scratch, out: &mut Output<'_>| {
            let mut moving = Moving::new(&rows, row, &self.carries);
            let id = chunk.random_id(row);
            let shape = self.followed(images, row, id, scratch, out, &mut moving);
            let shape = shape.map_err(|e| self.blame(moving.failed(), e, chunk.ids()[row]))?;
            made[row].get_or_init(|| moving.finish());
            Ok(shape)
        };
        let mut result = chunk.clone();
        if self.steps.iter().all(|step| matches!(step.node.op, Op::Annotate(_))) {
            for (row, made) in made.iter().enumerate() {
                let mut moving = Moving::new(&rows, row, &self.carries);
                let checked = self.check(images, row, &mut moving);
                checked.map_err(|e| self.blame(moving.failed(), e, chunk.ids()[row]))?;
                made.get_or_init(|| moving.finish());
            }
        } else {
            let column = self.make(chunk.num_rows(), scratch, &row)?;
            result = result.with_column(self.schema.field(&self.column)?.clone(), column)?;
        }
        let made: Option<Vec<_>> = made.into_iter().map(OnceLock::into_inner).collect();
        let made = made.ok_or_else(|| Error::internal("a row whose annotations were not moved"))?;
        for (field, column) in rows.made(&self.schema, &made)? {
            result = result.with_column(field, column)?;
        }
        Ok(result)
    }

    /// Checks the annotations of a row whose image does not change.
    fn check(&self, images: &Images<'_>, row: usize, moving: &mut Moving<'_>) -> Result<()> {
        let Input::Pixels { height, width, .. } = images.row(row)? else {
            return Err(Error::internal("annotations of an image that is not decoded"));
        };
        for (at, step) in self.steps.iter().enumerate() {
            if let Op::Annotate(op) = &step.node.op {
                moving.follow(at, Change::Check { clip: op.clip }, (width, height))?;
            }
        }
        Ok(())
    }

    /// Adds the op that failed, by its step of the chain, and the sample.
    fn blame(&self, step: Option<usize>, error: Error, id: RowId) -> Error {
        let decodes = self.steps.len() - self.carries.len();
        self.steps[step.map_or(0, |step| step + decodes)].node.blame(error.with("sample", id.sample))
    }

    /// Returns the images without a copy where the op changes nothing: it crops, and all images already have that size.
    fn as_they_are(&self, images: &Images<'_>) -> Result<Option<ArrayRef>> {
        let kind = &self.schema.field(&self.column)?.kind;
        let (Images::Numbers { values, size: 1, clips: None, images, .. }, Some(shape)) = (images, kind.known_shape())
        else {
            return Ok(None);
        };
        let (wanted, bytes) = ((shape[0], shape[1]), shape.iter().product::<usize>());
        let crops = |step: &Step| matches!(&step.node.op, Op::CenterCrop(op) if (op.height, op.width) == wanted);
        let is_there = |(row, (has, start)): (usize, &([usize; 3], usize))| *has == *shape && *start == row * bytes;
        if !self.steps.iter().all(crops) || !images.iter().enumerate().all(is_there) {
            return Ok(None);
        }
        column_of(kind, values.clone(), images.len()).map(Some)
    }

    /// Returns the input images.
    pub(crate) fn images<'a>(&self, chunk: &'a Chunk) -> Result<Images<'a>> {
        Images::new(&chunk.schema().field(&self.column)?.kind, chunk.column(&self.column)?)
    }

    /// Runs one image or clip through the chain; `id` keys its random numbers. Returns the shape of the result.
    pub(crate) fn row(
        &self,
        images: &Images<'_>,
        row: usize,
        id: RowId,
        scratch: &mut Scratch,
        out: &mut Output<'_>,
    ) -> Result<Vec<usize>> {
        let mut alone = Alone::default();
        let shape = self.followed(images, row, id, scratch, out, &mut alone);
        shape.map_err(|e| self.blame(alone.failed(), e, id))
    }

    /// As [`FusedImageOp::row`], without the op and the sample in an error; calls `follow` at changes of the geometry.
    fn followed(
        &self,
        images: &Images<'_>,
        row: usize,
        id: RowId,
        scratch: &mut Scratch,
        out: &mut Output<'_>,
        follow: &mut dyn Follow,
    ) -> Result<Vec<usize>> {
        let draws = |op| self.rng(op, id);
        let Some(axis) = self.frames_axis else {
            let shape = self.chain.run_followed(images.row(row)?, draws, scratch.images(), out, follow)?;
            return Ok(shape.dims.to_vec());
        };
        let mut buffer = Vec::new();
        let shape = each_frame(images.frames(row), axis, out, &mut |frame, out| {
            self.chain.run_followed(images.frame(row, frame, &mut buffer)?, draws, scratch.images(), out, follow)
        })?;
        Ok(shape.to_vec())
    }

    /// Makes the output column from images that `row` makes.
    pub(crate) fn make(&self, rows: usize, scratch: &mut Scratch, row: &MakeImage<'_>) -> Result<ArrayRef> {
        let kind = &self.schema.field(&self.column)?.kind;
        let dtype = kind.dtype().ok_or_else(|| Error::internal("an image has a dtype"))?;
        let Some(shape) = kind.known_shape() else {
            let mut builder = VariableTensorBuilder::new(dtype, if self.frames_axis.is_some() { 4 } else { 3 });
            let mut bytes = Vec::new();
            for at in 0..rows {
                let shape = row(at, scratch, &mut Output::Vec(&mut bytes))?;
                builder.push(&shape, &bytes)?;
            }
            return builder.finish();
        };
        let mut builder = FixedTensorBuilder::within(&self.memory, dtype, &shape, rows);
        let slots = builder.slots();
        scratch.for_each_row(rows, &|at, scratch| {
            // SAFETY: each row is made once.
            let slot = unsafe { slots.slot(at) };
            row(at, scratch, &mut Output::Slot(slot)).map(drop)
        })?;
        builder.finish()
    }

    fn rng(&self, op: u64, id: RowId) -> SampleRng {
        SampleRng::new(op_key(self.seed, id.epoch, op), id.sample)
    }
}

#[cfg(test)]
mod tests {
    use arrow_buffer::Buffer;
    use forebay_core::{Epoch, SampleId};
    use forebay_data::{DType, Field, Kind, tensor_values};
    use forebay_plan::{Node, ops};

    use super::*;

    /// A crop of pictures of the given sizes to 4 by 6.
    fn cropped(sizes: &[(usize, usize)]) -> (Chunk, Chunk) {
        let any = Kind::Tensor { dtype: DType::Uint8, shape: vec![None, None, Some(3)] };
        let schema = |kind| Arc::new(Schema::new(vec![Field::new("image", kind)]).expect("valid"));
        let (input, output) = (schema(any), schema(Kind::fixed(DType::Uint8, &[4, 6, 3])));
        let mut images = VariableTensorBuilder::new(DType::Uint8, 3);
        for (row, (height, width)) in sizes.iter().enumerate() {
            let levels: Vec<u8> = (0..height * width * 3).map(|i| (i + row) as u8).collect();
            images.push(&[*height, *width, 3], &levels).expect("fits");
        }
        let ids = (0..sizes.len()).map(|row| RowId { sample: SampleId::new(0, row as u64), epoch: Epoch(0) }).collect();
        let chunk = Chunk::new(input.clone(), vec![images.finish().expect("valid")], ids).expect("valid");
        let node = Node::new(Op::CenterCrop(ops::CenterCrop { column: "image".to_owned(), height: 4, width: 6 }));
        let step = Step { node: Arc::new(node), place: 0, random: 0, schema: output, per_batch: false };
        let work = FusedImageOp::new("image", &[step], &input, Seed(0), Memory::default()).expect("valid");
        let done = work.run(&chunk, &mut Scratch::default()).expect("crops");
        (chunk, done)
    }

    fn values(chunk: &Chunk) -> Buffer {
        tensor_values(&chunk.schema().fields()[0].kind, &chunk.columns()[0]).expect("numbers")
    }

    #[test]
    fn images_of_the_size_that_they_are_cropped_to_are_not_copied() {
        let (given, done) = cropped(&[(4, 6), (4, 6), (4, 6)]);
        assert_eq!(values(&done).as_ptr(), values(&given).as_ptr());
        assert_eq!(values(&done), values(&given));
        let (given, done) = cropped(&[(4, 6), (5, 6), (4, 6)]);
        assert_ne!(values(&done).as_ptr(), values(&given).as_ptr());
        let (given, done) = (values(&given), values(&done));
        assert_eq!(done[..72], given[..72]);
        // The last of five rows is cut off.
        assert_eq!(done[72..144], given[72..144]);
        assert_eq!(done[144..], given[72 + 90..]);
        assert_eq!(values(&cropped(&[(6, 4), (6, 4)]).1).len(), 2 * 72, "as many numbers, another shape");
    }
}
