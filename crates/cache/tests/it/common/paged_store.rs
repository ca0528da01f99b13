//! A store of files that answers when the test lets it.

#![expect(clippy::disallowed_methods, reason = "the store answers from threads of its own")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use forebay_cache::{Done, Fetch};
use forebay_core::Error;

/// A store that answers later, from other threads, and counts the bytes that it sends.
#[derive(Default)]
pub(crate) struct Store {
    sent: AtomicU64,
    /// The faults of the next reads, in order.
    pub(crate) faults: Mutex<Vec<Fault>>,
    /// Reads that are held back until the test releases them.
    pub(crate) held: Mutex<Option<Vec<Held>>>,
}

pub(crate) type Held = Box<dyn FnOnce() + Send>;

pub(crate) enum Fault {
    Error,
    Dropped,
    Short,
}

fn byte(file: usize, at: u64) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 9) ^ (file as u64 * 77)) as u8
}

pub(crate) fn truth(file: usize, range: Range<u64>) -> Vec<u8> {
    range.map(|at| byte(file, at)).collect()
}

impl Store {
    pub(crate) fn fetch(self: &Arc<Self>, file: usize) -> Fetch {
        let store = self.clone();
        Arc::new(move |range: Range<u64>, done: Done| {
            let fault = store.faults.lock().expect("a lock").pop();
            let own = store.clone();
            let answer = move || match fault {
                Some(Fault::Dropped) => drop(done),
                Some(Fault::Error) => done(Err(Error::unavailable("the store is away"))),
                Some(Fault::Short) => done(Ok(Bytes::from(truth(file, range.start..range.end - 1)))),
                None => {
                    own.sent.fetch_add(range.end - range.start, Ordering::Relaxed);
                    done(Ok(Bytes::from(truth(file, range))));
                }
            };
            match &mut *store.held.lock().expect("a lock") {
                Some(held) => held.push(Box::new(answer)),
                None => drop(std::thread::spawn(answer)),
            }
        })
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn let_go(&self) {
        let held = self.held.lock().expect("a lock").take();
        held.into_iter().flatten().for_each(|answer| answer());
    }
}
