//! A store under the control of the test, for faults that no real server produces at the right moment.

#![expect(clippy::disallowed_methods, reason = "a store that is slow")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forebay_cache::{Object, Part, RemoteBlocks, Store};
use forebay_core::{Error, ErrorKind, Result, Stopwatch};

/// The fault of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It refuses every request.
    Away,
    /// It refuses writes.
    ReadOnly,
    /// Every read is late.
    Late,
    /// Every read fails, after its whole time limit.
    Slow,
    /// The next read has wrong bits, and later reads have not: the fault is the network's, not the store's.
    Noise,
}

/// A store in memory. The test advances its clock.
#[derive(Debug, Default)]
pub(crate) struct Pail {
    objects: Mutex<BTreeMap<String, (Bytes, SystemTime)>>,
    fault: Mutex<Option<Fault>>,
    now: AtomicU64,
    /// The clock that each read advances, and by how much.
    read_time: Mutex<Option<(Hand, Duration)>>,
    pub(crate) reads: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) asked: AtomicU64,
    changed: Condvar,
}

impl Pail {
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        *self.fault.lock().expect("not poisoned") = fault;
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.now.fetch_add(time.as_secs(), Ordering::Relaxed);
    }

    /// Lets each read take `time` on a clock.
    pub(crate) fn take_time(&self, hand: Hand, time: Duration) {
        *self.read_time.lock().expect("not poisoned") = Some((hand, time));
    }

    fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.now.load(Ordering::Relaxed))
    }

    /// Returns the blocks' names and bytes.
    pub(crate) fn blocks(&self) -> Vec<(String, u64)> {
        let objects = self.objects.lock().expect("not poisoned");
        let blocks = objects.iter().filter(|(name, _)| name.ends_with(".arrow"));
        blocks.map(|(name, (bytes, _))| (name.clone(), bytes.len() as u64)).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.objects.lock().expect("not poisoned").keys().cloned().collect()
    }

    /// Changes every block.
    pub(crate) fn damage(&self, change: impl Fn(&mut Vec<u8>)) {
        for (name, (bytes, _)) in self.objects.lock().expect("not poisoned").iter_mut() {
            if name.ends_with(".arrow") {
                let mut changed = bytes.to_vec();
                change(&mut changed);
                *bytes = changed.into();
            }
        }
    }

    pub(crate) fn remove_all(&self) {
        self.objects.lock().expect("not poisoned").clear();
    }

    /// Waits until the store's content satisfies `is_so`.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&BTreeMap<String, (Bytes, SystemTime)>) -> bool) {
        let objects = self.objects.lock().expect("not poisoned");
        let waited = self.changed.wait_timeout_while(objects, super::LIMIT, |o| !is_so(o)).expect("not poisoned");
        assert!(!waited.1.timed_out(), "{what}");
    }

    fn answer(&self, writes: bool) -> Result<Option<Fault>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let fault = *self.fault.lock().expect("not poisoned");
        match fault {
            Some(Fault::Away) => Err(Error::unavailable("the pail is away")),
            Some(Fault::ReadOnly) if writes => Err(Error::new(ErrorKind::PermissionDenied, "the pail is not yours")),
            fault => Ok(fault),
        }
    }
}

impl RemoteBlocks for Pail {
    fn uri(&self) -> &str {
        "pail://here"
    }

    fn list(&self, below: &str, _: Duration) -> Result<Vec<Object>> {
        self.answer(false)?;
        let objects = self.objects.lock().expect("not poisoned");
        let listed = objects.iter().filter(|(name, _)| name.starts_with(&format!("{below}/")));
        Ok(listed
            .map(|(name, (bytes, at))| Object { name: name.clone(), bytes: bytes.len() as u64, modified: *at })
            .collect())
    }

    fn read(&self, parts: &[Part], limit: Duration) -> Vec<Result<Bytes>> {
        if *self.fault.lock().expect("not poisoned") == Some(Fault::Slow) {
            std::thread::sleep(limit);
        }
        if let Some((hand, time)) = &*self.read_time.lock().expect("not poisoned") {
            hand.pass(*time);
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.ranges.fetch_add(parts.len() as u64, Ordering::Relaxed);
        let read = |part: &Part| {
            let fault = self.answer(false)?;
            if matches!(fault, Some(Fault::Late | Fault::Slow)) {
                return Err(Error::unavailable("the pail is late"));
            }
            let objects = self.objects.lock().expect("not poisoned");
            let (bytes, _) = objects.get(&part.name).ok_or_else(|| Error::new(ErrorKind::NotFound, "not there"))?;
            if part.range.end > bytes.len() as u64 {
                return Err(Error::data("it ends before that"));
            }
            let bytes = bytes.slice(part.range.start as usize..part.range.end as usize);
            self.read_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            if fault == Some(Fault::Noise) {
                let mut noisy = bytes.to_vec();
                noisy.iter_mut().step_by(16).for_each(|byte| *byte ^= 4);
                return Ok(noisy.into());
            }
            Ok(bytes)
        };
        let read = parts.iter().map(read).collect();
        let mut fault = self.fault.lock().expect("not poisoned");
        *fault = fault.filter(|fault| *fault != Fault::Noise);
        read
    }
}

impl Store for Pail {
    fn put(&self, name: &str, bytes: Bytes, _: Duration) -> Result<()> {
        self.answer(true)?;
        let before = self.objects.lock().expect("not poisoned").insert(name.to_owned(), (bytes, self.at()));
        assert!(before.is_none(), "a name is given once: {name}");
        self.changed.notify_all();
        Ok(())
    }

    fn touch(&self, name: &str, _: Duration) -> Result<()> {
        self.answer(true)?;
        self.objects.lock().expect("not poisoned").insert(name.to_owned(), (Bytes::new(), self.at()));
        self.changed.notify_all();
        Ok(())
    }

    fn delete(&self, name: &str, _: Duration) -> Result<()> {
        self.answer(true)?;
        self.objects.lock().expect("not poisoned").remove(name);
        self.changed.notify_all();
        Ok(())
    }
}

/// A clock that the test advances.
#[derive(Debug, Default, Clone)]
pub(crate) struct Hand(Arc<AtomicU64>);

impl Hand {
    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Stopwatch for Hand {
    fn nanos(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
