//! The Fourier transform of several real frames at once.
//!
//! Frames lie side by side in lanes, so each step is the same arithmetic on all of them, which the compiler makes into
//! vector code with the same bits. A frame of even length is transformed as complex numbers of half the length. The
//! algorithm is Stockham's, for any length; a prime factor p beyond 2 costs p² / 2 for p numbers.

use std::f64::consts::TAU;
use std::sync::OnceLock;

/// Frames that are transformed together.
pub(super) const LANES: usize = 8;
/// The logarithm of the longest transform that stays in memory; all of them take 8 MiB.
pub(super) const LOG2_MAX: u32 = 19;
/// One number of each frame.
pub(super) type Lane = [f32; LANES];

/// The constants of a length.
pub(super) struct Fourier {
    /// The length of the frames, and of the complex transform.
    n: usize,
    m: usize,
    factors: Vec<usize>,
    /// The m-th roots of unity, and the first n-th ones: cosine and minus sine.
    roots: Vec<(f32, f32)>,
    halves: Vec<(f32, f32)>,
}

/// The memory of a transform.
#[derive(Default)]
pub(super) struct Work {
    re: Vec<Lane>,
    im: Vec<Lane>,
    other_re: Vec<Lane>,
    other_im: Vec<Lane>,
}

impl Fourier {
    /// The transform of `n` real numbers.
    pub(super) fn new(n: usize) -> Self {
        let m = if n.is_multiple_of(2) { n / 2 } else { n };
        Self { n, halves: (0..=n / 2).map(|k| root(k, n)).collect(), ..Self::complex(m) }
    }

    /// The transform of 2 to the power of `log2` complex numbers, `log2` at most [`LOG2_MAX`]. It stays in memory.
    pub(super) fn kept(log2: u32) -> &'static Self {
        static KEPT: [OnceLock<Fourier>; LOG2_MAX as usize + 1] = [const { OnceLock::new() }; LOG2_MAX as usize + 1];
        KEPT[log2 as usize].get_or_init(|| Self::complex(1 << log2))
    }

    fn complex(m: usize) -> Self {
        let (mut rest, mut factors) = (m, Vec::new());
        for factor in [4, 2, 3].into_iter().chain((5..=m).step_by(2)) {
            while rest.is_multiple_of(factor) && rest > 1 {
                factors.push(factor);
                rest /= factor;
            }
        }
        let roots = (0..m).map(|k| root(k, m)).collect();
        Self { n: m, m, factors, roots, halves: Vec::new() }
    }

    /// Returns frames of zeros to fill: their real and imaginary parts.
    pub(super) fn zeros<'w>(&self, work: &'w mut Work) -> (&'w mut [Lane], &'w mut [Lane]) {
        for buffer in [&mut work.re, &mut work.im, &mut work.other_re, &mut work.other_im] {
            buffer.clear();
            buffer.resize(self.m, [0.0; LANES]);
        }
        (&mut work.re, &mut work.im)
    }

    /// Transforms complex frames, and returns their frequencies.
    pub(super) fn transformed<'w>(&self, work: &'w mut Work) -> (&'w mut [Lane], &'w mut [Lane]) {
        self.transform(work);
        (&mut work.re, &mut work.im)
    }

    /// Writes the squares of the absolute values of frequencies 0 to n / 2 of each frame.
    pub(super) fn power(&self, frames: &[Lane], work: &mut Work, power: &mut [Lane]) {
        for buffer in [&mut work.re, &mut work.im, &mut work.other_re, &mut work.other_im] {
            buffer.resize(self.m, [0.0; LANES]);
        }
        if self.m == self.n {
            work.re.copy_from_slice(frames);
            work.im.fill([0.0; LANES]);
        } else {
            for (k, [even, odd]) in frames.as_chunks::<2>().0.iter().enumerate() {
                (work.re[k], work.im[k]) = (*even, *odd);
            }
        }
        self.transform(work);
        for (k, power) in power.iter_mut().enumerate() {
            let (re, im) = if self.m == self.n { (work.re[k], work.im[k]) } else { self.of_half(k, work) };
            for lane in 0..LANES {
                power[lane] = re[lane] * re[lane] + im[lane] * im[lane];
            }
        }
    }

    /// Returns frequency `k` of real frames, of the transform of their pairs.
    #[inline(always)]
    fn of_half(&self, k: usize, work: &Work) -> (Lane, Lane) {
        let (own, other) = (k % self.m, (self.m - k % self.m) % self.m);
        let (cos, sin) = self.halves[k];
        let (mut re, mut im) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let (a, b) = (work.re[own][lane], work.im[own][lane]);
            let (c, d) = (work.re[other][lane], -work.im[other][lane]);
            let (even_re, even_im) = (0.5 * (a + c), 0.5 * (b + d));
            let (odd_re, odd_im) = (0.5 * (b - d), -0.5 * (a - c));
            re[lane] = even_re + (odd_re * cos - odd_im * sin);
            im[lane] = even_im + (odd_re * sin + odd_im * cos);
        }
        (re, im)
    }

    fn transform(&self, work: &mut Work) {
        let (mut length, mut stride) = (self.m, 1);
        for &factor in &self.factors {
            let Work { re, im, other_re, other_im } = work;
            let stage = Stage { roots: &self.roots, factor, length, stride };
            let (from, to) = ((&re[..], &im[..]), (&mut other_re[..], &mut other_im[..]));
            match factor {
                2 => stage.run::<2>(from, to, two),
                4 => stage.run::<4>(from, to, four),
                3 => stage.run::<3>(from, to, |x, y| odd(x, y, &self.roots)),
                5 => stage.run::<5>(from, to, |x, y| odd(x, y, &self.roots)),
                _ => stage.any(from, to),
            }
            std::mem::swap(re, other_re);
            std::mem::swap(im, other_im);
            (length, stride) = (length / factor, stride * factor);
        }
    }
}

