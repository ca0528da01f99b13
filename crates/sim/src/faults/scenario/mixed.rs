//! Worlds with jobs that skip samples, whose consumers are coordinated, that have twins, and that are cancelled.

use super::{Fault, Scenario, Worlds};
use crate::faults::dice::Dice;
use crate::pipelines::drawing::PIPELINES;
use crate::pipelines::drawing::mixed::{is_mixed, number, twin};

/// Draws the pipeline of each job.
pub(super) fn jobs(worlds: Worlds, dice: &mut Dice) -> Vec<usize> {
    let drawn = |dice: &mut Dice| match worlds == Worlds::Mixed && dice.percent(75) {
        true => number(dice),
        false => dice.index(PIPELINES),
    };
    let mut jobs: Vec<_> = (0..dice.within(1..4)).map(|_| drawn(dice)).collect();
    // Jobs with the same samples have their splits at the same workers.
    match worlds {
        Worlds::Plain if jobs.len() > 1 && dice.percent(30) => jobs[1] = jobs[0],
        Worlds::Mixed if dice.percent(50) => {
            let first = jobs[0];
            let twins: Vec<_> = (0..dice.within(1..3)).map(|_| twin(first, dice)).collect();
            jobs.splice(1..jobs.len().min(1 + twins.len()), twins);
        }
        Worlds::Plain | Worlds::Mixed => {}
    }
    jobs
}

/// Draws the faults that only these worlds have.
pub(super) fn trouble(scenario: &mut Scenario) {
    let (mut dice, has_faults) = (Dice::new(scenario.seed, 4), !scenario.faults.is_empty());
    scenario.deaths = dice.pick(&[0, 0, 3, 10, 30]);
    for consumer in &mut scenario.consumers {
        consumer.lent = dice.percent(60);
    }
    // Consumers of other jobs may end epochs together, and would wait for one that has failed or whose job is gone.
    if dice.percent(15) {
        let poison = (dice.index(scenario.jobs.len()), dice.within(0..1 << 20));
        scenario.poison = Some(poison).filter(|(job, _)| is_mixed(scenario.jobs[*job]));
    }
    if has_faults && dice.percent(35) {
        let (job, at) = (dice.index(scenario.jobs.len()), dice.within(0..scenario.heals));
        if is_mixed(scenario.jobs[job]) {
            scenario.faults.push((at, Fault::Cancel { job }));
            scenario.faults.sort_by_key(|(at, _)| *at);
        }
    }
}
