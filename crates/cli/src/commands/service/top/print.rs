//! One look as text, or as JSON.

use forebay_core::Result;
use forebay_dashboard::model::{Overview, Page, Summary};
use forebay_server::Service;

use super::feed::look;
use crate::output::{self, harmless};

/// The most characters of a job's name.
const NAME_CHARS_MAX: usize = 40;

pub(super) fn once(service: &Service, json: bool) -> Result<()> {
    let look = look(service, None)?;
    let seen = Overview::of(&look.snapshot, &Page::all(), |_| Vec::new());
    if json {
        return output::json(&seen);
    }
    for alarm in &seen.alarms {
        let job = alarm.job.as_deref().map_or_else(String::new, |job| format!("{}: ", cut(job, NAME_CHARS_MAX)));
        output::line(&format!("{}: {job}{}", alarm.level, harmless(&alarm.text)))?;
    }
    output::line(&format!("{} workers, {} threads", seen.workers.live, seen.workers.threads))?;
    let rows: Vec<_> = seen.jobs.iter().map(row).collect();
    output::table(["JOB", "STATE", "BATCHES/S", "WAITS", "WORKERS", "DONE", "WHY"], &rows)
}

fn row(job: &Summary<'_>) -> [String; 7] {
    let workers = job.workers.map_or_else(|| "-".to_owned(), |n| n.to_string());
    [
        cut(job.name, NAME_CHARS_MAX),
        job.state.to_owned(),
        format!("{:.1}", job.recent.batches_per_s),
        percent(job.recent.waited),
        workers,
        percent(job.progress),
        harmless(&job.why.sentence),
    ]
}

/// Returns a share in words.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", 100.0 * share))
}

/// Returns a name that a terminal can show, of at most `most` characters.
pub(super) fn cut(name: &str, most: usize) -> String {
    let name = harmless(name);
    match name.char_indices().nth(most) {
        None => name,
        Some(_) => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}
