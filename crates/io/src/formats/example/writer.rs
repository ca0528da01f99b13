//! Writes `tf.train.Example` as bytes, as `proto` describes it. Numbers are packed, as TensorFlow writes them.

/// The messages of one record after the other; its buffers are used again.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// The values of the current feature.
    list: Vec<u8>,
    /// The entries of the map of features, with their tags.
    features: Vec<u8>,
    record: Vec<u8>,
}

/// The numbers of fields in `Feature`.
const BYTES: u8 = 1;
const FLOATS: u8 = 2;
const INTS: u8 = 3;

impl Writer {
    /// Appends a feature of byte strings.
    pub(crate) fn strings<'s>(&mut self, name: &str, strings: impl IntoIterator<Item = &'s [u8]>) {
        for string in strings {
            message(&mut self.list, 1, &[string]);
        }
        self.entry(name, BYTES);
    }

    /// Appends a feature of floats, whose little-endian bytes are given.
    pub(crate) fn floats(&mut self, name: &str, bytes: &[u8]) {
        if !bytes.is_empty() {
            message(&mut self.list, 1, &[bytes]);
        }
        self.entry(name, FLOATS);
    }

    /// Appends a feature of whole numbers.
    pub(crate) fn ints(&mut self, name: &str, ints: impl IntoIterator<Item = i64>) {
        let mut packed = Vec::new();
        ints.into_iter().for_each(|n| varint(&mut packed, n.cast_unsigned()));
        if !packed.is_empty() {
            message(&mut self.list, 1, &[&packed]);
        }
        self.entry(name, INTS);
    }

    /// Appends the current values as a feature.
    fn entry(&mut self, name: &str, kind: u8) {
        let list = head(kind, self.list.len());
        let feature = head(2, list.len() + self.list.len());
        let key = head(1, name.len());
        message(&mut self.features, 1, &[&key, name.as_bytes(), &feature, &list, &self.list]);
        self.list.clear();
    }

    /// Returns the record with the features since the last one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        self.record.clear();
        message(&mut self.record, 1, &[&self.features]);
        self.features.clear();
        &self.record
    }
}

/// Appends a field that holds bytes, given in parts.
fn message(to: &mut Vec<u8>, number: u8, parts: &[&[u8]]) {
    to.extend_from_slice(&head(number, parts.iter().map(|part| part.len()).sum()));
    parts.iter().for_each(|part| to.extend_from_slice(part));
}

/// Returns the tag and the length of a field that holds bytes.
fn head(number: u8, len: usize) -> Vec<u8> {
    let mut head = vec![(number << 3) | 2];
    varint(&mut head, len as u64);
    head
}

fn varint(to: &mut Vec<u8>, mut n: u64) {
    while n > 127 {
        to.push((n as u8 & 127) | 128);
        n >>= 7;
    }
    to.push(n as u8);
}
