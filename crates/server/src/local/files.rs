//! The files in which Linux reports the state of a machine, behind a trait, so that tests can replace them.
//!
//! Only parsing: `machine` interprets the figures. A value that is missing or malformed is `None`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

/// The most bytes that are read of a file.
const BYTES_MAX: u64 = 1 << 20;
/// The most threads of a process, and children, that are examined.
const TASKS_MAX: usize = 4096;
/// The number of threads of this process whose wait for a core is measured: the first thread, and the oldest others.
const DELAYS_MAX: usize = 64;
/// The microseconds of a tick, the unit of a process's time.
const TICK_US: u64 = 10_000;

/// Reads files.
pub(crate) trait Files {
    /// Returns the text of a file.
    fn read(&self, path: &str) -> Option<String>;
    /// Returns the names in a folder.
    fn list(&self, path: &str) -> Vec<String>;
    /// Returns the inode of a folder, which identifies it on this system under any path.
    fn number(&self, path: &str) -> Option<u64>;
}

/// The files of this machine.
pub(crate) struct System;

impl Files for System {
    fn read(&self, path: &str) -> Option<String> {
        let mut text = String::new();
        fs::File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten().take(TASKS_MAX);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn number(&self, path: &str) -> Option<u64> {
        fs::metadata(path).ok().map(|folder| folder.ino())
    }
}

/// Reads a list of cores, as `0-3,8`.
pub(super) fn cores(list: &str) -> Option<BTreeSet<usize>> {
    let mut cores = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last - first.min(last) >= TASKS_MAX {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

/// Reads the cores that this process may use.
pub(super) fn allowed(files: &impl Files) -> Option<BTreeSet<usize>> {
    let status = files.read("/proc/self/status")?;
    cores(status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

/// Reads the time of these cores in ticks: idle, and total.
pub(super) fn core_time(files: &impl Files, of: &BTreeSet<usize>) -> Option<(u64, u64)> {
    let stat = files.read("/proc/stat")?;
    let mut sum = None;
    for line in stat.lines() {
        let mut words = line.split_whitespace();
        let core = words.next().and_then(|w| w.strip_prefix("cpu")).and_then(|n| n.parse().ok());
        if core.is_none_or(|core: usize| !of.contains(&core)) {
            continue;
        }
        // user, nice, system, idle, iowait, irq, softirq, steal; user includes the time of guests.
        let times: Vec<u64> = words.take(8).filter_map(|w| w.parse().ok()).collect();
        let (idle, all) = sum.unwrap_or((0, 0));
        sum = Some((idle + times.get(3)? + times.get(4).unwrap_or(&0), all + times.iter().sum::<u64>()));
    }
    sum
}

/// Reads how many tasks ran or waited for a core, on average over a minute.
pub(super) fn load(files: &impl Files) -> Option<f64> {
    files.read("/proc/loadavg")?.split_whitespace().next()?.parse().ok().filter(|load: &f64| load.is_finite())
}

/// Reads the share of the last 10 s in which a task waited, in thousandths.
pub(super) fn pressure(files: &impl Files, path: &str) -> Option<u32> {
    let text = files.read(path)?;
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let percent: f64 = some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?.parse().ok()?;
    Some((percent * 10.0).clamp(0.0, 1000.0) as u32)
}

/// Reads a value by its name: `MemAvailable:  123 kB`, or `inactive_file 123`.
pub(super) fn named(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
}

/// Reads a file that holds one number. Text such as "max" is `None`.
pub(super) fn number(files: &impl Files, path: &str) -> Option<u64> {
    files.read(path)?.trim().parse().ok()
}

/// Reads the microseconds that a process and its children have used so far.
pub(super) fn process_time(files: &impl Files, pid: u32) -> u64 {
    let of = |pid: &str| {
        let stat = files.read(&format!("/proc/{pid}/stat"))?;
        // The name before it may hold any characters.
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        // utime and stime, of the process and of its children that have ended.
        (11..15).map(|at| fields.get(at)?.parse::<u64>().ok()).sum::<Option<u64>>()
    };
    let own = pid.to_string();
    let tasks = files.list(&format!("/proc/{pid}/task"));
    let children = tasks.iter().take(TASKS_MAX).filter_map(|t| files.read(&format!("/proc/{pid}/task/{t}/children")));
    let children: Vec<String> =
        children.flat_map(|c| c.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect();
    let ticks: u64 = std::iter::once(&own).chain(&children).filter_map(|pid| of(pid)).sum();
    ticks * TICK_US
}

/// Reads, for each thread of this process by its number, the nanoseconds for which it was ready and had no core.
pub(super) fn delays(files: &impl Files) -> BTreeMap<String, u64> {
    let of = |thread: String| {
        let stat = files.read(&format!("/proc/self/task/{thread}/schedstat"))?;
        // The time that it ran, the time that it waited for a core, and how often it ran.
        Some((thread, stat.split_whitespace().nth(1)?.parse().ok()?))
    };
    files.list("/proc/self/task").into_iter().take(DELAYS_MAX).filter_map(of).collect()
}
