//! Machines by the contents of their files: without limits, in containers of both versions of control groups, and odd
//! ones.

use std::collections::HashMap;

use super::*;

/// A machine of files that a test writes.
#[derive(Default)]
struct Recorded(std::cell::RefCell<HashMap<String, String>>);

impl Recorded {
    fn set(&self, path: &str, text: impl Into<String>) {
        self.0.borrow_mut().insert(path.to_owned(), text.into());
    }
}

impl Files for &Recorded {
    fn read(&self, path: &str) -> Option<String> {
        self.0.borrow().get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let files = self.0.borrow();
        let below = files.keys().filter_map(|file| file.strip_prefix(path)?.strip_prefix('/'));
        below.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect()
    }

    fn number(&self, path: &str) -> Option<u64> {
        Some(path.len() as u64)
    }
}

/// Returns /proc/stat of four cores, each of which was idle for `idle` ticks of `all`.
fn stat(idle: [u64; 4], all: u64) -> String {
    let core = |(i, idle): (usize, &u64)| format!("cpu{i} {} 1 2 {} 5 0 0 0 9 9\n", all - idle - 3, idle - 5);
    let cores: String = idle.iter().enumerate().map(core).collect();
    format!("cpu  1 2 3 4 5 6 7 8 9 10\n{cores}intr 12345 0\nctxt 7\n")
}

/// Returns /proc/PID/stat of a process with a misleading name.
fn process(pid: u32, user: u64, system: u64) -> String {
    format!("{pid} (a) b 1 (c) S 1 {pid} {pid} 0 -1 4194560 9 9 9 9 {user} {system} 3 4 20 19 8 0 5 6 7\n")
}

const MEMINFO: &str = "MemTotal:       16000000 kB\nMemFree:          100000 kB\nMemAvailable:    8000000 kB\n";

fn machine() -> Recorded {
    let files = Recorded::default();
    files.set("/proc/self/status", "Name:\tpython\nCpus_allowed:\tf\nCpus_allowed_list:\t0-3\nMems_allowed:\t1\n");
    files.set("/proc/self/cgroup", "0::/user.slice/session-1.scope\n");
    files.set("/proc/stat", stat([100; 4], 200));
    files.set("/proc/loadavg", "1.50 1.00 0.50 2/300 4000\n");
    files.set("/proc/meminfo", MEMINFO);
    files
}

/// Measures twice, a second apart; each core was idle for `idle` of the 100 ticks in between.
fn look(files: &Recorded, idle: [u64; 4], own: Option<u32>, between: impl FnOnce(&Recorded)) -> Spare {
    let mut machine = Machine::new(files);
    assert_eq!(machine.look(Ticks(0), own, 2, true).expect("it says"), None, "nothing is known of a moment");
    files.set("/proc/stat", stat(idle.map(|idle| 100 + idle), 300));
    between(files);
    machine.look(Ticks(1000), own, 2, true).expect("it says").expect("a second has passed")
}

#[test]
fn what_is_idle_is_to_spare_on_the_cores_that_this_process_may_use() {
    let files = machine();
    let spare = look(&files, [90, 50, 10, 50], None, |_| ());
    assert_eq!(spare, Spare { millicores: 2000, limit_millicores: 4000, threads: 2, asks: true, ..Spare::default() });
    let files = machine();
    files.set("/proc/self/status", "Cpus_allowed_list:\t0,2-2\n");
    assert_eq!(look(&files, [90, 50, 10, 50], None, |_| ()).millicores, 1000);
}

#[test]
fn what_the_local_worker_takes_is_to_spare_with_its_children() {
    let files = machine();
    files.set("/proc/77/stat", process(77, 500, 50));
    files.set("/proc/77/task/77/children", "");
    files.set("/proc/77/task/80/children", "99 ");
    files.set("/proc/99/stat", process(99, 10, 0));
    let spare = look(&files, [25; 4], Some(77), |files| {
        files.set("/proc/77/stat", process(77, 600, 60));
        files.set("/proc/99/stat", process(99, 100, 0));
    });
    // One core idle; 1.1 of the worker, and 0.9 of the function process that one of its threads started.
    assert_eq!((spare.millicores, spare.own_millicores), (3000, 2000));
}

