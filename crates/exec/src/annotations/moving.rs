//! The annotations of one row on their way through a chain: checked where they begin, then changed with the image.

use forebay_core::{Error, Result};
use forebay_plan::Role;

use super::boxes::Boxes;
use super::motion::Motion;
use super::pixel_map::PixelMap;
use super::points::Points;
use super::rows::{Column, MadeRow, Rows};
use crate::image::{Change, Follow};

/// The annotations of one row.
pub(crate) struct Moving<'a> {
    rows: &'a Rows<'a>,
    row: usize,
    /// Whether each step of the chain carries annotations.
    carries: &'a [bool],
    state: State,
    has_begun: bool,
    /// The step that failed.
    failed: Option<usize>,
}

/// What a row has become.
struct State {
    boxes: Option<Boxes>,
    /// The places of the kept boxes among those at the start.
    kept: Vec<u32>,
    points: Option<Points>,
    map: Option<PixelMap>,
    size: (usize, usize),
}

impl<'a> Moving<'a> {
    /// Takes a row; `carries` says for each step of the chain whether annotations follow it.
    pub(crate) fn new(rows: &'a Rows<'a>, row: usize, carries: &'a [bool]) -> Self {
        let state = State { boxes: None, kept: Vec::new(), points: None, map: None, size: (0, 0) };
        Self { rows, row, carries, state, has_begun: false, failed: None }
    }

    /// Returns the step that failed.
    pub(crate) fn failed(&self) -> Option<usize> {
        self.failed
    }

