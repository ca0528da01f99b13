//! Loops over blocks of pixels, written so that the compiler vectorises them.
//!
//! Only `+ - * /`, comparisons and conversions, each rounded separately, so that a wider register changes the time and
//! not the bits.

/// Pixels of a block.
pub(super) const LANES: usize = 16;

/// The channels of a block of pixels, one array each.
pub(super) type Planes = [[f32; LANES]; 3];

/// Defines a function whose body is compiled twice, the second time for AVX2, which is used where the processor has it.
macro_rules! widest {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body($($argument: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { avx2($($argument),*) };
                }
            }
            body($($argument),*)
        }
    };
}
pub(super) use widest;

/// Passes each block of pixels of three channels to `f`; lanes past the end are zero.
#[inline(always)]
pub(super) fn blocks(pixels: &[u8], mut f: impl FnMut(&Planes)) {
    for block in pixels.chunks(3 * LANES) {
        f(&spread(block));
    }
}

/// Replaces each block of pixels of three channels by the result of `f`, see [`level`].
#[inline(always)]
pub(super) fn change(pixels: &mut [u8], f: impl Fn(&mut Planes)) {
    for block in pixels.chunks_mut(3 * LANES) {
        let mut planes = spread(block);
        f(&mut planes);
        let [r, g, b] = planes.map(|plane| plane.map(level));
        for (i, pixel) in block.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            *pixel = [r[i], g[i], b[i]];
        }
    }
}

#[inline(always)]
fn spread(block: &[u8]) -> Planes {
    let mut bytes = [[0; LANES]; 3];
    for (i, &[r, g, b]) in block.as_chunks::<3>().0.iter().enumerate().take(LANES) {
        (bytes[0][i], bytes[1][i], bytes[2][i]) = (r, g, b);
    }
    bytes.map(|plane| plane.map(f32::from))
}

/// Returns the level nearest to a number within 0 and 255.5, halves to the even one.
#[inline(always)]
pub(super) fn nearest(v: f32) -> u8 {
    // The last bit of a number from 2^23 on counts ones, so that the addition rounds and leaves the level in the low
    // bits.
    const ONES: f32 = 8_388_608.0;
    (v + ONES).to_bits() as u8
}

/// Returns the level below or at a number, as PyTorch converts after clamping to 0..=255.
#[inline(always)]
#[expect(clippy::manual_clamp, reason = "a NaN becomes 0")]
pub(super) fn level(v: f32) -> u8 {
    let v = v.max(0.0).min(255.0);
    // SAFETY: within 0 and 255; `max` returns 0 for a NaN.
    unsafe { v.to_int_unchecked::<i32>() as u8 }
}
