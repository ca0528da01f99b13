//! Decides which documents of a window share a row.
//!
//! Both rules are deterministic: of equal documents the earlier is placed first, and of equal rows the first one is
//! used. Rows are in the order of their first documents, and documents of a row in their own order, so that a window's
//! rows are not sorted by length.

use std::collections::BTreeSet;

use super::documents::Piece;

/// Puts each piece into the first row with room for it.
pub(super) fn first(pieces: &[Piece], length: usize) -> Vec<Vec<Piece>> {
    let mut rows: Vec<Vec<Piece>> = Vec::new();
    let mut rooms = Rooms::new(pieces.len(), length);
    for &piece in pieces {
        let row = rooms.take(piece.len());
        if row == rows.len() {
            rows.push(Vec::new());
        }
        rows[row].push(piece);
    }
    rows
}

/// Places the longest piece first, and each piece into the row where it leaves the least room.
pub(super) fn best(pieces: &[Piece], length: usize) -> Vec<Vec<Piece>> {
    let mut order: Vec<usize> = (0..pieces.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(pieces[i].len()));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    let mut rooms = BTreeSet::new();
    for i in order {
        let need = pieces[i].len();
        let (room, row) = rooms.range((need, 0)..).next().copied().unwrap_or((length, rows.len()));
        if row == rows.len() {
            rows.push(Vec::new());
        }
        rooms.remove(&(room, row));
        rooms.insert((room - need, row));
        rows[row].push(i);
    }
    rows.iter_mut().for_each(|row| row.sort_unstable());
    rows.sort_unstable();
    rows.into_iter().map(|row| row.into_iter().map(|i| pieces[i]).collect()).collect()
}

/// The room in each of `count` rows, as a tree of the most room below each node, so that the first row with room for a
/// piece is found without a linear search.
struct Rooms {
    most: Vec<usize>,
    leaves: usize,
}

impl Rooms {
    fn new(count: usize, length: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { most: vec![length; 2 * leaves], leaves }
    }

    /// Takes `need` from the first row that has it, and returns the row's index. There must be one.
    fn take(&mut self, need: usize) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node = if self.most[2 * node] >= need { 2 * node } else { 2 * node + 1 };
        }
        let row = node - self.leaves;
        self.most[node] -= need;
        while node > 1 {
            node /= 2;
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]);
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Documents of these lengths, one after another.
    fn pieces(lengths: &[usize]) -> Vec<Piece> {
        lengths.iter().enumerate().map(|(row, &len)| Piece::whole(row, len)).collect()
    }

    fn lengths(rows: &[Vec<Piece>]) -> Vec<Vec<usize>> {
        rows.iter().map(|row| row.iter().map(Piece::len).collect()).collect()
    }

    #[test]
    fn by_hand() {
        let window = pieces(&[6, 5, 4, 3, 2]);
        assert_eq!(lengths(&first(&window, 10)), [vec![6, 4], vec![5, 3, 2]]);
        let window = pieces(&[2, 3, 7, 8, 1]);
        assert_eq!(lengths(&best(&window, 10)), [vec![2, 8], vec![3, 7], vec![1]]);
        assert!(first(&[], 10).is_empty() && best(&[], 10).is_empty());
    }

    /// A straightforward first fit.
    fn plain_first(window: &[Piece], length: usize) -> Vec<Vec<Piece>> {
        let mut rows: Vec<Vec<Piece>> = Vec::new();
        let used = |row: &Vec<Piece>| row.iter().map(Piece::len).sum::<usize>();
        for &piece in window {
            match rows.iter_mut().find(|row| used(row) + piece.len() <= length) {
                Some(row) => row.push(piece),
                None => rows.push(vec![piece]),
            }
        }
        rows
    }

    proptest! {
        #[test]
        fn every_piece_once_in_a_row_with_room(lengths in prop::collection::vec(1usize..=20, 0..80)) {
            let window = pieces(&lengths);
            prop_assert_eq!(first(&window, 20), plain_first(&window, 20));
            for rows in [first(&window, 20), best(&window, 20)] {
                prop_assert!(rows.iter().all(|row| row.iter().map(Piece::len).sum::<usize>() <= 20));
                let mut all: Vec<Piece> = rows.concat();
                all.sort_by_key(Piece::row);
                prop_assert_eq!(&all, &window);
                prop_assert!(rows.iter().all(|row| row.is_sorted_by_key(Piece::row)));
                prop_assert!(rows.is_sorted_by_key(|row| row[0].row()));
                let rooms: Vec<usize> = rows.iter().map(|r| 20 - r.iter().map(Piece::len).sum::<usize>()).collect();
                // No two rows would fit into one.
                prop_assert!(rooms.iter().enumerate().all(|(i, a)| rooms[..i].iter().all(|b| a + b < 20)));
            }
        }
    }
}
