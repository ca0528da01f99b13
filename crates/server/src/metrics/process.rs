//! The metrics of every process, under Prometheus' standard names. Values that the system does not report are left out.

use std::time::{Duration, SystemTime};

use super::text::Exposition;

/// The approximate start of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Birth(SystemTime);

impl Birth {
    pub(crate) fn now() -> Self {
        Self(SystemTime::now())
    }

    pub(super) fn write(self, text: &mut Exposition) {
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        text.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.").is(since);
        if let Some(cpu) = cpu() {
            text.counter("process_cpu_seconds_total", "Processor time of the process.").is(cpu);
        }
        if let Some(bytes) = resident() {
            text.gauge("process_resident_memory_bytes", "Resident memory of the process.").is(bytes);
        }
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            text.gauge("process_open_fds", "Open files and sockets.").is(files.count());
        }
        if let Some(files) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current {
            text.gauge("process_max_fds", "The most files and sockets that may be open.").is(files);
        }
    }
}

fn cpu() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name, in brackets, may have spaces in it.
    let after = stat.rsplit_once(')')?.1;
    let ticks: Vec<u64> = after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    // Linux reports ticks of 1/100 s to programs, independent of its own clock.
    Some(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}
