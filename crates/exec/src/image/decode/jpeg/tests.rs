//! The fast decoder yields libjpeg-turbo's bits for all files that it accepts, and it accepts plain files.

use super::*;
use crate::image::tests::{any_jpeg, damage_coded, draw, rng};

/// Returns the pixels of the region alone.
fn cut(raw: &Raw, pixels: &[u8]) -> Vec<u8> {
    let channels = raw.colour.bytes();
    let rows = (0..raw.region.height).map(|y| ((raw.region.y + y) * raw.width + raw.region.x) * channels);
    rows.flat_map(|at| pixels[at..][..raw.region.width * channels].to_vec()).collect()
}

/// Decodes a region twice: from a part of the image, and from all of it.
fn both(jpeg: &mut Jpeg, bytes: &[u8], mode: ImageMode, region: Region) -> (Option<Vec<u8>>, Result<Vec<u8>>) {
    let (mut part, mut whole) = (Vec::new(), Vec::new());
    let opened = Opened::new(bytes).expect("a header");
    let raw = jpeg.decode_part(opened, mode, region, &mut part);
    let raw_whole = decode_whole(bytes, mode, region, &mut whole);
    (raw.map(|raw| cut(&raw, &part)), raw_whole.map(|raw| cut(&raw, &whole)))
}

#[test]
fn a_part_has_the_same_bits_and_good_files_never_need_the_whole() {
    let mut rng = rng(21);
    let mut jpeg = Jpeg::default();
    for case in 0..600 {
        let (width, height) = (draw(&mut rng, 1, 200), draw(&mut rng, 1, 200));
        let bytes = any_jpeg(&mut rng, width, height);
        let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
        let (w, h) = (draw(&mut rng, 1, width - x), draw(&mut rng, 1, height - y));
        for region in [Region { x, y, width: w, height: h }, Region::whole(width, height)] {
            for mode in [ImageMode::Rgb, ImageMode::Grey] {
                let (part, whole) = both(&mut jpeg, &bytes, mode, region);
                assert!(part == whole.ok(), "case {case}: {region:?} of {width}x{height} {mode:?}");
            }
        }
    }
}

/// If damage changes pixels and is not detected, both decoders yield the same pixels. If it is detected, the whole
/// image is decoded.
#[test]
fn damage_is_never_decoded_differently() {
    let mut rng = rng(22);
    let mut jpeg = Jpeg::default();
    let (mut left, mut parts) = (0, 0);
    for case in 0..4000 {
        let (width, height) = (draw(&mut rng, 8, 64), draw(&mut rng, 8, 64));
        let good = any_jpeg(&mut rng, width, height);
        let bytes = damage_coded(&mut rng, &good);
        let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
        let (w, h) = (draw(&mut rng, 1, width - x), draw(&mut rng, 1, height - y));
        for region in [Region { x, y, width: w, height: h }, Region::whole(width, height)] {
            match both(&mut jpeg, &bytes, ImageMode::Rgb, region) {
                (None, _) => left += 1,
                (Some(part), whole) => {
                    parts += 1;
                    assert!(Ok(part) == whole, "case {case} {region:?}");
                }
            }
        }
    }
    assert!(left > 1000 && parts > 1000, "{left} decoded whole, {parts} in part");
}
