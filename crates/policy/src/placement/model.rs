//! The rates and costs of a placement, in closed form.
//!
//! The reader's threads first finish the rows that workers send, and make whole batches with the rest of their time.
//! Receiving takes spare cores before they do; without spare cores, nothing more can be received. With
//! [`Manners::SpareOnly`] the threads get only idle cores (idle priority), with [`Manners::Fair`] their share of all
//! cores, which the trainer loses. In a service the reader's own process finishes the rows that workers send
//! ([`Finishing::Reader`]): no thread is counted for that, and without spare cores it takes the trainer's. That may be
//! cheaper than a worker, but is not requested ([`Model::leaves_cores`]).
//!
//! Invariant: all rates are of a steady state, constant for as long as the placement and the model are.

use std::sync::Arc;

use forebay_core::{Error, Result};

use super::Placement;

/// The most cuts of a pipeline, which are as many as its ops.
pub const CUTS_MAX: usize = 1024;
/// More seconds, bytes or cores than anything has.
const LARGE: f64 = 1e15;
/// The share of all cores that the trainer may lack because of the cut: too little to show.
const CROWD_MAX: f64 = 0.01;

/// A place where a pipeline may be cut in two. All figures are of one batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cut {
    /// Seconds of one thread for the ops before it.
    pub before: f64,
    /// Seconds of one thread for the ops after it.
    pub after: f64,
    /// Bytes sent with this cut.
    pub bytes: f64,
}

/// The costs and the limit of sending.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Wire {
    /// Seconds of a worker's thread for a byte.
    pub send: f64,
    /// Cores of the reader's machine: seconds for a byte.
    pub receive: f64,
    /// Bytes a second into the reader's machine; `None` if unlimited or unknown.
    pub bandwidth: Option<f64>,
}

/// How threads share the reader's machine with the trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manners {
    /// The threads get only idle cores.
    SpareOnly,
    /// All runnable threads get the same share.
    Fair,
}

/// Where the ops behind the cut run on the rows that workers send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Finishing {
    /// In the threads on the reader's machine that also make whole batches; without any, a cut pipeline delivers
    /// nothing.
    #[default]
    Threads,
    /// In the reader's own process, as chunks arrive: it takes spare cores, and beyond these the trainer's.
    Reader,
}

/// The reader's machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Its cores.
    pub cores: f64,
    /// Cores that the trainer, and other processes there, keep busy.
    pub used: f64,
    /// How threads share the cores.
    pub manners: Manners,
    /// The share by which a step becomes longer while all cores compute input, because caches and memory are shared
    /// too.
    pub interference: f64,
}

/// A job, its workers and its reader's machine, as far as placement needs them.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Seconds of a step that neither waits nor is held up.
    pub step: f64,
    /// The possible cuts: after the first op, the second, and so on to the last. Before and after add up to the same
    /// for each.
    pub cuts: Arc<[Cut]>,
    /// The costs and the limit of sending.
    pub wire: Wire,
    /// Threads of a worker.
    pub threads: f64,
    /// The share of a worker's computing time that reaches the trainer, above 0 up to 1 (or a little more, if
    /// measured).
    pub efficiency: f64,
    /// Batches a second that all workers together can bring at most.
    pub shared_limit: Option<f64>,
    /// The reader's machine; `None` if its threads compute nothing, and its process's work costs nothing.
    pub machine: Option<Machine>,
    /// Where the rows that workers send are finished.
    pub finishing: Finishing,
}

impl Cut {
    /// Returns the cuts of ops that take (seconds of one thread, bytes after it) for a batch, in their order.
    pub fn of_ops(ops: &[(f64, f64)]) -> Arc<[Self]> {
        let whole: f64 = ops.iter().map(|op| op.0).sum();
        let of = |before: &mut f64, &(cost, bytes): &(f64, f64)| {
            *before += cost;
            Some(Self { before: *before, after: (whole - *before).max(0.0), bytes })
        };
        ops.iter().scan(0.0, of).collect()
    }

    fn is_sound(&self) -> bool {
        [self.before, self.after, self.bytes].iter().all(|figure| (0.0..=LARGE).contains(figure))
    }
}

