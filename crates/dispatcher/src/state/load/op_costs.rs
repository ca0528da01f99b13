//! The cost of each op of a job, as workers and consumers report it: for display, and for the policy that decides on
//! workers and on the placement boundary (see `placement`).
//!
//! The cost of a row is the median of the last few windows, so a storage that stalled once, or a thread without a core,
//! does not distort it. The costs are also kept for each dataset of a tenant (see `dataset_profile`): a second job with
//! the same pipeline begins with them.
//!
//! Bounds: [`OPS_MAX`] ops of a job, with [`WINDOWS`] figures each; [`WRITTEN_MAX`] ops of a dataset are persisted.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use forebay_core::Ticks;
use forebay_plan::{Graph, OpCounters, OpLabel, RunOrder};
use forebay_proto::{OpSpent, OpStatus};

use crate::records::{At, OpRecord};
use crate::state::limits::WORKER_SHARE_MIN;

/// Ops of one job, counted once for each side that runs them.
pub(in crate::state) const OPS_MAX: usize = 256;
/// Ops that are fused in one.
const PLACES_MAX: usize = 64;
/// Windows that are kept of a row's cost, and how long one lasts.
const WINDOWS: usize = 6;
const WINDOW: Duration = Duration::from_secs(10);
/// Ops of a dataset that are persisted, with one median for all their windows; of more ops, the costliest. A record
/// takes some 2 KiB for ten ops, and 70 KiB at most.
pub(in crate::state) const WRITTEN_MAX: usize = 64;
/// The most that a process may report between two heartbeats: more is nonsense, and sums would overflow.
const SAID_MAX: u64 = 1 << 48;

impl At {
    fn name(self) -> &'static str {
        match self {
            At::Workers => "workers",
            At::Local => "local",
            At::Consumer => "reader",
        }
    }
}

/// The ops of a job, or of all jobs on a dataset.
#[derive(Debug, Clone, Default)]
pub(in crate::state) struct OpCosts(BTreeMap<(At, Vec<u32>), OpFigures>);

/// The figures of one op.
#[derive(Debug, Clone, Default)]
struct OpFigures {
    all: OpCounters,
    /// When the window began, and the sums since then.
    window: Option<(Ticks, OpCounters)>,
    /// Nanoseconds per row in each of the last windows.
    rows_ns: VecDeque<f64>,
}

impl OpFigures {
    fn add(&mut self, now: Ticks, said: &OpSpent) {
        let said = OpCounters::from(said).at_most(SAID_MAX);
        self.all.add(&said);
        let (began, window) = self.window.get_or_insert((now, OpCounters::default()));
        window.add(&said);
        if now - *began >= WINDOW && window.timed > 0 {
            if self.rows_ns.len() == WINDOWS {
                self.rows_ns.pop_front();
            }
            self.rows_ns.push_back(window.of_row(window.nanos));
            self.window = None;
        }
    }

    fn of(record: &OpRecord) -> Self {
        let rows_ns = if record.sums.timed > 0 { VecDeque::from([record.row_ns]) } else { VecDeque::new() };
        Self { all: record.sums, window: None, rows_ns }
    }

    /// Returns the recent cost of a row: the median of the last windows, or the mean of everything before the first
    /// window has ended.
    fn row_ns(&self) -> f64 {
        let mut sorted: Vec<_> = self.rows_ns.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        match sorted.len() {
            0 => self.all.of_row(self.all.nanos),
            n if n % 2 == 1 => sorted[n / 2],
            n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
        }
    }

    /// Returns the bytes of a row that comes out.
    fn bytes_out(&self) -> f64 {
        self.all.of_row(self.all.bytes_out) * self.all.rows_in as f64 / self.all.rows_out.max(1) as f64
    }

    fn status(&self, label: OpLabel, at: At, earlier: bool) -> OpStatus {
        let (seconds, bytes_in, bytes_out) = self.all.scaled();
        OpStatus {
            op: label.op,
            line: label.line.unwrap_or_default(),
            at: at.name().to_owned(),
            rows_in: self.all.rows_in,
            rows_out: self.all.rows_out,
            rows_found: self.all.rows_found,
            seconds,
            bytes_in,
            bytes_out,
            row_us: self.row_ns() / 1e3,
            earlier,
        }
    }
}

impl OpCosts {
    pub(in crate::state) fn of(records: &[OpRecord]) -> Self {
        Self(records.iter().map(|op| ((op.at, op.places.clone()), OpFigures::of(op))).collect())
    }

