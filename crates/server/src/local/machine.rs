//! The spare capacity of this machine beside the trainer: idle cores, within the limits of its control groups, if there
//! is memory for threads on them; and how long the trainer's threads were ready and had no core. Every consumer reports
//! it; threads start only beside consumers that request some.
//!
//! Spare cores are counted over the time between two measurements, among the cores that this process may use: the idle
//! cores, and the cores that the local worker itself used, which it would give up. The least of the last [`LOOKS`]
//! counts is valid, so cores that the trainer uses in turns count as its own, and a single wait has no effect. If the
//! kernel does not count time by core, the load gives the number of busy cores. Waits for a core are measured thread by
//! thread, in this process: the machine's pressure would include the local worker's own threads, which wait whenever
//! they yield. If the kernel does not report waits, they count as zero.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_client::{HostProbe, Spare};
use forebay_core::{Error, Result, Ticks};

use super::files::{Files, System, allowed, core_time, delays, load, named, pressure, process_time};
use super::group::{Cores, Groups};

/// The number of measurements of which the least counts.
const LOOKS: usize = 4;
/// The share of time in which a task on the machine waited for memory, in thousandths: above it, the trainer may be
/// next.
const MEMORY_PRESSURE_MAX: u32 = 50;
/// Bytes that must be free to add threads, and to keep the present ones.
const MEMORY_MORE: u64 = 1 << 30;
const MEMORY_KEPT: u64 = MEMORY_MORE / 2;

/// The counters at one moment.
#[derive(Debug, Clone)]
struct Counted {
    at: Ticks,
    cores: Option<(u64, u64)>,
    group: Option<Cores>,
    /// Microseconds that the local worker has used.
    own_us: u64,
    /// Nanoseconds for which each thread of this process had no core.
    delays: BTreeMap<String, u64>,
}

/// The differences between two moments, in thousandths.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Spare cores, and the part of these that the local worker used.
    cores: u32,
    own: u32,
    /// The longest wait of a thread for a core.
    delayed: u32,
}

/// A machine, as this process sees it.
pub(crate) struct Machine<F> {
    files: F,
    groups: Groups,
    /// The id of this machine since its last boot.
    boot: Option<String>,
    last: Option<Counted>,
    recent: VecDeque<Found>,
}

/// Returns a probe of the spare capacity beside a consumer without a local worker; it ends if this machine reports
/// none.
pub fn look_at_machine() -> HostProbe {
    let mut machine = Some(Machine::new(System));
    Box::new(move |now| {
        let seen = machine.as_mut()?.look(now, None, 0, false);
        seen.unwrap_or_else(|_| {
            machine = None;
            None
        })
    })
}

impl<F: Files> Machine<F> {
    pub(crate) fn new(files: F) -> Self {
        let groups = Groups::of_this(&files);
        let boot = files.read("/proc/sys/kernel/random/boot_id");
        Self { files, groups, boot, last: None, recent: VecDeque::new() }
    }

