//! A service in this process, over loopback: a real dispatcher and real workers, each a task that can be killed.

#![expect(clippy::disallowed_methods, reason = "tests poll services, and read the address of an etcd")]
#![allow(unreachable_pub, reason = "each test file uses its part")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{Array, Int64Array};
use forebay_client::{JobSpec, OpenedJob, Remote, Service, ServiceStream, StreamOptions};
use forebay_core::{ConsumerIndex, Error, Result, Seed, SystemClock};
use forebay_data::{Chunk, Memory};
use forebay_dispatcher::{Dispatcher, Options as DispatcherOptions, Scaling, Timing};
use forebay_exec::{Delivery, Environment, Executable, Functions, LocalOptions, LocalStream, NoFunctions};
use forebay_plan::{Binary, BlobId, EpochPlan, Expr, Graph, Node, Op, Source, Stages, ops};
use forebay_worker::Worker;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A bound on every wait of the tests.
pub const DEADLINE: Duration = Duration::from_secs(30);

pub struct Cluster {
    runtime: Runtime,
    dir: tempfile::TempDir,
    functions: Arc<dyn Functions>,
    scaling: Scaling,
    dispatcher: Option<JoinHandle<Result<()>>>,
    pub address: SocketAddr,
    workers: Vec<Option<JoinHandle<Result<()>>>>,
    pub worker_addresses: Vec<String>,
}

/// A poll that fails if the test takes too long.
pub fn patient() -> impl FnMut() -> Result<()> {
    let end = Instant::now() + DEADLINE;
    move || if Instant::now() < end { Ok(()) } else { Err(Error::internal("the test took too long")) }
}

impl Cluster {
    pub fn start(workers: usize) -> Self {
        Self::with(workers, Arc::new(NoFunctions))
    }

    pub fn with(workers: usize, functions: Arc<dyn Functions>) -> Self {
        Self::with_scaling(workers, functions, Scaling::default())
    }

    /// Starts a cluster whose dispatcher has this scaling policy.
    pub fn with_scaling(workers: usize, functions: Arc<dyn Functions>, scaling: Scaling) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let mut cluster = Self {
            runtime,
            dir: tempfile::tempdir().expect("a folder"),
            functions,
            scaling,
            dispatcher: None,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            workers: Vec::new(),
            worker_addresses: Vec::new(),
        };
        cluster.start_dispatcher();
        for _ in 0..workers {
            cluster.add_worker();
        }
        cluster
    }

    /// Starts a dispatcher at the address of the previous one.
    pub fn start_dispatcher(&mut self) {
        let options = || DispatcherOptions {
            listen: self.address,
            timing: Timing {
                heartbeat: Duration::from_millis(50),
                lease: Duration::from_millis(500),
                ..Timing::default()
            },
            scaling: self.scaling.clone(),
            ..DispatcherOptions::new(self.dir.path())
        };
        let end = Instant::now() + DEADLINE;
        // A killed dispatcher's port and folder are free once its last task is gone.
        let (address, dispatcher) = loop {
            match self.runtime.block_on(Dispatcher::bind(options())) {
                Ok(bound) => break bound,
                Err(e) => assert!(Instant::now() < end, "{e}"),
            }
        };
        self.address = address;
        self.dispatcher = Some(self.runtime.spawn(dispatcher.run(CancellationToken::new())));
    }

    /// Ends the dispatcher as SIGKILL does.
    pub fn kill_dispatcher(&mut self) {
        let task = self.dispatcher.take().expect("it runs");
        task.abort();
        let _ = self.runtime.block_on(task);
    }

    pub fn add_worker(&mut self) {
        let options = forebay_worker::Options {
            threads: 2,
            functions: self.functions.clone(),
            ..forebay_worker::Options::new(self.address.to_string())
        };
        let worker = self.runtime.block_on(Worker::bind(options)).expect("a worker");
        self.worker_addresses.push(worker.address().to_owned());
        self.workers.push(Some(self.runtime.spawn(worker.run(std::future::pending()))));
    }

    pub fn kill_worker(&mut self, number: usize) {
        let task = self.workers[number].take().expect("it runs");
        task.abort();
        let _ = self.runtime.block_on(task);
    }

    pub fn service(&self) -> Service {
        Service::connect(Remote::new(self.address.to_string()), DEADLINE, &mut patient()).expect("a service")
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn open(&self, name: &str, graph: &Graph, epochs: u64, consumers: u32) -> Result<OpenedJob> {
        let (name, graph) = (name.to_owned(), graph.clone());
        let spec = JobSpec {
            name,
            graph,
            seed: SEED,
            epochs: Some(epochs),
            consumers,
            even: Some(false),
            ending: None,
            coordinated: false,
            weight: 1,
            priority: 0,
        };
        self.service().open_job(&spec, &|_: &BlobId| Some(BLOB.into()), &mut |_, _| {}, &mut patient())
    }

    pub fn stream(&self, job: &OpenedJob, options: StreamOptions) -> ServiceStream {
        ServiceStream::start(job, self.functions.clone(), options).expect("a stream")
    }
}

