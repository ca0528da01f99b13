//! Samples of ops that change images at random.

use super::*;

pub(super) fn augmentations() -> Vec<Sample> {
    let column = || name(COLUMN);
    let jitter = |contrast, hue| {
        let (brightness, saturation) = (Some((0.4, 1.6)), Some((0.0, 2.0)));
        let column = column();
        Op::ColorJitter(ops::ColorJitter { column, brightness, contrast, saturation, hue, probability: 0.8 })
    };
    let grey = |column, probability| Op::RandomGrayscale(ops::RandomGrayscale { column: name(column), probability });
    let solarize =
        |threshold, probability| Op::RandomSolarize(ops::RandomSolarize { column: column(), threshold, probability });
    let blur = |kernel_size, sigma| {
        Op::GaussianBlur(ops::GaussianBlur { column: column(), kernel_size, sigma, probability: 0.5 })
    };
    let rotation = |degrees, fill| {
        let interpolation = Interpolation::Bilinear;
        Op::RandomRotation(ops::RandomRotation { column: column(), degrees, interpolation, fill })
    };
    let policy = |num_ops, magnitude, num_magnitude_bins| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, None);
        Op::RandAugment(ops::RandAugment { column, num_ops, magnitude, num_magnitude_bins, interpolation, fill })
    };
    let erasing = |scale, value| {
        let (column, probability, ratio) = (column(), 0.5, (0.3, 3.3));
        Op::RandomErasing(ops::RandomErasing { column, probability, scale, ratio, value })
    };
    let (none, half) = (None, Some((0.5, 1.5)));
    let mut samples = policies();
    samples.extend(levels());
    samples.extend([
        sample(jitter(none, Some((-0.4, 0.4))), vec![], vec![jitter(Some((2.0, 1.0)), none), jitter(none, half)]),
        sample(jitter(half, none), vec![], vec![]),
        sample(grey(COLUMN, 0.5), vec![], vec![grey(COLUMN, -0.1), grey("png", 0.5), grey("a", 0.5)]),
        sample(solarize(100.5, 0.5), vec![], vec![solarize(256.0, 0.5), solarize(f64::NAN, 0.5), solarize(0.0, 2.0)]),
        sample(blur(3, (0.5, 1.5)), vec![], vec![blur(4, (0.5, 1.5)), blur(2001, (0.5, 1.5)), blur(3, (0.0, 1.0))]),
        sample(
            rotation((-40.0, 40.0), Some(vec![9, 0, 255])),
            vec![],
            vec![rotation((3.0, -3.0), None), rotation((0.0, 1.0), Some(vec![1, 2]))],
        ),
        sample(policy(2, 9, 31), vec![], vec![policy(101, 9, 31), policy(2, 31, 31), policy(2, 0, 1)]),
        sample(
            erasing((0.1, 0.5), Some(vec![7.0])),
            vec![],
            vec![erasing((0.1, 0.5), None), erasing((0.1, 0.5), Some(vec![])), erasing((0.5, 1.5), Some(vec![7.0]))],
        ),
    ]);
    samples
}

