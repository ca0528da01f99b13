//! The fleet machine: the workers' types and peers, and the cost of jobs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use forebay_core::{Ticks, WorkerId};
use forebay_policy::fleet::{Mix, Offer, Unit};
use forebay_policy::placement::Objective;
use forebay_policy::scaling::Claim;
use forebay_proto::{KindWanted, Peers, Spent, Worked};

use super::idle_cost::{IdleSums, IdleTime};
use super::job_cost::{JobCost, priced};
use super::mix::FleetMix;
use super::peers::PeerRing;
use super::worker_types::{Labels, WorkerType};
use crate::state::leases::views::{JobView, WorkerView};
use crate::state::load::job_load::Workforce;

/// Worker types, the wanted mix of them, peers, and the cost of jobs.
#[derive(Debug, Default)]
pub(in crate::state) struct Fleet {
    mix: FleetMix,
    workers: BTreeMap<WorkerId, FleetWorker>,
    peers: PeerRing,
    costs: BTreeMap<u64, JobCost>,
    /// The type of workers that have not said hello.
    unnamed: WorkerType,
}

/// A worker that has said hello.
#[derive(Debug)]
struct FleetWorker {
    worker_type: WorkerType,
    idle: IdleTime,
}

impl Fleet {
    /// Sets which types of workers can be started. Earlier decisions are forgotten.
    pub(in crate::state) fn set_offers(&mut self, offers: Arc<[Offer]>) {
        self.mix = FleetMix::new(offers);
    }

    /// Sets the secret of the workers' keys for each other: see [`PeerRing::set_secret`].
    pub(in crate::state) fn set_secret(&mut self, secret: [u8; 16]) {
        self.peers.set_secret(secret);
    }

    pub(in crate::state) fn add_job(&mut self, job: u64) {
        self.costs.insert(job, JobCost::default());
    }

    pub(in crate::state) fn remove_job(&mut self, job: u64) {
        self.costs.remove(&job);
    }

    /// Begins the session of a worker, with its type and the folder where it caches rows.
    pub(in crate::state) fn hello(
        &mut self,
        now: Ticks,
        worker: &WorkerView<'_>,
        worker_type: WorkerType,
        place: Arc<str>,
    ) {
        self.workers.insert(worker.id, FleetWorker { worker_type, idle: IdleTime::new(now) });
        self.peers.begin(worker, place);
    }

    #[cfg(test)]
    pub(in crate::state) fn set_worker_type(&mut self, worker: WorkerId, worker_type: WorkerType) {
        self.workers.get_mut(&worker).expect("a worker").worker_type = worker_type;
    }

    pub(in crate::state) fn remove_worker(&mut self, worker: WorkerId) {
        self.workers.remove(&worker);
        self.peers.remove(worker);
    }

    pub(in crate::state) fn worker_type(&self, worker: WorkerId) -> &WorkerType {
        self.workers.get(&worker).map_or(&self.unnamed, |worker| &worker.worker_type)
    }