pub const SEED: Seed = Seed(17);
/// A stand-in for a pickle.
pub const BLOB: &[u8] = b"a pickle";

pub fn range(rows: i64, ops: Vec<Op>) -> Graph {
    graph(Source::Range { start: 0, stop: rows, step: 1 }, ops)
}

pub fn graph(source: Source, ops: Vec<Op>) -> Graph {
    let start = Graph::new(source, None).expect("a source");
    ops.into_iter().fold(start, |g, op| g.then(Node::new(op)).expect("an op"))
}

pub fn batch(size: usize) -> Op {
    Op::Batch(ops::Batch { size, drop_remainder: false })
}

pub fn col(name: &str) -> Expr {
    Expr::Col { name: name.to_owned() }
}

pub fn binary(op: Binary, left: Expr, value: i64) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(Expr::Int { value }) }
}

/// Keeps two rows in three.
pub fn some_rows() -> Op {
    let rest = binary(Binary::Mod, col("id"), 3);
    Op::FilterExpr(ops::FilterExpr { predicate: binary(Binary::Ne, rest, 1) })
}

pub fn doubled() -> Op {
    Op::WithColumn(ops::WithColumn { column: "twice".to_owned(), value: binary(Binary::Mul, col("id"), 2) })
}

pub fn ids(deliveries: &[Delivery]) -> Vec<i64> {
    let of = |d: &Delivery| {
        let column = d.chunk.column("id").expect("a column").clone();
        column.as_any().downcast_ref::<Int64Array>().expect("int64").values().to_vec()
    };
    deliveries.iter().flat_map(of).collect()
}

struct Blobs;

impl forebay_io::Blobs for Blobs {
    fn get(&self, _: &BlobId) -> Result<bytes::Bytes> {
        Ok(BLOB.into())
    }
}

/// Returns the deliveries of a stream in this process for the same job.
pub fn reference(job: &OpenedJob, functions: Arc<dyn Functions>, consumer: u32) -> Result<Vec<Delivery>> {
    let graph = &job.stages().graph;
    let stages = Arc::new(Stages::new(graph)?);
    let index = forebay_io::index(
        graph.source(),
        &forebay_io::Allowed::everything(),
        stages.counted,
        None,
        None,
        1,
        &|_, _| Ok(()),
    )?;
    let extent = index.extent();
    let sizing = Some(job.plan().sizing());
    let plan = Arc::new(EpochPlan::new(&stages, extent, job.seed(), job.consumers(), sizing)?);
    let environment = Environment {
        blobs: Arc::new(Blobs),
        functions,
        memory: Memory::default(),
        cache_context: None,
        watch: Arc::new(SystemClock::default()),
    };
    let executable = Executable::new(stages, plan, Some(index), &environment)?;
    let consumer = ConsumerIndex(consumer);
    let options = LocalOptions { threads: 2, end_epoch: job.epochs(), consumer, ..LocalOptions::default() };
    let mut stream = LocalStream::start(executable, options)?;
    let mut all = Vec::new();
    while let Some(delivery) = stream.next(&mut patient())? {
        all.push(delivery);
    }
    Ok(all)
}

/// Reads a stream to its end.
pub fn drain(stream: &mut ServiceStream) -> Result<Vec<Delivery>> {
    let (mut all, mut poll) = (Vec::new(), patient());
    while let Some(delivery) = stream.next(&mut poll)? {
        all.push(delivery);
    }
    Ok(all)
}

/// Returns one chunk for each batch. Joins the single rows of an epoch, as the length of their runs is arbitrary.
pub fn batches(deliveries: &[Delivery]) -> Vec<(u64, Chunk)> {
    let mut all: Vec<(u64, Chunk)> = Vec::new();
    for d in deliveries {
        match all.last_mut() {
            Some((epoch, last)) if !d.batched && *epoch == d.epoch.0 => {
                *last = Chunk::concat(&[last.clone(), d.chunk.clone()]).expect("one schema");
            }
            _ => all.push((d.epoch.0, d.chunk.clone())),
        }
    }
    all
}

pub fn assert_same(found: &[Delivery], wanted: &[Delivery]) {
    let (found, wanted) = (batches(found), batches(wanted));
    assert_eq!(found.len(), wanted.len(), "deliveries");
    for (i, ((epoch, chunk), (wanted_epoch, want))) in found.iter().zip(&wanted).enumerate() {
        assert_eq!(epoch, wanted_epoch, "epoch of delivery {i}");
        assert!(chunk.same_bits(want), "delivery {i}: {:?} is not {:?}", chunk.columns(), want.columns());
    }
}
