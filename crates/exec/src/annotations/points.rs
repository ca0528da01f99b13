//! The points of a row. A third number of a point is its visibility: a point that leaves the image becomes (0, 0, 0), as
//! COCO writes a point that is not labelled.

use forebay_core::{Error, Result};

use super::motion::Motion;
use super::rows::Numbers;

/// The points of a row.
#[derive(Debug)]
pub(super) struct Points {
    numbers: Numbers,
    /// The numbers of a point: 2, or 3 with the visibility.
    dims: usize,
    /// The points of a box, if there are some for each box.
    per_box: Option<usize>,
    relative: bool,
}

impl Points {
    /// `shape` is that of the row: \[points, 2 or 3\], or \[boxes, points, 2 or 3\].
    pub(super) fn new(numbers: Numbers, shape: &[usize], relative: bool) -> Self {
        let per_box = (shape.len() == 3).then(|| shape[1]);
        Self { numbers, dims: shape[shape.len() - 1], per_box, relative }
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Returns the shape of the row.
    pub(super) fn shape(&self, boxes: usize) -> Vec<usize> {
        match self.per_box {
            Some(points) => vec![boxes, points, self.dims],
            None => vec![self.numbers.values.len() / self.dims, self.dims],
        }
    }

    /// Refuses visible points whose coordinates are not numbers.
    ///
    /// # Errors
    /// Data, with the first such point.
    pub(super) fn check(&self, name: &str, pairs: &[(usize, usize)]) -> Result<()> {
        let mut points = self.numbers.values.chunks_exact(self.dims).enumerate();
        let is_bad = |(_, point): &(usize, &[f64])| point.get(2) != Some(&0.0) && !point.iter().all(|v| v.is_finite());
        if let Some((at, point)) = points.find(is_bad) {
            let message = format!("point {at} of column {name:?} has a number that is not finite: {point:?}");
            return Err(Error::data(message).hint("a point without a place has visibility 0"));
        }
        let together = self.per_box.unwrap_or(self.numbers.values.len() / self.dims);
        match pairs.iter().map(|(a, b)| *a.max(b)).find(|most| *most >= together && together > 0) {
            Some(most) => Err(Error::data(format!("flip_pairs names point {most} of {together} in {name:?}"))
                .hint("points are counted from 0")),
            None => Ok(()),
        }
    }

    /// Moves the points.
    pub(super) fn follow(&mut self, motion: &Motion, from: (usize, usize)) {
        let (width, height) = (motion.size.0 as f64, motion.size.1 as f64);
        let scale = |size: (usize, usize)| if self.relative { (size.0 as f64, size.1 as f64) } else { (1.0, 1.0) };
        let (before, after) = (scale(from), scale(motion.size));
        let mut values = self.numbers.values.clone();
        for point in values.chunks_exact_mut(self.dims) {
            let placed = motion.place([point[0] * before.0, point[1] * before.1]);
            let inside = |[x, y]: [f64; 2]| (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
            match placed {
                Some(placed) if self.dims == 2 || (point[2] != 0.0 && inside(placed)) => {
                    (point[0], point[1]) = (placed[0] / after.0, placed[1] / after.1);
                }
                _ => point.fill(0.0),
            }
        }
        self.numbers = self.numbers.with(values);
    }

    /// Swaps the pairs of points (left and right eye, say) in a mirrored image.
    pub(super) fn swap(&mut self, pairs: &[(usize, usize)]) {
        let together = self.per_box.unwrap_or(self.numbers.values.len() / self.dims);
        if together == 0 {
            return;
        }
        for group in self.numbers.values.chunks_exact_mut(together * self.dims) {
            for &(a, b) in pairs {
                (0..self.dims).for_each(|d| group.swap(a * self.dims + d, b * self.dims + d));
            }
        }
    }

    /// Keeps the points of these boxes, if there are some for each box.
    pub(super) fn keep(&mut self, boxes: &[u32]) {
        if let Some(points) = self.per_box {
            let len = points * self.dims;
            let of = |&at: &u32| self.numbers.values[at as usize * len..][..len].iter().copied();
            self.numbers.values = boxes.iter().flat_map(of).collect();
        }
    }
}
