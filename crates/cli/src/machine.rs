//! A description of the machine for measured figures, which have no meaning without it.

use serde::Serialize;

/// The properties that a reader of the figures needs.
#[derive(Serialize)]
pub(crate) struct Machine {
    processor: String,
    architecture: &'static str,
    cores: usize,
    memory_bytes: u64,
    system: String,
}

impl Machine {
    /// Returns this machine. Unknown values are empty, or 0.
    pub(crate) fn this() -> Self {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kilobytes =
            field("/proc/meminfo", "MemTotal").and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            architecture: std::env::consts::ARCH,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: kilobytes.unwrap_or(0) << 10,
            system: format!("{} {}", std::env::consts::OS, kernel.trim()),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {} cores, {}", self.processor, self.cores, self.system)
    }
}
