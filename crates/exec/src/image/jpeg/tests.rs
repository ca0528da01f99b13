//! The fast way gives TurboJPEG's bits, for everything that it takes; and it takes what is plain.

use super::*;
use crate::image::tests::{any_jpeg, draw, rng};

/// Both ways of decoding a region, as the pixels of the region alone.
fn both(jpeg: &mut Jpeg, bytes: &[u8], mode: Mode, region: Region) -> (Option<Vec<u8>>, Result<Vec<u8>>) {
    let size = header::jpeg(bytes).map(|(size, _)| size).expect("a header");
    let cut = |raw: Raw, pixels: &[u8]| {
        let channels = raw.colour.channels();
        let rows = (0..raw.region.height).map(|y| ((raw.region.y + y) * raw.width + raw.region.x) * channels);
        rows.flat_map(|at| pixels[at..][..raw.region.width * channels].to_vec()).collect::<Vec<u8>>()
    };
    let (mut fast, mut any) = (Vec::new(), Vec::new());
    let plain = jpeg.decode_plain(bytes, size, mode, region, &mut fast).map(|raw| cut(raw, &fast));
    (plain, jpeg.decode_any(bytes, size, mode, region, &mut any).map(|raw| cut(raw, &any)))
}

#[test]
fn the_fast_way_gives_the_same_bits_and_leaves_only_what_is_not_plain() {
    let mut rng = rng(21);
    let mut jpeg = Jpeg::new().expect("memory");
    let (mut plain, mut progressive) = (0, 0);
    for case in 0..600 {
        let (width, height) = (draw(&mut rng, 1, 200), draw(&mut rng, 1, 200));
        let bytes = any_jpeg(&mut rng, width, height);
        let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
        let (w, h) = (draw(&mut rng, 1, width - x), draw(&mut rng, 1, height - y));
        for region in [Region { x, y, width: w, height: h }, Region::whole(width, height)] {
            for mode in [Mode::Rgb, Mode::Grey] {
                let (fast, any) = both(&mut jpeg, &bytes, mode, region);
                let is_progressive = bytes.windows(2).any(|pair| pair == [0xFF, 0xC2]);
                match fast {
                    Some(fast) => {
                        plain += 1;
                        assert!(Ok(fast) == any, "case {case}: {region:?} of {width}x{height} {mode:?}");
                    }
                    None => {
                        progressive += 1;
                        assert!(is_progressive, "case {case} is plain");
                    }
                }
            }
        }
    }
    assert!(plain > 1500 && progressive > 300, "{plain} plain, {progressive} progressive");
}

/// Damage may change pixels without a trace, and then both ways agree on them; else the fast way leaves it to the other.
#[test]
fn damage_is_never_decoded_differently() {
    let mut rng = rng(22);
    let mut jpeg = Jpeg::new().expect("memory");
    let (mut left, mut unseen) = (0, 0);
    for case in 0..4000 {
        let (width, height) = (draw(&mut rng, 8, 64), draw(&mut rng, 8, 64));
        let mut bytes = any_jpeg(&mut rng, width, height);
        let pixels_at = header::jpeg(&bytes).expect("a header").1;
        let at = draw(&mut rng, pixels_at, bytes.len() - 4);
        match draw(&mut rng, 0, 3) {
            0 => bytes[at] ^= 1 << draw(&mut rng, 0, 7),
            1 => bytes[at] = 0xFF,
            2 => drop(bytes.drain(at..(at + draw(&mut rng, 1, 40)).min(bytes.len() - 2))),
            _ => bytes[at..at + 2].copy_from_slice(&[0xFF, 0xD0 + draw(&mut rng, 0, 9) as u8]),
        }
        match both(&mut jpeg, &bytes, Mode::Rgb, Region::whole(width, height)) {
            (None, _) => left += 1,
            (Some(fast), any) => {
                unseen += 1;
                assert!(Ok(fast) == any, "case {case}");
            }
        }
    }
    assert!(left > 300 && unseen > 100, "{left} left to TurboJPEG, {unseen} unseen");
}
