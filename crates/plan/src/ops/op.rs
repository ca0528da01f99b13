//! The enum of all ops. It only dispatches: each op describes itself in its own file.

use forebay_core::Result;
use forebay_data::Schema;
use serde::{Deserialize, Serialize};

use super::access::Access;
use super::annotated::Annotated;
use super::columns::Function;
use super::images::{Annotations, ImageSpec};
use super::order::{Shuffle, ShuffleWindow};
use super::spec::{Class, OpSpec};
use super::{audio, augment, batches, cache, columns, images, order, text};
use crate::source::BlobId;

/// Makes the enum of the ops, and the one match over all of them.
macro_rules! ops {
    ($($(#[$doc:meta])* $variant:ident($spec:ty),)*) => {
        /// One transformation.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
        pub enum Op {
            $($(#[$doc])* $variant($spec),)*
        }

        impl Op {
            /// The names of all variants. A test of all ops compares its samples with them.
            pub const VARIANTS: &[&str] = &[$(stringify!($variant)),*];

            /// Returns the name of its variant.
            pub fn variant(&self) -> &'static str {
                match self {
                    $(Op::$variant(_) => stringify!($variant),)*
                }
            }

            pub(crate) fn spec(&self) -> &dyn OpSpec {
                match self {
                    $(Op::$variant(op) => op,)*
                }
            }

            pub(crate) fn spec_mut(&mut self) -> &mut dyn OpSpec {
                match self {
                    $(Op::$variant(op) => op,)*
                }
            }
        }
    };
}

ops! {
    /// A Python function of a row, or of columns.
    Map(columns::Map),
    /// Keeps the rows for which a Python function is true.
    FilterFunction(columns::FilterFunction),
    /// Keeps the rows for which an expression is true.
    FilterExpr(columns::FilterExpr),
    /// Makes any number of rows of each row by a Python function.
    FlatMap(columns::FlatMap),
    /// Makes a row of each step of a tensor's first dimension.
    Explode(columns::Explode),
    /// Keeps these columns.
    Select(columns::Select),
    /// Removes these columns.
    Drop(columns::Drop),
    /// Renames columns.
    Rename(columns::Rename),
    /// Changes types.
    Cast(columns::Cast),
    /// Computes a column from others.
    WithColumn(columns::WithColumn),
    /// Refuses numbers that are not finite.
    CheckFinite(columns::CheckFinite),
    /// Decodes encoded bytes to an image.
    DecodeImage(images::DecodeImage),
    /// Encodes an image to the bytes of a file.
    EncodeImage(images::EncodeImage),
    /// Declares the boxes, masks and points of an image.
    Annotate(images::Annotate),
    /// An image op, and the columns that follow the image.
    Annotated(Annotated),
    /// Resizes to exactly one height and width.
    Resize(images::Resize),
    /// Resizes the shorter side to so many pixels.
    ResizeShorter(images::ResizeShorter),
    /// Keeps the middle of an image.
    CenterCrop(images::CenterCrop),
    /// Keeps a part of an image.
    Crop(images::Crop),
    /// Puts a border around an image.
    Pad(images::Pad),
    /// Keeps a part of an image at a random place.
    RandomCrop(images::RandomCrop),
    /// Crops a random part and resizes it.
    RandomResizedCrop(images::RandomResizedCrop),
    /// Keeps a part with enough of a box in it, at random.
    RandomIouCrop(images::RandomIouCrop),
    /// Puts an image on a larger canvas, at random.
    RandomZoomOut(images::RandomZoomOut),
    /// Mirrors an image, at random.
    RandomFlip(images::RandomFlip),
    /// Changes colours, at random.
    ColorJitter(augment::ColorJitter),
    /// Makes an image grey, at random.
    RandomGrayscale(augment::RandomGrayscale),
    /// Inverts bright levels, at random.
    RandomSolarize(augment::RandomSolarize),
    /// A Gaussian blur, at random.
    GaussianBlur(augment::GaussianBlur),
    /// A rotation about the centre, at random.
    RandomRotation(augment::RandomRotation),
    /// Random operations of torchvision's RandAugment.
    RandAugment(augment::RandAugment),
    /// Keeps a few bits of each level, at random.
    RandomPosterize(augment::RandomPosterize),
    /// Inverts all levels, at random.
    RandomInvert(augment::RandomInvert),
    /// Stretches each channel to all levels, at random.
    RandomAutocontrast(augment::RandomAutocontrast),
    /// Spreads each channel's levels evenly, at random.
    RandomEqualize(augment::RandomEqualize),
    /// Sharpens or smooths, at random.
    RandomAdjustSharpness(augment::RandomAdjustSharpness),
    /// A turn, a shift, a scaling and a shear, at random.
    RandomAffine(augment::RandomAffine),
    /// A view from another side, at random.
    RandomPerspective(augment::RandomPerspective),
    /// The channels in a random order.
    RandomChannelPermutation(augment::RandomChannelPermutation),
    /// Noise on every level, at random.
    GaussianNoise(augment::GaussianNoise),
    /// A learned policy of two random operations.
    AutoAugment(augment::AutoAugment),
    /// One random operation of torchvision's TrivialAugment.
    TrivialAugment(augment::TrivialAugment),
    /// Blends an image with copies of itself that were changed differently.
    AugMix(augment::AugMix),
    /// Overwrites a rectangle, at random.
    RandomErasing(augment::RandomErasing),
    /// Converts to float32.
    Normalize(images::Normalize),
    /// Mixes the samples of each batch in pairs.
    Mix(batches::Mix),
    /// Makes each image of a batch of parts of four of its images.
    Mosaic(batches::Mosaic),
    /// Caches the output of the ops before it.
    Cache(cache::Cache),
    /// May cache the output of the ops before it.
    Autocache(cache::Autocache),
    /// Decodes encoded bytes to sound.
    DecodeAudio(audio::DecodeAudio),
    /// Changes the sampling rate of a sound.
    ResampleAudio(audio::ResampleAudio),
    /// Keeps the same part of each sound.
    CropAudio(audio::CropAudio),
    /// Keeps a part of a sound at a random place.
    RandomOffset(audio::RandomOffset),
    /// Makes all sounds equally loud.
    NormalizeAudio(audio::NormalizeAudio),
    /// Makes a sound louder or softer, at random.
    RandomGain(audio::RandomGain),
    /// Adds noise to a sound, at random.
    RandomNoise(audio::RandomNoise),
    /// Convolves a sound with the impulse response of a room, at random.
    RandomReverb(audio::RandomReverb),
    /// Computes the spectrum of a sound over time.
    Spectrogram(audio::Spectrogram),
    /// Masks parts of a spectrum, at random.
    SpecAugment(audio::SpecAugment),
    /// Converts text to token ids.
    Tokenize(text::Tokenize),
    /// Renders chats by a template and converts them to token ids.
    Chat(text::Chat),
    /// Masks random ids, as BERT is trained.
    MaskTokens(text::MaskTokens),
    /// Replaces random spans of ids with sentinels, as T5 is trained.
    CorruptSpans(text::CorruptSpans),
    /// Moves a random middle part to the end, at random.
    FillInMiddle(text::FillInMiddle),
    /// Divides ids at random into a prefix and a part that is learned.
    PrefixLm(text::PrefixLm),
    /// Packs token lists into rows of one length.
    Pack(text::Pack),
    /// Batches rows of about the same length together.
    BucketByLength(batches::Bucket),
    /// Batches rows of one key together.
    BatchByKey(batches::BatchByKey),
    /// Permutes rows, differently in each epoch.
    Shuffle(order::Shuffle),
    /// Repeats the epoch's samples.
    Repeat(order::Repeat),
    /// Keeps the first rows only.
    Take(order::Take),
    /// Leaves out the first rows.
    Skip(order::Skip),
    /// Keeps every `count`-th row, from `index`.
    Shard(order::Shard),
    /// Rows by their places.
    SelectRows(order::SelectRows),
    /// Gives each row its number in the epoch.
    Enumerate(order::Enumerate),
    /// One of the two parts of a split.
    Part(order::Part),
    /// Groups rows to batches.
    Batch(batches::Batch),
    /// Rows of any shape together.
    PaddedBatch(batches::PaddedBatch),
    /// How many batches may wait for the consumer.
    Prefetch(batches::Prefetch),
}

impl Op {
    /// A shuffle that chooses its window by the source's size.
    pub const SHUFFLE: Self = Op::Shuffle(Shuffle { window: ShuffleWindow::Auto });

    /// Returns the name of its Python method.
    pub fn name(&self) -> &'static str {
        self.spec().about().name
    }

    /// Returns its class.
    pub fn class(&self) -> Class {
        self.spec().about().class
    }

    /// Returns whether it draws random numbers.
    pub fn is_random(&self) -> bool {
        self.spec().about().is_random
    }

    /// Returns whether the number of rows after it is known only after it has run.
    pub fn is_uncounted(&self) -> bool {
        self.spec().is_uncounted()
    }

    /// Returns the number of rows that it makes of each row, if it makes several and always as many.
    pub fn fan_out(&self) -> Option<u64> {
        self.spec().fan_out()
    }

    /// Checks the arguments and returns the schema after this op over rows of `input`.
    ///
    /// # Errors
    /// Invalid or NotFound, with the wrong argument or column, and a hint.
    pub fn apply(&self, input: &Schema) -> Result<Schema> {
        self.spec().apply(input)
    }

    /// Returns its effects on rows of `input`. `None`: it stays where it was written, and no op moves past it.
    pub fn access(&self, input: &Schema) -> Option<Access> {
        self.spec().access(input)
    }

    /// Returns whether the rows before it may be cached.
    pub fn is_cache_point(&self) -> bool {
        matches!(self, Op::Cache(_) | Op::Autocache(_))
    }

    /// Returns whether it makes of token ids what a model trains on, at random.
    pub fn is_training_form(&self) -> bool {
        matches!(self, Op::MaskTokens(_) | Op::CorruptSpans(_) | Op::FillInMiddle(_) | Op::PrefixLm(_))
    }

    /// Returns the user's Python function, if it has one.
    pub fn function(&self) -> Option<&Function> {
        self.spec().function()
    }

    /// Returns the op as it is hashed and compared: a function by its code, not by its pickle.
    pub(crate) fn named(&self) -> Self {
        let mut op = self.clone();
        if let Some(function) = op.spec_mut().function_mut() {
            function.blob.name_by(&mut function.code);
        }
        op
    }

    /// Returns the blob that it needs where it runs: a pickled function, or a tokenizer.
    pub fn blob(&self) -> Option<&BlobId> {
        self.spec().blob()
    }

    /// Returns its image column, if it is an image op.
    pub fn image_column(&self) -> Option<&str> {
        self.image().map(ImageSpec::column)
    }

    /// Returns the image whose boxes, masks and points it may move.
    pub(crate) fn moved_image(&self) -> Option<&str> {
        match self {
            Op::Mosaic(op) => Some(&op.column),
            op => op.image_column(),
        }
    }

    /// Returns whether it works on the samples of a batch together, so that it has no meaning before `batch`.
    pub(crate) fn needs_batch(&self) -> bool {
        matches!(self, Op::Mix(_) | Op::Mosaic(_))
    }

    /// Returns the columns that follow its image through it, if there are any.
    pub fn annotations(&self) -> Option<&Annotations> {
        self.image().and_then(ImageSpec::annotations)
    }

    /// Returns the op that also moves these columns of its image, if it moves pixels and names none itself.
    #[must_use]
    pub(crate) fn annotated(mut self, with: &Annotations) -> Self {
        match &mut self {
            Op::RandomIouCrop(op) => drop(op.with.get_or_insert_with(|| with.clone())),
            Op::Mosaic(op) => drop(op.with.get_or_insert_with(|| with.clone())),
            _ => {}
        }
        match self.image() {
            Some(image) if image.moves_pixels() && image.annotations().is_none() => {
                Op::Annotated(Annotated { of: Box::new(self), with: with.clone() })
            }
            _ => self,
        }
    }

    /// Returns whether it is an op on sound or on spectra.
    pub fn is_audio(&self) -> bool {
        self.spec().is_audio()
    }

    pub(crate) fn image(&self) -> Option<&dyn ImageSpec> {
        self.spec().image()
    }
}
