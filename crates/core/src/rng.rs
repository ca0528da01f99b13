//! Random numbers as a function of (seed, epoch, op, sample id), never from global or thread state.
//!
//! The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011). It is
//! counter based: the key and the counter are the whole state, so any worker draws the same numbers for a sample.
//! The constants and rounds are fixed for ever: changing them changes users' data.

use crate::{Epoch, SampleId, Seed};

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Mixes 64 bits so that every input bit flips each output bit half the time (the finaliser of SplitMix64).
#[inline]
pub fn mix64(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Derives the key of one op in one epoch from the job's seed.
#[inline]
pub fn op_key(seed: Seed, epoch: Epoch, op: u64) -> u64 {
    let a = mix64(seed.0.wrapping_add(0x9E37_79B9_7F4A_7C15));
    let b = mix64(a ^ epoch.0.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(0x2545_F491_4F6C_DD1D));
    mix64(b ^ op.wrapping_mul(0xA076_1D64_78BD_642F).wrapping_add(0xE703_7ED1_A0B4_28DB))
}

/// Returns one block of Philox4x32-10.
#[inline]
pub fn philox4x32(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for round in 0..10 {
        if round > 0 {
            key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
        }
        let p0 = u64::from(MULTIPLIERS[0]) * u64::from(counter[0]);
        let p1 = u64::from(MULTIPLIERS[1]) * u64::from(counter[2]);
        counter =
            [(p1 >> 32) as u32 ^ counter[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ counter[3] ^ key[1], p0 as u32];
    }
    counter
}

/// The random stream of one sample in one op. It is cheap to make: use it and drop it.
#[derive(Debug, Clone)]
pub struct SampleRng {
    key: u64,
    sample: u64,
    block: u64,
    buffer: [u32; 4],
    used: usize,
}

impl SampleRng {
    /// Opens the stream of `sample` under `key` (see [`op_key`]).
    pub fn new(key: u64, sample: SampleId) -> Self {
        Self { key, sample: sample.0, block: 0, buffer: [0; 4], used: 4 }
    }

    /// Draws 32 uniform bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == 4 {
            let key = [self.key as u32, (self.key >> 32) as u32];
            let counter =
                [self.sample as u32, (self.sample >> 32) as u32, self.block as u32, (self.block >> 32) as u32];
            self.buffer = philox4x32(key, counter);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.buffer[self.used - 1]
    }

    /// Draws 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        u64::from(self.next_u32()) << 32 | u64::from(self.next_u32())
    }

    /// Draws from [0, 1) with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws from [low, high).
    #[inline]
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws from 0..=max with a negligible bias (multiply-shift on 64 bits).
    #[inline]
    pub fn up_to(&mut self, max: u32) -> u32 {
        ((u128::from(self.next_u64()) * (u128::from(max) + 1)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known answers of the reference implementation (Random123, kat_vectors).
    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox4x32([0, 0], [0; 4]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(philox4x32([u32::MAX; 2], [u32::MAX; 4]), [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        assert_eq!(
            philox4x32([0xa409_3822, 0x299f_31d0], [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn streams_depend_on_every_part_of_their_name() {
        let first = |s, e, o, i| SampleRng::new(op_key(Seed(s), Epoch(e), o), SampleId(i)).next_u64();
        let base = first(1, 2, 3, 4);
        assert_eq!(base, first(1, 2, 3, 4));
        for other in [first(2, 2, 3, 4), first(1, 3, 3, 4), first(1, 2, 4, 4), first(1, 2, 3, 5)] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn draws_are_uniform_enough() {
        let mut rng = SampleRng::new(op_key(Seed(0), Epoch(0), 0), SampleId(0));
        let mean = (0..100_000).map(|_| rng.unit()).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let mut seen = [0; 7];
        (0..70_000).for_each(|_| seen[rng.up_to(6) as usize] += 1);
        assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    }
}
