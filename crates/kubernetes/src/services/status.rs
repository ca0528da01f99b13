//! Computes the next status of a service from its last status and an observation. Pure, and without a clock.

use jiff::Timestamp;

use crate::api::Condition;
use crate::api::service_status::{ServiceStatus, WorkerTypeStatus};

/// The observed dispatchers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Dispatchers {
    pub(crate) replicas: u32,
    pub(crate) ready: u32,
    /// All are ready, with the current spec.
    pub(crate) rolled_out: bool,
}

/// The state that a reconcile observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observation {
    pub(crate) now: Timestamp,
    pub(crate) generation: Option<i64>,
    pub(crate) address: Option<String>,
    pub(crate) dispatchers: Dispatchers,
    pub(crate) workers: Vec<WorkerTypeStatus>,
    /// The first fault: a reason and a sentence.
    pub(crate) fault: Option<(&'static str, String)>,
    /// A message about the terminating object that blocks the service.
    pub(crate) blocked_by: Option<String>,
}

/// Returns the next status.
pub(crate) fn next(old: &ServiceStatus, observed: &Observation) -> ServiceStatus {
    let sum = |of: fn(&WorkerTypeStatus) -> u32| observed.workers.iter().map(of).fold(0, u32::saturating_add);
    let (replicas, ready) = (sum(|w| w.replicas), sum(|w| w.ready));
    let is_known = !observed.workers.is_empty() && observed.workers.iter().all(|w| w.wanted.is_some());
    let wanted = is_known.then(|| sum(|w| w.wanted.unwrap_or(0)).to_string());
    let mut status = ServiceStatus {
        observed_generation: observed.generation,
        address: observed.address.clone().or_else(|| old.address.clone()),
        dispatchers_ready: Some(format!("{}/{}", observed.dispatchers.ready, observed.dispatchers.replicas)),
        workers_ready: Some(format!("{ready}/{replicas}")),
        workers_wanted: wanted,
        reason: None,
        workers: observed.workers.clone(),
        conditions: old.conditions.clone(),
    };
    let serves = match (observed.dispatchers.ready, ready) {
        (0, _) => Err(("DispatcherNotReady", "no dispatcher is ready".to_owned())),
        (_, 0) if replicas > 0 => Err(("NoWorkerReady", "no worker is ready".to_owned())),
        (dispatchers, workers) => Ok(format!("ready dispatchers: {dispatchers}, ready workers: {workers}")),
    };
    let progress = progress(observed);
    let (is_ready, why, message) = match serves {
        Ok(message) => (true, "Serving", message),
        Err((why, message)) => (false, why, message),
    };
    status.reason = match (&observed.fault, is_ready, &progress) {
        (Some((reason, _)), _, _) => Some((*reason).to_owned()),
        (None, false, _) => Some(why.to_owned()),
        (None, true, Some((reason, _))) => Some((*reason).to_owned()),
        (None, true, None) => None,
    };
    set_condition(&mut status, observed, "Ready", is_ready, why, &message);
    match (&progress, &observed.fault) {
        (Some((reason, message)), _) => set_condition(&mut status, observed, "Progressing", true, reason, message),
        (None, Some((reason, message))) => set_condition(&mut status, observed, "Progressing", false, reason, message),
        (None, None) => {
            set_condition(&mut status, observed, "Progressing", false, "Complete", "all pods are there, and ready")
        }
    }
    match &observed.fault {
        Some((reason, message)) => set_condition(&mut status, observed, "Degraded", true, reason, message),
        None => {
            set_condition(&mut status, observed, "Degraded", false, "AsDescribed", "all parts are as the spec says")
        }
    }
    status
}

