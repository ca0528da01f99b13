//! The properties of an op that need no schema: its name, its class, its randomness, its blob.

use crate::epoch::window::ShuffleWindow;
use crate::ops::arguments::{Function, Mixing};
use crate::ops::op::{Class, Op};
use crate::source::BlobId;

impl Op {
    /// A shuffle whose window is chosen by the source's sizes.
    pub const SHUFFLE: Self = Op::Shuffle { window: ShuffleWindow::Auto };

    /// Says whether the number of rows after it is known only when it has run.
    pub fn is_uncounted(&self) -> bool {
        matches!(self.class(), Class::Filter | Class::Global) || matches!(self, Op::BucketByLength(_))
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
            Op::Cache { .. } => "cache",
            Op::Autocache {} => "autocache",
            Op::Tokenize(_) => "tokenize",
            Op::Pack(_) => "pack",
            Op::BucketByLength(_) => "bucket_by_length",
            Op::Shuffle { .. } => "shuffle",
            Op::Repeat { .. } => "repeat",
            Op::Take { .. } => "take",
            Op::Skip { .. } => "skip",
            Op::Shard { .. } => "shard",
            Op::Batch { .. } => "batch",
            Op::Prefetch { .. } => "prefetch",
        }
    }

    /// Returns whether the rows before it may be cached.
    pub fn is_cache_point(&self) -> bool {
        matches!(self, Op::Cache { .. } | Op::Autocache {})
    }

    /// Returns its class.
    pub fn class(&self) -> Class {
        self.class_and_randomness().0
    }

    /// Says whether it draws random numbers.
    pub fn is_random(&self) -> bool {
        self.class_and_randomness().1
    }

    /// Names every op, so that none gets a class or shares a random stream by default.
    fn class_and_randomness(&self) -> (Class, bool) {
        match self {
            Op::FilterFunction { function } => (Class::Filter, function.with_rng),
            Op::FilterExpr { .. } => (Class::Filter, false),
            Op::Shuffle { .. } => (Class::Order, true),
            Op::Repeat { .. } | Op::Take { .. } | Op::Skip { .. } | Op::Shard { .. } => (Class::Order, false),
            Op::Pack(_) => (Class::Global, false),
            Op::Batch { .. } | Op::BucketByLength(_) => (Class::Group, false),
            Op::Prefetch { .. } => (Class::Hint, false),
            Op::Map { function, .. } => (Class::RowWise, function.with_rng),
            Op::RandomResizedCrop { .. }
            | Op::RandomFlip { .. }
            | Op::ColorJitter { .. }
            | Op::RandomGrayscale { .. }
            | Op::GaussianBlur { .. }
            | Op::RandomRotation { .. }
            | Op::RandAugment { .. }
            | Op::RandomErasing { .. }
            | Op::Mix { .. } => (Class::RowWise, true),
            Op::Select { .. }
            | Op::Drop { .. }
            | Op::Rename { .. }
            | Op::Cast { .. }
            | Op::WithColumn { .. }
            | Op::CheckFinite { .. }
            | Op::DecodeImage { .. }
            | Op::Resize { .. }
            | Op::ResizeShorter { .. }
            | Op::CenterCrop { .. }
            | Op::Normalize { .. }
            | Op::Cache { .. }
            | Op::Autocache {}
            | Op::Tokenize(_) => (Class::RowWise, false),
        }
    }

    /// Returns the user's Python function, if it has one.
    pub fn function(&self) -> Option<&Function> {
        match self {
            Op::Map { function, .. } | Op::FilterFunction { function } => Some(function),
            _ => None,
        }
    }

    /// Returns the op as it is hashed and compared: a function by what it computes, not by its pickle.
    pub(crate) fn named(&self) -> Self {
        let mut op = self.clone();
        if let Op::Map { function, .. } | Op::FilterFunction { function } = &mut op {
            function.blob.name_by(&mut function.code);
        }
        op
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
}
