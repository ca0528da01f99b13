//! Makes the sentence from the figures.

use super::{Bound, Figures, Hold, Need, Verdict};

/// If training waits for a larger share of its time, data is the bottleneck.
const WAITED_MAX: f64 = 0.05;
/// With reports of fewer seconds, the bottleneck is unknown.
const SECONDS_MIN: f64 = 2.0;
/// The most avoided workers in a sentence.
const AVOIDED_NAMED_MAX: usize = 3;
/// A time of at least this many seconds is called a minute.
const MINUTE: f64 = 50.0;

/// Returns the bottleneck of a job with these figures.
pub fn judge(of: &Figures) -> Verdict {
    let (bound, sentence) = match &*of.state {
        "finished" => (Bound::Nothing, "The job is finished.".to_owned()),
        "cancelled" => (Bound::Nothing, "The job was cancelled.".to_owned()),
        _ if of.attached == 0 => (Bound::Nothing, "No process reads this job: no trainer is attached.".to_owned()),
        "waiting for workers" => {
            (Bound::Data, "Data is the bottleneck: no worker computes for this job. Start one.".to_owned())
        }
        _ => match of.recent.waited.filter(|_| of.recent.seconds >= SECONDS_MIN) {
            None => (Bound::Unknown, "Nothing is known yet: the trainers have reported too little.".to_owned()),
            Some(waited) if waited > WAITED_MAX => (Bound::Data, data(of, waited)),
            Some(waited) => (Bound::Training, training(of, waited)),
        },
    };
    let sentence = match bound {
        Bound::Nothing => sentence,
        _ => sentence + &avoided(of),
    };
    let is_known = matches!(bound, Bound::Data | Bound::Training);
    let workers_more = match (is_known, of.hold, more(of)) {
        (false, ..) | (_, Some(Hold::InProcess), _) => None,
        (true, Some(_), _) if bound == Bound::Data => Some(0),
        (true, _, more) => more,
    };
    Verdict { bound, sentence, op: of.op.as_ref().map(|op| op.name.clone()), workers_more }
}

/// Returns which workers the consumers avoid, and why, in words; empty if they avoid none.
fn avoided(of: &Figures) -> String {
    let named: Vec<_> = of.avoided.iter().take(AVOIDED_NAMED_MAX).map(String::as_str).collect();
    match (named.is_empty(), of.avoided.len() - named.len()) {
        (true, _) => String::new(),
        (false, 0) => format!(" Some workers are not used: {}.", named.join("; ")),
        (false, more) => format!(" Some workers are not used: {}; and {more} more.", named.join("; ")),
    }
}

/// Returns how many more workers are needed; below 0, how many fewer.
fn more(of: &Figures) -> Option<i64> {
    match of.need {
        Need::Unknown => None,
        Need::Wanted(n) | Need::Estimated(n) => Some(i64::from(n) - i64::from(of.workers)),
    }
}

fn data(of: &Figures, waited: f64) -> String {
    let span = span(of.recent.seconds);
    let waits = match of.recent.batches_per_s {
        rate if rate > 0.0 => format!("training waited {} of the last {span}", percent(waited)),
        _ => format!("training got no batch in the last {span}"),
    };
    let now = match of.waiting_s {
        s if s >= 10.0 => format!(", and it waits for {s:.0} s now"),
        _ => String::new(),
    };
    let remedy = remedy(of);
    let first = format!("Data is the bottleneck: {waits}{now}.");
    match &of.op {
        Some(op) => format!("{first} {} takes {} of the CPU{}", op.name, percent(op.share), after_op(&remedy)),
        None if remedy.is_empty() => first,
        None => format!("{first} {}.", capital(&remedy)),
    }
}

fn after_op(remedy: &str) -> String {
    if remedy.is_empty() { ".".to_owned() } else { format!("; {remedy}.") }
}

/// Returns the remedy for the wait, in words; empty if none is known.
fn remedy(of: &Figures) -> String {
    let now = of.workers;
    if of.op.as_ref().is_some_and(|op| op.is_at_trainer && op.share >= 0.5) {
        return "it runs at the trainer, so more workers would not help".to_owned();
    }
    match of.hold {
        Some(Hold::Shared) => {
            return "more workers would bring no more: something that they share, such as the store or the network, holds them \
                    up"
            .to_owned();
        }
        Some(Hold::Ahead) => return "the workers make enough: training waits for single late splits".to_owned(),
        Some(Hold::AtMost(needed, limit)) => {
            return format!("{} are needed, and {limit} are allowed", workers(i64::from(needed)));
        }
        Some(Hold::Unmet) => return "more workers were tried and did not help".to_owned(),
        Some(Hold::InProcess) => {
            return "all of it runs in this process, and workers of a service would share the work".to_owned();
        }
        None => {}
    }
    match (of.need, more(of)) {
        (Need::Wanted(_), Some(more)) if more > 0 => {
            format!("{} (now {now}) would remove the wait{}", more_workers(more), price(of, more))
        }
        (Need::Estimated(_), Some(more)) if more > 0 => {
            format!("about {} (now {now}) would remove the wait{}", more_workers(more), price(of, more))
        }
        (Need::Wanted(_), Some(_)) => format!("the service finds {} right, and watches", workers(i64::from(now))),
        _ => String::new(),
    }
}

fn training(of: &Figures, waited: f64) -> String {
    let span = span(of.recent.seconds);
    let first = match of.recent.batches_per_s {
        rate if rate > 0.0 => {
            format!("Training is the bottleneck: it waited {} of the last {span}.", percent(waited))
        }
        _ => format!("Training is the bottleneck: it has taken no batch for the last {span}."),
    };
    match (of.need, more(of)) {
        (Need::Wanted(enough), Some(more)) if more < 0 => {
            let saved = price(of, more);
            format!("{first} {} would do (now {}{saved}).", workers(i64::from(enough)), of.workers)
        }
        (Need::Wanted(_), Some(0)) => {
            let are = if of.workers == 1 { "is" } else { "are" };
            format!("{first} {} {are} right.", workers(i64::from(of.workers)))
        }
        _ => first,
    }
}

/// Returns the change of the price with `more` workers (below 0: fewer), in words; empty without a price.
fn price(of: &Figures, more: i64) -> String {
    let Some(price) = of.price else { return String::new() };
    let each_hour = price * more.unsigned_abs() as f64;
    if more > 0 { format!(" for {each_hour:.2} an hour more") } else { format!(", {each_hour:.2} an hour less") }
}

fn workers(count: i64) -> String {
    if count == 1 { "1 worker".to_owned() } else { format!("{count} workers") }
}

fn more_workers(count: i64) -> String {
    if count == 1 { "1 more worker".to_owned() } else { format!("{count} more workers") }
}

fn span(seconds: f64) -> String {
    if seconds >= MINUTE { "minute".to_owned() } else { format!("{seconds:.0} s") }
}

fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent > 0.0 && percent < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
