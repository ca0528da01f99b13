//! The ops, as plain data: what each does, what it may see, and what it makes of a schema.
//!
//! An op belongs to one [`Class`], which decides where it runs (DESIGN: "Ops, by what they may see"): row ops run
//! inside a split, order ops are done by the epoch plan, global ops run once after the merge.

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind, Schema};
use serde::{Deserialize, Serialize};

use crate::expr::Expr;
use crate::source::BlobId;
use crate::text::{Pack, Tokenize};

/// Which colours an image is decoded to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImageMode {
    /// One channel: ITU-R 601 luma, as Pillow's `convert("L")`.
    #[serde(rename = "L")]
    Grey,
    /// Three channels.
    #[serde(rename = "RGB")]
    Rgb,
}

impl ImageMode {
    /// Returns the number of channels.
    pub fn channels(self) -> usize {
        match self {
            ImageMode::Grey => 1,
            ImageMode::Rgb => 3,
        }
    }
}

/// The order of an image's dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Layout {
    /// Channels first, as PyTorch.
    Chw,
    /// Channels last, as TensorFlow, JAX and files.
    Hwc,
}

/// Which way a flip mirrors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Left to right.
    #[default]
    Horizontal,
    /// Upside down.
    Vertical,
}

impl Direction {
    fn is_horizontal(&self) -> bool {
        *self == Self::Horizontal
    }
}

/// How a pixel between pixels is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// The nearest.
    Nearest,
    /// Four, by their nearness.
    Bilinear,
}

/// How two samples become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mixing {
    /// Blended.
    Mixup,
    /// A box of one in the other.
    Cutmix,
}