impl Model {
    /// Checks that its figures are possible.
    ///
    /// # Errors
    /// Names the impossible figure and its valid range.
    pub fn check(&self) -> Result<()> {
        let told = |what: String, hint: &str| Err(Error::invalid(what).hint(hint));
        let positive = |figure: f64| figure > 0.0 && figure <= LARGE;
        if !(1..=CUTS_MAX).contains(&self.cuts.len()) {
            return told(format!("{} ops", self.cuts.len()), &format!("give 1 to {CUTS_MAX}"));
        }
        if !self.cuts.iter().all(Cut::is_sound) || !positive(self.whole()) {
            return told(
                "ops that cost no time, or whose figures are no numbers".to_owned(),
                "give what each costs a thread for a batch, and its bytes",
            );
        }
        let Wire { send, receive, bandwidth } = self.wire;
        if ![send, receive].iter().all(|cost| (0.0..=LARGE).contains(cost)) {
            return told(format!("sending costs {send} and receiving {receive} s a byte"), "give 0 or more");
        }
        if let Some(limit) = bandwidth.filter(|limit| !positive(*limit)) {
            return told(
                format!("a network of {limit} bytes/s"),
                "give a number above 0, or none where nothing limits it",
            );
        }
        for (what, figure) in
            [("a step", self.step), ("the efficiency", self.efficiency), ("a worker's threads", self.threads)]
        {
            if !positive(figure) {
                return told(format!("{what} is {figure}"), "give a number above 0");
            }
        }
        self.machine.map_or(Ok(()), |machine| machine.check())
    }

    /// Returns the cut of a placement; one beyond the last op counts as the last.
    pub fn cut(&self, at: Placement) -> Cut {
        let place = (at.cut.max(1) as usize).min(self.cuts.len()) - 1;
        self.cuts.get(place).copied().unwrap_or(Cut { before: 0.0, after: 0.0, bytes: 0.0 })
    }

    /// Returns the number of ops.
    pub fn ops(&self) -> u32 {
        self.cuts.len() as u32
    }

    /// Returns the seconds of one thread for all ops of a batch.
    pub fn whole(&self) -> f64 {
        self.cuts.last().map_or(0.0, |cut| cut.before + cut.after)
    }

    /// Returns the cores that are free without taking them from the trainer.
    pub fn spare(&self) -> f64 {
        self.machine.map_or(0.0, |machine| (machine.cores - machine.used).max(0.0))
    }

    /// Returns the batches a second of one worker with this cut.
    pub fn supply(&self, cut: Cut) -> f64 {
        self.threads * self.efficiency / (cut.before + self.wire.send * cut.bytes)
    }

    /// Returns the batches a second that workers and wire bring, if the reader's side finishes all of them.
    fn sent(&self, workers: u32, cut: Cut) -> f64 {
        if workers == 0 {
            return 0.0;
        }
        let by_wire = self.wire.bandwidth.map_or(f64::INFINITY, |limit| limit / cut.bytes);
        (f64::from(workers) * self.supply(cut)).min(by_wire).min(self.shared_limit.unwrap_or(f64::INFINITY))
    }

    /// Returns the batches a second that an unlimited number of workers would bring.
    pub fn remote_bound(&self, at: Placement) -> f64 {
        self.made(Placement { workers: u32::MAX, ..at }).0
    }

    /// Returns the batches a second from workers, and the batches that the reader's threads make whole, if none wait for
    /// the trainer.
    pub fn made(&self, at: Placement) -> (f64, f64) {
        let cut = self.cut(at);
        let sent = self.sent(at.workers, cut);
        let Some(machine) = self.machine else {
            let none = self.finishing == Finishing::Threads && cut.after > 0.0;
            return (if none { 0.0 } else { sent }, 0.0);
        };
        if self.finishing == Finishing::Reader {
            let left = f64::from(at.local).min(machine.room(f64::from(at.local)) - self.taken_by_reader(sent, cut));
            return (sent, left.max(0.0) / self.whole());
        }
        let threads = f64::from(at.local);
        let (room, receive) = (machine.room(threads), self.wire.receive * cut.bytes);
        let bound = |cores: f64, cost: f64| if cost > 0.0 { cores / cost } else { f64::INFINITY };
        let remote = sent.min(bound(threads, cut.after)).min(bound(room, cut.after + receive));
        let left = threads.min(room - remote * receive) - remote * cut.after;
        (remote, left.max(0.0) / self.whole())
    }

