//! The settings of a process's cache, for the rows of `cache()` and the bytes of remote files: its places and its
//! limits, from the command line and the environment.
//!
//! Invariant: an unusable cache fails no job: the process reports once that a folder or a store cannot be used, and
//! uses the remaining places.

#![expect(clippy::disallowed_methods, reason = "the environment names the places of the cache")]

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_cache::{Cache, CacheLocation, Disk, Options};
use forebay_core::{Error, Result};
use forebay_worker::{MemoryBudget, StorePrices};

use crate::shared_store::shared_store;

/// Without a setting, the cache uses at most this much memory,
const MEMORY_MAX: u64 = 8 << 30;
/// and at most one part in so many of the memory of the process.
const MEMORY_SHARE: u64 = 4;
/// The quota of a folder for all processes that use it, without a setting.
const DISK_BYTES: u64 = 32 << 30;

/// The places for rows beyond memory: a folder, a store that machines share, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CachePlaces {
    /// A folder on a local disk.
    pub folder: Option<PathBuf>,
    /// The url of a store.
    pub store: Option<String>,
}

impl fmt::Display for CachePlaces {
    /// Writes the text that [`CachePlaces::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = self.folder.as_ref().map(|folder| folder.display().to_string());
        f.write_str(&folder.into_iter().chain(self.store.clone()).collect::<Vec<_>>().join(","))
    }
}

impl CachePlaces {
    /// Reads a user's text: a folder, a url, or both with a comma between them; an existing folder of that name comes
    /// first.
    ///
    /// # Errors
    /// Invalid when it names two folders or two stores, or a folder that only a shell would find.
    pub fn parse(text: &OsStr) -> Result<Self> {
        let several = |text: &&str| text.contains("://") || text.contains(',') || text.trim().is_empty();
        let Some(several) = text.to_str().filter(several).filter(|_| !Path::new(text).is_dir()) else {
            return Self::one(text);
        };
        let parts = several.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(|part| Self::one(OsStr::new(part))).try_fold(Self::default(), |all, part| all.and(part?))
    }

    fn one(text: &OsStr) -> Result<Self> {
        if let Some(url) = text.to_str().filter(|text| text.contains("://")) {
            return Ok(Self { folder: None, store: Some(url.to_owned()) });
        }
        let folder = Path::new(text);
        if folder.starts_with("~") {
            return Err(Error::invalid(format!(
                "the cache folder is {}, a name that only a shell expands",
                folder.display()
            ))
            .hint("write the whole path, or $HOME in place of ~"));
        }
        Ok(Self { folder: Some(folder.to_owned()).filter(|_| !text.is_empty()), store: None })
    }

    /// Adds the places of another text.
    ///
    /// # Errors
    /// As [`CachePlaces::parse`].
    pub fn and(self, more: Self) -> Result<Self> {
        let two = |what: &str, one: String, other: String| {
            Err(Error::invalid(format!("a cache is kept in one {what}, not in {one} and {other}"))
                .hint("name a folder of a local disk, the url of a store that machines share, or one of each"))
        };
        match (&self, &more) {
            (Self { folder: Some(a), .. }, Self { folder: Some(b), .. }) => {
                two("folder", a.display().to_string(), b.display().to_string())
            }
            (Self { store: Some(a), .. }, Self { store: Some(b), .. }) => two("store", a.clone(), b.clone()),
            _ => Ok(Self { folder: self.folder.or(more.folder), store: self.store.or(more.store) }),
        }
    }

    /// Reads `FOREBAY_CACHE`.
    ///
    /// # Errors
    /// As [`CachePlaces::parse`], naming the variable.
    pub fn from_env() -> Result<Self> {
        std::env::var_os("FOREBAY_CACHE").map_or_else(
            || Ok(Self::default()),
            |text| Self::parse(&text).map_err(|e| e.with("variable", "FOREBAY_CACHE")),
        )
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.folder.is_none() && self.store.is_none()
    }

    /// Opens the only place, to inspect its contents.
    ///
    /// # Errors
    /// Invalid when there are two, or none, or the url is none.
    pub fn kept(&self) -> Result<CacheLocation> {
        match (&self.folder, &self.store) {
            (Some(folder), None) => Ok(CacheLocation::Folder(folder.clone())),
            (None, Some(url)) => Ok(CacheLocation::Store(crate::shared_store::open(url)?)),
            (Some(_), Some(_)) => Err(Error::invalid("a folder and a store are named").hint("name the one to look at")),
            (None, None) => Err(Error::invalid("no folder and no store is named")
                .hint("name one: `forebay cache ls FOLDER`, or the url of a store; or set FOREBAY_CACHE")),
        }
    }
}

