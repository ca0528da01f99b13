//! Infers the features from the first records.

use std::collections::{BTreeMap, HashMap};

use forebay_core::{Error, Result};
use forebay_data::{DType, Field, Kind};

use super::not_an_example;
use super::proto::{Encoded, Steps, Value, What, features, steps, value};
use crate::limits;

/// The steps of a feature list, seen so far.
#[derive(Debug)]
struct List {
    what: What,
    records: usize,
    /// The fewest and the most values of a step of any record.
    least: usize,
    most: usize,
    /// Whether the steps of one record differ.
    is_ragged: bool,
}

impl List {
    fn push(&mut self, steps: &Steps) {
        self.what = self.what.meet(steps.what);
        self.records += 1;
        (self.least, self.most) = (self.least.min(steps.least), self.most.max(steps.most));
        self.is_ragged |= steps.count > 0 && steps.least != steps.most;
    }

    /// Returns the column for it; `None` for a feature without any value, because its type is not known.
    fn field(&self, name: String, records: usize) -> Result<Option<Field>> {
        let refused = |why: String| {
            Err(Error::invalid(format!("feature list {name:?} {why}, which no column holds")).hint(
                "name the features to read, without this one: features={...}; or read the records as bytes, with \
                 features=None, and parse them in a map",
            ))
        };
        let dtype = match self.what {
            What::Nothing => return Ok(None),
            What::Numbers(dtype) => dtype,
            What::Bytes => return refused("has byte strings".to_owned()),
            What::Mixed => return refused("has two types".to_owned()),
        };
        if self.is_ragged {
            return refused(format!("has steps of {} to {} values", self.least, self.most));
        }
        let shape = match (self.least, self.most) {
            (1, 1) => vec![None],
            (least, most) => vec![None, (least == most).then_some(most)],
        };
        let nullable = self.records < records;
        Ok(Some(Field { nullable, ..Field::new(name, Kind::Tensor { dtype, shape }) }))
    }
}

/// The features seen among the first records.
#[derive(Debug, Default)]
pub(crate) struct FeatureInference {
    features: Vec<(String, Option<DType>, Vec<usize>)>,
    places: HashMap<String, usize>,
    lists: BTreeMap<String, List>,
    records: usize,
}

impl FeatureInference {
    /// Reads one record.
    pub(crate) fn push(&mut self, record: &[u8]) -> Result<()> {
        let mut wrong = None;
        let read = features(record, |name, encoded| {
            let name = std::str::from_utf8(name).ok()?;
            let bytes = match encoded {
                Encoded::Feature(bytes) => bytes,
                Encoded::List(bytes) => {
                    let empty = List { what: What::Nothing, records: 0, least: usize::MAX, most: 0, is_ragged: false };
                    self.lists.entry(name.to_owned()).or_insert(empty).push(&steps(bytes)?);
                    limits::columns("feature lists of the first records", self.lists.len())
                        .unwrap_or_else(|e| wrong = Some(e));
                    return wrong.is_none().then_some(());
                }
            };
            let (dtype, count) = match value(bytes)? {
                None => return Some(()),
                Some(Value::Bytes { count, .. }) => (None, count),
                Some(Value::Floats(b)) => (Some(DType::Float32), b.len() / 4),
                Some(Value::Ints(b)) => (Some(DType::Int64), b.len() / 8),
            };
            match self.places.get(name).map(|&i| &mut self.features[i]) {
                Some((_, had, counts)) if *had == dtype => counts.push(count),
                Some(_) => wrong = Some(Error::data(format!("feature {name:?} has two types"))),
                None => {
                    self.places.insert(name.to_owned(), self.features.len());
                    self.features.push((name.to_owned(), dtype, vec![count]));
                    limits::columns("features of the first records", self.features.len())
                        .unwrap_or_else(|e| wrong = Some(e));
                    wrong.is_none().then_some(())?;
                }
            }
            Some(())
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
    pub(crate) fn fields(mut self) -> Result<Vec<Field>> {
        self.features.sort_by(|a, b| a.0.cmp(&b.0));
        let field = |(name, dtype, counts): (String, Option<DType>, Vec<usize>)| {
            let same = counts.iter().all(|c| *c == counts[0]).then(|| counts[0]);
            let nullable = counts.len() < self.records;
            let kind = match (dtype, same) {
                (None, Some(1)) => Kind::Bytes,
                (None, _) => {
                    return Err(Error::invalid(format!(
                        "feature {name:?} is a list of byte strings, which no column holds"
                    ))
                    .hint("name the features to read, without this one"));
                }
                (Some(dtype), Some(1)) => Kind::Scalar { dtype },
                (Some(dtype), Some(n)) if n > 0 && !nullable => Kind::fixed(dtype, &[n]),
                (Some(dtype), _) => Kind::Tensor { dtype, shape: vec![None] },
            };
            Ok(Field { nullable, ..Field::new(name, kind) })
        };
        let mut fields = self.features.into_iter().map(field).collect::<Result<Vec<Field>>>()?;
        for (name, list) in self.lists {
            if fields.iter().any(|field| field.name == name) {
                return Err(Error::invalid(format!("{name:?} is a feature and a feature list of these records"))
                    .hint("read the records as bytes, with features=None, and parse them in a map"));
            }
            fields.extend(list.field(name, self.records)?);
        }
        if fields.is_empty() {
            let records = self.records;
            return Err(Error::data(format!("the first {records} records have no features")).hint(
                "they may be other messages than tf.train.Example and SequenceExample: features=None gives their bytes",
            ));
        }
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(fields)
    }
}
