//! Where everything lies under the prefix. Numbers have a fixed width, so that the order of keys is theirs.

/// The keys of one service.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    prefix: String,
}

/// The first key that is behind all that begin with a prefix.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // Keys of ours end with a slash or a digit, never with the last byte that there is.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned() }
    }

    /// Who leads. Lives as long as the leader's lease.
    pub(crate) fn leader(&self) -> Vec<u8> {
        format!("{}/leader", self.prefix).into_bytes()
    }

    /// Which service it is.
    pub(crate) fn service(&self) -> Vec<u8> {
        format!("{}/service", self.prefix).into_bytes()
    }

    /// Which batches there are.
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

    /// All that has to do with blobs.
    pub(super) fn blobs(&self) -> Vec<u8> {
        format!("{}/blobs/", self.prefix).into_bytes()
    }

    /// How large a blob of a tenant is. It is there once this is. A tenant's name is shorter than any id, so that
    /// neither is taken for the other.
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

/// A part of what lies at `key`, which ends with a slash.
pub(super) fn part_of(key: &[u8], part: usize) -> Vec<u8> {
    [key, format!("{part:08x}").as_bytes()].concat()
}
