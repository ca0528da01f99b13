//! An op on sound or on spectra: each row goes through its kernel once, on any idle thread of the pool.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, Int32Array, LargeBinaryArray};
use arrow_buffer::{Buffer, ToByteSlice};
use forebay_core::rng::{SampleRng, op_key};
use forebay_core::{Error, Result, Seed};
use forebay_data::{
    Chunk, FixedTensorBuilder, Kind, Memory, RowId, Schema, VariableTensorBuilder, tensor_shape_of_row, tensor_values,
};
use forebay_plan::ops::DecodeAudio;
use forebay_plan::{Op, Step};

use crate::audio::resample::Resampler;
use crate::audio::reverb::{Channels, reverb};
use crate::audio::spectrum::Spectra;
use crate::audio::{Bounds, Sound, change, decode};
use crate::ops::scratch::Scratch;

pub(crate) struct AudioOp {
    step: Step,
    seed: Seed,
    memory: Memory,
    /// The constants of a spectrogram.
    spectra: Option<Spectra>,
}

/// The result of a row: a tensor, and the sampling rate of its file.
struct Made {
    shape: Vec<usize>,
    values: Vec<f32>,
    rate: i32,
}

impl AudioOp {
    pub(crate) fn new(step: &Step, seed: Seed, memory: Memory) -> Self {
        let spectra = if let Op::Spectrogram(op) = &step.node.op { Some(Spectra::new(op)) } else { None };
        Self { step: step.clone(), seed, memory, spectra }
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.step.schema
    }

    pub(crate) fn run(&self, chunk: &Chunk, scratch: &mut Scratch) -> Result<Chunk> {
        let blame = |error| self.step.node.blame(error);
        let (column, output, rate) = self.columns().map_err(blame)?;
        let rows = Rows::of(chunk, column).map_err(blame)?;
        let second = match &self.step.node.op {
            Op::RandomNoise(op) => op.noise.as_ref(),
            Op::RandomReverb(op) => Some(&op.impulse_response),
            _ => None,
        };
        let second = second.map(|second| Rows::of(chunk, second)).transpose().map_err(blame)?;
        let made: Vec<OnceLock<Made>> = (0..chunk.num_rows()).map(|_| OnceLock::new()).collect();
        scratch.for_each_row(chunk.num_rows(), &|row, _| {
            let result = self.row(&rows, second.as_ref(), row, chunk.random_id(row));
            let result = result.map_err(|e| blame(e.with("sample", chunk.ids()[row].sample)))?;
            made[row].get_or_init(|| result);
            Ok(())
        })?;
        let made: Option<Vec<Made>> = made.into_iter().map(OnceLock::into_inner).collect();
        let made = made.ok_or_else(|| Error::internal("a row of sound that was not made"))?;
        let field = self.step.schema.field(output)?;
        let done = chunk.with_column(field.clone(), self.column(&field.kind, &made).map_err(blame)?)?;
        let Some(rate) = rate else { return Ok(done) };
        let rates: ArrayRef = Arc::new(made.iter().map(|made| made.rate).collect::<Int32Array>());
        done.with_column(self.step.schema.field(rate)?.clone(), rates)
    }

    /// Returns the column that it reads, the one that it makes, and the one of rates.
    fn columns(&self) -> Result<(&str, &str, Option<&str>)> {
        fn in_place(column: &str) -> Result<(&str, &str, Option<&str>)> {
            Ok((column, column, None))
        }
        match &self.step.node.op {
            Op::DecodeAudio(op) => Ok((&op.column, &op.output, op.rate.as_deref())),
            Op::Spectrogram(op) => Ok((&op.column, &op.output, None)),
            Op::ResampleAudio(op) => in_place(&op.column),
            Op::CropAudio(op) => in_place(&op.column),
            Op::RandomOffset(op) => in_place(&op.column),
            Op::NormalizeAudio(op) => in_place(&op.column),
            Op::RandomGain(op) => in_place(&op.column),
            Op::RandomNoise(op) => in_place(&op.column),
            Op::RandomReverb(op) => in_place(&op.column),
            Op::SpecAugment(op) => in_place(&op.column),
            other => Err(Error::internal(format!("{} is no op on sound", other.name()))),
        }
    }