    /// Returns the spare capacity since the last call, for this process and a local worker with `threads` threads;
    /// `None` at the first call. If the consumer `asks` for threads, the number of spare cores is limited by the
    /// memory.
    ///
    /// # Errors
    /// Unavailable if the system does not report it.
    pub(crate) fn look(&mut self, now: Ticks, own: Option<u32>, threads: u32, asks: bool) -> Result<Option<Spare>> {
        let unknown = |what: &str| {
            Error::unavailable(format!("this machine does not say {what}, so no local worker computes here"))
                .hint("set local= to a number of threads, or to 0")
        };
        let allowed = allowed(&self.files).ok_or_else(|| unknown("which cores this process may use"))?;
        let counted = Counted {
            at: now,
            cores: core_time(&self.files, &allowed),
            group: self.groups.cores(&self.files),
            own_us: own.map_or(0, |pid| process_time(&self.files, pid)),
            delays: delays(&self.files),
        };
        let load = load(&self.files);
        if counted.cores.is_none() && load.is_none() {
            return Err(unknown("which of its cores are idle"));
        }
        let memory = self.memory().or((!asks).then_some(u64::MAX)).ok_or_else(|| unknown("how much memory is free"))?;
        let Some(last) = self.last.replace(counted.clone()) else { return Ok(None) };
        let found = found(&last, &counted, &allowed, load.unwrap_or(0.0));
        if self.recent.len() == LOOKS {
            self.recent.pop_front();
        }
        self.recent.push_back(found);
        let least = self.recent.iter().min_by_key(|found| found.cores).unwrap_or(&found);
        let idle = least.cores;
        let millicores = match memory {
            _ if !asks => idle,
            _ if self.pressure("memory").unwrap_or(0) > MEMORY_PRESSURE_MAX => 0,
            ..MEMORY_KEPT => 0,
            MEMORY_KEPT..MEMORY_MORE => idle.min(threads.saturating_mul(1000)),
            _ => idle,
        };
        Ok(Some(Spare {
            millicores,
            limit_millicores: (limit(&counted, &allowed) * 1000.0) as u32,
            pressure: self.recent.iter().map(|found| found.delayed).min().unwrap_or(0),
            threads,
            asks,
            own_millicores: least.own.min(millicores),
            machine: self.number(&counted, &allowed),
        }))
    }

    /// Returns an id of these cores: processes that share them return the same.
    fn number(&self, counted: &Counted, allowed: &BTreeSet<usize>) -> u64 {
        let Some(boot) = &self.boot else { return 0 };
        let mut hasher = DefaultHasher::new();
        (boot, counted.group.map(|group| group.group), allowed).hash(&mut hasher);
        hasher.finish()
    }

    fn memory(&self) -> Option<u64> {
        let machine = named(&self.files.read("/proc/meminfo")?, "MemAvailable")?.saturating_mul(1024);
        Some(self.groups.memory(&self.files).map_or(machine, |group| group.min(machine)))
    }

    /// Returns the higher pressure of the group's and the machine's.
    fn pressure(&self, of: &str) -> Option<u32> {
        self.groups.pressure(of).iter().filter_map(|path| pressure(&self.files, path)).max()
    }
}

/// Returns the spare capacity between two moments.
fn found(last: &Counted, now: &Counted, allowed: &BTreeSet<usize>, load: f64) -> Found {
    let elapsed_us = ((now.at - last.at).as_micros() as f64).max(1.0);
    let since = |before: u64, after: u64| after.saturating_sub(before) as f64;
    let (own, all) = (since(last.own_us, now.own_us) / elapsed_us, allowed.len() as f64);
    let idle = match (last.cores, now.cores) {
        (Some(before), Some(after)) if after.1 > before.1 => since(before.0, after.0) / since(before.1, after.1) * all,
        _ => (all - load).max(0.0),
    };
    let within = match (last.group, now.group) {
        (Some(before), Some(after)) => after.limit - since(before.used_us, after.used_us) / elapsed_us,
        _ => f64::INFINITY,
    };
    let cores = (idle.min(within) + own).clamp(0.0, limit(now, allowed));
    let milli = |cores: f64| (cores * 1000.0) as u32;
    Found { cores: milli(cores), own: milli(own.min(cores)), delayed: delayed(last, now) }
}

/// Returns the cores that this process may use.
fn limit(now: &Counted, allowed: &BTreeSet<usize>) -> f64 {
    let all = allowed.len() as f64;
    now.group.map_or(all, |group| group.limit.min(all))
}

/// Returns the share of time in which a thread had no core, in thousandths, for the thread that waited longest.
fn delayed(last: &Counted, now: &Counted) -> u32 {
    let elapsed_ns = (now.at - last.at).as_nanos().max(1) as f64;
    let since = |(thread, after): (&String, &u64)| Some(after.saturating_sub(*last.delays.get(thread)?));
    let longest = now.delays.iter().filter_map(since).max().unwrap_or(0);
    (longest as f64 / elapsed_ns * 1000.0).min(1000.0) as u32
}

#[cfg(test)]
mod tests;
