//! One figure for each tier of cached rows, the nearest first.

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiers<T> {
    /// The process's own memory.
    pub memory: T,
    /// A folder on a local disk.
    pub disk: T,
    /// Other workers of the service, which serve their rows.
    pub peers: T,
    /// A store that machines share.
    pub store: T,
}

impl<T> Tiers<T> {
    /// Applies `figure` to each tier, from the nearest on.
    pub fn map<U>(self, mut figure: impl FnMut(T) -> U) -> Tiers<U> {
        let Self { memory, disk, peers, store } = self;
        Tiers { memory: figure(memory), disk: figure(disk), peers: figure(peers), store: figure(store) }
    }

    /// Returns each figure with its tier's name, for people.
    pub(crate) fn named(self) -> [(&'static str, T); 4] {
        let Self { memory, disk, peers, store } = self;
        [("in memory", memory), ("on disk", disk), ("at peers", peers), ("in the store", store)]
    }
}

impl Tiers<f64> {
    pub(crate) fn sum(self) -> f64 {
        self.memory + self.disk + self.peers + self.store
    }

    /// Returns the sum of the products.
    pub(crate) fn times(self, other: Self) -> f64 {
        let Self { memory, disk, peers, store } = self;
        memory * other.memory + disk * other.disk + peers * other.peers + store * other.store
    }
}
