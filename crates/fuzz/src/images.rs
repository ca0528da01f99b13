//! Encoded images, whole and in part. A part is what the whole has there.

use std::cell::RefCell;

use forebay_exec::image::{Decoder, Limits, Mode, Region, header};

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new().expect("memory"));
}

/// Keeps an input from taking seconds; the limit itself is what is tested, too.
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
        for mode in [Mode::Rgb, Mode::Grey] {
            let whole = decoder.decode(bytes, mode, &LIMITS).map(|image| {
                let cut = image.crop(region).expect("inside");
                cut.rows().flatten().copied().collect::<Vec<u8>>()
            });
            let part = decoder.decode_region(bytes, mode, &LIMITS, region);
            let part = part.map(|image| image.rows().flatten().copied().collect::<Vec<u8>>());
            if let (Ok(whole), Ok(part)) = (whole, part) {
                assert!(whole == part, "a region differs from the whole image");
            }
        }
    });
}
