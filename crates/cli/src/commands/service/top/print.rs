//! One look as text, or as JSON.

use forebay_core::Result;
use forebay_dashboard::model::{Overview, Page, Summary, workers_of};
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
    // A tenant sees only its own jobs.
    let of_several = seen.jobs.windows(2).any(|two| two[0].tenant != two[1].tenant);
    for alarm in &seen.alarms {
        let (tenant, job) = (alarm.tenant.as_deref().unwrap_or_default(), alarm.job.as_deref());
        let job = job.map_or_else(String::new, |job| format!("{}: ", job_name(tenant, job, of_several)));
        output::line(&format!("{}: {job}{}", alarm.level, harmless(&alarm.text)))?;
    }
    output::line(&format!("{} workers, {} threads", seen.workers.live, seen.workers.threads))?;
    let rows: Vec<_> = seen.jobs.iter().map(|job| row(job, of_several)).collect();
    output::table(["JOB", "STATE", "BATCHES/S", "WAITS", "WORKERS", "DONE", "WHY"], &rows)
}

/// Returns the name of a job, behind its tenant if the caller sees jobs of several.
fn job_name(tenant: &str, job: &str, of_several: bool) -> String {
    if of_several {
        format!("{}/{}", cut(tenant, NAME_CHARS_MAX), cut(job, NAME_CHARS_MAX))
    } else {
        cut(job, NAME_CHARS_MAX)
    }
}

fn row(job: &Summary<'_>, of_several: bool) -> [String; 7] {
    let workers = workers_of(job.workers_computing, job.workers);
    [
        job_name(job.tenant, job.name, of_several),
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
