//! Encoded images, whole and in part. A part has the pixels of the whole, or the same error; and neither depends on
//! earlier images. EXIF data turn an image, and never decide whether it is one.

use std::cell::RefCell;

use forebay_core::rng::SampleRng;
use forebay_core::{Result, SampleId};
use forebay_exec::image::{Chain, Decoder, Image, Input, Limits, Output, Region, Scratch, header};
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
        for mode in [ImageMode::Rgb, ImageMode::Grey, ImageMode::Palette, ImageMode::Rgba, ImageMode::Grey16] {
            let pixels = |image: Image<'_>| image.rows().flatten().copied().collect::<Vec<u8>>();
            let crop = |image: Image<'_>| pixels(image.crop(region).expect("inside"));
            let kept = decoder.decode(bytes, mode, &LIMITS).map(crop);
            let part = decoder.decode_region(bytes, mode, &LIMITS, region).map(pixels);
            assert!(kept == part, "a region differs from the whole image: {:?}, {:?}", kept.err(), part.err());
            let alone = Decoder::default().decode(bytes, mode, &LIMITS).map(crop);
            assert!(kept == alone, "an image depends on those before it: {:?}, {:?}", kept.err(), alone.err());
            let turned = turned(bytes, mode);
            assert_eq!(turned.is_ok(), alone.is_ok(), "{:?}, {:?}", turned.err(), alone.err());
        }
    });
}

/// Decodes an image as its EXIF data turn it.
fn turned(bytes: &[u8], mode: ImageMode) -> Result<Vec<u8>> {
    let mut pixels = Vec::new();
    let chain = Chain::new(Some(mode), Vec::new())?.with_exif(true);
    let rng = |_| SampleRng::new(0, SampleId(0));
    chain.run(Input::Encoded(bytes), rng, &mut Scratch::new(LIMITS), &mut Output::Vec(&mut pixels))?;
    Ok(pixels)
}
