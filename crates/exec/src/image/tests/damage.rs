//! Damaged input is an error that says so: never a panic, never half a picture.

use forebay_core::ErrorKind;

use super::{any_jpeg, draw, rng};
use crate::image::{Decoder, Limits, Mode, Region, header};

fn golden() -> Vec<(String, Vec<u8>)> {
    let folder = format!("{}/tests/golden/image", env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "jpg" || e == "png" || e == "webp") {
            files.push((path.display().to_string(), std::fs::read(&path).expect("a file")));
        }
    }
    files.sort();
    files
}

#[test]
fn an_image_cut_anywhere_is_an_error() {
    let mut decoder = Decoder::new().expect("memory");
    for (name, bytes) in golden() {
        // What follows the pixels of a png (its last 16 bytes) may be missing; so may the padding of a webp.
        let end = bytes.len() - if name.ends_with("jpg") { 1 } else { 18 };
        for len in (0..end).step_by(7).chain([end]) {
            let e = decoder.decode(&bytes[..len], Mode::Rgb, &Limits::default()).map(|_| ()).expect_err(&name);
            assert_eq!(e.kind(), ErrorKind::Data, "{name} cut to {len}: {e}");
        }
    }
}

#[test]
fn a_jpeg_cut_short_is_an_error_even_below_the_region() {
    let bytes = any_jpeg(&mut rng(3), 64, 640);
    let region = Region { x: 0, y: 0, width: 16, height: 16 };
    let e = Decoder::new()
        .expect("memory")
        .decode_region(&bytes[..bytes.len() / 2], Mode::Rgb, &Limits::default(), region)
        .map(|_| ())
        .expect_err("truncated");
    assert_eq!(e.to_string(), "truncated jpeg: it has no end");
}

#[test]
fn a_jpeg_with_an_end_but_no_middle_is_an_error() {
    let bytes = std::fs::read(format!("{}/tests/golden/image/rgb420.jpg", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let cut = [&bytes[..bytes.len() - 300], &[0xFF, 0xD9]].concat();
    let e =
        Decoder::new().expect("memory").decode(&cut, Mode::Rgb, &Limits::default()).map(|_| ()).expect_err("damage");
    assert!(e.to_string().starts_with("truncated jpeg: "), "{e}");
}

#[test]
fn stray_bytes_between_segments_are_forgiven() {
    let bytes = std::fs::read(format!("{}/tests/golden/image/rgb420.jpg", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let mut decoder = Decoder::new().expect("memory");
    let limits = Limits::default();
    let want = decoder.decode(&bytes, Mode::Rgb, &limits).expect("good").as_packed().map(<[u8]>::to_vec);
    let stray = [&bytes[..bytes.len() - 2], &[7, 7, 7, 0xFF, 0xD9, 1, 2, 3]].concat();
    let got = decoder.decode(&stray, Mode::Rgb, &limits).expect("harmless").as_packed().map(<[u8]>::to_vec);
    assert_eq!(got, want);
    // The strict way is back for the next image.
    let cut = [&bytes[..bytes.len() - 300], &[0xFF, 0xD9]].concat();
    assert!(decoder.decode(&cut, Mode::Rgb, &limits).is_err());
}

#[test]
fn flipped_bits_never_panic_and_regions_stay_inside() {
    let mut rng = rng(5);
    let mut decoder = Decoder::new().expect("memory");
    let limits = Limits { pixels_max: 1 << 20 };
    for (name, bytes) in golden() {
        for _ in 0..150 {
            let mut bytes = bytes.clone();
            for _ in 0..draw(&mut rng, 1, 4) {
                // Most of the trouble is in the headers.
                let span = if draw(&mut rng, 0, 1) == 0 { bytes.len() } else { bytes.len().min(200) };
                let at = draw(&mut rng, 0, span - 1);
                bytes[at] ^= 1 << draw(&mut rng, 0, 7);
            }
            let Ok((_, width, height)) = header(&bytes) else { continue };
            let region = Region { x: width as usize / 3, y: height as usize / 3, width: 1, height: 1 };
            for mode in [Mode::Rgb, Mode::Grey] {
                if let Err(e) = decoder.decode(&bytes, mode, &limits) {
                    assert!(matches!(e.kind(), ErrorKind::Data | ErrorKind::Exhausted), "{name}: {e}");
                }
                let _ = decoder.decode_region(&bytes, mode, &limits, region);
            }
        }
    }
}

#[test]
fn a_bomb_is_refused_by_its_header() {
    let bytes = any_jpeg(&mut rng(3), 64, 640);
    let mut decoder = Decoder::new().expect("memory");
    let limits = Limits { pixels_max: 64 * 640 - 1 };
    let e = decoder.decode(&bytes, Mode::Rgb, &limits).map(|_| ()).expect_err("too large");
    assert_eq!(e.kind(), ErrorKind::Exhausted);
    assert_eq!(e.to_string(), "an image of 64x640 has 40960 pixels, more than 40959");
    let e = decoder.decode(b"GIF89a", Mode::Rgb, &limits).map(|_| ()).expect_err("unknown");
    assert_eq!(e.to_string(), "not a jpeg, png or webp image: it starts with [47, 49, 46, 38, 39, 61]");
}