#[test]
fn processes_that_share_cores_say_the_same_and_others_do_not() {
    let (boot, group) = ("/proc/sys/kernel/random/boot_id", "/sys/fs/cgroup/user.slice");
    let number = |changes: &dyn Fn(&Recorded)| {
        let files = machine();
        files.set(boot, "8c7f\n");
        changes(&files);
        look(&files, [50; 4], None, |_| ()).machine
    };
    let limit = |files: &Recorded, at: &str| {
        files.set(&format!("{at}/cpu.max"), "150000 100000\n");
        files.set(&format!("{at}/cpu.stat"), "usage_usec 1000000\n");
    };
    let usual = number(&|_| ());
    assert_eq!(usual, number(&|files| files.set("/proc/self/cgroup", "0::/user.slice/session-2.scope\n")));
    let others = [
        number(&|files| files.set(boot, "9d80\n")),
        number(&|files| files.set("/proc/self/status", "Cpus_allowed_list:\t0-1\n")),
        number(&|files| limit(files, group)),
        number(&|files| limit(files, &format!("{group}/session-1.scope"))),
        0,
    ];
    assert!(others.iter().enumerate().all(|(i, other)| *other != usual && !others[..i].contains(other)), "{others:?}");
    assert_eq!(number(&|files| drop(files.0.borrow_mut().remove(boot))), 0, "one that does not say shares none");
}

#[test]
fn a_limit_of_a_group_holds_for_all_below_it() {
    let files = machine();
    let [own, above] = ["/sys/fs/cgroup/user.slice/session-1.scope", "/sys/fs/cgroup/user.slice"];
    files.set(&format!("{own}/cpu.max"), "max 100000\n");
    files.set(&format!("{own}/cpu.stat"), "usage_usec 5\n");
    files.set(&format!("{above}/cpu.max"), "150000 100000\n");
    files.set(&format!("{above}/cpu.stat"), "usage_usec 1000000\nuser_usec 900000\n");
    files.set(&format!("{own}/memory.max"), "max\n");
    files.set(&format!("{above}/memory.max"), "4000000000\n");
    files.set(&format!("{above}/memory.current"), "3500000000\n");
    files.set(&format!("{above}/memory.stat"), "anon 1\ninactive_file 1000000000\nactive_file 3\n");
    files.set(&format!("{own}/memory.pressure"), "some avg10=7.00 avg60=0.00\nfull avg10=99.00\n");
    files.set("/proc/pressure/memory", "some avg10=0.50 avg60=0.00\n");
    let spare = look(&files, [100; 4], None, |files| files.set(&format!("{above}/cpu.stat"), "usage_usec 1500000\n"));
    assert_eq!((spare.millicores, spare.limit_millicores), (0, 1500), "memory is waited for");
    let machine = Machine::new(&files);
    assert_eq!((machine.memory(), machine.pressure("memory")), (Some(1_500_000_000), Some(70)));
    files.set(&format!("{own}/memory.pressure"), "some avg10=4.00 avg60=0.00\nfull avg10=99.00\n");
    files.set("/proc/stat", stat([100; 4], 200));
    let spare = look(&files, [100; 4], None, |files| files.set(&format!("{above}/cpu.stat"), "usage_usec 2000000\n"));
    assert_eq!(spare.millicores, 1000);
}

