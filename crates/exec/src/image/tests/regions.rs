//! A region's pixels are those of the whole image, cropped.

use forebay_plan::ImageMode;

use super::{any_jpeg, draw, rng};
use crate::image::{Decoder, Image, Limits, Region};

fn pixels(image: Image<'_>) -> Vec<u8> {
    image.rows().flatten().copied().collect()
}

#[test]
fn any_region_of_any_jpeg_is_exact() {
    let mut rng = rng(11);
    let mut decoder = Decoder::default();
    let limits = Limits::default();
    for case in 0..400 {
        let (width, height) = (draw(&mut rng, 1, 150), draw(&mut rng, 1, 150));
        let bytes = any_jpeg(&mut rng, width, height);
        for mode in [ImageMode::Rgb, ImageMode::Grey] {
            let whole = pixels(decoder.decode(&bytes, mode, &limits).expect("good"));
            let whole = Image::packed(&whole, width, height, mode.channels()).expect("its size");
            for _ in 0..8 {
                let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
                let (w, h) = (draw(&mut rng, 1, width - x), draw(&mut rng, 1, height - y));
                let region = Region { x, y, width: w, height: h };
                let part = decoder.decode_region(&bytes, mode, &limits, region).expect("good");
                let want = whole.crop(region).expect("inside");
                assert!(part.rows().eq(want.rows()), "case {case}: {region:?} of {width}x{height} {mode:?}");
            }
        }
    }
}

#[test]
fn a_region_outside_is_refused() {
    let bytes = any_jpeg(&mut rng(1), 20, 10);
    let mut decoder = Decoder::default();
    for region in [(0, 0, 21, 1), (20, 0, 1, 1), (0, 0, 0, 1), (usize::MAX, 0, 2, 1)] {
        let (x, y, width, height) = region;
        let region = Region { x, y, width, height };
        assert!(decoder.decode_region(&bytes, ImageMode::Rgb, &Limits::default(), region).is_err(), "{region:?}");
    }
}
