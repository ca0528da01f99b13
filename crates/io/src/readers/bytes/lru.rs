//! A least recently used cache, bounded by weight.

use std::collections::HashMap;
use std::hash::Hash;

/// Keeps values by key, mostly a number, until their total weight exceeds the limit; the newest always stays.
#[derive(Debug)]
pub(in crate::readers) struct Lru<V, K = u64> {
    entries: HashMap<K, Entry<V>>,
    uses: u64,
    weight: usize,
    weight_max: usize,
}

#[derive(Debug)]
struct Entry<V> {
    used: u64,
    weight: usize,
    value: V,
}

impl<V: Clone, K: Copy + Eq + Hash> Lru<V, K> {
    pub(in crate::readers) fn new(weight_max: usize) -> Self {
        Self { entries: HashMap::new(), uses: 0, weight: 0, weight_max }
    }

    pub(in crate::readers) fn get(&mut self, key: K) -> Option<V> {
        self.uses += 1;
        let entry = self.entries.get_mut(&key)?;
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Inserts a value, or replaces the value and weight of its key, and drops the oldest beyond the limit.
    pub(in crate::readers) fn put(&mut self, key: K, weight: usize, value: V) {
        self.uses += 1;
        let old = self.entries.insert(key, Entry { used: self.uses, weight, value });
        self.weight = self.weight + weight - old.map_or(0, |o| o.weight);
        while self.weight > self.weight_max && self.entries.len() > 1 {
            let Some(oldest) = self.entries.iter().min_by_key(|(_, e)| e.used).map(|(k, _)| *k) else { break };
            self.weight -= self.entries.remove(&oldest).map_or(0, |e| e.weight);
        }
    }

    /// Drops a value.
    pub(in crate::readers) fn remove(&mut self, key: K) {
        self.weight -= self.entries.remove(&key).map_or(0, |e| e.weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_first_and_the_newest_stays_at_any_weight() {
        let mut lru = Lru::new(10);
        (0..3).for_each(|k| lru.put(k, 4, k));
        assert_eq!([0, 1, 2].map(|k| lru.get(k)), [None, Some(1), Some(2)]);
        lru.get(1);
        lru.put(3, 4, 3);
        assert_eq!([1, 2, 3].map(|k| lru.get(k)), [Some(1), None, Some(3)]);
        lru.put(9, 100, 9);
        assert_eq!([1, 3, 9].map(|k| lru.get(k)), [None, None, Some(9)]);
        lru.put(9, 1, 9);
        assert_eq!(lru.weight, 1);
        lru.remove(9);
        lru.remove(9);
        assert_eq!((lru.weight, lru.get(9)), (0, None));
    }
}
