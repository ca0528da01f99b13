//! Encoded images, whole and in part. A part has the pixels of the whole, or the same error; and neither depends on
//! earlier images.

use std::cell::RefCell;

use forebay_exec::image::{Decoder, Image, Limits, Region, header};
use forebay_plan::ImageMode;

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::default());
}

/// Keeps an input from taking seconds; the limit itself is tested, too.
const LIMITS: Limits = Limits { pixels_max: 1 << 18 };

/// Byte 0 chooses the region; the rest is the image.
pub(crate) fn image(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let Ok((_, width, height)) = header(bytes) else { return };
    let (width, height) = (width as usize, height as usize);
    let part = |of: usize, by: u8| {
        let from = of * usize::from(by & 3) / 4;
        (from, (of - from).div_ceil(1 + usize::from(by >> 2 & 1)).max(1))
    };
    let ((x, w), (y, h)) = (part(width, choice), part(height, choice >> 4));
    let region = Region { x, y, width: w, height: h };
    DECODER.with_borrow_mut(|decoder| {
        for mode in [ImageMode::Rgb, ImageMode::Grey, ImageMode::Palette] {
            let pixels = |image: Image<'_>| image.rows().flatten().copied().collect::<Vec<u8>>();
            let crop = |image: Image<'_>| pixels(image.crop(region).expect("inside"));
            let kept = decoder.decode(bytes, mode, &LIMITS).map(crop);
            let part = decoder.decode_region(bytes, mode, &LIMITS, region).map(pixels);
            assert!(kept == part, "a region differs from the whole image: {:?}, {:?}", kept.err(), part.err());
            let alone = Decoder::default().decode(bytes, mode, &LIMITS).map(crop);
            assert!(kept == alone, "an image depends on those before it: {:?}, {:?}", kept.err(), alone.err());
        }
    });
}
