//! AutoAugment (Cubuk et al., "AutoAugment: Learning Augmentation Strategies from Data", 2019): its three policies, as
//! torchvision has them.

use forebay_core::Result;
use forebay_core::rng::SampleRng;
use forebay_plan::AutoPolicy;
use forebay_plan::ops::AutoAugment;

use super::operations::{Operation, Ranges, either};
use crate::image::augment::{Draws, Edits};
use crate::image::edit::warp::{Warp, outside};

/// Two operations that run one after the other: each with its probability, and its magnitude from 0 to 9.
type Pair = [(Operation, f64, u8); 2];

impl Draws for AutoAugment {
    fn probability(&self) -> f64 {
        1.0
    }

    /// Draws the pair; then for each operation its coin, and its sign if it has one.
    fn draw(&self, size: (usize, usize), rng: &mut SampleRng, edit: Edits<'_>) -> Result<()> {
        let pairs = match self.policy {
            AutoPolicy::Imagenet => &IMAGENET,
            AutoPolicy::Cifar10 => &CIFAR10,
            AutoPolicy::Svhn => &SVHN,
        };
        let how = Warp::rotation(0.0, self.interpolation, outside(self.fill.as_deref()));
        let pair = pairs[rng.up_to(pairs.len() as u32 - 1) as usize];
        pair.into_iter().try_for_each(|(operation, probability, magnitude)| {
            if rng.unit() >= probability {
                return Ok(());
            }
            let level = f64::from(magnitude) / 9.0;
            let drawn = operation.edit(level, Ranges::auto(size), size, &how, |by| either(by, rng));
            drawn.map_or(Ok(()), &mut *edit)
        })
    }
}

#[rustfmt::skip]
const IMAGENET: [Pair; 25] = [
    [(Operation::Posterize, 0.4, 8), (Operation::Rotate, 0.6, 9)],
    [(Operation::Solarize, 0.6, 5), (Operation::AutoContrast, 0.6, 0)],
    [(Operation::Equalize, 0.8, 0), (Operation::Equalize, 0.6, 0)],
    [(Operation::Posterize, 0.6, 7), (Operation::Posterize, 0.6, 6)],
    [(Operation::Equalize, 0.4, 0), (Operation::Solarize, 0.2, 4)],
    [(Operation::Equalize, 0.4, 0), (Operation::Rotate, 0.8, 8)],
    [(Operation::Solarize, 0.6, 3), (Operation::Equalize, 0.6, 0)],
    [(Operation::Posterize, 0.8, 5), (Operation::Equalize, 1.0, 0)],
    [(Operation::Rotate, 0.2, 3), (Operation::Solarize, 0.6, 8)],
    [(Operation::Equalize, 0.6, 0), (Operation::Posterize, 0.4, 6)],
    [(Operation::Rotate, 0.8, 8), (Operation::Color, 0.4, 0)],
    [(Operation::Rotate, 0.4, 9), (Operation::Equalize, 0.6, 0)],
    [(Operation::Equalize, 0.0, 0), (Operation::Equalize, 0.8, 0)],
    [(Operation::Invert, 0.6, 0), (Operation::Equalize, 1.0, 0)],
    [(Operation::Color, 0.6, 4), (Operation::Contrast, 1.0, 8)],
    [(Operation::Rotate, 0.8, 8), (Operation::Color, 1.0, 2)],
    [(Operation::Color, 0.8, 8), (Operation::Solarize, 0.8, 7)],
    [(Operation::Sharpness, 0.4, 7), (Operation::Invert, 0.6, 0)],
    [(Operation::ShearX, 0.6, 5), (Operation::Equalize, 1.0, 0)],
    [(Operation::Color, 0.4, 0), (Operation::Equalize, 0.6, 0)],
    [(Operation::Equalize, 0.4, 0), (Operation::Solarize, 0.2, 4)],
    [(Operation::Solarize, 0.6, 5), (Operation::AutoContrast, 0.6, 0)],
    [(Operation::Invert, 0.6, 0), (Operation::Equalize, 1.0, 0)],
    [(Operation::Color, 0.6, 4), (Operation::Contrast, 1.0, 8)],
    [(Operation::Equalize, 0.8, 0), (Operation::Equalize, 0.6, 0)],
];