    /// Returns the batches a second that all make together, if none wait for the trainer.
    pub fn capacity(&self, at: Placement) -> f64 {
        let (remote, local) = self.made(at);
        remote + local
    }

    /// Returns the seconds of a step that never waits.
    pub fn step(&self, at: Placement) -> f64 {
        let Some(machine) = self.machine else { return self.step };
        let (cut, (remote, local)) = (self.cut(at), self.made(at));
        // The share of the time in which input is computed at all: otherwise enough batches are ready.
        let part = (1.0 / (self.step * (remote + local))).min(1.0);
        let busy = part * (local * self.whole() + remote * cut.after);
        let crowd = match machine.manners {
            Manners::SpareOnly if self.finishing == Finishing::Reader => {
                ((machine.used + self.taken_by_reader(remote, cut)) / machine.cores).max(1.0)
            }
            Manners::SpareOnly => 1.0,
            Manners::Fair => ((machine.used + part * f64::from(at.local)) / machine.cores).max(1.0),
        };
        self.step * crowd * (1.0 + machine.interference * busy / machine.cores)
    }

    /// Returns the cores that the reader's process uses for batches from workers; it takes no more of these than the
    /// trainer wants.
    pub fn taken_by_reader(&self, remote: f64, cut: Cut) -> f64 {
        remote.min(1.0 / self.step) * self.at_reader(cut)
    }

    /// Returns the seconds of a core that a batch takes on the reader's side with this cut.
    pub fn at_reader(&self, cut: Cut) -> f64 {
        cut.after + self.wire.receive * cut.bytes
    }

    /// Returns the cut with the least work on the reader's side.
    pub fn lightest(&self) -> u32 {
        let work = |cut| self.at_reader(self.cut(Placement { workers: 1, local: 0, cut }));
        (1..=self.ops()).rev().min_by(|a, b| work(*a).total_cmp(&work(*b))).unwrap_or(1)
    }

    /// Returns whether the cut leaves the trainer the cores that it wants: the reader's process takes only spare cores,
    /// or no cut would take fewer.
    pub fn leaves_cores(&self, at: Placement) -> bool {
        let Some(machine) = self.machine.filter(|_| self.finishing == Finishing::Reader) else { return true };
        let taken = self.taken_by_reader(self.made(at).0, self.cut(at));
        machine.used + taken <= machine.cores * (1.0 + CROWD_MAX) || at.cut == self.lightest()
    }

    /// Returns the seconds of threads that a batch takes on both sides.
    pub(super) fn work(&self, cut: Cut) -> f64 {
        cut.before + self.wire.send * cut.bytes + self.at_reader(cut)
    }

    /// Returns the seconds of a batch: its step, or the time to make one if that is longer.
    pub fn batch(&self, at: Placement) -> f64 {
        self.step(at).max(1.0 / self.capacity(at))
    }
}

impl Machine {
    /// Returns the most cores that so many threads can get.
    fn room(&self, threads: f64) -> f64 {
        let spare = (self.cores - self.used).max(0.0);
        match self.manners {
            Manners::SpareOnly => spare,
            Manners::Fair => spare.max(threads * (self.cores / (self.used + threads)).min(1.0)),
        }
    }