/// Returns the k-th of the n-th roots of unity: cosine and minus sine.
fn root(k: usize, n: usize) -> (f32, f32) {
    let angle = TAU * k as f64 / n as f64;
    (libm::cos(angle) as f32, -libm::sin(angle) as f32)
}

/// Complex numbers of each lane.
type Complex = (Lane, Lane);

/// One pass over the numbers, which splits transforms of `length` into `factor` shorter ones.
struct Stage<'a> {
    roots: &'a [(f32, f32)],
    factor: usize,
    length: usize,
    stride: usize,
}

impl Stage<'_> {
    #[inline(always)]
    fn run<const P: usize>(
        &self,
        (re, im): (&[Lane], &[Lane]),
        (to_re, to_im): (&mut [Lane], &mut [Lane]),
        butterfly: impl Fn(&[Complex; P], &mut [Complex; P]),
    ) {
        let part = self.length / P;
        let mut made = [([0.0; LANES], [0.0; LANES]); P];
        for q in 0..part {
            for k in 0..self.stride {
                let x = std::array::from_fn(|j| {
                    let at = (q + part * j) * self.stride + k;
                    (re[at], im[at])
                });
                butterfly(&x, &mut made);
                for (r, &made) in made.iter().enumerate() {
                    let at = (q * P + r) * self.stride + k;
                    (to_re[at], to_im[at]) = turned(made, self.roots[q * r * self.stride]);
                }
            }
        }
    }

    /// As `run`, for a prime factor without a butterfly of its own.
    fn any(&self, (re, im): (&[Lane], &[Lane]), (to_re, to_im): (&mut [Lane], &mut [Lane])) {
        let (part, p) = (self.length / self.factor, self.factor);
        let mut x = vec![([0.0; LANES], [0.0; LANES]); p];
        let mut made = x.clone();
        for q in 0..part {
            for k in 0..self.stride {
                for (j, x) in x.iter_mut().enumerate() {
                    let at = (q + part * j) * self.stride + k;
                    *x = (re[at], im[at]);
                }
                odd(&x, &mut made, self.roots);
                for (r, &made) in made.iter().enumerate() {
                    let at = (q * p + r) * self.stride + k;
                    (to_re[at], to_im[at]) = turned(made, self.roots[q * r * self.stride]);
                }
            }
        }
    }
}

/// Multiplies by a root of unity.
#[inline(always)]
fn turned((re, im): Complex, (cos, sin): (f32, f32)) -> Complex {
    let (mut out_re, mut out_im) = ([0.0; LANES], [0.0; LANES]);
    for lane in 0..LANES {
        out_re[lane] = re[lane] * cos - im[lane] * sin;
        out_im[lane] = re[lane] * sin + im[lane] * cos;
    }
    (out_re, out_im)
}

#[inline(always)]
fn add(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|lane| a[lane] + b[lane])
}

#[inline(always)]
fn subtract(a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|lane| a[lane] - b[lane])
}

#[inline(always)]
fn two(x: &[Complex; 2], made: &mut [Complex; 2]) {
    made[0] = (add(x[0].0, x[1].0), add(x[0].1, x[1].1));
    made[1] = (subtract(x[0].0, x[1].0), subtract(x[0].1, x[1].1));
}

#[inline(always)]
fn four(x: &[Complex; 4], made: &mut [Complex; 4]) {
    let (a, b) = ((add(x[0].0, x[2].0), add(x[0].1, x[2].1)), (subtract(x[0].0, x[2].0), subtract(x[0].1, x[2].1)));
    let (c, d) = ((add(x[1].0, x[3].0), add(x[1].1, x[3].1)), (subtract(x[1].0, x[3].0), subtract(x[1].1, x[3].1)));
    made[0] = (add(a.0, c.0), add(a.1, c.1));
    made[1] = (add(b.0, d.1), subtract(b.1, d.0));
    made[2] = (subtract(a.0, c.0), subtract(a.1, c.1));
    made[3] = (subtract(b.0, d.1), add(b.1, d.0));
}

/// An odd number of points: sums and differences of mirrored ones.
#[inline(always)]
fn odd(x: &[Complex], made: &mut [Complex], roots: &[(f32, f32)]) {
    let (p, step) = (x.len(), roots.len() / x.len());
    made[0] = x[1..].iter().fold(x[0], |sum, x| (add(sum.0, x.0), add(sum.1, x.1)));
    for r in 1..=p / 2 {
        let (mut even, mut turned) = (x[0], ([0.0; LANES], [0.0; LANES]));
        for j in 1..=p / 2 {
            let (cos, sin) = roots[j * r % p * step];
            let (a, b) = (x[j], x[p - j]);
            for lane in 0..LANES {
                even.0[lane] += cos * (a.0[lane] + b.0[lane]);
                even.1[lane] += cos * (a.1[lane] + b.1[lane]);
                turned.0[lane] -= sin * (a.1[lane] - b.1[lane]);
                turned.1[lane] += sin * (a.0[lane] - b.0[lane]);
            }
        }
        made[r] = (add(even.0, turned.0), add(even.1, turned.1));
        made[p - r] = (subtract(even.0, turned.0), subtract(even.1, turned.1));
    }
}
