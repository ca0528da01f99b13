//! Compares resizing and normalising with straightforward implementations.

use forebay_plan::Layout;

use super::{draw, picture, rng};
use crate::image::{Filter, Image, Mirror, Normalizer, Region, Resizer, copy_chw, copy_hwc, flip_floats};

#[test]
fn vector_and_portable_resizes_agree_and_views_are_copies() {
    let mut rng = rng(21);
    let (mut fast, mut plain) = (Resizer::new(), Resizer::new());
    for _ in 0..300 {
        let channels = [1, 3][draw(&mut rng, 0, 1)];
        let (width, height) = (draw(&mut rng, 1, 90), draw(&mut rng, 1, 90));
        let pixels = picture(&mut rng, width, height, channels);
        let whole = Image::packed(&pixels, width, height, channels).expect("its size");
        let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
        let region = Region { x, y, width: draw(&mut rng, 1, width - x), height: draw(&mut rng, 1, height - y) };
        let view = whole.crop(region).expect("inside");
        let copy: Vec<u8> = view.rows().flatten().copied().collect();
        let copy = Image::packed(&copy, region.width, region.height, channels).expect("its size");
        let (w, h) = (draw(&mut rng, 1, 120), draw(&mut rng, 1, 120));
        let filters =
            [Filter::Nearest, Filter::Linear, Filter::Box, Filter::Triangle, Filter::Bicubic, Filter::Lanczos];
        for filter in filters {
            let (mut a, mut b) = (vec![1; w * h * channels], vec![2; w * h * channels]);
            fast.resize(view, w, h, filter, &mut a).expect("valid");
            if channels == 1 {
                plain.portable::<1>(copy, w, h, filter, &mut b).expect("valid");
            } else {
                plain.portable::<3>(copy, w, h, filter, &mut b).expect("valid");
            }
            assert_eq!(a, b, "{region:?} of {width}x{height}x{channels} to {w}x{h}, {filter:?}");
        }
    }
}

#[test]
fn normalising_is_torchvisions_arithmetic_in_every_order() {
    let mut rng = rng(22);
    let (mean, std) = ([0.485, 0.456, 0.406, 0.5], [0.229, 0.224, 0.225, 0.25]);
    for channels in 1..=4 {
        for (flip, layout) in [(false, Layout::Hwc), (true, Layout::Hwc), (false, Layout::Chw), (true, Layout::Chw)] {
            let (width, height) = (draw(&mut rng, 3, 40), draw(&mut rng, 3, 40));
            let pixels = picture(&mut rng, width, height, channels);
            let region = Region { x: 1, y: 2, width: width - 2, height: height - 2 };
            let view = Image::packed(&pixels, width, height, channels).and_then(|i| i.crop(region)).expect("inside");
            let (width, height) = (region.width, region.height);
            let normalizer = Normalizer::new(&mean[..channels], &std[..channels], layout).expect("valid");
            let mut floats = vec![0; width * height * channels * 4];
            normalizer.write(view, flip, &mut floats).expect("its size");
            let mut bytes = vec![0; width * height * channels];
            match layout {
                Layout::Hwc => copy_hwc(view, flip, &mut bytes).expect("its size"),
                Layout::Chw | Layout::Cthw => copy_chw(view, flip, &mut bytes).expect("its size"),
            }
            for y in 0..height {
                for x in 0..width {
                    for c in 0..channels {
                        let v = view.row(y)[if flip { width - 1 - x } else { x } * channels + c];
                        let at = match layout {
                            Layout::Hwc => (y * width + x) * channels + c,
                            Layout::Chw | Layout::Cthw => (c * height + y) * width + x,
                        };
                        assert_eq!(bytes[at], v);
                        let want = (f32::from(v) / 255.0 - mean[c]) / std[c];
                        assert_eq!(floats.as_chunks::<4>().0[at], want.to_ne_bytes());
                    }
                }
            }
            let (mut mirrored, mut again) = (vec![0; floats.len()], vec![0; floats.len()]);
            let shape = layout.shape(width, height, channels);
            let across = Mirror { horizontal: true, vertical: false };
            flip_floats(&floats, shape, layout, across, &mut mirrored).expect("its shape");
            normalizer.write(view, !flip, &mut again).expect("its size");
            assert_eq!(mirrored, again);
        }
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let pixels = [0; 12];
    let image = Image::packed(&pixels, 2, 2, 3).expect("its size");
    assert!(Image::packed(&pixels, 2, 2, 2).is_err());
    assert!(Image::packed(&[], 0, 2, 3).is_err());
    assert!(Resizer::new().resize(image, 0, 1, Filter::Triangle, &mut []).is_err());
    assert!(copy_hwc(image, false, &mut [0; 11]).is_err());
    assert!(flip_floats(&[0; 12], [1, 1, 3], Layout::Hwc, Mirror::default(), &mut [0; 8]).is_err());
    assert!(Normalizer::new(&[0.0], &[0.0], Layout::Hwc).is_err());
    assert!(Normalizer::new(&[0.0, 0.0], &[1.0], Layout::Hwc).is_err());
    let grey = Normalizer::new(&[0.0], &[1.0], Layout::Hwc).expect("valid");
    assert!(grey.write(image, false, &mut [0; 48]).is_err());
}
