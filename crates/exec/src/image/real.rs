//! The sine and cosine of an angle in degrees, and normal draws.
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
