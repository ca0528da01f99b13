//! A sample of each op, for the suite `check_op`: its arguments, the ops before it, and arguments that it refuses. A
//! new op is added here once; the suite fails for an op without a sample.

mod augmentations;
mod batches;
mod images;
mod sound;
mod table;
mod text;

use bytes::Bytes;
use forebay_core::Result;
use forebay_data::{DType, Field, Kind};
use forebay_plan::{
    Annotations, AutoPolicy, Binary, BlobId, Border, BoxFormat, Call, CastType, Corner, Direction, Edge, Expr, Found,
    Function, Group, ImageFormat, ImageMode, Interpolation, Layout, Logarithm, Loudness, Mel, MelNorm, MelScale,
    Mixing, Op, Packing, PadTo, Pattern, Resample, ShuffleWindow, SoundLevel, Table, TimePart, TimeUnit, Values,
    Window, ops,
};

use super::random::col;
use augmentations::augmentations;
use batches::{batches, orders};
use images::{annotated, images};
use sound::audio;
use table::{calls, columns, functions};
use text::{text, training};

/// An op, and the inputs of the suite for running it over the rows of [`super::random::rows`].
pub(crate) struct Sample {
    pub(crate) op: Op,
    /// The ops that make its input columns.
    pub(crate) before: Vec<Op>,
    /// The op with arguments that it refuses over the same rows.
    pub(crate) refused: Vec<Op>,
}

/// Blobs of samples: a tokenizer, and empty pickles.
pub(crate) struct SampleBlobs;

impl forebay_io::Blobs for SampleBlobs {
    fn get(&self, id: &BlobId) -> Result<Bytes> {
        Ok(match id.0.as_str() {
            TOKENIZER => Bytes::from_static(TOKENIZER_JSON.as_bytes()),
            CHAT => Bytes::from(chat_json()),
            _ => Bytes::new(),
        })
    }
}

const TOKENIZER: &str = "tokenizer";

/// Digits to their numbers.
const TOKENIZER_JSON: &str = r#"{
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {
        "?": 0, "1": 1, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "7": 7, "8": 8, "9": 9, "10": 10
    }}
}"#;

const CHAT: &str = "chat";

/// A chat template that writes the numbers of roles and contents.
fn chat_json() -> String {
    let template = "{% for m in messages %}{{ m.role|length }} {{ m.content }} {% endfor %}\
                    {% if add_generation_prompt %}9 {% endif %}";
    serde_json::json!({"template": template, "variables": {}, "date": null, "tokenizer": TOKENIZER_JSON}).to_string()
}

fn sample(op: Op, before: Vec<Op>, refused: Vec<Op>) -> Sample {
    Sample { op, before, refused }
}

/// Returns a sample of each op.
pub(crate) fn samples() -> Vec<Sample> {
    [
        columns(),
        calls(),
        functions(),
        images(),
        annotated(),
        augmentations(),
        audio(),
        text(),
        training(),
        batches(),
        orders(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn name(of: &str) -> String {
    of.to_owned()
}

fn cast(column: &str, to: CastType) -> Op {
    Op::Cast(ops::Cast { columns: vec![(name(column), to)] })
}

fn less(column: &str, value: i64) -> Expr {
    Expr::Binary { op: Binary::Lt, left: col(column), right: Box::new(Expr::Int { value }) }
}

const COLUMN: &str = "sized";
