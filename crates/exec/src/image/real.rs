//! The sine and cosine of an angle in degrees; normal and gamma draws, and random shares.
//!
//! From `libm`, because a platform's own functions may differ in the last bit, and a bit of an angle can become a
//! pixel.

use forebay_core::rng::SampleRng;

/// Returns the sine and the cosine of an angle, exact at multiples of 90 degrees.
pub(super) fn sin_cos(degrees: f64) -> (f64, f64) {
    let quarter = (degrees / 90.0).round_ties_even();
    let x = (degrees - quarter * 90.0).to_radians();
    let (sin, cos) = (libm::sin(x), libm::cos(x));
    match quarter.rem_euclid(4.0) as u8 {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// Draws from the standard normal distribution.
pub(crate) fn normal(rng: &mut SampleRng) -> f64 {
    normals(rng)[0]
}

/// Draws twice from the standard normal distribution (Marsaglia's polar method).
pub(crate) fn normals(rng: &mut SampleRng) -> [f64; 2] {
    loop {
        let (u, v) = (rng.uniform(-1.0, 1.0), rng.uniform(-1.0, 1.0));
        let square = u * u + v * v;
        if 0.0 < square && square < 1.0 {
            let by = (-2.0 * libm::log(square) / square).sqrt();
            return [u * by, v * by];
        }
    }
}

/// Draws the logarithm of a gamma variate (Marsaglia and Tsang, "A simple method for generating gamma variables",
/// 2000).
pub(crate) fn ln_gamma(shape: f64, rng: &mut SampleRng) -> f64 {
    // Never 0, where the logarithm is infinite.
    let ln_unit = |rng: &mut SampleRng| libm::log(1.0 - rng.unit());
    if shape < 1.0 {
        let boost = ln_unit(rng) / shape;
        return ln_gamma(shape + 1.0, rng) + boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(rng);
        let root = 1.0 + c * x;
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if ln_unit(rng) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return libm::log(d) + libm::log(v);
        }
    }
}

/// Draws `count` shares of 1 from a Dirichlet distribution with equal parameters `alpha`.
pub(super) fn shares(alpha: f64, count: usize, rng: &mut SampleRng) -> Vec<f64> {
    // From logarithms, because for a small `alpha` the draws themselves are too small for an f64.
    let logs: Vec<f64> = (0..count).map(|_| ln_gamma(alpha, rng)).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let draws: Vec<f64> = logs.iter().map(|log| libm::exp((log - most).max(-600.0))).collect();
    let sum: f64 = draws.iter().sum();
    draws.iter().map(|draw| draw / sum).collect()
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
    fn random_shares_have_the_moments_of_their_distribution() {
        for alpha in [0.3, 1.0, 5.0] {
            let draws: Vec<_> = (0..20_000).map(|s| shares(alpha, 3, &mut SampleRng::new(3, SampleId(s)))).collect();
            assert!(draws.iter().all(|of| (of.iter().sum::<f64>() - 1.0).abs() < 1e-12));
            for i in 0..3 {
                let mean = draws.iter().map(|of| of[i]).sum::<f64>() / draws.len() as f64;
                let variance = draws.iter().map(|of| (of[i] - mean).powi(2)).sum::<f64>() / draws.len() as f64;
                let want = 2.0 / 9.0 / (3.0 * alpha + 1.0);
                assert!((mean - 1.0 / 3.0).abs() < 0.01 && (variance / want - 1.0).abs() < 0.05, "{alpha}: {mean}");
            }
        }
    }

    #[test]
    fn sines_and_cosines_are_right() {
        for i in -4000..=4000 {
            let degrees = f64::from(i) / 7.0;
            let (sin, cos) = sin_cos(degrees);
            let (want_sin, want_cos) = degrees.to_radians().sin_cos();
            // The reference includes the rounding of radians, up to 10 of them.
            assert!((sin - want_sin).abs() < 2e-15 && (cos - want_cos).abs() < 2e-15, "{degrees}");
        }
        assert_eq!([0.0, 90.0, 180.0, -90.0].map(sin_cos), [(0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0)]);
    }
}