    fn check(&self) -> Result<()> {
        let told = |what: String, hint: &str| Err(Error::invalid(what).hint(hint));
        if !(self.cores > 0.0 && self.cores <= LARGE) {
            return told(
                format!("a trainer's machine of {} cores", self.cores),
                "give what it has, or no machine at all",
            );
        }
        if !(0.0..=self.cores).contains(&self.used) {
            let what = format!("a trainer that keeps {} of {} cores busy", self.used, self.cores);
            return told(what, "give 0 to as many as there are");
        }
        if !(0.0..=1.0).contains(&self.interference) {
            return told(format!("an interference of {}", self.interference), "give a share of a step: 0 to 1");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    fn at(workers: u32, local: u32, cut: u32) -> Placement {
        Placement { workers, local, cut }
    }

    /// Decode for 80 ms to 1 MB, then normalise for 20 ms to 4 MB; a worker has 8 threads, the machine 10 cores, 4 in
    /// use.
    fn model() -> Model {
        Model {
            step: 0.01,
            cuts: Cut::of_ops(&[(0.08, 1e6), (0.02, 4e6)]),
            wire: Wire::default(),
            threads: 8.0,
            efficiency: 1.0,
            shared_limit: None,
            machine: Some(Machine { cores: 10.0, used: 4.0, manners: Manners::SpareOnly, interference: 0.0 }),
            finishing: Finishing::Threads,
        }
    }

    #[test]
    fn rates_are_what_can_be_worked_out_by_hand() {
        let model = model();
        assert!(close(model.capacity(at(1, 0, 2)), 80.0), "8 threads of 100 ms");
        assert!(
            close(model.capacity(at(0, 5, 2)), 50.0) && close(model.capacity(at(0, 9, 2)), 60.0),
            "6 cores are spare"
        );
        // A worker decodes 100 a second; normalising these takes 2 threads, the other 3 make 30.
        assert!(close(model.made(at(1, 5, 1)).0, 100.0) && close(model.made(at(1, 5, 1)).1, 30.0));
        assert!(close(model.capacity(at(1, 1, 1)), 50.0) && close(model.capacity(at(9, 0, 1)), 0.0), "who normalises?");
        assert!(close(model.batch(at(1, 0, 2)), 0.0125) && close(model.batch(at(2, 0, 2)), 0.01));
        // 200 MB/s are 200 decoded or 50 normalised; receiving a MB takes 10 ms of a core: 2 cores for 200.
        let wire = Wire { send: 0.0, receive: 1e-8, bandwidth: Some(2e8) };
        let wired = Model { wire, ..model };
        assert!(close(wired.made(at(9, 0, 2)).0, 50.0));
        let (remote, local) = wired.made(at(2, 6, 1));
        assert!(close(remote, 200.0) && close(local, 0.0), "2 cores receive, 4 normalise: {remote} {local}");
    }

    #[test]
    fn what_the_readers_process_finishes_takes_spare_cores_and_then_the_trainers() {
        let model = Model { finishing: Finishing::Reader, ..model() };
        // 100 batches/s are decoded by a worker and normalised by 2 cores of the 6 that are spare; 4 are left for 40
        // more.
        let (remote, local) = model.made(at(1, 9, 1));
        assert!(close(remote, 100.0) && close(local, 40.0) && close(model.step(at(1, 0, 1)), 0.01), "{remote} {local}");
        let machine = model.machine.map(|machine| Machine { used: 9.0, ..machine });
        let short = Model { machine, ..model.clone() };
        assert!(close(short.step(at(1, 0, 1)), 0.011), "9 cores and 2 of 10");
        assert!(close(short.step(at(1, 0, 2)), 0.01) && close(short.made(at(1, 0, 1)).0, 100.0));
        let unseen = Model { machine: None, ..model };
        assert!(close(unseen.made(at(1, 0, 1)).0, 100.0) && close(unseen.step(at(1, 0, 1)), 0.01));
    }

    #[test]
    fn who_does_not_yield_is_paid_for_by_the_trainer() {
        let fair = |model: Model| {
            let machine = model.machine.map(|machine| Machine { manners: Manners::Fair, ..machine });
            Model { machine, ..model }
        };
        let (polite, rude) = (model(), fair(model()));
        // 16 threads beside the trainer's 4: half a core each, so 8 cores, and a step twice as long.
        assert!(close(rude.capacity(at(0, 16, 2)), 80.0) && close(rude.step(at(0, 16, 2)), 0.02));
        assert!(close(polite.capacity(at(0, 16, 2)), 60.0) && close(polite.step(at(0, 16, 2)), 0.01));
        let machine = polite.machine.map(|machine| Machine { interference: 0.1, ..machine });
        assert!(close(Model { machine, ..polite }.step(at(0, 5, 2)), 0.01 * 1.05), "5 of 10 cores");
    }
}