    /// Makes a row. `second` has the noise or the impulse responses that the op also reads.
    fn row(&self, rows: &Rows<'_>, second: Option<&Rows<'_>>, row: usize, id: RowId) -> Result<Made> {
        if let Op::DecodeAudio(op) = &self.step.node.op {
            return decoded(op, rows.encoded(row)?);
        }
        let (shape, sound) = rows.numbers(row)?;
        let (mut shape, channels) = (shape.to_vec(), shape.get(1).copied().unwrap_or(1));
        let mut rng = SampleRng::new(op_key(self.seed, id.epoch, self.step.random), id.sample);
        let values = match &self.step.node.op {
            Op::ResampleAudio(op) => resampled(sound, channels, op.from_rate, op.sample_rate)?,
            Op::CropAudio(op) => change::crop(sound, channels, op.start, op.length, op.pad)?,
            Op::RandomOffset(op) => {
                let start = change::offset(shape[0], op.length, &mut rng);
                change::crop(sound, channels, start, op.length, op.pad)?
            }
            Op::NormalizeAudio(op) => change::normalize(op, sound),
            Op::RandomGain(op) => change::gain(op, sound, &mut rng),
            Op::RandomNoise(op) => {
                let noise = second.map(|noise| noise.numbers(row)).transpose()?;
                if noise.is_some_and(|(shape, _)| shape.get(1).copied().unwrap_or(1) != channels) {
                    return Err(Error::data("random_noise: sound and noise have other numbers of channels")
                        .hint("decode both with mono=True"));
                }
                change::add_noise(op, sound, noise.map(|(_, numbers)| numbers), channels, &mut rng)?
            }
            Op::RandomReverb(op) => {
                let second = second.ok_or_else(|| Error::internal("reverberation without a response"))?;
                let (shape, response) = second.numbers(row)?;
                let response = Channels { samples: response, channels: shape.get(1).copied().unwrap_or(1) };
                reverb(op, Channels { samples: sound, channels }, response, &mut rng)?
            }
            Op::SpecAugment(op) => {
                let mut values = sound.to_vec();
                change::mask(op, [shape[0], channels], &mut values, &mut rng);
                values
            }
            Op::Spectrogram(_) => {
                let spectra = self.spectra.as_ref().ok_or_else(|| Error::internal("a spectrogram has constants"))?;
                let (made, values) = spectra.run(sound)?;
                shape = made.to_vec();
                values
            }
            other => return Err(Error::internal(format!("{} is no op on sound", other.name()))),
        };
        if shape.len() == 1 || !matches!(self.step.node.op, Op::Spectrogram(_) | Op::SpecAugment(_)) {
            shape[0] = values.len().checked_div(channels).unwrap_or(0);
        }
        Ok(Made { shape, values, rate: 0 })
    }

    fn column(&self, kind: &Kind, made: &[Made]) -> Result<ArrayRef> {
        let wrong = || Error::internal("sound has a dtype and dimensions");
        let (Kind::Tensor { shape, .. }, Some(dtype)) = (kind, kind.dtype()) else { return Err(wrong()) };
        if let Some(shape) = kind.known_shape() {
            let mut builder = FixedTensorBuilder::within(&self.memory, dtype, &shape, made.len());
            let numbers: usize = shape.iter().product();
            if made.iter().any(|made| made.values.len() != numbers) {
                return Err(Error::internal(format!("a row that is no {kind}")));
            }
            let slots = builder.all_as::<f32>().chunks_exact_mut(numbers.max(1));
            slots.zip(made).for_each(|(slot, made)| slot.copy_from_slice(&made.values));
            return builder.finish();
        }
        let mut builder = VariableTensorBuilder::new(dtype, shape.len());
        for made in made {
            builder.push(&made.shape, made.values.as_slice().to_byte_slice())?;
        }
        builder.finish()
    }
}

