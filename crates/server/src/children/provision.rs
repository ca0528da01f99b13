//! Workers of this machine, as children: as many as the dispatcher wants.
//!
//! On other machines another provisioner, such as `forebay.ray` in Python, starts workers. The reconciler of `policy`
//! decides the actions. A worker that is not needed any more gets SIGTERM: it computes and serves the splits that it
//! holds, and nothing is computed twice. A worker that cannot start, or dies, is reported with its cause and its last
//! output, and another one starts after the reconciler's pause. While the dispatcher reports no number (it restarts, or
//! has no measurement yet), the workers stay.

#![expect(clippy::disallowed_methods, reason = "a thread starts and ends workers, and looks at them now and then")]

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use forebay_client::{Remote, Service};
use forebay_core::{Clock, Error, Result, SystemClock, Ticks};
use forebay_policy::provision::{Action, Reconciler, WorkerCounts};

use crate::children::fleet::{Fleet, Phase};
use crate::children::patience::START;

/// One at a time: they share this machine, and a start takes its cores.
const AT_ONCE: u32 = 1;
/// How often the workers are checked.
const LOOK: Duration = Duration::from_millis(250);
/// How long the dispatcher may take to report the wanted number.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How long a worker may take to leave: longer than it waits for its consumers.
const LEAVE_MAX: Duration = Duration::from_secs(15);
/// A worker that has run for this long counts as able to run.
const LIVES: Duration = Duration::from_secs(10);

/// Reconciles until the fleet is closed, or gone.
///
/// # Errors
/// Exhausted when no thread can be started.
pub(crate) fn start(fleet: &Arc<Mutex<Fleet>>, address: String, workers_max: u32) -> Result<()> {
    let fleet = Arc::downgrade(fleet);
    let run = move || {
        let mut reconciler = Reconciler::new(1, workers_max, AT_ONCE);
        let clock = SystemClock::default();
        let mut service = None;
        while is_open(&fleet) {
            let wanted = wanted(&mut service, &address);
            let Some(fleet) = fleet.upgrade() else { return };
            let mut fleet = fleet.lock().unwrap_or_else(PoisonError::into_inner);
            if !fleet.closed {
                reconcile(&mut fleet, &mut reconciler, &clock, wanted);
            }
            drop(fleet);
            std::thread::sleep(LOOK);
        }
    };
    std::thread::Builder::new().name("forebay-scale".to_owned()).spawn(run)?;
    Ok(())
}

fn is_open(fleet: &Weak<Mutex<Fleet>>) -> bool {
    fleet.upgrade().is_some_and(|fleet| !fleet.lock().unwrap_or_else(PoisonError::into_inner).closed)
}

/// Returns the wanted number, or `None` if the dispatcher has none, or does not answer.
fn wanted(service: &mut Option<Service>, address: &str) -> Option<u32> {
    let mut go_on = || Ok(());
    if service.is_none() {
        *service = Service::connect(Remote::new(address), ANSWER_MAX, &mut go_on).ok();
    }
    let answer = service.as_ref()?.scale(&mut go_on);
    answer.ok().map(|scale| scale.wanted).filter(|&wanted| wanted > 0)
}

fn reconcile(fleet: &mut Fleet, reconciler: &mut Reconciler, clock: &SystemClock, wanted: Option<u32>) {
    let mut failures = Vec::new();
    let now = clock.now();
    let seen = look(fleet, reconciler, now, &mut failures);
    let done = match reconciler.next(now, wanted, seen) {
        Action::Keep => Ok(()),
        Action::StartOne => fleet.add_worker().map(|pid| tracing::info!(pid, ?seen, wanted, "started a worker")),
        Action::EndOne => {
            // The newest: it may not be ready yet, and the oldest have the most in their caches.
            if let Some(place) = fleet.workers.iter_mut().rev().find(|place| !matches!(place.phase, Phase::Leaving(_)))
            {
                tracing::info!(pid = place.child.pid(), ?seen, wanted, "told a worker to leave");
                place.child.terminate();
                place.phase = Phase::Leaving(Instant::now());
            }
            Ok(())
        }
    };
    failures.extend(done.err());
    for error in failures {
        let pause = reconciler.failed(clock.now());
        let stderr = error.get("stderr").unwrap_or_default();
        tracing::error!(
            error = error.message(),
            stderr,
            ?pause,
            "a worker failed; another one is started after a pause"
        );
    }
}

/// Counts the workers, removes the workers that have ended, and adds the unexpected ends to `failures`.
fn look(fleet: &mut Fleet, reconciler: &mut Reconciler, now: Ticks, failures: &mut Vec<Error>) -> WorkerCounts {
    let mut seen = WorkerCounts::default();
    fleet.workers.retain_mut(|place| {
        let ended = place.child.ended();
        if let Phase::Starting(since) = place.phase {
            if place.child.listens().is_ok_and(|address| address.is_some()) {
                place.phase = Phase::Running(Instant::now());
            } else if ended.is_none() && since.elapsed() > START.most {
                failures.push(place.child.unavailable("did not listen in time"));
                place.child.kill();
                return false;
            }
        }
        match (ended, place.phase) {
            (Some(_), Phase::Leaving(_)) => return false,
            (Some(status), _) => {
                failures.push(place.child.unavailable(&format!("ended ({status})")));
                return false;
            }
            (None, Phase::Starting(_)) => seen.starting += 1,
            (None, Phase::Running(since)) => {
                seen.running += 1;
                let age = since.elapsed();
                if age > LIVES {
                    reconciler.lives(Ticks(now.0.saturating_sub(age.as_millis() as u64)));
                }
            }
            (None, Phase::Leaving(since)) => {
                seen.leaving += 1;
                if since.elapsed() > LEAVE_MAX {
                    place.child.kill();
                }
            }
        }
        true
    });
    seen
}