/// Augmentations of levels.
pub(super) fn levels() -> Vec<Sample> {
    let column = || name(COLUMN);
    let posterize =
        |bits, probability| Op::RandomPosterize(ops::RandomPosterize { column: column(), bits, probability });
    let invert = |probability| Op::RandomInvert(ops::RandomInvert { column: column(), probability });
    let stretch = |probability| Op::RandomAutocontrast(ops::RandomAutocontrast { column: column(), probability });
    let darker = Op::ColorJitter(ops::ColorJitter {
        column: column(),
        brightness: Some((0.5, 0.5)),
        contrast: None,
        saturation: None,
        hue: None,
        probability: 1.0,
    });
    let larger = Op::Resize(ops::Resize {
        column: column(),
        height: 40,
        width: 50,
        antialias: true,
        interpolation: Resample::default(),
    });
    let spread = |probability| Op::RandomEqualize(ops::RandomEqualize { column: column(), probability });
    let sharpen =
        |factor| Op::RandomAdjustSharpness(ops::RandomAdjustSharpness { column: column(), factor, probability: 0.5 });
    let permute = |column: &str| Op::RandomChannelPermutation(ops::RandomChannelPermutation { column: name(column) });
    let noise = |mean, sigma| Op::GaussianNoise(ops::GaussianNoise { column: column(), mean, sigma, probability: 0.8 });
    vec![
        sample(posterize(3, 0.5), vec![], vec![posterize(0, 0.5), posterize(9, 0.5), posterize(3, 2.0)]),
        sample(invert(0.5), vec![], vec![invert(-1.0)]),
        // The rows have all levels, so they are darkened before.
        sample(stretch(0.5), vec![darker], vec![stretch(f64::NAN)]),
        // Pillow leaves an image of fewer than 256 pixels as it is.
        sample(spread(0.5), vec![larger], vec![spread(2.0)]),
        sample(sharpen(2.0), vec![], vec![sharpen(-1.0), sharpen(f64::NAN)]),
        sample(permute(COLUMN), vec![], vec![permute("a"), permute("png")]),
        sample(noise(0.1, (0.05, 0.2)), vec![], vec![noise(2.0, (0.1, 0.1)), noise(0.0, (-0.1, 0.1))]),
    ]
}

/// Augmentations that move pixels by a map, and policies of several operations.
pub(super) fn policies() -> Vec<Sample> {
    let column = || name(COLUMN);
    let affine = |share, scale, slope: f64| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, Some(vec![3]));
        let (degrees, translate, shear) = ((-30.0, 30.0), (share, 0.2), Some([(-slope, slope), (0.0, 5.0)]));
        Op::RandomAffine(ops::RandomAffine { column, degrees, translate, scale, shear, interpolation, fill })
    };
    let view = |distortion_scale, probability| {
        let (column, interpolation, fill) = (column(), Interpolation::Nearest, Some(vec![3, 4, 5]));
        Op::RandomPerspective(ops::RandomPerspective { column, distortion_scale, probability, interpolation, fill })
    };
    let trivial = |num_magnitude_bins| {
        let (column, interpolation) = (column(), Interpolation::Nearest);
        Op::TrivialAugment(ops::TrivialAugment { column, num_magnitude_bins, interpolation, fill: None })
    };
    let auto = |policy, fill| {
        let (column, interpolation) = (column(), Interpolation::Bilinear);
        Op::AutoAugment(ops::AutoAugment { column, policy, interpolation, fill })
    };
    let mix = |severity, chain_depth, alpha| {
        let (column, mixture_width, all_ops, interpolation) = (column(), 3, true, Interpolation::Bilinear);
        Op::AugMix(ops::AugMix {
            column,
            severity,
            mixture_width,
            chain_depth,
            alpha,
            all_ops,
            interpolation,
            fill: None,
        })
    };
    let half = Some((0.5, 1.5));
    vec![
        sample(mix(3, None, 1.0), vec![], vec![mix(0, None, 1.0), mix(3, Some(0), 1.0), mix(3, None, 0.0)]),
        sample(
            affine(0.1, half, 9.0),
            vec![],
            vec![affine(1.5, half, 9.0), affine(0.1, Some((0.0, 1.0)), 9.0), affine(0.1, half, 90.0)],
        ),
        sample(view(0.5, 0.7), vec![], vec![view(1.5, 0.5), view(f64::NAN, 0.5), view(0.5, 2.0)]),
        sample(trivial(31), vec![], vec![trivial(1)]),
        sample(auto(AutoPolicy::Imagenet, None), vec![], vec![auto(AutoPolicy::Imagenet, Some(vec![1, 2]))]),
        sample(auto(AutoPolicy::Cifar10, None), vec![], vec![]),
        sample(auto(AutoPolicy::Svhn, Some(vec![7])), vec![], vec![]),
    ]
}
