//! The machines of a job's readers, where they say what these have to spare: to a policy, one with the cores of all of them. Readers on
//! one machine have the same cores idle, which count once, and threads of their own.
//!
//! What workers send is finished by the readers' own processes. What a batch takes workers is measured as a whole; by how much that
//! would be more or less with another cut, the figures of ops say. Pure.

use std::collections::BTreeMap;

use forebay_policy::placement::{Finishing, Objective, Wire};
use forebay_policy::scaling::Host;
use forebay_proto::Spare;

use crate::state::scaling::placement::Costs;

/// Thousandths of a core, or of the time.
const MILLI: f64 = 1000.0;
/// More than any machine has.
pub(in crate::state) const MILLICORES_MAX: u32 = 1 << 24;

/// What one reader's machine had to spare in a window: sums over the times that it was said.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct Spared {
    /// What nobody had, and what the reader's threads had that compute.
    idle: u64,
    own: u64,
    pressure: u64,
    said: u64,
    /// As it was said last: all that the reader may use, whose they are, and whether it asks for threads.
    limit_millicores: u32,
    machine: u64,
    asks: bool,
}

impl Spared {
    pub(in crate::state) fn add(&mut self, spare: &Spare) {
        let all = spare.millicores.min(MILLICORES_MAX);
        let own = spare.own_millicores.min(all);
        self.idle += u64::from(all - own);
        self.own += u64::from(own);
        self.pressure += u64::from(spare.pressure.min(MILLI as u32));
        self.said += 1;
        self.limit_millicores = spare.limit_millicores.min(MILLICORES_MAX);
        (self.machine, self.asks) = (spare.machine, spare.asks);
    }

    fn is_said(&self) -> bool {
        self.said > 0
    }

    /// Says whether somebody is to decide how many threads compute beside it.
    pub(in crate::state) fn asks(&self) -> bool {
        self.asks
    }

    fn mean(&self, sum: u64) -> f64 {
        sum as f64 / MILLI / self.said.max(1) as f64
    }
}

/// Batches that were made in a window.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct Made {
    /// A second, by threads at readers whose number is decided on, and by workers.
    pub(in crate::state) here: f64,
    pub(in crate::state) remote: f64,
    /// Rows of one.
    pub(in crate::state) rows: f64,
    /// What one takes workers: seconds of one thread. `None` while that is not known.
    pub(in crate::state) compute: Option<f64>,
}

/// What it takes to send a byte of rows.
#[derive(Debug, Clone, Copy)]
pub(in crate::state) struct Sending(Wire);

impl Sending {
    /// Of a row's bytes, so many came over a network, of which each takes both sides as many seconds; the others were lent.
    pub(in crate::state) fn new(received: f64, row_bytes: f64, [send, receive]: [f64; 2]) -> Self {
        let share = if row_bytes > 0.0 { (received / row_bytes).min(1.0) } else { 0.0 };
        Self(Wire { send: send * share, receive: receive * share, bandwidth: None })
    }

    /// Returns seconds of a worker's thread for so many bytes.
    pub(in crate::state) fn by_worker(&self, bytes: f64) -> f64 {
        self.0.send * bytes
    }
}

/// One machine with cores of its own, as all readers on it say: cores.
#[derive(Debug, Clone, Copy, Default)]
struct Pool {
    limit: f64,
    /// Of each reader, added up; they all mean the same ones.
    idle: f64,
    readers: f64,
    /// Of all of their threads.
    own: f64,
    asks: bool,
}

impl Pool {
    /// Returns the machines, each of them once.
    fn of(readers: &[Spared]) -> Vec<Self> {
        let (mut shared, mut alone): (BTreeMap<u64, Self>, Vec<Self>) = Default::default();
        for said in readers.iter().filter(|said| said.is_said()) {
            if said.machine == 0 {
                alone.push(Self::default().with(said));
            } else {
                let pool = shared.entry(said.machine).or_default();
                *pool = pool.with(said);
            }
        }
        alone.extend(shared.into_values());
        alone
    }

    fn with(self, said: &Spared) -> Self {
        Self {
            limit: self.limit.max(f64::from(said.limit_millicores) / MILLI),
            idle: self.idle + said.mean(said.idle),
            readers: self.readers + 1.0,
            own: self.own + said.mean(said.own),
            asks: self.asks || said.asks,
        }
    }