#[rustfmt::skip]
const CIFAR10: [Pair; 25] = [
    [(Operation::Invert, 0.1, 0), (Operation::Contrast, 0.2, 6)],
    [(Operation::Rotate, 0.7, 2), (Operation::TranslateX, 0.3, 9)],
    [(Operation::Sharpness, 0.8, 1), (Operation::Sharpness, 0.9, 3)],
    [(Operation::ShearY, 0.5, 8), (Operation::TranslateY, 0.7, 9)],
    [(Operation::AutoContrast, 0.5, 0), (Operation::Equalize, 0.9, 0)],
    [(Operation::ShearY, 0.2, 7), (Operation::Posterize, 0.3, 7)],
    [(Operation::Color, 0.4, 3), (Operation::Brightness, 0.6, 7)],
    [(Operation::Sharpness, 0.3, 9), (Operation::Brightness, 0.7, 9)],
    [(Operation::Equalize, 0.6, 0), (Operation::Equalize, 0.5, 0)],
    [(Operation::Contrast, 0.6, 7), (Operation::Sharpness, 0.6, 5)],
    [(Operation::Color, 0.7, 7), (Operation::TranslateX, 0.5, 8)],
    [(Operation::Equalize, 0.3, 0), (Operation::AutoContrast, 0.4, 0)],
    [(Operation::TranslateY, 0.4, 3), (Operation::Sharpness, 0.2, 6)],
    [(Operation::Brightness, 0.9, 6), (Operation::Color, 0.2, 8)],
    [(Operation::Solarize, 0.5, 2), (Operation::Invert, 0.0, 0)],
    [(Operation::Equalize, 0.2, 0), (Operation::AutoContrast, 0.6, 0)],
    [(Operation::Equalize, 0.2, 0), (Operation::Equalize, 0.6, 0)],
    [(Operation::Color, 0.9, 9), (Operation::Equalize, 0.6, 0)],
    [(Operation::AutoContrast, 0.8, 0), (Operation::Solarize, 0.2, 8)],
    [(Operation::Brightness, 0.1, 3), (Operation::Color, 0.7, 0)],
    [(Operation::Solarize, 0.4, 5), (Operation::AutoContrast, 0.9, 0)],
    [(Operation::TranslateY, 0.9, 9), (Operation::TranslateY, 0.7, 9)],
    [(Operation::AutoContrast, 0.9, 0), (Operation::Solarize, 0.8, 3)],
    [(Operation::Equalize, 0.8, 0), (Operation::Invert, 0.1, 0)],
    [(Operation::TranslateY, 0.7, 9), (Operation::AutoContrast, 0.9, 0)],
];

#[rustfmt::skip]
const SVHN: [Pair; 25] = [
    [(Operation::ShearX, 0.9, 4), (Operation::Invert, 0.2, 0)],
    [(Operation::ShearY, 0.9, 8), (Operation::Invert, 0.7, 0)],
    [(Operation::Equalize, 0.6, 0), (Operation::Solarize, 0.6, 6)],
    [(Operation::Invert, 0.9, 0), (Operation::Equalize, 0.6, 0)],
    [(Operation::Equalize, 0.6, 0), (Operation::Rotate, 0.9, 3)],
    [(Operation::ShearX, 0.9, 4), (Operation::AutoContrast, 0.8, 0)],
    [(Operation::ShearY, 0.9, 8), (Operation::Invert, 0.4, 0)],
    [(Operation::ShearY, 0.9, 5), (Operation::Solarize, 0.2, 6)],
    [(Operation::Invert, 0.9, 0), (Operation::AutoContrast, 0.8, 0)],
    [(Operation::Equalize, 0.6, 0), (Operation::Rotate, 0.9, 3)],
    [(Operation::ShearX, 0.9, 4), (Operation::Solarize, 0.3, 3)],
    [(Operation::ShearY, 0.8, 8), (Operation::Invert, 0.7, 0)],
    [(Operation::Equalize, 0.9, 0), (Operation::TranslateY, 0.6, 6)],
    [(Operation::Invert, 0.9, 0), (Operation::Equalize, 0.6, 0)],
    [(Operation::Contrast, 0.3, 3), (Operation::Rotate, 0.8, 4)],
    [(Operation::Invert, 0.8, 0), (Operation::TranslateY, 0.0, 2)],
    [(Operation::ShearY, 0.7, 6), (Operation::Solarize, 0.4, 8)],
    [(Operation::Invert, 0.6, 0), (Operation::Rotate, 0.8, 4)],
    [(Operation::ShearY, 0.3, 7), (Operation::TranslateX, 0.9, 3)],
    [(Operation::ShearX, 0.1, 6), (Operation::Invert, 0.6, 0)],
    [(Operation::Solarize, 0.7, 2), (Operation::TranslateY, 0.6, 7)],
    [(Operation::ShearY, 0.8, 4), (Operation::Invert, 0.8, 0)],
    [(Operation::ShearX, 0.7, 9), (Operation::TranslateY, 0.8, 3)],
    [(Operation::ShearY, 0.8, 5), (Operation::AutoContrast, 0.7, 0)],
    [(Operation::ShearX, 0.7, 2), (Operation::Invert, 0.1, 0)],
];