/// Returns the reason and message of `Progressing`; `None` while the operator cannot apply the spec.
fn progress(observed: &Observation) -> Option<(&'static str, String)> {
    if let Some(blocked_by) = &observed.blocked_by {
        return Some(("Waiting", blocked_by.clone()));
    }
    if observed.fault.as_ref().is_some_and(|(reason, _)| *reason != "PodsMissing") {
        return None;
    }
    if !observed.dispatchers.rolled_out {
        let (ready, replicas) = (observed.dispatchers.ready, observed.dispatchers.replicas);
        let message = format!("{ready} of {replicas} dispatchers are ready; workers follow when all are, and new");
        return Some(("DispatcherRollsOut", message));
    }
    let incomplete = observed.workers.iter().find(|w| w.ready < w.replicas || w.updated < w.replicas)?;
    let WorkerTypeStatus { name, replicas, ready, updated, .. } = incomplete;
    Some(("WorkersRollOut", format!("{ready} of {replicas} workers of type {name} are ready, {updated} are new")))
}

fn set_condition(
    status: &mut ServiceStatus,
    observed: &Observation,
    type_: &str,
    is_true: bool,
    reason: &str,
    message: &str,
) {
    let condition = Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: observed.generation,
        last_transition_time: None,
    };
    crate::api::status::set(&mut status.conditions, observed.now, condition);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conditions(status: &ServiceStatus) -> [(&str, &str); 3] {
        ["Ready", "Progressing", "Degraded"].map(|type_| {
            let found = status.conditions.iter().find(|c| c.type_ == type_).expect("it is told");
            (found.status.as_str(), found.reason.as_str())
        })
    }

    #[test]
    fn a_service_comes_up_scales_and_degrades() {
        let workers = |replicas, ready, updated| {
            vec![WorkerTypeStatus { name: "cpu".to_owned(), wanted: Some(3), replicas, ready, updated }]
        };
        let mut observed = Observation { workers: workers(1, 0, 1), ..Observation::default() };
        observed.dispatchers = Dispatchers { replicas: 1, ready: 0, rolled_out: false };
        let first = next(&ServiceStatus::default(), &observed);
        let expected = [("False", "DispatcherNotReady"), ("True", "DispatcherRollsOut"), ("False", "AsDescribed")];
        assert_eq!(conditions(&first), expected);
        assert_eq!(first.workers_wanted.as_deref(), Some("3"));

        observed.dispatchers = Dispatchers { replicas: 1, ready: 1, rolled_out: true };
        assert_eq!(conditions(&next(&first, &observed))[..2], [("False", "NoWorkerReady"), ("True", "WorkersRollOut")]);
        observed.workers = workers(3, 3, 3);
        let serves = next(&first, &observed);
        assert_eq!(conditions(&serves), [("True", "Serving"), ("False", "Complete"), ("False", "AsDescribed")]);
        assert_eq!((serves.reason.as_deref(), serves.workers_ready.as_deref()), (None, Some("3/3")));

        // A service that serves stays Ready when its spec becomes invalid.
        observed.fault = Some(("InvalidSpec", "spec.image is missing".to_owned()));
        let fault = next(&serves, &observed);
        assert_eq!(conditions(&fault), [("True", "Serving"), ("False", "InvalidSpec"), ("True", "InvalidSpec")]);
        assert_eq!(fault.reason.as_deref(), Some("InvalidSpec"));

        observed.fault = Some(("PodsMissing", "no node".to_owned()));
        observed.workers = workers(3, 2, 3);
        let missing = next(&serves, &observed);
        assert_eq!(conditions(&missing), [("True", "Serving"), ("True", "WorkersRollOut"), ("True", "PodsMissing")]);
    }

    #[test]
    fn a_service_with_zero_desired_workers_is_ready_without_them() {
        let dispatchers = Dispatchers { replicas: 1, ready: 1, rolled_out: true };
        let workers = vec![WorkerTypeStatus { name: "cpu".to_owned(), ..WorkerTypeStatus::default() }];
        let observed = Observation { dispatchers, workers, ..Observation::default() };
        let status = next(&ServiceStatus::default(), &observed);
        assert_eq!(conditions(&status)[0], ("True", "Serving"));
        assert_eq!(status.workers_wanted, None, "not known is not none");
    }
}
