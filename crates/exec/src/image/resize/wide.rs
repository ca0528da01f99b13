//! The column pass of a resize for three channels on AVX2: four source pixels at a time.
//!
//! The same integers as the portable pass: a weight of up to 22 bits is a high part of 15 and a low part of 8 bits, each
//! multiplied and summed in pairs exactly, so that `high * 256 + low` is the portable sum.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_loadu_si128, _mm_packus_epi16, _mm_packus_epi32,
    _mm_set1_epi32, _mm_srai_epi32, _mm256_add_epi32, _mm256_broadcastsi128_si256, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_setr_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_slli_epi32,
};

use super::taps::{BITS, Taps};

/// Source pixels of one step, and bytes read for it.
const GROUP: usize = 4;
const READ: usize = 16;

/// The weights of four source pixels, in the layout of the multiplication: two pixels to a lane, repeated for each
/// channel.
#[derive(Debug, Clone, Copy)]
struct Group {
    high: [i16; 16],
    low: [i16; 16],
}

/// The weights of all output pixels, in groups; kept to reuse their memory.
#[derive(Debug, Default)]
pub(super) struct Wide {
    groups: Vec<Group>,
    firsts: Vec<usize>,
    /// Groups of each output pixel.
    each: usize,
}

impl Wide {
    pub(super) fn set(&mut self, taps: &Taps) {
        self.each = taps.count().div_ceil(GROUP);
        self.groups.clear();
        self.firsts.clear();
        for (first, weights) in taps.all() {
            self.firsts.push(first);
            for i in 0..self.each {
                // Word `w` belongs to pixel 0 or 1 of the group in the lower half, 2 or 3 in the upper.
                let weight = |w: usize| weights.get(i * GROUP + w / 8 * 2 + w % 2).copied().unwrap_or(0);
                self.groups.push(Group {
                    high: std::array::from_fn(|w| (weight(w) >> 8) as i16),
                    low: std::array::from_fn(|w| (weight(w) & 0xFF) as i16),
                });
            }
        }
    }

    /// Returns the bytes of a line that are read past its end.
    pub(super) fn margin(&self) -> usize {
        self.each * GROUP * 3 + READ
    }

    /// Writes the weighted sums of some pixels of a line, which extends [`Wide::margin`] bytes past its end.
    #[target_feature(enable = "avx2")]
    pub(super) fn weigh(&self, line: &[u8], to: &mut [u8]) {
        let mut pixels = self.firsts.iter().zip(self.groups.chunks_exact(self.each));
        let last = pixels.next_back();
        for (x, (&first, groups)) in pixels.enumerate() {
            // The next pixel overwrites the fourth byte.
            to[x * 3..][..4].copy_from_slice(&sum(line, first, groups));
        }
        if let Some((&first, groups)) = last {
            let at = to.len() - 3;
            to[at..].copy_from_slice(&sum(line, first, groups)[..3]);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum(line: &[u8], first: usize, groups: &[Group]) -> [u8; 4] {
    // Red, green and blue of pixels 0 and 1 (2 and 3) as pairs of words; a negative index yields a zero.
    let pairs = _mm256_setr_epi8(
        0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, //
        6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,
    );
    let (mut high, mut low) = (_mm256_setzero_si256(), _mm256_setzero_si256());
    for (i, group) in groups.iter().enumerate() {
        let from = _mm256_broadcastsi128_si256(load(&line[first * 3 + i * GROUP * 3..]));
        let from = _mm256_shuffle_epi8(from, pairs);
        high = _mm256_add_epi32(high, _mm256_madd_epi16(from, load_words(&group.high)));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(from, load_words(&group.low)));
    }
    let both = _mm256_add_epi32(_mm256_slli_epi32::<8>(high), low);
    let sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
    let levels = _mm_srai_epi32::<{ BITS as i32 }>(_mm_add_epi32(sum, _mm_set1_epi32(1 << (BITS - 1))));
    let words = _mm_packus_epi32(levels, levels);
    _mm_cvtsi128_si32(_mm_packus_epi16(words, words)).to_ne_bytes()
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(from: &[u8]) -> __m128i {
    let from: *const u8 = from[..READ].as_ptr();
    // SAFETY: 16 bytes are readable there; no alignment is needed.
    unsafe { _mm_loadu_si128(from.cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_words(from: &[i16; 16]) -> __m256i {
    // SAFETY: 32 bytes are readable there; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}