#[test]
fn version_one_says_the_same_in_other_words_and_containers_at_the_root() {
    for (controllers, cpu, usage) in [("cpu,cpuacct", "cpu,cpuacct", "cpu,cpuacct"), ("cpu", "cpu", "cpuacct")] {
        let files = machine();
        let listed = format!("12:pids:/docker/abc\n4:{controllers}:/docker/abc\n3:memory:/docker/abc\n0::/\n");
        files.set("/proc/self/cgroup", listed);
        files.set(&format!("/sys/fs/cgroup/{cpu}/cpu.cfs_quota_us"), "250000\n");
        files.set(&format!("/sys/fs/cgroup/{cpu}/cpu.cfs_period_us"), "100000\n");
        let used = format!("/sys/fs/cgroup/{usage}/cpuacct.usage");
        files.set(&used, "1000000000\n");
        files.set("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
        files.set("/sys/fs/cgroup/memory/memory.usage_in_bytes", "900000000\n");
        files.set("/sys/fs/cgroup/memory/memory.stat", "cache 5\ninactive_file 7\ntotal_inactive_file 100000000\n");
        let spare = look(&files, [100; 4], None, |files| files.set(&used, "3000000000\n"));
        assert_eq!((spare.millicores, spare.limit_millicores), (0, 2500), "{controllers}: memory is short");
        assert_eq!(Machine::new(&files).memory(), Some(200_000_000), "{controllers}");
        files.set("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000000\n");
        files.set("/proc/stat", stat([100; 4], 200));
        let spare = look(&files, [100; 4], None, |files| files.set(&used, "5000000000\n"));
        assert_eq!(spare.millicores, 500, "{controllers}");
        // No limit, in both notations.
        files.set(&format!("/sys/fs/cgroup/{cpu}/cpu.cfs_quota_us"), "-1\n");
        files.set("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        files.set("/proc/stat", stat([100; 4], 200));
        let spare = look(&files, [100; 4], None, |_| ());
        assert_eq!((spare.millicores, Machine::new(&files).memory()), (4000, Some(8_000_000 * 1024)), "{controllers}");
    }
}

#[test]
fn where_memory_is_short_no_more_is_begun_or_none_goes_on() {
    for (free_mb, millicores) in [(2000, 4000), (1025, 2000), (537, 2000), (520, 0)] {
        let files = machine();
        files.set("/proc/meminfo", format!("MemAvailable:  {free_mb}000 kB\n"));
        assert_eq!(look(&files, [100; 4], None, |_| ()).millicores, millicores, "{free_mb} MB");
        // The consumer's own process is there anyway.
        let mut machine = Machine::new(&files);
        files.set("/proc/stat", stat([100; 4], 200));
        assert_eq!(machine.look(Ticks(0), None, 0, false).expect("it says"), None);
        files.set("/proc/stat", stat([200; 4], 300));
        let spare = machine.look(Ticks(1000), None, 0, false).expect("it says").expect("a second has passed");
        assert_eq!((spare.millicores, spare.asks), (4000, false), "{free_mb} MB");
    }
}

#[test]
fn a_thread_of_the_trainer_that_has_no_core_for_long_is_told_of() {
    let files = machine();
    let mut machine = Machine::new(&files);
    // One waits for 400 ms of each second, from the second look on; another begins later, with its earlier waits.
    let mut told = Vec::new();
    for look in 0..7_u64 {
        files.set("/proc/stat", stat([100 + 50 * look; 4], 200 + 100 * look));
        let waited = look.saturating_sub(1) * 400_000_000;
        files.set("/proc/self/task/5/schedstat", format!("9 {waited} 7\n"));
        if look > 3 {
            files.set("/proc/self/task/6/schedstat", "9 5000000000 7\n");
        }
        told.extend(machine.look(Ticks(1000 * look), None, 0, true).expect("it says").map(|s| s.pressure));
    }
    assert_eq!(told, [0, 0, 0, 0, 400, 400], "what lasts for all looks that count");
}

#[test]
fn of_the_last_looks_the_least_counts() {
    let files = machine();
    let mut machine = Machine::new(&files);
    let mut idle = 100;
    let mut seen = Vec::new();
    for (i, more) in [100, 100, 25, 100, 100, 100, 100].into_iter().enumerate() {
        files.set("/proc/stat", stat([idle; 4], 200 + 100 * i as u64));
        seen.extend(machine.look(Ticks(1000 * i as u64), None, 0, true).expect("it says").map(|s| s.millicores));
        idle += more;
    }
    assert_eq!(seen, [4000, 4000, 1000, 1000, 1000, 1000]);
}

#[test]
fn a_machine_that_does_not_say_is_not_used() {
    for missing in ["/proc/self/status", "/proc/meminfo"] {
        let files = machine();
        files.0.borrow_mut().remove(missing);
        assert!(Machine::new(&files).look(Ticks(0), None, 0, true).is_err(), "{missing}");
    }
    for odd in ["Cpus_allowed_list:\t\n", "Cpus_allowed_list:\t0-99999999999\n", "Cpus_allowed_list:\tall\n"] {
        let files = machine();
        files.set("/proc/self/status", odd);
        assert!(Machine::new(&files).look(Ticks(0), None, 0, true).is_err(), "{odd}");
    }
    // Without time by core, the load gives the busy cores.
    let files = machine();
    files.0.borrow_mut().remove("/proc/stat");
    let mut machine = Machine::new(&files);
    assert_eq!(machine.look(Ticks(0), None, 0, true).expect("it says"), None);
    files.set("/proc/loadavg", "3.00 1.00 0.50 2/300 4000\n");
    assert_eq!(machine.look(Ticks(500), None, 0, true).expect("it says").map(|s| s.millicores), Some(1000));
    files.set("/proc/loadavg", "8.00 1.00 0.50 2/300 4000\n");
    assert_eq!(machine.look(Ticks(999), None, 0, true).expect("it says").map(|s| s.millicores), Some(0));
    files.0.borrow_mut().remove("/proc/loadavg");
    assert!(machine.look(Ticks(1500), None, 0, true).is_err());
}
