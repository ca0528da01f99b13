//! Calls a function again when its process died, and finds the row that caused it.
//!
//! One death proves nothing about a row: when memory runs out, the kernel may kill any process. So the rows run again
//! in a new process, and the row at which the process died runs alone. A row is the cause if it ended [`DEATHS_MAX`]
//! consecutive processes, alone in each. The input of a batched function is not divided: it counts as one row.

use std::ops::Range;

use forebay_core::{Error, Result};

/// The number of processes that a row ends before it counts as the cause.
pub const DEATHS_MAX: usize = 3;

/// How a call failed.
#[derive(Debug)]
pub enum CallFailure {
    /// Its process died at the row of this index.
    Died(u64, Error),
    /// It failed in another way.
    Other(Error),
}

impl From<Error> for CallFailure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Adds to the error of a death that earlier processes died, too.
pub fn blamed(error: Error) -> Error {
    error.with("deaths", format!("{DEATHS_MAX} processes or more, one after the other, with nothing else in them"))
}

/// Runs `rows` rows and retries after deaths: by single rows if `by_row`, otherwise all together. Returns the parts in
/// order.
///
/// # Errors
/// The error of a call; the death of the row that is the cause.
pub fn retry_after_deaths<T>(
    rows: usize,
    by_row: bool,
    run: &dyn Fn(Range<usize>) -> std::result::Result<T, CallFailure>,
) -> Result<Vec<T>> {
    let (mut parts, mut left, mut deaths) = (Vec::new(), Vec::new(), 0);
    left.push(0..rows);
    while let Some(range) = left.pop() {
        match run(range.clone()) {
            Ok(part) => parts.push(part),
            Err(CallFailure::Other(error)) => return Err(error),
            Err(CallFailure::Died(row, _)) if by_row && range.len() > 1 => {
                let at = range.start + (row as usize).min(range.len() - 1);
                let cut = [at + 1..range.end, at..at + 1, range.start..at];
                left.extend(cut.into_iter().filter(|part| !part.is_empty()));
            }
            Err(CallFailure::Died(_, error)) => {
                deaths += 1;
                if deaths >= DEATHS_MAX {
                    return Err(blamed(error));
                }
                left.push(range);
                continue;
            }
        }
        deaths = 0;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use forebay_core::ErrorKind;
    use proptest::prelude::*;

    use super::*;

    fn died(range: &Range<usize>, at: usize) -> CallFailure {
        CallFailure::Died((at - range.start) as u64, Error::new(ErrorKind::Function, at.to_string()))
    }

    proptest! {
        #[test]
        fn every_row_comes_once_whichever_process_is_killed(rows in 0usize..40, kills in prop::collection::vec(0usize..40, 0..60)) {
            // Rows at which the test kills a process, at most twice at one row.
            let kills = RefCell::new(kills);
            let twice = RefCell::new(vec![0; 40]);
            let run = |range: Range<usize>| {
                for row in range.clone() {
                    let mut kills = kills.borrow_mut();
                    if let Some(place) = kills.iter().position(|k| *k == row) && twice.borrow()[row] < 2 {
                        kills.remove(place);
                        twice.borrow_mut()[row] += 1;
                        return Err(died(&range, row));
                    }
                }
                Ok(range.collect::<Vec<_>>())
            };
            let parts = retry_after_deaths(rows, true, &run).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(parts.concat(), (0..rows).collect::<Vec<_>>());
        }

        #[test]
        fn the_first_row_that_always_kills_is_blamed(rows in 1usize..40, bad in prop::collection::vec(0usize..40, 1..4)) {
            let calls = RefCell::new(0);
            let run = |range: Range<usize>| {
                *calls.borrow_mut() += 1;
                match range.clone().find(|row| bad.contains(row)) {
                    Some(row) => Err(died(&range, row)),
                    None => Ok(range.len()),
                }
            };
            match (retry_after_deaths(rows, true, &run), bad.iter().filter(|b| **b < rows).min()) {
                (Ok(parts), None) => prop_assert_eq!(parts.iter().sum::<usize>(), rows),
                (Err(error), Some(first)) => prop_assert_eq!(error.message(), first.to_string()),
                _ => prop_assert!(false),
            }
            prop_assert!(*calls.borrow() <= 2 + DEATHS_MAX);
        }
    }
}
