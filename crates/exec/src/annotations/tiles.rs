//! The annotations of an image that is put together from parts of several images: those of each part, moved with it.

use forebay_core::{Error, Result};
use forebay_plan::Role;

use super::moving::Moving;
use super::rows::{Column, MadeRow, Rows};
use crate::image::{Change, Follow, Region};

/// A part of an image, and its place in another image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    /// The row of the image.
    pub(crate) row: usize,
    pub(crate) part: Region,
    /// The column and the row of its upper left corner in the other image.
    pub(crate) at: (usize, usize),
}

impl Rows<'_> {
    /// Checks the annotations of a row against its image of `size` (columns and rows), and returns them.
    ///
    /// # Errors
    /// Data when they do not fit each other or the image.
    pub(crate) fn checked(&self, row: usize, size: (usize, usize)) -> Result<Vec<MadeRow>> {
        self.changed(row, &[(Change::Keep, size)])
    }

    /// Returns the annotations of an image that consists of these parts of images; all images have `size`. Parts do not
    /// overlap, and one has pixels.
    ///
    /// # Errors
    /// As [`Rows::checked`].
    pub(crate) fn joined(&self, tiles: &[Tile], size: (usize, usize)) -> Result<Vec<MadeRow>> {
        let tiles: Vec<_> = tiles.iter().filter(|tile| tile.part.width * tile.part.height > 0).collect();
        let parts = tiles.iter().map(|Tile { row, part, at: (left, top) }| {
            let place = Change::Place { left: *left, top: *top, size };
            self.changed(*row, &[(Change::Crop(*part), size), (place, (part.width, part.height))])
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let joined = |(at, column): (usize, &Column)| {
            let rows = || parts.iter().map(move |part| &part[at]);
            let is_plane = column.role == Role::Mask && rows().all(|row| row.shape.len() == 2 || column.is_one_plane);
            let made = if is_plane { pasted(&tiles, rows(), size.0) } else { appended(rows()) };
            made.ok_or_else(|| Error::internal("an image without parts"))
        };
        self.columns.iter().enumerate().map(joined).collect()
    }

    /// Returns the annotations of a row after these changes of its image, each with the size before it.
    fn changed(&self, row: usize, changes: &[(Change<'_>, (usize, usize))]) -> Result<Vec<MadeRow>> {
        let mut moving = Moving::new(self, row, &[true]);
        changes.iter().try_for_each(|(change, size)| moving.follow(0, *change, *size))?;
        Ok(moving.finish())
    }
}

/// Puts masks of the whole image together: each has its part's pixels at their place.
fn pasted<'a>(tiles: &[&Tile], mut masks: impl Iterator<Item = &'a MadeRow>, width: usize) -> Option<MadeRow> {
    let MadeRow { shape, mut bytes } = masks.next()?.clone();
    let size = bytes.len() / shape.iter().product::<usize>().max(1);
    for (mask, Tile { part, at: (left, top), .. }) in masks.zip(&tiles[1..]) {
        for y in *top..top + part.height {
            let run = (y * width + left) * size..(y * width + left + part.width) * size;
            bytes[run.clone()].copy_from_slice(&mask.bytes[run]);
        }
    }
    Some(MadeRow { shape, bytes })
}

/// Puts the entries of boxes one behind the other.
fn appended<'a>(rows: impl Iterator<Item = &'a MadeRow>) -> Option<MadeRow> {
    rows.cloned().reduce(|mut all, mut row| {
        all.shape[0] += row.shape[0];
        all.bytes.append(&mut row.bytes);
        all
    })
}
