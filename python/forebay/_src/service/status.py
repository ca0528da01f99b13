"""The status of a service: its jobs, their consumers, ops and costs, its workers, and how many the jobs need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ConsumerStatus:
    """One consumer of a job.

    Attributes:
        consumer: Its number.
        attached: Whether it is connected.
        epoch: The epoch that it is in.
        split: The first split that it has not consumed.
        splits: The splits of an epoch; 0 when endless.
        leased: The splits that workers hold for it.
        skipped: The samples that it left out, according to the ledger.
    """

    consumer: int
    attached: bool
    epoch: int
    split: int
    splits: int
    leased: int
    skipped: int


@dataclass(frozen=True)
class ScaleDecision:
    """A decision on the number of workers of a job.

    Attributes:
        ago: Seconds since the decision.
        before: The wanted workers before.
        workers: The wanted workers since.
        reason: The reason, in words.
        figures: The rule (`rule`), the value that it compared with, and the measurements (`figures`).
        cut: The ops that consumers run since, and the bytes of a row on the network; empty if there is nothing to
            choose.
    """

    ago: float
    before: int
    workers: int
    reason: str
    figures: dict[str, Any]
    cut: str = ""


@dataclass(frozen=True)
class ScaleStatus:
    """The number of workers that the jobs need.

    Attributes:
        wanted: The workers that all jobs need together; `None` while that is not known: then keep the present ones.
        workers: The current workers.
        max_workers: The most that are ever wanted.
        policy: The policy that decides.
        kinds: One entry for each kind of workers that can be started (`--offer` of the dispatcher); mostly none.
    """

    wanted: int | None
    workers: int
    max_workers: int
    policy: str
    kinds: tuple[KindStatus, ...] = ()


@dataclass(frozen=True)
class KindStatus:
    """The number of workers of one kind that the jobs need.

    Attributes:
        kind: Its name.
        spot: Whether they may be preempted.
        price: The price of one for an hour.
        threads: The threads of one.
        wanted: The wanted workers; `None` while that is not known: then keep the present ones.
        workers: The current workers.
        max_workers: The most that can be started.
        pace: The speed of one thread, relative to those of other kinds: measured, 1.0 at first.
        reason: The reason for that number.
    """

    kind: str
    spot: bool
    price: float
    threads: int
    wanted: int | None
    workers: int
    max_workers: int
    pace: float
    reason: str


@dataclass(frozen=True)
class OpStatus:
    """The costs of an op of a job.

    Attributes:
        op: The op's name in errors; fused ops are one, and `read` reads the source.
        line: The line of code that added it; `None` if it is not known.
        at: The threads that ran it: those of `workers`, of consumers' `local` workers, or of the consumers (`reader`).
        rows_in: The rows that went in.
        rows_out: The rows that came out.
        rows_found: Of the rows that went into `cache`, the rows that were not computed.
        seconds: The time of threads in it, by the clock, including waits for a storage or for the interpreter.
        bytes_in: The bytes that went in; 0 for `read`.
        bytes_out: The bytes that came out.
        row_us: Recent microseconds of a thread for an input row: the median of the last minute.
        earlier: Whether all figures are from earlier jobs with the same pipeline, because the dispatcher has had none
            of this job since it started.
    """

    op: str
    line: str | None
    at: str
    rows_in: int
    rows_out: int
    rows_found: int
    seconds: float
    bytes_in: int
    bytes_out: int
    row_us: float
    earlier: bool

    @property
    def inflation(self) -> float | None:
        """Output bytes divided by input bytes; `None` if none went in."""
        return self.bytes_out / self.bytes_in if self.bytes_in else None


@dataclass(frozen=True)
class Worked:
    """The work of one kind of workers for a job, since the dispatcher started.

    Attributes:
        kind: The kind that they report (`forebay worker --kind`); `fleet` if they report none.
        spot: Whether they may be preempted.
        seconds: Worker-seconds: the time of their threads for the job, divided by their number of threads.
        cost: The cost of these seconds, by each worker's price for an hour; 0.0 if none has a price.
        idle_seconds: Worker-seconds: the job's part of the time in which they were idle. Jobs with consumers share it
            by the number of workers that each wants.
        idle_cost: The cost of that.
    """

    kind: str
    spot: bool
    seconds: float
    cost: float
    idle_seconds: float = 0.0
    idle_cost: float = 0.0


@dataclass(frozen=True)
class JobStatus:
    """A job.

    Attributes:
        name: Its name.
        dataset: The id of its pipeline.
        state: `running`, `waiting for workers`, `no consumer`, `finished` or `cancelled`.
        epochs: The number of its epochs; `None` if it is endless.
        seed: Its seed.
        raced: The splits under speculative execution: the first worker was late, or had other splits to compute first.
        consumers: Its consumers.
        tenant: The tenant that owns it; empty if the service has no tokens.
        key: The key that other Arrow Flight clients must send to its workers, in `list_flights(criteria=...)`; empty if
            they need none. A secret: it is not shown.
        workers: The workers that the service's policy wants for it; `None` while there is no decision.
        workers_computing: The connected workers that hold splits of it now; local workers do not count.
        priority: Jobs of a higher priority go before it.
        local_threads: The threads of its consumers' local workers, which `workers` does not include
            (`distribute(local=...)`).
        decisions: The last few decisions on `workers`, the oldest first. `jobs(name)` has the last 64.
        caching: The cache of each worker, by the worker's id, in the form of `stats()["cache"]` of an iterator: `kept`,
            `why`, `figures` if `autocache()` measured them, and the `rows` that were found and computed; and the
            `source`, in the form of `stats()["source"]`. A few seconds old.
        ops: The costs of its ops, in the order in which they run; with `jobs(name)` alone. A second old.
        cut: The ops that its consumers run, and the bytes of a row on the network; empty if there is nothing to choose.
        worked: The work of workers for it, by kind, and its cost.
    """

    name: str
    dataset: str
    state: str
    epochs: int | None
    seed: int
    raced: int
    consumers: tuple[ConsumerStatus, ...]
    tenant: str = ""
    key: str = field(default="", repr=False)
    workers: int | None = None
    workers_computing: int = 0
    priority: int = 0
    local_threads: int = 0
    decisions: tuple[ScaleDecision, ...] = ()
    caching: Mapping[str, Any] = field(default_factory=dict)
    ops: tuple[OpStatus, ...] = ()
    cut: str = ""
    worked: tuple[Worked, ...] = ()


@dataclass(frozen=True)
class WorkerStatus:
    """A worker.

    Attributes:
        worker: Its id; a restarted worker has a new one.
        address: The address at which it answers, for Arrow Flight clients too.
        threads: Its threads.
        state: `working`, `idle`, `slow` (it was late with a split, and gets one at a time), `leaving` or `lost`.
        leases: The splits that it holds.
        splits_done: The splits that it has computed; `None`, as the next two, for a tenant's token if the worker
            computes for other tenants, too.
        rows_done: The rows of those.
        rows_shared: Of these, the rows that another job with the same samples had computed.
        silent_ms: Milliseconds since its last message.
        local: Whether it computes for one consumer alone, on that consumer's machine.
        disk_off: Why it writes nothing to its cache folder now; empty if it writes, or has no folder.
        kind: The kind of its machine; `fleet` if it reports none.
        price: The price of the machine for an hour; 0.0 if it reports none.
        spot: Whether it may be preempted.
        differs: The jobs that began with other bits than it computes, so it gets none of their splits (16 at most); for
            each job the ops, sources and functions that differ.
        lost_ms: Milliseconds since it was lost; `None` if it is not lost. The last 64 lost workers are listed for 10
            minutes, and leave when a worker comes at their address.
        lost: Why it was lost, in words; empty if it is not lost.
    """

    worker: str
    address: str
    threads: int
    state: str
    leases: int
    splits_done: int | None
    rows_done: int | None
    rows_shared: int | None
    silent_ms: int
    local: bool
    disk_off: str
    kind: str
    price: float
    spot: bool
    differs: Mapping[str, str] = field(default_factory=dict)
    lost_ms: int | None = None
    lost: str = ""
