//! The ops, as plain data. `facts` has their properties, `apply` the schema after them.
//!
//! An op belongs to one [`Class`], which decides where it runs (DESIGN: "Ops, by what they may see"): row ops run
//! inside a split, order ops are done by the epoch plan, global ops run once after the merge.

use forebay_data::Field;
use serde::{Deserialize, Serialize};

use crate::epoch::window::ShuffleWindow;
use crate::ops::arguments::{Direction, Function, ImageMode, Interpolation, Layout, Mixing};
use crate::ops::bucket::Bucket;
use crate::ops::expr::{CastType, Expr};
use crate::ops::text::{Pack, Tokenize};

/// One transformation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Op {
    /// A Python function of a row, or of columns.
    Map {
        /// The function.
        function: Function,
        /// The columns that it writes, over the others when `writes` was given, else instead of them.
        output: Vec<Field>,
        /// Whether columns that it does not write stay.
        keep_others: bool,
    },
    /// Keeps the rows for which a Python function is true.
    FilterFunction {
        /// The function.
        function: Function,
    },
    /// Keeps the rows for which an expression is true; a missing value is not true.
    FilterExpr {
        /// The expression.
        predicate: Expr,
    },
    /// Keeps these columns, in this order.
    Select {
        /// Their names.
        columns: Vec<String>,
    },
    /// Leaves these columns out.
    Drop {
        /// Their names.
        columns: Vec<String>,
    },
    /// Renames columns.
    Rename {
        /// From, to.
        columns: Vec<(String, String)>,
    },
    /// Another type, as NumPy's `astype`.
    Cast {
        /// Column, type.
        columns: Vec<(String, CastType)>,
    },
    /// A column computed from others.
    WithColumn {
        /// Its name.
        column: String,
        /// Its value.
        value: Expr,
    },
    /// The same rows; a number in these columns that is not finite is an error.
    CheckFinite {
        /// Their names.
        columns: Vec<String>,
    },
    /// Encoded bytes to an uint8 image of height, width, channels.
    DecodeImage {
        /// The column, decoded in place.
        column: String,
        /// To which colours.
        mode: ImageMode,
    },
    /// To exactly this height and width, bilinear.
    Resize {
        /// The column.
        column: String,
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
        /// Whether shrinking averages (as Pillow) or samples (as TensorFlow's and DALI's default).
        antialias: bool,
    },
    /// The shorter side to this many pixels, the shape kept (torchvision's rule), bilinear.
    ResizeShorter {
        /// The column.
        column: String,
        /// Pixels.
        size: usize,
        /// The most pixels of the longer side.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_size: Option<usize>,
        /// As in `Resize`.
        antialias: bool,
    },
    /// The middle, padded with zeros where the image is smaller.
    CenterCrop {
        /// The column.
        column: String,
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
    },
    /// A random part, resized (torchvision's rule).
    RandomResizedCrop {
        /// The column.
        column: String,
        /// Pixels.
        height: usize,
        /// Pixels.
        width: usize,
        /// Least and greatest share of the area.
        scale: (f64, f64),
        /// Least and greatest width / height.
        ratio: (f64, f64),
        /// As in `Resize`.
        antialias: bool,
    },
    /// Mirrored, at random.
    RandomFlip {
        /// The column.
        column: String,
        /// How likely.
        probability: f64,
        /// Which way; not written down when left to right, so that such a pipeline keeps its dataset id.
        #[serde(default, skip_serializing_if = "Direction::is_horizontal")]
        direction: Direction,
    },
    /// Brightness, contrast, saturation and hue changed in random order (torchvision's rule).
    ColorJitter {
        /// The column.
        column: String,
        /// Least and greatest factor; `None` leaves it alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        brightness: Option<(f64, f64)>,
        /// Least and greatest factor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contrast: Option<(f64, f64)>,
        /// Least and greatest factor.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saturation: Option<(f64, f64)>,
        /// Least and greatest part of a circle.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hue: Option<(f64, f64)>,
        /// How likely.
        probability: f64,
    },
    /// Grey in as many channels as before, at random.
    RandomGrayscale {
        /// The column.
        column: String,
        /// How likely.
        probability: f64,
    },
    /// A Gaussian blur, at random.
    GaussianBlur {
        /// The column.
        column: String,
        /// Rows and columns of the kernel, an odd number.
        kernel_size: usize,
        /// Least and greatest standard deviation, in pixels.
        sigma: (f64, f64),
        /// How likely.
        probability: f64,
    },
    /// A turn about the centre, at random.
    RandomRotation {
        /// The column.
        column: String,
        /// Least and greatest angle to the left, in degrees.
        degrees: (f64, f64),
        /// How a pixel between pixels is made.
        interpolation: Interpolation,
        /// The pixel outside, one level or one for each channel.
        fill: Option<Vec<u8>>,
    },
    /// Operations out of torchvision's RandAugment, at random.
    RandAugment {
        /// The column.
        column: String,
        /// How many.
        num_ops: usize,
        /// How strong.
        magnitude: usize,
        /// The number of magnitudes.
        num_magnitude_bins: usize,
        /// How a pixel between pixels is made.
        interpolation: Interpolation,
        /// The pixel outside, one level or one for each channel; zeros without it.
        fill: Option<Vec<u8>>,
    },
    /// A rectangle overwritten, at random; before or after `Normalize`.
    RandomErasing {
        /// The column.
        column: String,
        /// How likely.
        probability: f64,
        /// Least and greatest share of the area.
        scale: (f64, f64),
        /// Least and greatest height / width.
        ratio: (f64, f64),
        /// One number or one for each channel; normal draws without it.
        value: Option<Vec<f64>>,
    },
    /// To float32: `(x / 255 - mean) / std` for uint8, `(x - mean) / std` for floats.
    Normalize {
        /// The column.
        column: String,
        /// One for each channel.
        mean: Vec<f64>,
        /// One for each channel.
        std: Vec<f64>,
        /// The order of the result's dimensions.
        layout: Layout,
    },
    /// The samples of each batch mixed in pairs; labels become shares of classes.
    Mix {
        /// How.
        how: Mixing,
        /// The images.
        column: String,
        /// The labels: numbers of classes, or shares of them.
        label: String,
        /// The number of classes.
        classes: usize,
        /// Of the beta distribution of the share that a sample keeps.
        alpha: f64,
        /// How likely a batch is mixed at all.
        probability: f64,
    },
    /// Caches the output of the ops before it for each row.
    Cache {
        /// Whether random ops before it draw once for each sample, the same in every epoch.
        freeze: bool,
    },
    /// May cache the output of the ops before it for each row: each process measures whether and where that pays.
    Autocache {},
    /// Text to token ids.
    Tokenize(Tokenize),
    /// Token lists to rows of one length.
    Pack(Pack),
    /// Rows of about the same length together.
    BucketByLength(Bucket),
    /// A permutation, another one each epoch.
    Shuffle {
        /// How many rows it permutes together.
        #[serde(default, skip_serializing_if = "ShuffleWindow::is_auto")]
        window: ShuffleWindow,
    },
    /// The epoch's samples over again.
    Repeat {
        /// How often; `None` for ever.
        count: Option<u64>,
    },
    /// The first rows only.
    Take {
        /// How many.
        count: u64,
    },
    /// All but the first rows.
    Skip {
        /// How many.
        count: u64,
    },
    /// Every `count`-th row, from `index`.
    Shard {
        /// Of how many shards.
        count: u64,
        /// Which one.
        index: u64,
    },
    /// Rows together.
    Batch {
        /// How many.
        size: usize,
        /// Whether a short last batch is left out.
        drop_remainder: bool,
    },
    /// How many batches (or rows) may wait for the consumer. Default without it: decided by the engine.
    Prefetch {
        /// How many.
        count: usize,
    },
}

/// Which rows an op may see, which decides where it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Each row gives one row.
    RowWise,
    /// Each row gives one row or none.
    Filter,
    /// Makes other rows of the ordered stream: a row may come of many, and of parts of them.
    Global,
    /// Decides which rows come in which order.
    Order,
    /// Puts rows together.
    Group,
    /// A hint; changes no row.
    Hint,
}
