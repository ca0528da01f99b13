//! Damaged input is reported as an error: never a panic, never a partial picture.

use forebay_core::ErrorKind;
use forebay_core::rng::SampleRng;
use forebay_plan::ImageMode;

use super::{any_jpeg, damage_coded, draw, rng};
use crate::image::{Decoder, Image, Limits, Region, header};

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
    let mut decoder = Decoder::default();
    for (name, bytes) in golden() {
        // The bytes after the pixels of a png (its last 16 bytes) may be missing; so may the padding of a webp.
        let end = bytes.len() - if name.ends_with("jpg") { 8 } else { 18 };
        for len in (0..end).step_by(7).chain([end]) {
            let e = decoder.decode(&bytes[..len], ImageMode::Rgb, &Limits::default()).map(|_| ()).expect_err(&name);
            assert_eq!(e.kind(), ErrorKind::Data, "{name} cut to {len}: {e}");
        }
    }
}

#[test]
fn a_jpeg_cut_short_is_an_error_even_below_the_region() {
    let bytes = any_jpeg(&mut rng(3), 64, 640);
    let region = Region { x: 0, y: 0, width: 16, height: 16 };
    let e = Decoder::default()
        .decode_region(&bytes[..bytes.len() / 2], ImageMode::Rgb, &Limits::default(), region)
        .map(|_| ())
        .expect_err("truncated");
    assert_eq!(e.to_string(), "truncated jpeg: its data ends before its pixels do");
}

/// Decodes all, or a region; returns errors as text.
fn decode(decoder: &mut Decoder, bytes: &[u8], region: Option<Region>) -> Result<Vec<u8>, String> {
    let limits = Limits { pixels_max: 1 << 22 };
    let image = match region {
        Some(region) => decoder.decode_region(bytes, ImageMode::Rgb, &limits, region),
        None => decoder.decode(bytes, ImageMode::Rgb, &limits),
    };
    image.map(|image| image.rows().flatten().copied().collect()).map_err(|e| e.to_string())
}

#[test]
fn a_jpeg_with_an_end_but_no_middle_is_decoded_as_far_as_it_goes() {
    let bytes = std::fs::read(format!("{}/tests/golden/image/rgb420.jpg", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let cut = [&bytes[..bytes.len() - 300], &[0xFF, 0xD9]].concat();
    let mut decoder = Decoder::default();
    let [good, got] = [&bytes, &cut].map(|bytes| decode(&mut decoder, bytes, None).expect("an image"));
    let equal = good.iter().zip(&got).take_while(|(a, b)| a == b).count();
    assert!((good.len() / 4..good.len()).contains(&equal), "{equal} bytes of {}", good.len());
}

#[test]
fn stray_bytes_between_segments_are_forgiven() {
    let bytes = std::fs::read(format!("{}/tests/golden/image/rgb420.jpg", env!("CARGO_MANIFEST_DIR"))).expect("a file");
    let mut decoder = Decoder::default();
    let stray = [&bytes[..bytes.len() - 2], &[7, 7, 7, 0xFF, 0xD9, 1, 2, 3]].concat();
    assert_eq!(decode(&mut decoder, &stray, None), decode(&mut decoder, &bytes, None));
}

/// Damages a file anywhere, most often in its header, which has most of the failure modes.
fn damage(rng: &mut SampleRng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..draw(rng, 1, 4) {
        let span = if draw(rng, 0, 1) == 0 { bytes.len() } else { bytes.len().min(700) };
        let at = draw(rng, 0, span - 1);
        bytes[at] = if draw(rng, 0, 3) == 0 { draw(rng, 0, 255) as u8 } else { bytes[at] ^ 1 << draw(rng, 0, 7) };
    }
    if draw(rng, 0, 7) == 0 {
        bytes.truncate(draw(rng, 1, bytes.len()));
    }
    bytes
}

/// The pixels or the error of a file depend on its bytes alone: not on the decoder's earlier files, and not on the
/// region, which has the same pixels or the same error.
#[test]
fn nothing_of_an_image_reaches_the_next_and_a_region_is_the_whole_cropped() {
    let mut rng = rng(31);
    let files: Vec<Vec<u8>> = golden().into_iter().map(|(_, bytes)| bytes).collect();
    let mut kept = Decoder::default();
    let (mut errors, mut images, mut seen) = (0, 0, Vec::new());
    for case in 0..3000 {
        let jpeg = any_jpeg(&mut rng, 40, 50);
        let file = &files[draw(&mut rng, 0, files.len() - 1)];
        let bytes = match draw(&mut rng, 0, 5) {
            0 => jpeg,
            1 => damage_coded(&mut rng, &jpeg),
            2 => without_tables(&jpeg, [0xDB, 0xC4][draw(&mut rng, 0, 1)]),
            3 => damage(&mut rng, &jpeg),
            _ => damage(&mut rng, file),
        };
        let alone = decode(&mut Decoder::default(), &bytes, None);
        let after = decode(&mut kept, &bytes, None);
        assert!(alone == after, "case {case} after others: {:?}, alone: {:?}", after.err(), alone.err());
        if let Ok((_, width, height)) = header(&bytes)
            && u64::from(width) * u64::from(height) <= 1 << 16
        {
            let (width, height) = (width as usize, height as usize);
            let (x, y) = (draw(&mut rng, 0, width - 1), draw(&mut rng, 0, height - 1));
            let region = Region { x, y, width: draw(&mut rng, 1, width - x), height: draw(&mut rng, 1, height - y) };
            let want = alone.clone().map(|pixels| {
                let image = Image::packed(&pixels, width, height, 3).and_then(|i| i.crop(region)).expect("inside");
                image.rows().flatten().copied().collect::<Vec<u8>>()
            });
            let part = decode(&mut kept, &bytes, Some(region));
            assert!(part == want, "case {case} {region:?}: {:?}, whole: {:?}", part.err(), want.err());
        }
        match alone {
            Ok(_) => images += 1,
            Err(e) => {
                errors += 1;
                let kind: String = e.chars().filter(|c| !c.is_ascii_digit()).take(24).collect();
                if !seen.contains(&kind) {
                    seen.push(kind);
                }
            }
        }
    }
    assert!(errors > 700 && images > 700 && seen.len() > 10, "{errors} errors, {images} images, {seen:?}");
}

/// Leaves out the segments of one kind.
fn without_tables(bytes: &[u8], marker: u8) -> Vec<u8> {
    let (mut out, mut at) = (bytes[..2].to_vec(), 2);
    loop {
        let (kind, len) = (bytes[at + 1], 2 + usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]])));
        if kind != marker {
            out.extend_from_slice(&bytes[at..at + len]);
        }
        at += len;
        if kind == 0xDA {
            out.extend_from_slice(&bytes[at..]);
            return out;
        }
    }
}