/// Settings of a cache; values that are not set have defaults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CacheConfig {
    /// The places. Default: in memory alone.
    pub places: CachePlaces,
    /// The most bytes of memory. Default: a quarter of the process's memory, at most 8 GiB.
    pub memory: Option<u64>,
    /// The most bytes in the folder. Default: 32 GiB.
    pub disk: Option<u64>,
    /// The most bytes in the store, for all processes that use it. Default: 1 TiB.
    pub store: Option<u64>,
    /// Whether the bytes of remote files are kept in the folder, too. Default: yes.
    pub source: Option<bool>,
    /// The prices of the store and of a worker. Default: nothing.
    pub prices: Option<StorePrices>,
}

impl CacheConfig {
    /// Reads `FOREBAY_CACHE`, `FOREBAY_CACHE_MEMORY`, `FOREBAY_CACHE_DISK`, `FOREBAY_CACHE_STORE`,
    /// `FOREBAY_CACHE_SOURCE` and `FOREBAY_CACHE_PRICES`.
    ///
    /// # Errors
    /// Invalid when one is no size, or neither on nor off, or no prices, or the first names two folders or two stores.
    pub fn from_env() -> Result<Self> {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let size = |name: &str| {
            let parse = |text: String| parse_bytes(&text).map_err(|e| e.with("variable", name));
            text(name).map(parse).transpose()
        };
        let name = "FOREBAY_CACHE_SOURCE";
        let source = text(name).map(|text| parse_switch(&text).map_err(|e| e.with("variable", name))).transpose()?;
        let name = "FOREBAY_CACHE_PRICES";
        let prices =
            text(name).map(|text| text.parse::<StorePrices>().map_err(|e| e.with("variable", name))).transpose()?;
        Ok(Self {
            places: CachePlaces::from_env()?,
            memory: size("FOREBAY_CACHE_MEMORY")?,
            disk: size("FOREBAY_CACHE_DISK")?,
            store: size("FOREBAY_CACHE_STORE")?,
            source,
            prices,
        })
    }

    /// Returns whether the bytes of remote files are kept.
    pub fn keeps_sources(&self) -> bool {
        self.places.folder.is_some() && self.source.unwrap_or(true)
    }

    /// Returns the settings of a process that caches only bytes of remote files, if they are cached.
    pub(crate) fn for_sources(self) -> Option<Self> {
        let places = CachePlaces { store: None, ..self.places.clone() };
        self.keeps_sources().then_some(Self { places, memory: Some(0), ..self })
    }

    /// Returns the settings of each of `processes` on this machine, which share its memory.
    #[must_use]
    pub fn shared_by(self, processes: usize) -> Self {
        let memory = self.memory.unwrap_or_else(|| default_memory() / processes.max(1) as u64);
        Self { memory: Some(memory), ..self }
    }

    /// Opens the cache. If the folder or the store cannot be used, calls `warn` with the reason, and uses the rest.
    ///
    /// # Errors
    /// Those of opening it with memory alone.
    pub fn open(&self, warn: &dyn Fn(&Error)) -> Result<Arc<Cache>> {
        let memory = self.memory.unwrap_or_else(default_memory);
        let url = self.places.store.as_deref();
        let store = url.and_then(|url| shared_store(url, self.store).map_err(|error| warn(&error)).ok());
        let Some(folder) = &self.places.folder else { return Cache::open(&Options { memory, disk: None, store }) };
        let (bytes, sources) = (self.disk.unwrap_or(DISK_BYTES), self.keeps_sources());
        let disk = Disk { folder: std::path::absolute(folder)?, bytes, sources };
        let opened = Cache::open(&Options { memory, disk: Some(disk), store: store.clone() });
        if let Some(removed) = opened.as_ref().ok().map(|cache| cache.disk_trimmed()).filter(|&removed| removed > bytes)
        {
            warn(&shrank(folder, removed, bytes));
        }
        opened.or_else(|error| {
            let hint = "nothing is kept on disk; give a folder of a local disk that can be written to";
            warn(&error.replace("hint", hint));
            Cache::open(&Options { memory, disk: None, store })
        })
    }
}

/// Returns the error when opening removed more bytes than the quota: the user probably did not mean that.
fn shrank(folder: &Path, removed: u64, quota: u64) -> Error {
    let message = format!("{removed} bytes were removed from the cache's folder, which may hold {quota}");
    let hint = "let it hold more: cache_disk=, --cache-disk or FOREBAY_CACHE_DISK; or name another folder";
    Error::invalid(message).with("folder", folder.display()).hint(hint)
}

