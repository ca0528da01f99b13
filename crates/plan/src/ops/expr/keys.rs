//! Keys of a look-up, ascending, and an index that finds the place of a key in a few steps.
//!
//! The index is made when the first place is looked up, once for all clones. It has at most four places for each key, of
//! 4 bytes each. It finds what a search of the ascending keys finds.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use forebay_core::rng::mix64;
use serde::{Deserialize, Serialize, Serializer};

use super::constants::Values;

/// Whole numbers are indexed one by one where they span at most this many times their count.
const SPAN_MAX: u64 = 4;
/// The place of no key. There are fewer keys.
const NONE: u32 = u32::MAX;

/// Keys, and their index.
#[derive(Debug, Clone, Deserialize)]
#[serde(from = "Values")]
pub struct Keys {
    values: Values,
    index: Arc<OnceLock<Index>>,
}

#[derive(Debug)]
enum Index {
    /// The place of each whole number from the first key to the last one.
    Span { first: i64, places: Vec<u32> },
    /// Places by the hash of their key, each in the first free slot from its hash on. At least half of the slots are free.
    Hashed(Vec<u32>),
}

impl From<Values> for Keys {
    fn from(values: Values) -> Self {
        Self { values, index: Arc::default() }
    }
}

impl Serialize for Keys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.values.serialize(serializer)
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Deref for Keys {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}

impl Keys {
    /// Returns a function from whole numbers to their places among the keys; no number has one among other keys.
    pub fn places_of_ints(&self) -> impl Fn(i64) -> Option<usize> {
        let keys = if let Values::Ints(keys) = &self.values { keys.as_slice() } else { &[] };
        let index = self.index();
        move |key| match index {
            Index::Span { first, places } => {
                let at = (key as u64).wrapping_sub(*first as u64);
                let place = places.get(usize::try_from(at).ok()?)?;
                (*place != NONE).then_some(*place as usize)
            }
            Index::Hashed(slots) => find(slots, mix64(key as u64), |place| keys.get(place) == Some(&key)),
        }
    }

    /// As [`Keys::places_of_ints`] for floats. -0.0 is 0.0, and not-a-number is no key.
    pub fn places_of_floats(&self) -> impl Fn(f64) -> Option<usize> {
        let keys = if let Values::Floats(keys) = &self.values { keys.as_slice() } else { &[] };
        let slots = self.slots();
        move |key| find(slots, hash_of_float(key), |place| keys.get(place) == Some(&key))
    }

    /// As [`Keys::places_of_ints`] for texts.
    pub fn places_of_texts(&self) -> impl Fn(&str) -> Option<usize> {
        let keys = if let Values::Texts(keys) = &self.values { keys.as_slice() } else { &[] };
        let slots = self.slots();
        move |key| find(slots, hash_of_text(key), |place| keys.get(place).is_some_and(|own| own == key))
    }

    fn slots(&self) -> &[u32] {
        if let Index::Hashed(slots) = self.index() { slots } else { &[] }
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| match &self.values {
            Values::Ints(keys) => spanned(keys).unwrap_or_else(|| hashed(keys, |key| mix64(*key as u64))),
            Values::Floats(keys) => hashed(keys, |key| hash_of_float(*key)),
            Values::Texts(keys) => hashed(keys, |key| hash_of_text(key)),
        })
    }
}

/// Indexes keys by their distance from the first; `None` where they span too much.
fn spanned(keys: &[i64]) -> Option<Index> {
    let (first, last) = (*keys.first()?, *keys.last()?);
    let distance = |key: i64| (key as u64).wrapping_sub(first as u64);
    let span = usize::try_from(distance(last)).ok().filter(|span| *span as u64 / SPAN_MAX < keys.len() as u64)?;
    let mut places = vec![NONE; span + 1];
    (0..).zip(keys).for_each(|(place, key)| places[distance(*key) as usize] = place);
    Some(Index::Span { first, places })
}

fn hashed<K>(keys: &[K], hash: impl Fn(&K) -> u64) -> Index {
    let mut slots = vec![NONE; (2 * keys.len()).next_power_of_two()];
    let mask = slots.len() - 1;
    for (place, key) in (0..).zip(keys) {
        let mut slot = hash(key) as usize & mask;
        while slots[slot] != NONE {
            slot = (slot + 1) & mask;
        }
        slots[slot] = place;
    }
    Index::Hashed(slots)
}

fn find(slots: &[u32], hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
    let mask = slots.len().checked_sub(1)?;
    let mut slot = hash as usize & mask;
    while slots[slot] != NONE {
        if is_it(slots[slot] as usize) {
            return Some(slots[slot] as usize);
        }
        slot = (slot + 1) & mask;
    }
    None
}

fn hash_of_float(key: f64) -> u64 {
    mix64((key + 0.0).to_bits())
}

fn hash_of_text(key: &str) -> u64 {
    let (words, rest) = key.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(key.len() as u64, |hash, word| mix64(hash ^ word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_index_finds_the_place_that_a_search_finds(
            few in prop::collection::btree_set(prop_oneof![-9i64..9, any::<i64>(), Just(i64::MIN), Just(i64::MAX)], 0..40),
            asked in prop::collection::vec(prop_oneof![-9i64..9, any::<i64>()], 0..40),
        ) {
            let ints: Vec<i64> = few.iter().copied().collect();
            let near: Vec<i64> = few.iter().copied().filter(|key| key.unsigned_abs() < 9).collect();
            for ints in [&ints, &near] {
                let mut floats: Vec<f64> = ints.iter().map(|key| *key as f64 / 4.0).collect();
                floats.dedup();
                let mut texts: Vec<String> = ints.iter().map(|key| format!("{key} as a text")).collect();
                texts.sort();
                let keys = [Values::Ints(ints.clone()), Values::Floats(floats.clone()), Values::Texts(texts.clone())];
                let [of_ints, of_floats, of_texts] = keys.map(Keys::from);
                for key in ints.iter().chain(&asked) {
                    prop_assert_eq!(of_ints.places_of_ints()(*key), ints.binary_search(key).ok());
                    let float = *key as f64 / 4.0;
                    prop_assert_eq!(of_floats.places_of_floats()(float), floats.iter().position(|own| *own == float));
                    let text = format!("{key} as a text");
                    prop_assert_eq!(of_texts.places_of_texts()(&text), texts.binary_search(&text).ok());
                }
            }
        }
    }

    #[test]
    fn a_negative_zero_is_zero_and_not_a_number_is_no_key() {
        let keys = Keys::from(Values::Floats(vec![-1.0, -0.0, 2.5]));
        let place = keys.places_of_floats();
        assert_eq!([0.0, -0.0, 2.5, f64::NAN].map(place), [Some(1), Some(1), Some(2), None]);
        assert_eq!(Keys::from(Values::Ints(Vec::new())).places_of_ints()(0), None);
    }
}
