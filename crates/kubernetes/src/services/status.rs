//! Computes the next status of a service from the last one and from what a look saw. Pure, and without a clock.

use jiff::Timestamp;

use crate::api::Condition;
use crate::api::service_status::{ServiceStatus, WorkersTold};

/// The dispatchers that were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Dispatchers {
    pub(crate) replicas: u32,
    pub(crate) ready: u32,
    /// All are there, of the newest spec, and ready.
    pub(crate) rolled_out: bool,
}

/// What a look saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observation {
    pub(crate) now: Timestamp,
    pub(crate) generation: Option<i64>,
    pub(crate) address: Option<String>,
    pub(crate) dispatchers: Dispatchers,
    pub(crate) workers: Vec<WorkersTold>,
    /// The first fault: a reason and a sentence.
    pub(crate) wrong: Option<(&'static str, String)>,
    /// The object whose deletion the service waits for.
    pub(crate) waits: Option<String>,
}

/// Returns the next status.
pub(crate) fn next(old: &ServiceStatus, seen: &Observation) -> ServiceStatus {
    let sum = |of: fn(&WorkersTold) -> u32| seen.workers.iter().map(of).fold(0, u32::saturating_add);
    let (replicas, ready) = (sum(|w| w.replicas), sum(|w| w.ready));
    let is_known = !seen.workers.is_empty() && seen.workers.iter().all(|w| w.wanted.is_some());
    let wanted = is_known.then(|| sum(|w| w.wanted.unwrap_or(0)).to_string());
    let mut status = ServiceStatus {
        observed_generation: seen.generation,
        address: seen.address.clone().or_else(|| old.address.clone()),
        dispatchers_ready: Some(format!("{}/{}", seen.dispatchers.ready, seen.dispatchers.replicas)),
        workers_ready: Some(format!("{ready}/{replicas}")),
        workers_wanted: wanted,
        reason: None,
        workers: seen.workers.clone(),
        conditions: old.conditions.clone(),
    };
    let serves = match (seen.dispatchers.ready, ready) {
        (0, _) => Err(("DispatcherNotReady", "no dispatcher is ready".to_owned())),
        (_, 0) if replicas > 0 => Err(("NoWorkerReady", "no worker is ready".to_owned())),
        (dispatchers, workers) => Ok(format!("ready dispatchers: {dispatchers}, ready workers: {workers}")),
    };
    let progress = progress(seen);
    let (is_ready, why, message) = match serves {
        Ok(message) => (true, "Serving", message),
        Err((why, message)) => (false, why, message),
    };
    status.reason = match (&seen.wrong, is_ready, &progress) {
        (Some((reason, _)), _, _) => Some((*reason).to_owned()),
        (None, false, _) => Some(why.to_owned()),
        (None, true, Some((reason, _))) => Some((*reason).to_owned()),
        (None, true, None) => None,
    };
    tell(&mut status, seen, "Ready", is_ready, why, &message);
    match (&progress, &seen.wrong) {
        (Some((reason, message)), _) => tell(&mut status, seen, "Progressing", true, reason, message),
        (None, Some((reason, message))) => tell(&mut status, seen, "Progressing", false, reason, message),
        (None, None) => tell(&mut status, seen, "Progressing", false, "Complete", "all pods are there, and ready"),
    }
    match &seen.wrong {
        Some((reason, message)) => tell(&mut status, seen, "Degraded", true, reason, message),
        None => tell(&mut status, seen, "Degraded", false, "AsDescribed", "all parts are as the spec says"),
    }
    status
}

/// Returns what is under way; nothing while the operator cannot carry out the spec.
fn progress(seen: &Observation) -> Option<(&'static str, String)> {
    if let Some(waits) = &seen.waits {
        return Some(("Waiting", waits.clone()));
    }
    if seen.wrong.as_ref().is_some_and(|(reason, _)| *reason != "PodsMissing") {
        return None;
    }
    if !seen.dispatchers.rolled_out {
        let (ready, replicas) = (seen.dispatchers.ready, seen.dispatchers.replicas);
        let message = format!("{ready} of {replicas} dispatchers are ready; workers follow when all are, and new");
        return Some(("DispatcherRollsOut", message));
    }
    let late = seen.workers.iter().find(|w| w.ready < w.replicas || w.updated < w.replicas)?;
    let WorkersTold { name, replicas, ready, updated, .. } = late;
    Some(("WorkersRollOut", format!("{ready} of {replicas} workers of type {name} are ready, {updated} are new")))
}

fn tell(status: &mut ServiceStatus, seen: &Observation, type_: &str, is_true: bool, reason: &str, message: &str) {
    let condition = Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: seen.generation,
        last_transition_time: None,
    };
    crate::api::status::set(&mut status.conditions, seen.now, condition);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: &ServiceStatus) -> [(&str, &str); 3] {
        ["Ready", "Progressing", "Degraded"].map(|type_| {
            let found = status.conditions.iter().find(|c| c.type_ == type_).expect("it is told");
            (found.status.as_str(), found.reason.as_str())
        })
    }

    #[test]
    fn a_service_comes_up_scales_and_is_hindered() {
        let workers = |replicas, ready, updated| {
            vec![WorkersTold { name: "cpu".to_owned(), wanted: Some(3), replicas, ready, updated }]
        };
        let mut seen = Observation { workers: workers(1, 0, 1), ..Observation::default() };
        seen.dispatchers = Dispatchers { replicas: 1, ready: 0, rolled_out: false };
        let first = next(&ServiceStatus::default(), &seen);
        let expected = [("False", "DispatcherNotReady"), ("True", "DispatcherRollsOut"), ("False", "AsDescribed")];
        assert_eq!(told(&first), expected);
        assert_eq!(first.workers_wanted.as_deref(), Some("3"));

        seen.dispatchers = Dispatchers { replicas: 1, ready: 1, rolled_out: true };
        assert_eq!(told(&next(&first, &seen))[..2], [("False", "NoWorkerReady"), ("True", "WorkersRollOut")]);
        seen.workers = workers(3, 3, 3);
        let serves = next(&first, &seen);
        assert_eq!(told(&serves), [("True", "Serving"), ("False", "Complete"), ("False", "AsDescribed")]);
        assert_eq!((serves.reason.as_deref(), serves.workers_ready.as_deref()), (None, Some("3/3")));

        // What serves goes on to serve when its spec becomes wrong.
        seen.wrong = Some(("InvalidSpec", "spec.image is missing".to_owned()));
        let wrong = next(&serves, &seen);
        assert_eq!(told(&wrong), [("True", "Serving"), ("False", "InvalidSpec"), ("True", "InvalidSpec")]);
        assert_eq!(wrong.reason.as_deref(), Some("InvalidSpec"));

        seen.wrong = Some(("PodsMissing", "no node".to_owned()));
        seen.workers = workers(3, 2, 3);
        let missing = next(&serves, &seen);
        assert_eq!(told(&missing), [("True", "Serving"), ("True", "WorkersRollOut"), ("True", "PodsMissing")]);
    }

    #[test]
    fn a_service_whose_workers_may_be_none_serves_without_them() {
        let dispatchers = Dispatchers { replicas: 1, ready: 1, rolled_out: true };
        let workers = vec![WorkersTold { name: "cpu".to_owned(), ..WorkersTold::default() }];
        let seen = Observation { dispatchers, workers, ..Observation::default() };
        let status = next(&ServiceStatus::default(), &seen);
        assert_eq!(told(&status)[0], ("True", "Serving"));
        assert_eq!(status.workers_wanted, None, "not known is not none");
    }
}