    fn column(&self, role: Role) -> Option<&'a Column> {
        self.rows.columns.iter().find(|column| column.role == role)
    }

    /// Reads the row, and checks that its parts fit each other and the image.
    fn begin(&mut self, size: (usize, usize), clip: Option<bool>) -> Result<()> {
        let rules = self.rows.rules;
        self.state.size = size;
        if let Some(column) = self.column(Role::Boxes) {
            let shape = column.shape(self.row);
            if shape.get(1) != Some(&4) && shape.first() != Some(&0) {
                return Err(Error::data(format!("a row of column {:?} has shape {shape:?}", column.name))
                    .hint("boxes have the shape [boxes, 4]"));
            }
            let boxes = Boxes::new(column.numbers(self.row), rules);
            boxes.check(&column.name, size, clip)?;
            self.state.kept = (0..boxes.len() as u32).collect();
            self.state.boxes = Some(boxes);
        }
        let boxes = self.state.kept.len();
        for column in self.rows.columns.iter().filter(|column| self.is_per_box(column)) {
            let (shape, name) = (column.shape(self.row), &column.name);
            if shape[0] != boxes {
                return Err(Error::data(format!("column {name:?} has {} entries for {boxes} boxes", shape[0]))
                    .hint("there is one entry for each box"));
            }
        }
        for column in self.rows.columns.iter().filter(|column| column.role == Role::Mask) {
            let shape = column.shape(self.row);
            let sides = &shape[usize::from(self.is_per_box(column))..][..2];
            if sides != [size.1, size.0] {
                let (name, sides) = (&column.name, format!("{} rows and {} columns", sides[0], sides[1]));
                let image = format!("{} rows and {} columns", size.1, size.0);
                return Err(Error::data(format!("the mask {name:?} has {sides}, and its image {image}"))
                    .hint("a mask has a pixel for each pixel of its image"));
            }
            self.state.map.get_or_insert_with(|| PixelMap::whole(size));
        }
        if let Some(column) = self.column(Role::Points) {
            let points = Points::new(column.numbers(self.row), column.shape(self.row), rules.relative);
            points.check(&column.name, &rules.flip_pairs)?;
            self.state.points = Some(points);
        }
        Ok(())
    }

    /// Returns whether a column has an entry for each box.
    fn is_per_box(&self, column: &Column) -> bool {
        let shape = column.shape(self.row);
        match column.role {
            Role::Boxes => false,
            Role::Label => true,
            Role::Mask => shape.len() == 3 && !column.is_one_plane,
            Role::Points => shape.len() == 3,
        }
    }

    fn change(&mut self, change: Change<'_>, size: (usize, usize)) -> Result<()> {
        if !self.has_begun {
            let clip = if let Change::Check { clip } = change { Some(clip) } else { None };
            self.begin(size, clip)?;
            self.has_begun = true;
        }
        if matches!(change, Change::Keep) {
            return Ok(());
        }
        let rules = self.rows.rules;
        let state = &mut self.state;
        let motion = Motion::of(change, size);
        if let Some(points) = &mut state.points {
            points.follow(&motion, size);
            if matches!(change, Change::Mirror(_)) {
                points.swap(&rules.flip_pairs);
            }
        }
        if let Some(boxes) = &mut state.boxes {
            let centres = if let Change::CropCentres(part) = change { Some(part) } else { None };
            let kept = boxes.follow(&motion, size, centres);
            if kept.len() < state.kept.len() {
                state.kept = kept.iter().map(|&at| state.kept[at as usize]).collect();
                state.points.iter_mut().for_each(|points| points.keep(&kept));
            }
        }
        if let Some(map) = &mut state.map {
            map.follow(change, size);
        }
        state.size = motion.size;
        Ok(())
    }

    /// Returns what the row has become: for each column, in their order.
    pub(crate) fn finish(self) -> Vec<MadeRow> {
        self.rows.columns.iter().map(|column| self.made(column)).collect()
    }

    fn made(&self, column: &Column) -> MadeRow {
        let (bytes, kept) = (column.bytes(self.row), &self.state.kept);
        let mut shape = column.shape(self.row).to_vec();
        let as_given = || MadeRow { shape: column.shape(self.row).to_vec(), bytes: bytes.to_vec() };
        match (column.role, &self.state) {
            (Role::Boxes, State { boxes: Some(boxes), .. }) => {
                MadeRow { shape: vec![boxes.len(), 4], bytes: boxes.numbers().bytes() }
            }
            (Role::Points, State { points: Some(points), .. }) => {
                MadeRow { shape: points.shape(kept.len()), bytes: points.numbers().bytes() }
            }
            (Role::Label, _) => {
                let len = bytes.len() / shape[0].max(1);
                shape[0] = kept.len();
                MadeRow {
                    shape,
                    bytes: kept.iter().flat_map(|&at| &bytes[at as usize * len..][..len]).copied().collect(),
                }
            }
            (Role::Mask, State { map: Some(map), size, .. }) => {
                let mut made = Vec::new();
                let first = if self.is_per_box(column) {
                    let len = bytes.len() / shape[0].max(1);
                    kept.iter().for_each(|&at| map.gather(&bytes[at as usize * len..][..len], &column.fill, &mut made));
                    shape[0] = kept.len();
                    1
                } else {
                    map.gather(bytes, &column.fill, &mut made);
                    0
                };
                (shape[first], shape[first + 1]) = (size.1, size.0);
                MadeRow { shape, bytes: made }
            }
            _ => as_given(),
        }
    }
}

impl Follow for Moving<'_> {
    fn follow(&mut self, step: usize, change: Change<'_>, size: (usize, usize)) -> Result<()> {
        if !self.carries[step] {
            return Ok(());
        }
        self.change(change, size).inspect_err(|_| self.failed = Some(step))
    }

    fn boxes(&mut self, step: usize, size: (usize, usize)) -> Result<Vec<[f64; 4]>> {
        self.change(Change::Keep, size).inspect_err(|_| self.failed = Some(step))?;
        Ok(self.state.boxes.as_ref().map_or_else(Vec::new, |boxes| boxes.corners(size).collect()))
    }

    fn note_failure(&mut self, step: usize) {
        self.failed = Some(step);
    }
}