    fn spare(&self) -> f64 {
        (self.idle / self.readers + self.own).min(self.limit)
    }

    /// Returns how many threads there may be.
    fn threads(&self) -> u32 {
        if self.asks { (self.limit as u32).max(1) } else { 0 }
    }
}

/// Returns the machines as one. `None` where there is nothing to say of them, nothing to choose, and nothing that a policy could not
/// take for granted.
pub(in crate::state) fn as_one(
    machines: &[Spared],
    made: &Made,
    costs: &Costs,
    sent: &Sending,
    objective: Objective,
) -> Option<Host> {
    let pools = Pool::of(machines);
    let is_told = !pools.is_empty();
    if !is_told && objective == Objective::Time && costs.len() == 1 {
        return None;
    }
    let limit: f64 = pools.iter().map(|pool| pool.limit).sum();
    let pressures = machines.iter().map(|machine| machine.mean(machine.pressure));
    let (after, bytes) = costs.now();
    Some(Host {
        cores: if is_told { limit.max(1.0) } else { 0.0 },
        spare: pools.iter().map(Pool::spare).sum(),
        pressure: pressures.fold(0.0, f64::max),
        local_max: pools.iter().map(Pool::threads).fold(0, u32::saturating_add),
        here: made.here,
        cuts: costs.of_batch(made.rows, made.compute.unwrap_or(0.0)),
        cut: costs.number(),
        wire: sent.0,
        finishing: Finishing::Reader,
        finishes: made.remote * made.rows * (after + sent.0.receive * bytes),
        objective,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::scaling::placement::Cuts;

    fn one_of(machines: &[Spared]) -> Host {
        let costs = Cuts::default().costs(&[]);
        let (made, sent) =
            (Made { here: 0.0, remote: 0.0, rows: 1.0, compute: Some(1.0) }, Sending::new(0.0, 1.0, [0.0; 2]));
        as_one(machines, &made, &costs, &sent, Objective::Time).expect("they say something")
    }

    fn said(spare: Spare) -> Spared {
        let mut machine = Spared::default();
        machine.add(&spare);
        machine
    }

    #[test]
    fn machines_that_say_nonsense_overflow_nothing() {
        let most = u32::MAX;
        let (millicores, limit_millicores, own_millicores, pressure) = (most, most, most, most);
        let spare =
            Spare { millicores, limit_millicores, own_millicores, pressure, threads: most, asks: true, machine: 0 };
        let one = one_of(&vec![said(spare); 1 << 19]);
        assert_eq!((one.local_max, one.pressure), (u32::MAX, 1.0));
    }

    #[test]
    fn readers_of_one_machine_have_its_idle_cores_once_and_threads_of_their_own() {
        // Of eight cores the trainers keep three busy, and their threads two and one.
        let of = |own_millicores, machine| {
            let millicores = 2000 + own_millicores;
            said(Spare { millicores, limit_millicores: 8000, own_millicores, machine, asks: true, ..Spare::default() })
        };
        let figures = |host: Host| (host.cores, host.spare, host.local_max);
        assert_eq!(figures(one_of(&[of(2000, 7), of(1000, 7)])), (8.0, 5.0, 8));
        assert_eq!(figures(one_of(&[of(2000, 7), of(1000, 8)])), (16.0, 7.0, 16), "two machines");
        assert_eq!(figures(one_of(&[of(2000, 0), of(1000, 0)])), (16.0, 7.0, 16), "which do not say whose they are");
    }

    #[test]
    fn no_threads_are_to_be_had_where_nobody_asks() {
        let spare = Spare { millicores: 2000, limit_millicores: 4000, pressure: 100, machine: 7, ..Spare::default() };
        let host = one_of(&[said(spare)]);
        assert_eq!((host.cores, host.spare, host.pressure, host.local_max), (4.0, 2.0, 0.1, 0));
        let host = one_of(&[said(spare), said(Spare { asks: true, machine: 8, ..spare })]);
        assert_eq!((host.cores, host.local_max), (8.0, 4), "beside the other alone");
    }
}
