//! Computes the next status of a cache from its last status and an observation. Pure, and without a clock.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::uses::Use;
use crate::api::status::whole;
use crate::api::{CacheBackend, CacheBackendStatus, CacheStatus, Condition, User};
use crate::engines::children::{Claim, Ensured, Failure};
use crate::engines::{Progress, engine_of};

/// Users that a status names.
const USERS_MAX: usize = 100;

/// The state that a reconcile observed.
pub(crate) struct Observation<'a> {
    pub(crate) now: Timestamp,
    pub(crate) uses: &'a [Use],
    /// The fault of the spec.
    pub(crate) invalid: Option<String>,
    /// The state of the children, the claim and the engine; `None` before the first attempt to create them.
    pub(crate) children: Option<Result<(Ensured, Claim, Progress), Failure>>,
}

/// Returns the next status.
pub(crate) fn next(cache: &CacheBackend, observed: &Observation<'_>) -> CacheBackendStatus {
    let mut status = cache.status.clone().unwrap_or_default();
    let (state, reason, message) = state(observed);
    status.cache_engine = engine_of(&cache.spec).map(|engine| engine.name().to_owned());
    (status.cache_status, status.reason, status.message) = (Some(state), Some(reason.to_owned()), Some(message));
    status.observed_generation = cache.metadata.generation;
    if let Some(Ok((_, _, progress))) = &observed.children {
        (status.cached, status.cached_percentage) = (progress.cached.clone(), progress.cached_percentage.clone());
        status.total.clone_from(&progress.total);
    }
    set_users(&mut status, cache, observed);
    let ready = is_ready(cache, &status);
    let condition = |type_: &str, is_true: bool, reason: &str, message: &str| Condition {
        type_: type_.to_owned(),
        status: if is_true { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: cache.metadata.generation,
        last_transition_time: None,
    };
    let (reason, message) = (status.reason.clone().unwrap_or_default(), status.message.clone().unwrap_or_default());
    match &ready {
        Ok(()) => status.set(observed.now, condition("Ready", true, &reason, &message)),
        Err(Some(percent)) => status.set(observed.now, condition("Ready", false, "NotCachedYet", percent)),
        Err(None) => status.set(observed.now, condition("Ready", false, &reason, &message)),
    }
    match observed.children.as_ref().and_then(|children| children.as_ref().ok()?.2.condition.as_ref()) {
        Some(of) => status.set(observed.now, condition("Cached", of.is_true, of.reason, &of.message)),
        None => status.unset("Cached"),
    }
    match conflict(cache, observed.uses) {
        Some(conflict) => status.set(observed.now, condition("SpecConflict", true, "JobsDiffer", &conflict)),
        None => status.unset("SpecConflict"),
    }
    status
}

fn state(observed: &Observation<'_>) -> (CacheStatus, &'static str, String) {
    if let Some(invalid) = &observed.invalid {
        return (CacheStatus::CacheFailed, "InvalidSpec", invalid.clone());
    }
    let report = |state, reason, message: &str| (state, reason, message.to_owned());
    match &observed.children {
        None => report(CacheStatus::CacheCreating, "Creating", "the engine's objects are being made"),
        Some(Err(failure)) => (CacheStatus::CacheFailed, failure.reason, failure.message.clone()),
        Some(Ok((Ensured::Blocked { reason, message }, _, _))) => (CacheStatus::CacheCreating, reason, message.clone()),
        Some(Ok((Ensured::Exists { drift }, claim, progress))) => match claim {
            Claim::NotOwned => report(
                CacheStatus::CacheFailed,
                "ClaimNotOwned",
                "a PersistentVolumeClaim of this name is there, and was not made for this cache: delete it, or choose another name",
            ),
            Claim::Absent => report(CacheStatus::PvcCreating, "ClaimAbsent", "the engine has not made the claim yet"),
            Claim::Terminating => report(
                CacheStatus::PvcCreating,
                "ClaimTerminating",
                "a claim of an earlier cache is still being deleted",
            ),
            Claim::Pending => {
                report(CacheStatus::PvcCreating, "ClaimPending", "the claim is not bound to its volume yet")
            }
            Claim::Bound => match (&progress.not_ready, drift) {
                (Some((reason, message)), _) if reason == "DatasetFailed" => {
                    (CacheStatus::CacheFailed, "DatasetFailed", message.clone())
                }
                (Some((_, message)), _) => (CacheStatus::PvcCreating, "EngineNotReady", message.clone()),
                (None, Some(drift)) => (CacheStatus::PvcCreated, "SpecChanged", drift.clone()),
                (None, None) => report(CacheStatus::PvcCreated, "ClaimBound", "pods can mount the claim"),
            },
        },
    }
}

fn set_users(status: &mut CacheBackendStatus, cache: &CacheBackend, observed: &Observation<'_>) {
    let mut users: Vec<User> = observed.uses.iter().map(|u| u.user.clone()).collect();
    users.sort();
    users.dedup();
    let made_for = cache.metadata.annotations.as_ref().and_then(|all| all.get(super::inline::MADE_FOR)).cloned();
    status.job_name = made_for.or_else(|| users.first().map(|u| u.name.clone())).or(status.job_name.take());
    status.used_num = i64::try_from(users.len()).unwrap_or(i64::MAX);
    let is_idle =
        users.is_empty() && matches!(status.cache_status, Some(CacheStatus::PvcCreated | CacheStatus::CacheFailed));
    status.last_used_time = match status.last_used_time.take() {
        _ if !is_idle => None,
        Some(since) => Some(since),
        None => Some(Time(whole(observed.now))),
    };
    users.truncate(USERS_MAX);
    status.used_by = users.iter().map(|u| u.name.clone()).collect();
    status.used_by.dedup();
    status.users = users;
}

/// Whether pods may run. The error has a message if only the cached percentage is too low.
pub(crate) fn is_ready(cache: &CacheBackend, status: &CacheBackendStatus) -> Result<(), Option<String>> {
    if status.cache_status != Some(CacheStatus::PvcCreated) {
        return Err(None);
    }
    let required = cache.spec.min_cached();
    let reported = status.cached_percentage.as_deref().unwrap_or_default();
    let cached: Option<f64> = reported.trim_end_matches('%').parse().ok();
    if required <= 0.0 || cached.is_some_and(|cached| cached >= required) {
        return Ok(());
    }
    let reported = if reported.is_empty() { "the engine does not say how much" } else { reported };
    Err(Some(format!("pods wait until {required} % are cached: {reported} so far")))
}

/// Returns a message with the workloads whose definition differs from the cache's spec.
fn conflict(cache: &CacheBackend, uses: &[Use]) -> Option<String> {
    let differs =
        |u: &&Use| u.desired.as_ref().is_some_and(|w| w.spec.is_definition() && !w.spec.is_same_cache(&cache.spec));
    let names: Vec<_> =
        uses.iter().filter(differs).take(5).map(|u| format!("{} {}", u.user.kind, u.user.name)).collect();
    (!names.is_empty()).then(|| {
        let names = names.join(", ");
        format!("defined otherwise by {names}: they get the cache as it is; give theirs another name")
    })
}

/// Seconds until the idle time is over; negative afterwards, and `None` for a cache with users or without idle time.
pub(crate) fn seconds_left(cache: &CacheBackend, status: &CacheBackendStatus, now: Timestamp) -> Option<i64> {
    let (idle, since) = (cache.spec.idle_seconds()?, status.last_used_time.as_ref()?);
    Some(idle.saturating_sub(now.as_second().saturating_sub(since.0.as_second()).max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(spec: &str) -> CacheBackend {
        CacheBackend::new("c", serde_json::from_str(spec).expect("a spec"))
    }

    fn observed<'a>(second: i64, children: Option<(Claim, Option<&str>)>, uses: &'a [Use]) -> Observation<'a> {
        let children = children.map(|(claim, percent)| {
            let progress = Progress { cached_percentage: percent.map(str::to_owned), ..Progress::default() };
            Ok((Ensured::Exists { drift: None }, claim, progress))
        });
        Observation { now: Timestamp::from_second(second).expect("a time"), uses, invalid: None, children }
    }

    #[test]
    fn a_cache_passes_through_its_states_and_its_idle_time_starts_without_users() {
        let mut cache = cache(r#"{"cacheEngine":{"forebay":{}},"options":{"idleTime":60,"minCachedPercent":50}}"#);
        let states = [
            (None, CacheStatus::CacheCreating, false),
            (Some((Claim::Absent, None)), CacheStatus::PvcCreating, false),
            (Some((Claim::Pending, None)), CacheStatus::PvcCreating, false),
            (Some((Claim::Bound, Some("49.9%"))), CacheStatus::PvcCreated, false),
            (Some((Claim::Bound, Some("50.0%"))), CacheStatus::PvcCreated, true),
            (Some((Claim::NotOwned, None)), CacheStatus::CacheFailed, false),
        ];
        for (children, expected, ready) in states {
            let status = next(&cache, &observed(100, children, &[]));
            assert_eq!(status.cache_status, Some(expected));
            assert_eq!(status.condition("Ready").map(|c| c.status == "True"), Some(ready), "{status:?}");
        }
        let bound = || Some((Claim::Bound, Some("100%")));
        cache.status = Some(next(&cache, &observed(100, bound(), &[])));
        let later = next(&cache, &observed(150, bound(), &[]));
        let at = |second| Timestamp::from_second(second).expect("a time");
        assert_eq!(seconds_left(&cache, &later, at(150)), Some(10));
        assert_eq!(seconds_left(&cache, &later, at(90)), Some(60), "a clock that is behind deletes nothing early");
        assert_eq!(
            later.conditions[0].last_transition_time,
            cache.status.as_ref().expect("it has a status").conditions[0].last_transition_time
        );
        let job = Use {
            cache: crate::cluster::Key::new("", "c"),
            user: User { name: "j".to_owned(), ..User::default() },
            object: User::default(),
            wait: super::super::uses::PodWait::None,
            fault: None,
            desired: None,
        };
        let used = next(&cache, &observed(150, bound(), &[job.clone(), job]));
        assert_eq!((used.used_num, used.used_by.clone(), used.last_used_time), (1, vec!["j".to_owned()], None));
    }
}
