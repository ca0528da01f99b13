//! The exponential, the logarithm, the sine and cosine of an angle in degrees, and normal draws.
//!
//! They are written out because a platform's own may differ in the last bit, and a bit of an aspect ratio or an angle can
//! become a pixel of a crop or a rotation.

use forebay_core::rng::SampleRng;

/// e to the power of `x`, for |x| < 700, to 2 units of the last place.
pub(crate) fn exp(x: f64) -> f64 {
    // x = n ln 2 + r, the first in two parts so that r is exact enough.
    const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
    let n = (x * std::f64::consts::LOG2_E).round_ties_even();
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let series = (1..=14).rev().fold(1.0, |sum, i| 1.0 + sum * r / f64::from(i));
    series * f64::from_bits(((1023 + n as i64) as u64) << 52)
}

/// The natural logarithm of a normal positive number, to 2 units of the last place of the larger of 1 and the result.
pub(crate) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 atanh((m - 1) / (m + 1)); |s| < 0.172, so that s^24 is below the last place.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, i| sum * s * s + 1.0 / f64::from(2 * i + 1));
    2.0 * s * series + exponent as f64 * std::f64::consts::LN_2
}

/// The sine and the cosine of an angle, to 2 units of the last place of 1; exact at multiples of 90 degrees.
pub(super) fn sin_cos(degrees: f64) -> (f64, f64) {
    let quarter = (degrees / 90.0).round_ties_even();
    let x = (degrees - quarter * 90.0).to_radians();
    // |x| < 0.786, so that x^19 / 19! is below the last place.
    let series = |first: i32| {
        (0..9).rev().fold(0.0, |sum, i| {
            let n = f64::from(2 * i + first);
            1.0 - sum * x * x / ((n + 1.0) * (n + 2.0))
        })
    };
    let (sin, cos) = (x * series(1), series(0));
    match quarter.rem_euclid(4.0) as u8 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Draws from the standard normal distribution (Marsaglia's polar method).
pub(crate) fn normal(rng: &mut SampleRng) -> f64 {
    loop {
        let (u, v) = (rng.uniform(-1.0, 1.0), rng.uniform(-1.0, 1.0));
        let square = u * u + v * v;
        if 0.0 < square && square < 1.0 {
            return u * (-2.0 * ln(square) / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_core::SampleId;

    use super::*;

    #[test]
    fn normal_draws_have_the_moments_of_their_distribution() {
        let mut rng = SampleRng::new(4, SampleId(2));
        let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut rng)).collect();
        let moment = |power| draws.iter().map(|v| v.powi(power)).sum::<f64>() / draws.len() as f64;
        for (power, want) in [(1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)] {
            assert!((moment(power) - want).abs() < 0.1, "{power}: {}", moment(power));
        }
    }

    #[test]
    fn exponential_and_logarithm_are_right() {
        for i in -4000..=4000 {
            let x = f64::from(i) / 400.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 5e-16, "exp({x})");
            let y = x.exp();
            assert!((ln(y) - y.ln()).abs() < 5e-16 * x.abs().max(1.0), "ln({y})");
        }
        assert_eq!((exp(0.0), ln(1.0)), (1.0, 0.0));
    }

    #[test]
    fn sines_and_cosines_are_right() {
        for i in -4000..=4000 {
            let degrees = f64::from(i) / 7.0;
            let (sin, cos) = sin_cos(degrees);
            let (want_sin, want_cos) = degrees.to_radians().sin_cos();
            // The reference has the rounding of its radians, up to 10 of them.
            assert!((sin - want_sin).abs() < 2e-15 && (cos - want_cos).abs() < 2e-15, "{degrees}");
        }
        assert_eq!([0.0, 90.0, 180.0, -90.0].map(sin_cos), [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]);
    }
}