/// Reads a number of bytes: `4GiB`, `500 MB`, `1.5G` (as GiB), `1048576`.
///
/// # Errors
/// Invalid when the text is no size.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let wrong = || {
        Error::invalid(format!("{text:?} is no size")).hint("use a number of bytes, or one with a unit: 4GiB, 500MB")
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kib" => 1 << 10,
        "m" | "mi" | "mib" => 1 << 20,
        "g" | "gi" | "gib" => 1 << 30,
        "t" | "ti" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).ok_or_else(wrong);
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * unit as f64;
    if bytes.is_finite() && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Reads `on` or `off`.
///
/// # Errors
/// Invalid when it is neither.
pub fn parse_switch(text: &str) -> Result<bool> {
    match text.trim() {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(Error::invalid(format!("{other:?} is neither on nor off")).hint("use on or off")),
    }
}

/// Returns the memory for the cache without a setting.
fn default_memory() -> u64 {
    (memory_of_process() / MEMORY_SHARE).min(MEMORY_MAX)
}

/// Returns the memory budget of this process: the user's setting, or half of the process's memory.
pub fn memory_budget(said: Option<u64>) -> MemoryBudget {
    said.map_or_else(|| MemoryBudget::of_machine(memory_of_process()), MemoryBudget::of)
}

/// Returns the memory that this process may use: the machine's, or the limit of a control group if that is less.
fn memory_of_process() -> u64 {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let meminfo = read("/proc/meminfo");
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|total| total.split_whitespace().next()?.parse::<u64>().ok());
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.iter().filter_map(|file| read(file).trim().parse().ok());
    limits.fold(kilobytes.map_or(MEMORY_MAX, |k| k << 10), u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let sizes = [("0", 0), ("4GiB", 4 << 30), ("4 g", 4 << 30), ("500MB", 500_000_000), ("1.5Ki", 1536)];
        for (text, bytes) in sizes {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "-1", "4 GiBs", "1e3", "99999999999TiB", "1.2.3"] {
            let error = parse_bytes(text).expect_err(text);
            assert!(error.message().contains("is no size") && error.get("hint").is_some(), "{error}");
        }
    }

    #[test]
    fn workers_of_one_machine_share_what_is_used_by_default() {
        let all = default_memory();
        assert!((1..=MEMORY_MAX).contains(&all));
        assert_eq!(CacheConfig::default().shared_by(4).memory, Some(all / 4));
        let set = CacheConfig { memory: Some(7), ..CacheConfig::default() };
        assert_eq!(set.shared_by(4).memory, Some(7));
    }

    #[test]
    fn a_folder_that_cannot_be_used_is_told_and_memory_is_used() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let places = CachePlaces { folder: Some(file.path().join("below")), store: Some("ftp://far/away".to_owned()) };
        let config = CacheConfig { places, memory: Some(1 << 20), ..CacheConfig::default() };
        let told = std::cell::RefCell::new(Vec::new());
        config.open(&|error| told.borrow_mut().push(error.to_string())).expect("opens");
        assert!(told.borrow()[0].contains("ftp://far/away"), "{told:?}");
        assert!(told.borrow()[1].contains("nothing is kept on disk"), "{told:?}");
    }

    #[test]
    fn a_folder_and_a_url_are_told_apart_and_two_of_a_kind_are_refused() {
        let parse = |text: &str| CachePlaces::parse(OsStr::new(text));
        let places = |folder: Option<&str>, store: Option<&str>| {
            Ok(CachePlaces { folder: folder.map(PathBuf::from), store: store.map(str::to_owned) })
        };
        assert_eq!(parse(""), places(None, None));
        assert_eq!(parse("/mnt/a"), places(Some("/mnt/a"), None));
        assert_eq!(parse(" "), places(None, None));
        let there = tempfile::Builder::new().prefix("a,b").tempdir().expect("a folder");
        assert_eq!(parse(&there.path().to_string_lossy()), places(there.path().to_str(), None), "it is there");
        assert!(parse("/mnt/a,b").expect_err("two folders").message().contains("not in /mnt/a and b"));
        for home in ["~", "~/kept", "s3://bucket,~/kept"] {
            assert!(parse(home).expect_err(home).message().contains("only a shell expands"), "{home}");
        }
        assert_eq!(parse("s3://bucket/kept"), places(None, Some("s3://bucket/kept")));
        for both in ["/mnt/nvme,s3://bucket", "s3://bucket, /mnt/nvme,"] {
            assert_eq!(parse(both), places(Some("/mnt/nvme"), Some("s3://bucket")), "{both}");
        }
        for (two, of) in [("s3://a,gs://b", "one store"), ("s3://a,/b,/c", "one folder")] {
            assert!(parse(two).expect_err(two).message().contains(of));
        }
        assert_eq!(parse("s3://bucket,/mnt/nvme").map(|both| both.to_string()), Ok("/mnt/nvme,s3://bucket".to_owned()));
        assert!(parse("/mnt/nvme,s3://bucket").and_then(|both| both.kept()).is_err(), "which one?");
    }
}