fn decoded(op: &DecodeAudio, bytes: &[u8]) -> Result<Made> {
    let Sound { rate, channels, samples } = decode(bytes, Bounds { max_seconds: op.max_seconds })?;
    let (samples, channels) = match op.channels {
        _ if op.mono => (mean(samples, channels), 1),
        Some(wanted) if channels == 1 => {
            (samples.iter().flat_map(|&s| std::iter::repeat_n(s, wanted)).collect(), wanted)
        }
        Some(wanted) if channels != wanted => {
            return Err(Error::data(format!("decode_audio: the sound has {channels} channels, not {wanted}"))
                .hint("mono=True averages the channels of each sound"));
        }
        _ => (samples, channels),
    };
    let values = match op.sample_rate {
        Some(wanted) if wanted != rate => resampled(&samples, channels, rate, wanted)?,
        _ => samples,
    };
    let frames = values.len() / channels;
    Ok(Made { shape: if op.mono { vec![frames] } else { vec![frames, channels] }, values, rate: rate as i32 })
}

/// Returns the mean of the channels, summed in their order.
fn mean(samples: Vec<f32>, channels: usize) -> Vec<f32> {
    if channels == 1 {
        return samples;
    }
    samples.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect()
}

/// Resamples each channel.
fn resampled(samples: &[f32], channels: usize, from: u32, to: u32) -> Result<Vec<f32>> {
    let resampler = Resampler::of(from, to)?;
    if channels == 1 {
        return Ok(resampler.run(samples));
    }
    let mut made = vec![0.0; resampler.samples(samples.len() / channels.max(1)) * channels];
    for channel in 0..channels {
        let own: Vec<f32> = samples.iter().skip(channel).step_by(channels).copied().collect();
        let own = resampler.run(&own);
        made.iter_mut().skip(channel).step_by(channels).zip(own).for_each(|(to, sample)| *to = sample);
    }
    Ok(made)
}

/// The rows of a column, one by one.
enum Rows<'a> {
    Encoded(&'a LargeBinaryArray),
    /// Numbers; the shape and the first number of each row.
    Numbers {
        values: Buffer,
        rows: Vec<(Vec<usize>, usize)>,
    },
}

impl<'a> Rows<'a> {
    fn of(chunk: &'a Chunk, column: &str) -> Result<Self> {
        let (kind, array) = (&chunk.schema().field(column)?.kind, chunk.column(column)?);
        if *kind == Kind::Bytes {
            let bytes = array.as_any().downcast_ref().ok_or_else(|| Error::internal("bytes are large binary"))?;
            return Ok(Rows::Encoded(bytes));
        }
        let (mut rows, mut start) = (Vec::with_capacity(array.len()), 0);
        for row in 0..array.len() {
            let shape = tensor_shape_of_row(kind, array, row)?;
            let numbers = shape.iter().product::<usize>();
            rows.push((shape, start));
            start += numbers;
        }
        Ok(Rows::Numbers { values: tensor_values(kind, array)?, rows })
    }

    fn encoded(&self, row: usize) -> Result<&[u8]> {
        match self {
            Rows::Encoded(bytes) if bytes.is_null(row) => {
                Err(Error::data("the sound is missing").hint("leave such rows out with filter"))
            }
            Rows::Encoded(bytes) => Ok(bytes.value(row)),
            Rows::Numbers { .. } => Err(Error::internal("sound that is decoded already")),
        }
    }

    fn numbers(&self, row: usize) -> Result<(&[usize], &[f32])> {
        match self {
            Rows::Numbers { values, rows } => {
                let (shape, start) = &rows[row];
                Ok((shape, &values.typed_data::<f32>()[*start..][..shape.iter().product()]))
            }
            Rows::Encoded(_) => Err(Error::internal("sound that is not decoded")),
        }
    }
}
