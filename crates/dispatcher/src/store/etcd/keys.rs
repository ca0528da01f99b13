//! The keys under the prefix. Numbers have a fixed width, so that keys sort like numbers.

/// The keys of one service.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

/// The smallest key after all keys with a prefix.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Our keys end with a slash or a digit, never with the largest byte.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// The leader. It exists as long as the leader's lease.
    pub(crate) fn leader(&self) -> Vec<u8> {
        format!("{}/leader", self.prefix).into_bytes()
    }

    /// The id of the service.
    pub(crate) fn service(&self) -> Vec<u8> {
        format!("{}/service", self.prefix).into_bytes()
    }

    /// The numbers of the batches and of the state that exist.
    pub(super) fn meta(&self) -> Vec<u8> {
        format!("{}/meta", self.prefix).into_bytes()
    }

    /// The parts of all batches.
    pub(super) fn logs(&self) -> Vec<u8> {
        format!("{}/log/", self.prefix).into_bytes()
    }

    /// The parts of one batch.
    pub(super) fn log(&self, seq: u64) -> Vec<u8> {
        format!("{}/log/{seq:016x}/", self.prefix).into_bytes()
    }

    /// The parts of all states.
    pub(super) fn states(&self) -> Vec<u8> {
        format!("{}/state/", self.prefix).into_bytes()
    }

    /// The parts of the state after one batch.
    pub(super) fn state(&self, seq: u64) -> Vec<u8> {
        format!("{}/state/{seq:016x}/", self.prefix).into_bytes()
    }

    /// Everything about blobs.
    pub(super) fn blobs(&self) -> Vec<u8> {
        format!("{}/blobs/", self.prefix).into_bytes()
    }

    /// The size of a tenant's blob; the blob exists if it does. A tenant's name is shorter than any id, so the two
    /// cannot be confused.
    pub(super) fn blob(&self, tenant: &str, id: &str) -> Vec<u8> {
        match tenant {
            "" => format!("{}/blobs/{id}", self.prefix).into_bytes(),
            _ => format!("{}/blobs/{tenant}/{id}", self.prefix).into_bytes(),
        }
    }

    /// A part of a blob.
    pub(super) fn blob_part(&self, tenant: &str, id: &str, part: usize) -> Vec<u8> {
        part_of(&[self.blob(tenant, id), vec![b'/']].concat(), part)
    }
}

/// A part of the value at `key`, which ends with a slash.
pub(super) fn part_of(key: &[u8], part: usize) -> Vec<u8> {
    [key, format!("{part:08x}").as_bytes()].concat()
}
