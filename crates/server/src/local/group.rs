//! The limits of the control groups of this process: a container's, or a batch job's.
//!
//! Version 2 has one tree, version 1 a tree for each controller. A limit holds for the groups below it, so every group
//! up to the root counts; in a container the path may not exist, and its own limits are at the root.

use super::files::{Files, named, number};

/// Where control groups are.
const ROOT: &str = "/sys/fs/cgroup";
/// Folders of version 1 that may have the limits on cores, and their use.
const CPU_V1: [&str; 3] = ["cpu,cpuacct", "cpuacct,cpu", "cpu"];
const MEMORY_V1: [&str; 1] = ["memory"];
/// The number with which version 1 means no limit is larger than any memory.
const NO_LIMIT: u64 = 1 << 60;

/// The groups of this process, the innermost first.
pub(super) struct Groups {
    v2: Vec<String>,
    cpu_v1: Vec<String>,
    memory_v1: Vec<String>,
}

/// A limit on cores, and the used part of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cores {
    /// The limit of the tightest group.
    pub(super) limit: f64,
    /// Microseconds that all its processes have used so far.
    pub(super) used_us: u64,
    /// The id of that group, under any path.
    pub(super) group: Option<u64>,
}

impl Groups {
    pub(super) fn of_this(files: &impl Files) -> Self {
        let listed = files.read("/proc/self/cgroup").unwrap_or_default();
        let path_of = |is: &dyn Fn(&str) -> bool| {
            let mut paths = listed.lines().filter_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                Some((parts.next()?, parts.next()?))
            });
            paths.find(|(controllers, _)| is(controllers)).map(|(_, path)| path)
        };
        let has = |name: &'static str| move |controllers: &str| controllers.split(',').any(|c| c == name);
        let v1 = |folders: &[&str], path: Option<&str>| {
            let Some(path) = path else { return Vec::new() };
            folders.iter().flat_map(|folder| up(&format!("{ROOT}/{folder}"), path)).collect()
        };
        Self {
            v2: path_of(&str::is_empty).map(|path| up(ROOT, path)).unwrap_or_default(),
            cpu_v1: v1(&CPU_V1, path_of(&has("cpu"))),
            memory_v1: v1(&MEMORY_V1, path_of(&has("memory"))),
        }
    }

    /// Returns the tightest limit on cores, if there is one.
    pub(super) fn cores(&self, files: &impl Files) -> Option<Cores> {
        let v2 = self.v2.iter().filter_map(|dir| {
            let text = files.read(&format!("{dir}/cpu.max"))?;
            let (quota, period) = text.trim().split_once(' ')?;
            let limit = quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?;
            let used_us = named(&files.read(&format!("{dir}/cpu.stat"))?, "usage_usec")?;
            Some(Cores { limit, used_us, group: files.number(dir) })
        });
        let v1 = self.cpu_v1.iter().filter_map(|dir| {
            // -1, no limit, does not parse as an unsigned number.
            let quota = number(files, &format!("{dir}/cpu.cfs_quota_us"))? as f64;
            let limit = quota / number(files, &format!("{dir}/cpu.cfs_period_us"))? as f64;
            // The two controllers may share a folder, or have one each.
            let beside = dir.replacen("/cpu", "/cpuacct", 1);
            let used = [dir, &beside].into_iter().find_map(|dir| number(files, &format!("{dir}/cpuacct.usage")));
            Some(Cores { limit, used_us: used? / 1000, group: files.number(dir) })
        });
        v2.chain(v1).filter(|c| c.limit.is_finite()).min_by(|a, b| a.limit.total_cmp(&b.limit))
    }

    /// Returns the bytes that are free before a limit is reached, if there is one. Pages of files can be reclaimed
    /// first.
    pub(super) fn memory(&self, files: &impl Files) -> Option<u64> {
        let free = |dir: &String, [limit, used, cached]: [&str; 3]| {
            let limit = number(files, &format!("{dir}/{limit}")).filter(|limit| *limit < NO_LIMIT)?;
            let stat = files.read(&format!("{dir}/memory.stat")).unwrap_or_default();
            let used = number(files, &format!("{dir}/{used}"))?.saturating_sub(named(&stat, cached).unwrap_or(0));
            Some(limit.saturating_sub(used))
        };
        let v2 = self.v2.iter().filter_map(|dir| free(dir, ["memory.max", "memory.current", "inactive_file"]));
        let names = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];
        let v1 = self.memory_v1.iter().filter_map(|dir| free(dir, names));
        v2.chain(v1).min()
    }

    /// Returns the files with the pressure of a resource, by its name: of the innermost group, and of the machine.
    pub(super) fn pressure(&self, of: &str) -> Vec<String> {
        let own = self.v2.first().map(|dir| format!("{dir}/{of}.pressure"));
        own.into_iter().chain([format!("/proc/pressure/{of}")]).collect()
    }
}

/// Returns a folder of groups and all folders above it, up to the root.
fn up(root: &str, path: &str) -> Vec<String> {
    let mut path = path.trim_end_matches('/');
    let mut all = Vec::new();
    // From another namespace a path may begin with `..`, and does not exist.
    while !path.is_empty() && !path.contains("..") {
        all.push(format!("{root}{path}"));
        path = path.rfind('/').and_then(|at| path.get(..at)).unwrap_or_default();
    }
    all.push(root.to_owned());
    all
}
