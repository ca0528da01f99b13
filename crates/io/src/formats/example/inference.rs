//! Infers the features from the first records.
//!
//! A length that is the same in all of them is still any length, because later records may have another: only a feature
//! that has one value in each of them is a single value.

use std::collections::BTreeMap;

use forebay_core::{Error, Result};
use forebay_data::{Field, Kind};

use super::not_an_example;
use super::proto::{Encoded, Value, What, features, steps, value};
use crate::limits;

/// A feature or a feature list, as the records so far have it.
#[derive(Debug)]
struct FeatureSummary {
    is_list: bool,
    what: What,
    /// The records that have it, without those of the next line.
    records: usize,
    /// The records in which it is a list of no byte strings: a byte string is missing then, and a list of texts is empty.
    empty: usize,
    /// The fewest and the most values of a feature, or of a step of a feature list.
    least: usize,
    most: usize,
    /// Whether the steps of one record differ in their number of values.
    is_ragged: bool,
    /// Whether each byte string is UTF-8.
    is_text: bool,
}

impl FeatureSummary {
    fn new(is_list: bool) -> Self {
        let (what, least) = (What::Nothing, usize::MAX);
        Self { is_list, what, records: 0, empty: 0, least, most: 0, is_ragged: false, is_text: true }
    }

    fn push(&mut self, what: What, least: usize, most: usize) {
        self.what = self.what.meet(what);
        self.records += 1;
        (self.least, self.most) = (self.least.min(least), self.most.max(most));
    }

    /// Reads the values of one record; `None` if they are damaged.
    fn read(&mut self, encoded: Encoded<'_>) -> Option<()> {
        match encoded {
            Encoded::List(bytes) => {
                let steps = steps(bytes)?;
                self.is_text &= steps.strings.iter().all(|string| std::str::from_utf8(string).is_ok());
                self.is_ragged |= steps.count > 0 && steps.least != steps.most;
                self.push(steps.what, steps.least, steps.most);
            }
            Encoded::Feature(bytes) => {
                let Some(value) = value(bytes)? else { return Some(()) };
                if let Value::Bytes(strings) = value {
                    self.is_text &= strings.is_text();
                    if strings.count == 0 {
                        self.empty += 1;
                        return Some(());
                    }
                }
                let (what, count) = value.what();
                self.push(what, count, count);
            }
        }
        Some(())
    }

    /// Returns the column for it; `None` for a feature without any value, because its type is not known.
    fn field(&self, name: String, records: usize) -> Result<Option<Field>> {
        let named = if self.is_list { "feature list" } else { "feature" };
        let refused = |why: String| {
            Err(Error::invalid(format!("{named} {name:?} {why}, which no column holds")).hint(
                "name the features to read, without this one: features={...}; or read the records as bytes, with \
                 features=None, and parse them in a map",
            ))
        };
        if self.is_list && self.is_ragged {
            return match self.what {
                What::Mixed => refused("has two types".to_owned()),
                _ => refused(format!("has steps of {} to {} values", self.least, self.most)),
            };
        }
        let is_one = (self.least, self.most) == (1, 1);
        let kind = match self.what {
            What::Nothing => return Ok(None),
            What::Mixed => return refused("has two types".to_owned()),
            What::Bytes if !self.is_list && self.most <= 1 => Kind::Bytes,
            What::Bytes if self.is_list && !is_one => {
                return refused(format!("has steps of {} to {} byte strings", self.least, self.most));
            }
            What::Bytes if self.is_text => Kind::Texts,
            What::Bytes => return refused("has several byte strings that are not all utf-8".to_owned()),
            What::Numbers(dtype) if is_one && !self.is_list => Kind::Scalar { dtype },
            What::Numbers(dtype) if is_one || !self.is_list => Kind::Tensor { dtype, shape: vec![None] },
            What::Numbers(dtype) => Kind::Tensor { dtype, shape: vec![None, None] },
        };
        let there = self.records + if kind == Kind::Texts { self.empty } else { 0 };
        Ok(Some(Field { nullable: there < records, ..Field::new(name, kind) }))
    }
}

/// The features seen among the first records.
#[derive(Debug, Default)]
pub(crate) struct FeatureInference {
    features: BTreeMap<String, FeatureSummary>,
    records: usize,
}

impl FeatureInference {
    /// Reads one record.
    ///
    /// # Errors
    /// Data when it is not an Example; Exhausted when the records have too many features; Invalid when a name is that of a
    /// feature and of a feature list.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let mut wrong = None;
        let read = features(record, |name, encoded| {
            let name = std::str::from_utf8(name).ok()?;
            let is_list = matches!(encoded, Encoded::List(_));
            if !self.features.contains_key(name) {
                self.features.insert(name.to_owned(), FeatureSummary::new(is_list));
            }
            let number = self.features.len();
            let seen = self.features.get_mut(name)?;
            if seen.is_list != is_list {
                wrong = Some(
                    Error::invalid(format!("{name:?} is a feature and a feature list of these records"))
                        .hint("read the records as bytes, with features=None, and parse them in a map"),
                );
            } else if let Err(e) = limits::columns("features of the first records", number) {
                wrong = Some(e);
            }
            wrong.is_none().then(|| seen.read(encoded))?
        });
        self.records += 1;
        match wrong {
            Some(e) => Err(e),
            None => read.ok_or_else(not_an_example),
        }
    }

    /// Returns the fields, sorted by name.
    ///
    /// # Errors
    /// Invalid when a feature fits no column; Data when there is no feature.
    pub(crate) fn fields(self) -> Result<Vec<Field>> {
        let records = self.records;
        let fields = self.features.into_iter().map(|(name, seen)| seen.field(name, records));
        let fields = fields.filter_map(Result::transpose).collect::<Result<Vec<Field>>>()?;
        if fields.is_empty() {
            return Err(Error::data(format!("the first {records} records have no features")).hint(
                "they may be other messages than tf.train.Example and SequenceExample: features=None gives their bytes",
            ));
        }
        Ok(fields)
    }
}