    /// Returns the records of the ops for the ledger.
    pub(in crate::state) fn records(&self) -> Vec<OpRecord> {
        let record = |((at, places), figures): (&(At, Vec<u32>), &OpFigures)| {
            let (at, places) = (*at, places.clone());
            OpRecord { at, places, sums: figures.all, row_ns: figures.row_ns() }
        };
        let mut ops: Vec<_> = self.0.iter().filter(|(_, f)| f.all.rows_in > 0).map(record).collect();
        if ops.len() > WRITTEN_MAX {
            ops.sort_by_key(|op| std::cmp::Reverse(op.sums.nanos));
            ops.truncate(WRITTEN_MAX);
        }
        ops
    }

    /// Lists the ops with timed samples.
    fn timed(&self) -> impl Iterator<Item = (At, &[u32], &OpFigures)> {
        self.0.iter().filter(|(_, figures)| figures.all.timed > 0).map(|((at, places), f)| (*at, &**places, f))
    }

    /// Returns the nanoseconds per row of an op that runs unfused: at consumers, or else at workers.
    pub(in crate::state) fn row_ns(&self, place: u32) -> Option<f64> {
        let at = |side: At| self.timed().find(|(at, places, _)| *at == side && **places == [place]);
        at(At::Consumer).or_else(|| at(At::Workers)).map(|(_, _, figures)| figures.row_ns())
    }

    /// Returns the bytes of a row between two ops, as measured by the op before or by the op behind. `None` stands for
    /// reading.
    pub(in crate::state) fn bytes_between(&self, before: Option<u32>, behind: Option<u32>) -> Option<f64> {
        let made = self.timed().find(|(_, places, f)| places.last().copied() == before && f.all.rows_out > 0);
        let taken = || self.timed().find(|(_, places, _)| behind.is_some() && places.first().copied() == behind);
        let made = made.map(|(_, _, figures)| figures.bytes_out());
        made.or_else(|| taken().map(|(_, _, figures)| figures.all.of_row(figures.all.bytes_in)))
    }

    /// Returns the seconds of worker threads per sent row, up to and including the op at `last` (`None` stands for
    /// reading). Every row passes that op, with any ops that are fused with it. `behind` gives the place and the cost of the
    /// ops behind it, which are subtracted.
    pub(in crate::state) fn worker_row(&self, last: Option<u32>, behind: &BTreeMap<u32, f64>) -> Option<f64> {
        let before = |places: &[u32], row: f64| match places {
            [_, ..] if places.iter().all(|place| behind.contains_key(place)) => 0.0,
            _ => (row - places.iter().filter_map(|place| behind.get(place)).sum::<f64>()).max(row * WORKER_SHARE_MIN),
        };
        let own = || self.timed().filter(|(at, ..)| *at == At::Workers);
        let is_through = |places: &[u32]| last.map_or(places.is_empty(), |last| places.contains(&last));
        let sent: u64 = own().filter(|(_, places, _)| is_through(places)).map(|(.., f)| f.all.rows_out).sum();
        let spent: f64 = own().map(|(_, places, f)| before(places, f.row_ns() / 1e9) * f.all.rows_in as f64).sum();
        (sent > 0).then(|| spent / sent as f64)
    }

    pub(in crate::state) fn take(&mut self, now: Ticks, at: At, said: &[OpSpent]) {
        for op in said.iter().filter(|op| op.places.len() <= PLACES_MAX) {
            let key = (at, op.places.clone());
            if self.0.len() < OPS_MAX || self.0.contains_key(&key) {
                self.0.entry(key).or_default().add(now, op);
            }
        }
    }

    pub(in crate::state) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lists the ops of a pipeline in the order in which they run; none if its graph cannot be read. `earlier` says
    /// whether the figures are those of earlier jobs.
    pub(in crate::state) fn list(&self, graph: &str, earlier: bool) -> Vec<OpStatus> {
        let read = || {
            let graph = Graph::from_json(graph).ok()?;
            let order = RunOrder::of(&graph).ok()?;
            Some((graph, order))
        };
        let Some((graph, order)) = read() else { return Vec::new() };
        let labelled = |((at, places), figures): (&(At, Vec<u32>), &OpFigures)| {
            let places: Vec<_> = places.iter().map(|&place| place as usize).collect();
            (OpLabel::of(&graph, &order, &places), *at, figures.clone())
        };
        let mut ops: Vec<_> = self.0.iter().filter(|(_, f)| f.all.rows_in > 0).map(labelled).collect();
        // The consumer runs its ops after the workers.
        ops.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
        ops.into_iter().map(|(label, at, figures)| figures.status(label, at, earlier)).collect()
    }
}