/// A user's Python function, pickled, and how it wants to be called.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// The pickle.
    pub blob: BlobId,
    /// Its name, for people.
    pub name: String,
    /// Called with columns instead of one row.
    pub batched: bool,
    /// Called with a NumPy generator of the row (or of the first row of a batch) as second argument.
    pub with_rng: bool,
    /// The columns it is given; `None` for all.
    pub reads: Option<Vec<String>>,
    /// Seconds one call may take. A function that takes longer is stopped.
    pub timeout_s: f64,
}

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
    /// Another dtype, as NumPy's `astype`.
    Cast {
        /// Column, dtype.
        columns: Vec<(String, DType)>,
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
    /// Text to token ids.
    Tokenize(Tokenize),
    /// Token lists to rows of one length.
    Pack(Pack),
    /// A global permutation, another one each epoch.
    Shuffle {},
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

/// What an op may see, and so where it runs.
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

impl Op {
    /// Says whether the number of rows after it is known only when it has run.
    pub fn is_uncounted(&self) -> bool {
        matches!(self.class(), Class::Filter | Class::Global)
    }

    /// Returns the name of the Python method that makes it.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Map { .. } => "map",
            Op::FilterFunction { .. } | Op::FilterExpr { .. } => "filter",
            Op::Select { .. } => "select",
            Op::Drop { .. } => "drop",
            Op::Rename { .. } => "rename",
            Op::Cast { .. } => "cast",
            Op::WithColumn { .. } => "with_column",
            Op::CheckFinite { .. } => "check_finite",
            Op::DecodeImage { .. } => "decode_image",
            Op::Resize { .. } | Op::ResizeShorter { .. } => "resize",
            Op::CenterCrop { .. } => "center_crop",
            Op::RandomResizedCrop { .. } => "random_resized_crop",
            Op::RandomFlip { .. } => "random_flip",
            Op::ColorJitter { .. } => "color_jitter",
            Op::RandomGrayscale { .. } => "random_grayscale",
            Op::GaussianBlur { .. } => "gaussian_blur",
            Op::RandomRotation { .. } => "random_rotation",
            Op::RandAugment { .. } => "rand_augment",
            Op::RandomErasing { .. } => "random_erasing",
            Op::Normalize { .. } => "normalize",
            Op::Mix { how: Mixing::Mixup, .. } => "mixup",
            Op::Mix { how: Mixing::Cutmix, .. } => "cutmix",
            Op::Tokenize(_) => "tokenize",
            Op::Pack(_) => "pack",
            Op::Shuffle {} => "shuffle",
            Op::Repeat { .. } => "repeat",
            Op::Take { .. } => "take",
            Op::Skip { .. } => "skip",
            Op::Shard { .. } => "shard",
            Op::Batch { .. } => "batch",
            Op::Prefetch { .. } => "prefetch",
        }
    }

    /// Returns its class.
    pub fn class(&self) -> Class {
        match self {
            Op::FilterFunction { .. } | Op::FilterExpr { .. } => Class::Filter,
            Op::Shuffle {} | Op::Repeat { .. } | Op::Take { .. } | Op::Skip { .. } | Op::Shard { .. } => Class::Order,
            Op::Pack(_) => Class::Global,
            Op::Batch { .. } => Class::Group,
            Op::Prefetch { .. } => Class::Hint,
            _ => Class::RowWise,
        }
    }

    /// Says whether it draws random numbers.
    pub fn is_random(&self) -> bool {
        match self {
            Op::Shuffle {}
            | Op::RandomResizedCrop { .. }
            | Op::RandomFlip { .. }
            | Op::ColorJitter { .. }
            | Op::RandomGrayscale { .. }
            | Op::GaussianBlur { .. }
            | Op::RandomRotation { .. }
            | Op::RandAugment { .. }
            | Op::RandomErasing { .. }
            | Op::Mix { .. } => true,
            Op::Map { function, .. } | Op::FilterFunction { function } => function.with_rng,
            _ => false,
        }
    }

    /// Returns the user's Python function, if it has one.
    pub fn function(&self) -> Option<&Function> {
        match self {
            Op::Map { function, .. } | Op::FilterFunction { function } => Some(function),
            _ => None,
        }
    }

    /// Returns the blob that it needs where it runs: a pickled function, or a tokenizer.
    pub fn blob(&self) -> Option<&BlobId> {
        match self {
            Op::Tokenize(tokenize) => Some(&tokenize.tokenizer),
            _ => self.function().map(|f| &f.blob),
        }
    }

    /// Returns the image column that it works on, if it is an image op.
    pub fn image_column(&self) -> Option<&str> {
        match self {
            Op::DecodeImage { column, .. }
            | Op::Resize { column, .. }
            | Op::ResizeShorter { column, .. }
            | Op::CenterCrop { column, .. }
            | Op::RandomResizedCrop { column, .. }
            | Op::RandomFlip { column, .. }
            | Op::ColorJitter { column, .. }
            | Op::RandomGrayscale { column, .. }
            | Op::GaussianBlur { column, .. }
            | Op::RandomRotation { column, .. }
            | Op::RandAugment { column, .. }
            | Op::RandomErasing { column, .. }
            | Op::Normalize { column, .. } => Some(column),
            _ => None,
        }
    }

    /// Checks the arguments and returns the schema after this op over rows of `input`.
    ///
    /// # Errors
    /// Invalid or NotFound, saying which argument or column is wrong and what would be right.
    pub fn apply(&self, input: &Schema) -> Result<Schema> {
        match self {
            Op::Map { function, output, keep_others } => {
                known(input, function.reads.iter().flatten())?;
                let empty = Schema::default();
                let base = if *keep_others { input } else { &empty };
                Ok(Schema::new(output.clone())?.fields().iter().fold(base.clone(), |s, f| s.with(f.clone())))
            }
            Op::FilterFunction { function } => known(input, function.reads.iter().flatten()).map(|()| input.clone()),
            Op::FilterExpr { predicate } => match predicate.kind(input)?.column() {
                Kind::Scalar { dtype: DType::Bool } => Ok(input.clone()),
                other => {
                    Err(Error::invalid(format!("filter needs a truth value for each row, and {predicate} is {other}"))
                        .hint("compare it with something, for example fb.col(\"x\") > 0"))
                }
            },
            Op::Select { columns } => {
                Schema::new(columns.iter().map(|c| input.field(c).cloned()).collect::<Result<_>>()?)
            }
            Op::Drop { columns } => {
                known(input, columns)?;
                Schema::new(input.fields().iter().filter(|f| !columns.contains(&f.name)).cloned().collect())
            }
            Op::Rename { columns } => rename(input, columns),
            Op::Cast { columns } => columns.iter().try_fold(input.clone(), |schema, (column, dtype)| {
                let kind =
                    Expr::Cast { arg: Box::new(Expr::Col { name: column.clone() }), dtype: *dtype }.kind(input)?;
                Ok(schema.with(Field { kind: kind.column(), ..input.field(column)?.clone() }))
            }),
            Op::WithColumn { column, value } => {
                let field = Field::new(column, value.kind(input)?.column());
                Ok(input.with(Field { nullable: value.is_nullable(input), ..field }))
            }
            Op::CheckFinite { columns } if columns.is_empty() => {
                Err(Error::invalid("check_finite: there is no column of floating-point numbers"))
            }
            Op::CheckFinite { columns } => {
                columns.iter().try_for_each(|column| floating(input, column)).map(|()| input.clone())
            }
            Op::Tokenize(tokenize) => tokenize.apply(input),
            Op::Pack(pack) => pack.apply(input),
            Op::Repeat { count: Some(0) } => Err(Error::invalid("repeat: count must be at least 1, or None for ever")),
            Op::Shard { count, index } if index >= count => {
                Err(Error::invalid(format!("shard: index {index} is out of range")).hint(format!("use 0..{count}")))
            }
            Op::Batch { size: 0, .. } => Err(Error::invalid("batch: size must be at least 1")),
            Op::Prefetch { count } if !(1..=4096).contains(count) => {
                Err(Error::invalid(format!("prefetch: count {count} is out of range")).hint("use 1..=4096"))
            }
            Op::Mix { .. } => crate::mix::apply(self, input),
            _ if self.image_column().is_some() => crate::image::apply(self, input),
            _ => Ok(input.clone()),
        }
    }
}

fn known<'a>(schema: &Schema, columns: impl IntoIterator<Item = &'a String>) -> Result<()> {
    columns.into_iter().try_for_each(|c| schema.field(c).map(drop))
}

/// Refuses a column all of whose values are finite by their type, or that has no numbers.
fn floating(input: &Schema, column: &str) -> Result<()> {
    let kind = &input.field(column)?.kind;
    match kind.dtype() {
        Some(dtype) if dtype.is_float() => Ok(()),
        _ => Err(Error::invalid(format!(
            "check_finite: column {column:?} is {kind}, which has no floating-point numbers"
        ))
        .hint("name columns of floats, or none for all of them")),
    }
}

fn rename(input: &Schema, columns: &[(String, String)]) -> Result<Schema> {
    known(input, columns.iter().map(|(from, _)| from))?;
    let name =
        |f: &Field| columns.iter().find(|(from, _)| *from == f.name).map_or(f.name.clone(), |(_, to)| to.clone());
    Schema::new(input.fields().iter().map(|f| Field { name: name(f), ..f.clone() }).collect())
}
