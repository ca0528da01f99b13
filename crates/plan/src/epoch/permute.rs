//! A permutation of `0..n` that needs no memory, so that a global shuffle of 10^12 samples is free.
//!
//! A Feistel network (Luby and Rackoff, 1988) over the smallest power of two that holds `n`, walked until it lands
//! below `n` (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The rounds are fixed for ever:
//! changing them changes the order in which users' jobs see their data.

use forebay_core::rng::mix64;

/// Half-rounds; eight pass the statistical tests below with room to spare.
const ROUNDS: usize = 8;
/// The smallest domain in bits: a walk from 64 down to a tiny `n` is still short, and tiny domains mix badly.
const BITS_MIN: u32 = 6;
/// Numbers that go through the network side by side, in the lanes of vector registers.
const LANES: usize = 8;
/// Numbers that are walked together.
const BLOCK: usize = 256;

/// A permutation of `0..n`, named by a key.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    left_bits: u32,
    right_bits: u32,
    keys: [u32; ROUNDS],
}

impl Permutation {
    /// Makes the permutation of `0..n` that `key` names.
    pub fn new(n: u64, key: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(BITS_MIN);
        let mut keys = [0; ROUNDS];
        for (round, slot) in keys.iter_mut().enumerate() {
            *slot = (mix64(key ^ mix64(round as u64 + 1)) >> 32) as u32;
        }
        Self { n, left_bits: bits / 2, right_bits: bits - bits / 2, keys }
    }

    /// Replaces each of these numbers, which must be below `n`, by its image.
    pub fn map(&self, places: &mut [u64]) {
        places.chunks_mut(BLOCK).for_each(|block| self.walk(block));
    }

    /// Applies the network until each number is below `n`.
    fn walk(&self, block: &mut [u64]) {
        debug_assert!(block.iter().all(|i| *i < self.n));
        self.once(block);
        let (mut outside, mut at) = ([0; BLOCK], [0; BLOCK]);
        loop {
            let mut count = 0;
            for (i, x) in block.iter().enumerate().filter(|(_, x)| **x >= self.n) {
                (outside[count], at[count]) = (*x, i);
                count += 1;
            }
            if count == 0 {
                return;
            }
            self.once(&mut outside[..count]);
            at[..count].iter().zip(&outside).for_each(|(i, x)| block[*i] = *x);
        }
    }

    fn once(&self, numbers: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.avx2(numbers) };
        }
        self.portable(numbers);
    }

    /// Does the same in wider registers.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn avx2(&self, numbers: &mut [u64]) {
        self.portable(numbers);
    }

    #[inline(always)]
    fn portable(&self, numbers: &mut [u64]) {
        let (groups, rest) = numbers.as_chunks_mut::<LANES>();
        for group in groups {
            self.side_by_side(group);
        }
        let mut group = [0; LANES];
        group[..rest.len()].copy_from_slice(rest);
        self.side_by_side(&mut group);
        rest.copy_from_slice(&group[..rest.len()]);
    }

    #[inline(always)]
    fn side_by_side(&self, numbers: &mut [u64; LANES]) {
        let (mut left, mut right) = ([0; LANES], [0; LANES]);
        for ((x, left), right) in numbers.iter().zip(&mut left).zip(&mut right) {
            (*left, *right) = ((x >> self.right_bits) as u32, *x as u32 & low(self.right_bits));
        }
        for pair in self.keys.chunks_exact(2) {
            for (left, right) in left.iter_mut().zip(&right) {
                *left ^= round(*right, pair[0]) >> (32 - self.left_bits);
            }
            for (left, right) in left.iter().zip(&mut right) {
                *right ^= round(*left, pair[1]) >> (32 - self.right_bits);
            }
        }
        for ((x, left), right) in numbers.iter_mut().zip(left).zip(right) {
            *x = u64::from(left) << self.right_bits | u64::from(right);
        }
    }
}

#[inline(always)]
fn low(bits: u32) -> u32 {
    u32::MAX >> (32 - bits)
}

/// Applies the keyed finaliser of MurmurHash3 (Appleby, 2011); callers use its upper bits. Halves have 32 bits at most.
#[inline(always)]
fn round(x: u32, key: u32) -> u32 {
    let h = (x ^ key).wrapping_mul(0x85EB_CA6B);
    (h ^ (h >> 13)).wrapping_mul(0xC2B2_AE35)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Permutation {
        /// Returns the image of one number, computed as in the papers.
        fn at(&self, i: u64) -> u64 {
            let mut x = i;
            loop {
                let (mut left, mut right) = ((x >> self.right_bits) as u32, x as u32 & low(self.right_bits));
                for pair in self.keys.chunks_exact(2) {
                    left ^= round(right, pair[0]) >> (32 - self.left_bits);
                    right ^= round(left, pair[1]) >> (32 - self.right_bits);
                }
                x = u64::from(left) << self.right_bits | u64::from(right);
                if x < self.n {
                    return x;
                }
            }
        }
    }

    #[test]
    fn small_sizes_are_permutations() {
        for n in (0..70).chain([97, 1009, 65_537]) {
            let p = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).collect();
            p.map(&mut seen);
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "size {n}");
        }
    }

    proptest! {
        #[test]
        fn many_numbers_go_where_each_goes(n in 1u64..1 << 40, places in prop::collection::vec(any::<u64>(), 0..600), key: u64) {
            let p = Permutation::new(n, key);
            let mut places: Vec<u64> = places.into_iter().map(|i| i % n).collect();
            let want: Vec<u64> = places.iter().map(|i| p.at(*i)).collect();
            p.map(&mut places);
            prop_assert_eq!(places, want);
        }

        /// At sizes that no test can enumerate: in range, and different places for different inputs.
        #[test]
        fn large_sizes_are_injective(n in prop::sample::select(vec![1u64 << 31, (1 << 31) + 1, 1_000_000_000_000, u64::MAX >> 1]), key: u64, start: u64) {
            let p = Permutation::new(n, key);
            let places: std::collections::HashSet<u64> = (0..500).map(|i| p.at((start.wrapping_add(i * 7919)) % n)).collect();
            prop_assert_eq!(places.len(), (0..500u64).map(|i| start.wrapping_add(i * 7919) % n).collect::<std::collections::HashSet<_>>().len());
            prop_assert!(places.iter().all(|&x| x < n));
        }
    }

    /// Chi-square of the image of each input over many keys, and of the gap between neighbours.
    #[test]
    fn places_and_gaps_are_uniform() {
        let n = 24;
        let keys = 24_000;
        let mut place = vec![0f64; n * n];
        let mut gap = vec![0f64; n];
        for key in 0..keys {
            let p = Permutation::new(n as u64, mix64(key));
            for i in 0..n {
                place[i * n + p.at(i as u64) as usize] += 1.0;
                if i > 0 {
                    gap[(p.at(i as u64) + n as u64 - p.at(i as u64 - 1)) as usize % n] += 1.0;
                }
            }
        }
        let chi = |counts: &[f64], want: f64| counts.iter().map(|c| (c - want).powi(2) / want).sum::<f64>();
        let places = chi(&place, keys as f64 / n as f64);
        assert!(places < 529.0 + 4.0 * (2.0 * 529.0f64).sqrt(), "chi-square of places {places}");
        let gaps = chi(&gap[1..], keys as f64 * (n - 1) as f64 / (n - 1) as f64);
        assert!(gaps < 22.0 + 5.0 * (2.0 * 22.0f64).sqrt(), "chi-square of gaps {gaps}");
    }
}
