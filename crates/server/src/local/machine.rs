//! What this machine has to spare beside the trainer: idle cores, within the limits of its control groups, where there is memory
//! for what computes on them; and how long the trainer was ready to run and had no core. It is told of every reader; threads are started
//! only beside those that ask for some.
//!
//! Cores are counted over the time between two looks, on those that this process may use: what was idle, and what the local
//! worker itself took, which it would give back. Of the last [`LOOKS`] looks the least counts, so that cores that the trainer
//! takes in turns are its own, and what waits once for a core is no news. Where the kernel does not count time by core, the load says how many are busy. What waits for a
//! core is looked at thread by thread, in this process: the machine's pressure counts the local worker's own threads, which wait
//! whenever they give way. Where the kernel does not say what waits, it is held to be nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use forebay_client::{HostProbe, Spare};
use forebay_core::{Error, Result, Ticks};

use super::files::{Files, System, allowed, core_time, delays, load, named, pressure, process_time};
use super::group::{Cores, Groups};

/// Looks of which the least counts.
const LOOKS: usize = 4;
/// Thousandths of its time that something on the machine waited for memory: more, and the trainer may be next.
const MEMORY_PRESSURE_MAX: u32 = 50;
/// Bytes that must be free before threads are added, and for those that there are.
const MEMORY_MORE: u64 = 1 << 30;
const MEMORY_KEPT: u64 = MEMORY_MORE / 2;

/// What was counted up to a moment.
#[derive(Debug, Clone)]
struct Counted {
    at: Ticks,
    cores: Option<(u64, u64)>,
    group: Option<Cores>,
    /// Microseconds that the local worker took.
    own_us: u64,
    /// Nanoseconds that each thread of this process had no core.
    delays: BTreeMap<String, u64>,
}

/// What was found between two moments, in thousandths.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Cores to spare, and what of these the local worker took.
    cores: u32,
    own: u32,
    /// How long was waited for a core.
    delayed: u32,
}

/// A machine, as this process sees it.
pub(crate) struct Machine<F> {
    files: F,
    groups: Groups,
    /// What tells this machine, since it was started, from all others.
    boot: Option<String>,
    last: Option<Counted>,
    recent: VecDeque<Found>,
}

/// Looks what there is to spare beside a reader without a local worker, for as long as this machine says so.
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

    /// Returns what there is to spare since the last look, for this process and a local worker that has so many threads; `None` at the
    /// first. Where it `asks` for threads, there are no cores for more of them than there is memory for.
    ///
    /// # Errors
    /// Unavailable where the system does not say.
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

    /// Says which cores these are: processes that share them say the same.
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

    /// Returns the higher of the group's and the machine's.
    fn pressure(&self, of: &str) -> Option<u32> {
        self.groups.pressure(of).iter().filter_map(|path| pressure(&self.files, path)).max()
    }
}

/// Returns what was to spare between two moments.
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

/// Returns thousandths of the time that a thread had no core: of the one that had to wait longest.
fn delayed(last: &Counted, now: &Counted) -> u32 {
    let elapsed_ns = (now.at - last.at).as_nanos().max(1) as f64;
    let since = |(thread, after): (&String, &u64)| Some(after.saturating_sub(*last.delays.get(thread)?));
    let longest = now.delays.iter().filter_map(since).max().unwrap_or(0);
    (longest as f64 / elapsed_ns * 1000.0).min(1000.0) as u32
}

#[cfg(test)]
mod tests;
