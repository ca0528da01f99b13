//! Compares pixels with Pillow's, as `tests/golden/image/make_golden.py` wrote them.

use forebay_plan::ImageMode;

use crate::image::{Decoder, Filter, Image, Limits, Region, Resizer};

pub(super) fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn bytes_of(name: &str) -> Vec<u8> {
    file(&format!("image/{name}"))
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

fn expected(kind: &str) -> Vec<Vec<String>> {
    let text = String::from_utf8(file("image/expected.txt")).expect("text");
    let lines = text.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    lines.filter(|line| line[0] == kind).collect()
}

fn numbers(words: &[String]) -> Vec<usize> {
    words.iter().map(|word| word.parse().expect("a number")).collect()
}

#[test]
fn every_format_decodes_to_pillows_bits() {
    let mut decoder = Decoder::default();
    let mut wrong = Vec::new();
    let lines = expected("decode");
    for line in &lines {
        let mode = if line[2] == "RGB" { ImageMode::Rgb } else { ImageMode::Grey };
        let want = numbers(&line[3..]);
        let image = decoder.decode(&bytes_of(&line[1]), mode, &Limits::default()).expect("a good image");
        let crc = crc32(image.as_packed().expect("no gaps")) as usize;
        if [image.width(), image.height(), crc] != want[..] {
            wrong.push(line.join(" "));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(lines.len(), 34);
}

#[test]
fn antialiased_resize_gives_pillows_bits() {
    let mut decoder = Decoder::default();
    let mut resizer = Resizer::new();
    let lines = expected("resize");
    for line in &lines {
        let [x, y, w, h, width, height, crc] = numbers(&line[2..])[..] else { panic!("{line:?}") };
        let image = decoder.decode(&bytes_of(&line[1]), ImageMode::Rgb, &Limits::default()).expect("a good image");
        let view = image.crop(Region { x, y, width: w, height: h }).expect("inside");
        let mut out = vec![0; width * height * 3];
        resizer.resize(view, width, height, Filter::Triangle, &mut out).expect("valid");
        assert_eq!(crc32(&out) as usize, crc, "{line:?}");
    }
    assert_eq!(lines.len(), 40);
}

#[test]
fn two_pixel_resize_is_the_real_number_rounded() {
    let mut decoder = Decoder::default();
    for line in expected("linear") {
        let [width, height] = numbers(&line[2..4])[..] else { panic!("{line:?}") };
        let bytes = bytes_of(&line[1]);
        let image: Image<'_> = decoder.decode(&bytes, ImageMode::Rgb, &Limits::default()).expect("a good image");
        let mut out = vec![0; width * height * 3];
        Resizer::new().resize(image, width, height, Filter::Linear, &mut out).expect("valid");
        let real = bytes_of(&line[4]);
        for (got, want) in out.iter().zip(real.as_chunks::<4>().0) {
            assert!((f32::from(*got) - f32::from_le_bytes(*want)).abs() < 0.63, "{got} for {want:?}");
        }
    }
}
