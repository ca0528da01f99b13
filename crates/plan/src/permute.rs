//! A permutation of `0..n` that needs no memory: what makes a global shuffle of 10^12 samples cost nothing.
//!
//! A Feistel network (Luby and Rackoff, 1988) over the smallest power of two that holds `n`, walked until it lands
//! below `n` (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). The rounds are fixed for ever:
//! changing them changes the order in which users' jobs see their data.

use forebay_core::rng::mix64;

/// Half-rounds; eight pass the statistical tests below with room to spare.
const ROUNDS: usize = 8;
/// The smallest domain in bits: a walk from 64 down to a tiny `n` is still short, and tiny domains mix badly.
const BITS_MIN: u32 = 6;

/// A permutation of `0..n`, named by a key.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    left_bits: u32,
    right_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Makes the permutation of `0..n` that `key` names.
    pub fn new(n: u64, key: u64) -> Self {
        let bits = (64 - n.saturating_sub(1).leading_zeros()).max(BITS_MIN);
        let mut keys = [0; ROUNDS];
        for (round, slot) in keys.iter_mut().enumerate() {
            *slot = mix64(key ^ mix64(round as u64 + 1));
        }
        Self { n, left_bits: bits / 2, right_bits: bits - bits / 2, keys }
    }

    /// Returns where `i` goes. `i` must be below `n`.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = self.once(i);
        while x >= self.n {
            x = self.once(x);
        }
        x
    }

    #[inline]
    fn once(&self, x: u64) -> u64 {
        let (mut left, mut right) = (x >> self.right_bits, x & low(self.right_bits));
        for pair in self.keys.chunks_exact(2) {
            left ^= round(right, pair[0]) >> (64 - self.left_bits);
            right ^= round(left, pair[1]) >> (64 - self.right_bits);
        }
        left << self.right_bits | right
    }
}

#[inline]
fn low(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[inline]
fn round(x: u64, key: u64) -> u64 {
    let h = x.wrapping_add(key).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    (h ^ (h >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn small_sizes_are_permutations() {
        for n in (0..70).chain([97, 1009, 65_537]) {
            let p = Permutation::new(n, 7);
            let mut seen: Vec<u64> = (0..n).map(|i| p.at(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..n), "size {n}");
        }
    }

    proptest! {
        /// At sizes that no test can enumerate: in range, and different places for different inputs.
        #[test]
        fn large_sizes_are_injective(n in prop::sample::select(vec![1u64 << 31, (1 << 31) + 1, 1_000_000_000_000, u64::MAX >> 1]), key: u64, start: u64) {
            let p = Permutation::new(n, key);
            let places: std::collections::HashSet<u64> = (0..500).map(|i| p.at((start.wrapping_add(i * 7919)) % n)).collect();
            prop_assert_eq!(places.len(), (0..500u64).map(|i| start.wrapping_add(i * 7919) % n).collect::<std::collections::HashSet<_>>().len());
            prop_assert!(places.iter().all(|&x| x < n));
        }
    }

    /// Chi-square of where each input lands over many keys, and of the gap between neighbours.
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
