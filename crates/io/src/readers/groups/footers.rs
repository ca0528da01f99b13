//! The open files of a reader of groups, with their footers.

use std::sync::{Arc, OnceLock, PoisonError};

use forebay_core::Result;

use super::Groups;
use crate::formats::arrow;
use crate::formats::grouped::Grouped;

/// The footer of a file: one thread reads it, and the others wait for that thread.
pub(super) type Footer<F> = Arc<OnceLock<Result<Arc<F>>>>;

impl<F: Grouped> Groups<F> {
    /// Returns an open file.
    ///
    /// # Errors
    /// Data when it has not the columns of the dataset; any error of reading its footer.
    pub(super) fn file(&self, file: usize) -> Result<Arc<F>> {
        let footer = {
            let mut footers = self.footers.lock().unwrap_or_else(PoisonError::into_inner);
            footers.get(file as u64).unwrap_or_else(|| {
                let footer = Footer::default();
                footers.put(file as u64, 1, footer.clone());
                footer
            })
        };
        if let Some(opened) = footer.get() {
            return opened.clone();
        }
        let opened = self.pool.wait_for_reader(|| footer.get_or_init(|| self.open(file)).clone());
        if opened.is_err() {
            // The next thread that needs the file opens it again.
            self.footers.lock().unwrap_or_else(PoisonError::into_inner).remove(file as u64);
        }
        opened
    }

    fn open(&self, file: usize) -> Result<Arc<F>> {
        let wanted = self.schema.fields();
        let footer = Arc::new(F::open(
            self.pool.get(file)?,
            self.pool.index.inner().tables.get(file).map(|table| &**table),
            wanted,
        )?);
        arrow::check(footer.schema(), wanted, self.merged.is_some(), self.uri(file))?;
        match &self.merged {
            Some(merged) => arrow::check_times(merged, footer.schema(), wanted, self.uri(file))?,
            None if file > 0 && wanted.iter().any(arrow::may_be_time) => {
                arrow::check_time(self.file(0)?.schema(), footer.schema(), wanted, self.uri(file))?;
            }
            None => {}
        }
        Ok(footer)
    }
}
