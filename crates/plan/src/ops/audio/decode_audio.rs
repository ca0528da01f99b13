//! Decodes encoded bytes to sound: `decode_audio`.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use super::checks::rate;
use crate::ops::access::Access;
use crate::ops::checks::{count, range};
use crate::ops::spec::{About, Class, OpSpec};

/// Nanoseconds for a byte of an encoded sound, with its resampling.
const BYTE_NS: f64 = 60.0;
/// The most channels of a sound.
const CHANNELS_MAX: usize = 32;
/// The longest sound that a pipeline may allow, in seconds: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Decodes encoded bytes to float32 samples: of one channel (`[?]`), or of all (`[?, channels]`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecodeAudio {
    /// The column of encoded bytes.
    pub column: String,
    /// The column of samples.
    pub output: String,
    /// The sampling rate of the samples, in Hz. `None`: that of each file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_rate: Option<u32>,
    /// Whether the channels are averaged to one.
    pub mono: bool,
    /// The number of channels that each sound has, unless they are averaged. `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<usize>,
    /// The longest sound that is decoded, in seconds. A longer one is an error.
    pub max_seconds: f64,
    /// A column for the sampling rate of each file, in Hz: int32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
}

impl OpSpec for DecodeAudio {
    fn about(&self) -> About {
        About { name: "decode_audio", class: Class::RowWise, is_random: false }
    }

    fn apply(&self, input: &Schema) -> Result<Schema> {
        const OP: &str = "decode_audio";
        let (field, column) = (input.field(&self.column)?, &self.column);
        if field.kind != Kind::Bytes {
            return Err(Error::invalid(format!("{OP}: column {column:?} is {}, not bytes", field.kind))
                .hint("name the column that holds the encoded sound"));
        }
        if let Some(value) = self.sample_rate {
            rate(OP, "sample_rate", value)?;
        }
        if let Some(channels) = self.channels {
            count(OP, "channels", channels, CHANNELS_MAX)?;
            if self.mono {
                return Err(Error::invalid(format!("{OP}: channels={channels} and mono=True"))
                    .hint("mono=True averages all channels; write mono=False to keep them"));
            }
        }
        if !(self.max_seconds > 0.0 && self.max_seconds <= SECONDS_MAX) {
            return Err(range(OP, "max_seconds", self.max_seconds, &format!("0 < max_seconds <= {SECONDS_MAX}")));
        }
        if self.rate.as_ref() == Some(&self.output) {
            return Err(Error::invalid(format!(
                "{OP}: column {:?} is for the samples and for their rate",
                self.output
            ))
            .hint("give rate= another name"));
        }
        let shape = if self.mono { vec![None] } else { vec![None, self.channels] };
        let after = input.with(Field::new(&self.output, Kind::Tensor { dtype: DType::Float32, shape }));
        Ok(match &self.rate {
            Some(rate) => after.with(Field::new(rate, Kind::scalar(DType::Int32))),
            None => after,
        })
    }

    fn is_audio(&self) -> bool {
        true
    }

    fn arguments(&self) -> String {
        let output = if self.output == self.column { String::new() } else { format!(", out={}", self.output) };
        let sample_rate = self.sample_rate.map_or(String::new(), |rate| format!(", sample_rate={rate}"));
        let channels = self.channels.map_or(String::new(), |channels| format!(", channels={channels}"));
        let mono = if self.mono { "" } else { ", mono=False" };
        let rate = self.rate.as_ref().map_or(String::new(), |rate| format!(", rate={rate}"));
        format!("{}{output}{sample_rate}{mono}{channels}, max_seconds={}{rate}", self.column, self.max_seconds)
    }

    fn access(&self, _input: &Schema) -> Option<Access> {
        let writes = [Some(&self.output), self.rate.as_ref()].into_iter().flatten().cloned().collect();
        Some(Access { reads: vec![self.column.clone()], writes, may_fail: true, ..Access::default() })
    }

    fn ns(&self, read: f64, _made: f64) -> f64 {
        read * BYTE_NS
    }
}
