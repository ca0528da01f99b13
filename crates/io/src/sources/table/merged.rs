//! Merges the columns of files whose columns differ, as in tables that gained columns over time.
//!
//! The footers of all files are read once, when the user defines the source, and only if the user requests a merge.
//! Invariant: the result depends on the list of files and on their content, not on the order in which they were read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};
use forebay_plan::Merged;

use crate::formats::arrow::{self, Found as Column};
use crate::parallel::{for_each, side_by_side};
use crate::store::Found;
use crate::{Progress, limits};

/// The columns of all files.
pub(crate) struct Merging(Vec<Together>);

/// A column of some files.
struct Together {
    column: Column,
    /// The first and the last file that have it.
    first: usize,
    last: usize,
    /// A file that does not have it.
    lacking: Option<usize>,
    /// A file whose kind of this column fits no kind of an earlier file, and that kind.
    misfit: Option<(usize, Kind)>,
    /// A file with another time unit for it, and that unit.
    other_clock: Option<(usize, Option<String>)>,
}

impl Merging {
    /// Reads all files.
    ///
    /// # Errors
    /// Any error of a file; Data for a file with two columns of one name; Exhausted for too many columns; any error
    /// that `progress` returns.
    pub(crate) fn of(
        files: &[Found],
        look: &(dyn Fn(&Found) -> Result<Vec<Column>> + Sync),
        progress: Progress<'_>,
    ) -> Result<Self> {
        // Most files are alike: equal columns are kept once.
        let seen: Mutex<HashMap<String, Arc<Vec<Column>>>> = Mutex::default();
        let one = |file: &Found, _: &AtomicBool| {
            let blame = |e: Error| if e.get("file").is_some() { e } else { e.with("file", &file.uri) };
            let columns = look(file).and_then(each_once).map_err(blame)?;
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(seen.entry(format!("{columns:?}")).or_insert_with(|| Arc::new(columns)).clone())
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let all = for_each(files, side_by_side(files, threads), progress, one)?;
        let (mut merging, mut places) = (Self(Vec::new()), HashMap::new());
        for (file, columns) in all.iter().enumerate() {
            columns.iter().for_each(|column| merging.add(column, file, &mut places));
            limits::columns("columns of all files", merging.0.len()).map_err(|e| e.with("file", &files[file].uri))?;
        }
        merging.0.iter_mut().for_each(|together| together.come_to(all.len()));
        Ok(merging)
    }

    fn add(&mut self, column: &Column, file: usize, places: &mut HashMap<String, usize>) {
        match places.get(&column.field.name) {
            Some(&place) => self.0[place].add(column, file),
            None => {
                places.insert(column.field.name.clone(), self.0.len());
                let lacking = (file > 0).then_some(0);
                let column = column.clone();
                self.0.push(Together { column, first: file, last: file, lacking, misfit: None, other_clock: None });
            }
        }
    }

    /// Returns the columns, in the order of their first occurrence. A column that a file lacks may be missing.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let field = |together: &Together| Field {
            nullable: together.column.field.nullable || together.lacking.is_some(),
            ..together.column.field.clone()
        };
        self.0.iter().map(field).collect()
    }

    /// Checks that every file can provide the wanted columns.
    ///
    /// # Errors
    /// Data, naming a file that cannot.
    pub(crate) fn check<'f>(&self, wanted: impl Iterator<Item = &'f Field>, files: &[Found]) -> Result<Merged> {
        let mut times = BTreeMap::new();
        for field in wanted {
            let Some(together) = self.0.iter().find(|together| together.column.field.name == field.name) else {
                return Err(Error::internal("a column that no file has"));
            };
            together.check(field, files)?;
            if let Some(clock) = &together.column.clock {
                times.insert(field.name.clone(), clock.clone());
            }
        }
        Ok(Merged { times })
    }
}

impl Together {
    /// Adds a column of a file.
    fn add(&mut self, column: &Column, file: usize) {
        self.come_to(file);
        self.last = file;
        self.column.field.nullable |= column.field.nullable;
        if column.is_null {
            self.lacking.get_or_insert(file);
            return;
        }
        if self.column.is_null {
            let nullable = self.column.field.nullable;
            self.lacking.get_or_insert(self.first);
            (self.column, self.first) = (column.clone(), file);
            self.column.field.nullable = nullable;
            return;
        }
        match arrow::wider(&self.column.field.kind, &column.field.kind) {
            Some(kind) => self.column.field.kind = kind,
            None => drop(self.misfit.get_or_insert((file, column.field.kind.clone()))),
        }
        if column.clock != self.column.clock {
            self.other_clock.get_or_insert((file, column.clock.clone()));
        }
    }

    /// Records whether an earlier file does not have it.
    fn come_to(&mut self, file: usize) {
        if self.last + 1 < file {
            self.lacking.get_or_insert(self.last + 1);
        }
    }

    fn check(&self, field: &Field, files: &[Found]) -> Result<()> {
        let (name, found) = (&field.name, &self.column.field.kind);
        if let Some((file, kind)) = &self.misfit {
            let first = &files[self.first].uri;
            let what = format!("column {name:?} is {kind} in this file, and {found} in others, as in {first}");
            let hint = "only narrower numbers become wider, whole ones or floats: name columns= without this one";
            return Err(Error::data(what).with("fault", "file").with("file", &files[*file].uri).hint(hint));
        }
        if let Some((file, clock)) = &self.other_clock {
            return Err(arrow::other_clock(name, clock.as_deref(), self.column.clock.as_deref(), &files[*file].uri));
        }
        match self.lacking {
            Some(file) if !field.nullable || !field.kind.can_be_missing() => {
                Err(arrow::not_there(field, &files[file].uri))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses columns with duplicate names.
fn each_once(columns: Vec<Column>) -> Result<Vec<Column>> {
    let mut names = HashSet::new();
    match columns.iter().find(|column| !names.insert(column.field.name.as_str())) {
        Some(column) => {
            let what = format!("two columns are named {:?}", column.field.name);
            Err(Error::data(what).with("fault", "file").hint("write the file with other names"))
        }
        None => Ok(columns),
    }
}
