//! The life of a local worker, with a shell in its place: it announces itself, and writes its input to a file.

#![expect(clippy::disallowed_methods, reason = "tests poll processes")]

use std::collections::HashMap;
use std::path::Path;

use super::*;

/// The longest wait of any step.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files of a machine, which the test changes.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<HashMap<String, String>>>);

impl Recorded {
    fn set(&self, path: &str, text: &str) {
        self.0.lock().expect("not poisoned").insert(path.to_owned(), text.to_owned());
    }
}

impl Files for Recorded {
    fn read(&self, path: &str) -> Option<String> {
        self.0.lock().expect("not poisoned").get(path).cloned()
    }

    fn list(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn number(&self, _: &str) -> Option<u64> {
        None
    }
}

/// A machine of eight cores, `busy` of which are busy.
fn machine(busy: f64) -> Recorded {
    let files = Recorded::default();
    files.set("/proc/self/status", "Cpus_allowed_list:\t0-7\n");
    files.set("/proc/meminfo", "MemAvailable: 8000000 kB\n");
    files.set("/proc/loadavg", &format!("{busy} 0 0 1/1 1\n"));
    files
}

/// Returns a child that writes its process id and its input lines to a file, until a line means the end.
fn recipe(heard: &Path) -> LocalRecipe {
    let script = format!(
        r#"echo "{{\"address\":\"127.0.0.1:9\",\"pid\":$$}}"; echo "pid $$" >> {0}
        while read -r line; do echo "$line" >> {0}; case "$line" in threads*) ;; *) exit 0 ;; esac; done; echo end >> {0}"#,
        heard.display()
    );
    let (command, tls) = (["sh", "-c", &script].map(str::to_owned).to_vec(), Default::default());
    LocalRecipe {
        command,
        service: "127.0.0.1:1".to_owned(),
        tls,
        token: None,
        token_file: None,
        reader: (1, 0),
        key: forebay_client::JobKey::default(),
    }
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the lines that children have read so far, without their process ids.
fn lines(heard: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(heard).unwrap_or_default();
    text.lines().filter(|line| !line.starts_with("pid")).map(str::to_owned).collect()
}

fn pids(heard: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(heard).unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect()
}

#[test]
fn a_number_of_threads_is_said_once_and_a_child_that_dies_is_followed_by_another() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let heard = dir.path().join("heard");
    let (slot, threads) = (Arc::new(LocalWorkerSlot::default()), LocalThreads::Fixed(3));
    let local = LocalWorker::start_on(machine(0.0), recipe(&heard), threads, slot)?;
    until("the first is told", || lines(&heard) == ["threads 3"]);
    assert!(local.news().is_none());
    let first = rustix::process::Pid::from_raw(pids(&heard)[0]).expect("a process");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).expect("it runs");
    until("the second is told", || lines(&heard) == ["threads 3", "threads 3"]);
    let news = local.news().expect("what became of the first");
    assert!(news.message().contains("SIGKILL") || news.message().contains("signal: 9"), "{news}");
    assert!(local.news().is_none(), "once");
    drop(local);
    until("it is told to end", || lines(&heard).len() == 3);
    assert_eq!(lines(&heard)[2], "", "and not as if its parent had died");
    Ok(())
}

#[test]
fn what_is_wanted_is_used_as_far_as_the_machine_can_spare_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let heard = dir.path().join("heard");
    let (files, slot) = (machine(2.5), Arc::new(LocalWorkerSlot::default()));
    let local = LocalWorker::start_on(files.clone(), recipe(&heard), LocalThreads::Auto, slot.clone())?;
    until("the machine is looked at", || slot.spare().is_some_and(|spare| spare.millicores == 5500));
    assert!(pids(&heard).is_empty(), "nothing is wanted, so nothing is started");
    slot.set_wanted_threads(4);
    until("they are used", || lines(&heard) == ["threads 4"]);
    until("the reader says so", || slot.spare().is_some_and(|spare| spare.threads == 4));
    // The trainer takes its cores, regardless of the last answer.
    files.set("/proc/loadavg", "6.9 0 0 1/1 1\n");
    until("they are given back", || lines(&heard) == ["threads 4", "threads 2"]);
    slot.set_wanted_threads(0);
    until("it rests", || lines(&heard) == ["threads 4", "threads 2", "threads 0"]);
    assert_eq!(pids(&heard).len(), 1);
    drop(local);
    until("it is told to end", || lines(&heard).len() == 4);
    until("the slot has no spare threads", || slot.spare().is_none());
    Ok(())
}

#[test]
fn where_the_machine_says_nothing_nothing_is_started_and_the_user_is_told() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let heard = dir.path().join("heard");
    let slot = Arc::new(LocalWorkerSlot::default());
    slot.set_wanted_threads(4);
    let local = LocalWorker::start_on(Recorded::default(), recipe(&heard), LocalThreads::Auto, slot.clone())?;
    let mut news = None;
    until("it is told", || {
        news = local.news();
        news.is_some()
    });
    assert!(news.is_some_and(|news| news.message().contains("does not say")));
    assert!(pids(&heard).is_empty() && slot.spare().is_none());
    Ok(())
}