#[test]
fn a_bomb_is_refused_by_its_header() {
    let bytes = any_jpeg(&mut rng(3), 64, 640);
    let mut decoder = Decoder::default();
    let limits = Limits { pixels_max: 64 * 640 - 1 };
    let e = decoder.decode(&bytes, ImageMode::Rgb, &limits).map(|_| ()).expect_err("too large");
    assert_eq!(e.kind(), ErrorKind::Exhausted);
    assert_eq!(e.to_string(), "an image of 64x640 has 40960 pixels, more than 40959");
    let e = decoder.decode(b"P6 1 1", ImageMode::Rgb, &limits).map(|_| ()).expect_err("unknown");
    assert_eq!(e.to_string(), "not a jpeg, png, webp, gif, bmp or tiff image: it starts with [50, 36, 20, 31, 20, 31]");
}

/// Puts the chunks of a WebP of one frame into an animation of that frame.
fn animated(file: &[u8]) -> Vec<u8> {
    let chunk = |name: &[u8], body: &[u8]| [name, &(body.len() as u32).to_le_bytes(), body].concat();
    let (size, frame) = (&file[24..30], &file[30..]);
    let place = [&[0; 6], size, &[0; 4]].concat();
    let mut header = chunk(b"VP8X", &[&[0x12, 0, 0, 0], size].concat());
    header.extend(chunk(b"ANIM", &[0; 6]));
    header.extend(chunk(b"ANMF", &[&place, frame].concat()));
    chunk(b"RIFF", &[b"WEBP", &header[..]].concat())
}

#[test]
fn a_webp_whose_frame_is_of_another_size_is_refused_before_it_is_decoded() {
    let path = format!("{}/tests/golden/image/alpha.webp", env!("CARGO_MANIFEST_DIR"));
    let still = std::fs::read(path).expect("a file");
    for file in [animated(&still), still] {
        assert_eq!(decode(&mut Decoder::default(), &file, None).map(|pixels| pixels.len()), Ok(53 * 39 * 3));
        let start_code = file.windows(3).position(|bytes| bytes == [0x9D, 0x01, 0x2A]).expect("a lossy frame");
        for (place, name) in [(3, "16383x39"), (5, "53x16383")] {
            let mut damaged = file.clone();
            damaged[start_code + place..][..2].copy_from_slice(&[0xFF, 0x3F]);
            let e = decode(&mut Decoder::default(), &damaged, None).expect_err("another size");
            assert_eq!(e, format!("damaged webp: a frame of {name} in a place of 53x39"));
        }
    }
}
