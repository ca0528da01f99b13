//! Tests of the kernels' guarantees. Random cases come from fixed seeds.

mod augment;
mod chains;
mod damage;
mod golden;
mod kernels;
mod regions;

use std::ffi::{c_int, c_void};

use forebay_core::SampleId;
use forebay_core::rng::SampleRng;
use turbojpeg_sys as tj;

pub(super) fn rng(seed: u64) -> SampleRng {
    SampleRng::new(seed, SampleId(0))
}

/// Draws from `low..=high`.
pub(super) fn draw(rng: &mut SampleRng, low: usize, high: usize) -> usize {
    low + rng.up_to((high - low) as u32) as usize
}

/// Makes pixels with smooth parts, edges and noise.
fn picture(rng: &mut SampleRng, width: usize, height: usize, channels: usize) -> Vec<u8> {
    let (a, b, noise) = (draw(rng, 1, 9), draw(rng, 1, 9), draw(rng, 0, 60) as u32);
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        for x in 0..width {
            for c in 0..channels {
                let smooth = (x * a + y * b) / (c + 1) % 256;
                let edge = if (x / 11 + y / 7 + c) % 3 == 0 { 90 } else { 0 };
                pixels.push((smooth + edge + rng.up_to(noise) as usize).min(255) as u8);
            }
        }
    }
    pixels
}

/// The encoding parameters of a test's JPEG.
#[derive(Debug, Clone, Copy)]
struct Coding {
    subsampling: tj::TJSAMP,
    quality: c_int,
    progressive: bool,
    arithmetic: bool,
    restart_rows: c_int,
}

fn encode(pixels: &[u8], width: usize, height: usize, coding: Coding) -> Vec<u8> {
    let (mut buffer, mut len) = (std::ptr::null_mut(), 0);
    // SAFETY: `pixels` holds `height` rows of `width` pixels; the buffer is the library's until it is freed.
    unsafe {
        let handle = tj::tj3Init(tj::TJINIT_TJINIT_COMPRESS as c_int);
        for (param, value) in [
            (tj::TJPARAM_TJPARAM_SUBSAMP, coding.subsampling as c_int),
            (tj::TJPARAM_TJPARAM_QUALITY, coding.quality),
            (tj::TJPARAM_TJPARAM_PROGRESSIVE, c_int::from(coding.progressive)),
            (tj::TJPARAM_TJPARAM_ARITHMETIC, c_int::from(coding.arithmetic)),
            (tj::TJPARAM_TJPARAM_RESTARTROWS, coding.restart_rows),
        ] {
            assert_eq!(tj::tj3Set(handle, param as c_int, value), 0);
        }
        let (w, h, format) = (width as c_int, height as c_int, tj::TJPF_TJPF_RGB as c_int);
        assert_eq!(pixels.len(), width * height * 3);
        assert_eq!(tj::tj3Compress8(handle, pixels.as_ptr(), w, 0, h, format, &mut buffer, &mut len), 0);
        let bytes = std::slice::from_raw_parts(buffer, len as usize).to_vec();
        tj::tj3Free(buffer.cast::<c_void>());
        tj::tj3Destroy(handle);
        bytes
    }
}

/// Draws a JPEG of any kind.
pub(super) fn any_jpeg(rng: &mut SampleRng, width: usize, height: usize) -> Vec<u8> {
    const KINDS: [tj::TJSAMP; 7] = [
        tj::TJSAMP_TJSAMP_420,
        tj::TJSAMP_TJSAMP_422,
        tj::TJSAMP_TJSAMP_444,
        tj::TJSAMP_TJSAMP_GRAY,
        tj::TJSAMP_TJSAMP_440,
        tj::TJSAMP_TJSAMP_411,
        tj::TJSAMP_TJSAMP_441,
    ];
    let coding = Coding {
        subsampling: KINDS[draw(rng, 0, 6)],
        quality: draw(rng, 20, 98) as c_int,
        progressive: draw(rng, 0, 3) == 0,
        arithmetic: draw(rng, 0, 9) == 0,
        restart_rows: if draw(rng, 0, 3) == 0 { 1 } else { 0 },
    };
    let pixels = picture(rng, width, height, 3);
    encode(&pixels, width, height, coding)
}

/// Damages the coded pixels of a JPEG: a bit, a byte, some bytes left out or doubled, a marker, an end too soon.
pub(super) fn damage_coded(rng: &mut SampleRng, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let header = bytes.windows(2).position(|pair| pair == [0xFF, 0xDA]).expect("a scan");
    let first = header + 2 + usize::from(bytes[header + 3]);
    for _ in 0..draw(rng, 1, 2) {
        let at = draw(rng, first.min(bytes.len() - 5), bytes.len() - 4);
        let some = at..(at + draw(rng, 1, 40)).min(bytes.len() - 2);
        match draw(rng, 0, 6) {
            0 | 1 => bytes[at] ^= 1 << draw(rng, 0, 7),
            2 => bytes[at] = 0xFF,
            3 => drop(bytes.drain(some)),
            4 => bytes.extend_from_within(some),
            5 => bytes[at..at + 2].copy_from_slice(&[0xFF, 0xC0 | draw(rng, 0, 63) as u8]),
            _ => bytes.truncate(at),
        }
        if bytes.len() < first + 8 {
            break;
        }
    }
    bytes
}