    /// Returns a worker's peers if they have changed since it was sent them. `find` finds the worker with an id.
    pub(in crate::state) fn peers_update<'a>(
        &mut self,
        worker: &WorkerView<'a>,
        find: impl Fn(WorkerId) -> Option<WorkerView<'a>>,
    ) -> Option<Peers> {
        self.peers.update(worker, find)
    }

    /// Notes the work of a fleet worker for a job.
    pub(in crate::state) fn spend(&mut self, worker: &WorkerView<'_>, spent: &Spent) {
        let Some(FleetWorker { worker_type, idle }) = self.workers.get_mut(&worker.id) else { return };
        idle.note_spent(spent.compute_us);
        self.mix.spend(worker_type, spent);
        if let Some(cost) = self.costs.get_mut(&spent.job) {
            cost.add(worker_type, worker.threads, spent);
        }
    }

    /// Charges the time since the last call in which workers were idle to the jobs that are read. `wants` is how many
    /// workers a job wants.
    pub(in crate::state) fn charge_idle<'a>(
        &mut self,
        now: Ticks,
        workers: impl Iterator<Item = WorkerView<'a>>,
        read: &[JobView<'_>],
        wants: impl Fn(u64) -> u32,
    ) {
        let mut sums = IdleSums::default();
        for view in workers {
            if let Some(FleetWorker { worker_type, idle }) = self.workers.get_mut(&view.id) {
                sums.add(now, (view.serves, view.threads), worker_type, idle);
            }
        }
        let tenants: BTreeMap<u64, &str> = read.iter().map(|job| (job.id(), &*job.record.tenant)).collect();
        let jobs =
            self.costs.iter_mut().filter_map(|(id, cost)| Some((cost, *tenants.get(id)?, f64::from(wants(*id)))));
        sums.charge(&mut jobs.collect::<Vec<_>>());
    }

    /// Returns the work of workers for a job, and its cost.
    pub(in crate::state) fn cost(&self, job: u64) -> Vec<Worked> {
        self.costs.get(&job).map(JobCost::status).unwrap_or_default()
    }

    /// Returns the objective of a job with the mean price of the workers that may compute for it.
    pub(in crate::state) fn priced(
        &self,
        objective: Objective,
        job: &JobView<'_>,
        workers: &[WorkerView<'_>],
    ) -> Objective {
        let own = workers.iter().filter(|worker| worker.serves(&job.record.tenant));
        priced(objective.with_trainers(job.consumers), own.map(|worker| self.worker_type(worker.id)))
    }

    /// Returns the labels of the types of these workers, for metrics.
    pub(in crate::state) fn labels<'a>(&self, workers: impl Iterator<Item = WorkerView<'a>>) -> Labels {
        Labels::of(workers.filter(|worker| !worker.is_local()).map(|worker| self.worker_type(worker.id)))
    }

    /// Returns whether the dispatcher decides how many workers there are of each type.
    pub(in crate::state) fn decides(&self) -> bool {
        self.mix.decides()
    }

    /// Counts the workers by the tenant that they serve, without local workers. A local worker serves one consumer, and
    /// no provisioner starts or ends it.
    pub(in crate::state) fn tenant_mixes(&self, workers: &[WorkerView<'_>]) -> TenantMixes {
        let mut mixes = TenantMixes::default();
        for worker in workers {
            let mix = mixes.0.entry(worker.serves.cloned()).or_insert_with(|| self.mix.none());
            self.mix.add(mix, self.worker_type(worker.id), worker.threads);
        }
        mixes
    }

    /// Returns all workers of these mixes as one.
    pub(in crate::state) fn all_of(&self, mixes: &TenantMixes) -> Mix {
        let mut all = self.mix.none();
        mixes.0.values().for_each(|mix| all.add_all(mix));
        all
    }

    /// See [`FleetMix::parts`].
    pub(in crate::state) fn parts(&self, mix: &Mix, claims: &[(Claim, Option<&Unit>)]) -> Vec<f64> {
        self.mix.parts(mix, claims)
    }

    /// See [`FleetMix::workforce`].
    pub(in crate::state) fn workforce(&self, mix: &Mix, part: f64, wants: Option<(u32, &Unit)>) -> (Workforce, Unit) {
        self.mix.workforce(mix, part, wants)
    }

    /// Measures workers' speed, and decides on worker types if there are offers: see [`FleetMix::tick`].
    pub(in crate::state) fn decide<'a>(
        &mut self,
        now: Ticks,
        workers_max: u32,
        wants: impl Iterator<Item = Option<(u32, &'a Unit)>>,
        workers: &[WorkerView<'_>],
    ) {
        let Self { mix, workers: known, unnamed, .. } = self;
        let types = workers.iter().map(|w| (known.get(&w.id).map_or(&*unnamed, |k| &k.worker_type), w.threads));
        mix.tick(now, workers_max, wants, types);
    }

    /// Returns how many workers of each type are wanted: see [`FleetMix::wanted`].
    pub(in crate::state) fn types_wanted(&self, workers: &[WorkerView<'_>]) -> (Vec<KindWanted>, u32) {
        self.mix.wanted(workers.iter().map(|worker| (self.worker_type(worker.id), worker.threads)))
    }
}

/// Workers by the tenant that they serve.
#[derive(Debug, Default)]
pub(in crate::state) struct TenantMixes(HashMap<Option<Arc<str>>, Mix>);

impl TenantMixes {
    /// Returns the workers that may compute for a tenant: its own, and those for all tenants.
    pub(in crate::state) fn of(&self, tenant: &str) -> Mix {
        let own = self.0.iter().filter(|(serves, _)| serves.as_deref().is_none_or(|serves| serves == tenant));
        own.map(|(_, mix)| mix.clone())
            .reduce(|mut sum, mix| {
                sum.add_all(&mix);
                sum
            })
            .unwrap_or_default()
    }
}
