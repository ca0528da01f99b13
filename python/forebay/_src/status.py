"""What a service says of itself: its jobs, their consumers, ops and costs, its workers, and how many are wanted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ConsumerStatus:
    """One consumer of a job.

    Attributes:
        consumer: Which one.
        attached: Whether it is connected.
        epoch: The epoch that it is in.
        split: The first split that it has not consumed.
        splits: The splits of an epoch; 0 when endless.
        leased: The splits that workers hold for it.
        skipped: The samples that it left out, as far as the ledger has them.
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
    """A decision on how many workers a job gets.

    Attributes:
        ago: Seconds since it was taken.
        before: The workers that were wanted before.
        workers: The workers that are wanted since.
        reason: Why, in words.
        figures: The rule (`rule`), what it compared with, and what was measured (`figures`).
        cut: Which ops consumers run since, and what a row that travels has so; empty where there is nothing to choose.
    """

    ago: float
    before: int
    workers: int
    reason: str
    figures: dict[str, Any]
    cut: str = ""


@dataclass(frozen=True)
class ScaleStatus:
    """How many workers are wanted.

    Attributes:
        wanted: By all jobs together; `None` while that is not known: then what there is should stay.
        workers: The workers that there are.
        max_workers: The most that are ever wanted.
        policy: Who decides.
        kinds: Of each kind of workers that can be started, as the dispatcher was told (`--offer`); mostly none.
    """

    wanted: int | None
    workers: int
    max_workers: int
    policy: str
    kinds: tuple[KindStatus, ...] = ()


@dataclass(frozen=True)
class KindStatus:
    """How many workers of one kind are wanted.

    Attributes:
        kind: Its name.
        spot: Whether they may be taken back at any time.
        price: What one costs for an hour.
        threads: The threads of one.
        wanted: So many; `None` while that is not known: then what there is should stay.
        workers: Those that there are.
        max_workers: The most that can be had.
        pace: How fast one thread is, beside those of other kinds: measured, 1.0 at first.
        reason: Why so many are wanted.
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
    """What an op of a job costs.

    Attributes:
        op: The op as errors name it; ops that are fused are one, and `read` reads the source.
        line: Where it was written; `None` where that is not known.
        at: Whose threads ran it: those of `workers`, of consumers' `local` workers, or of the consumers (`reader`).
        rows_in: The rows that went in.
        rows_out: The rows that came out.
        rows_found: Of those that went into `cache`, the rows that nobody had to compute.
        seconds: What threads spent on it, by the clock: waits for a storage or for the interpreter are in it.
        bytes_in: The bytes that went in; 0 for `read`.
        bytes_out: The bytes that came out.
        row_us: Microseconds of a thread for a row that goes in, lately: the median of the last minute.
        earlier: Whether all this is what jobs with the same pipeline showed earlier: of this one the dispatcher has
            heard nothing since it began.
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
        """Output bytes by input bytes; `None` where none went in."""
        return self.bytes_out / self.bytes_in if self.bytes_in else None


@dataclass(frozen=True)
class Worked:
    """What workers of one kind computed for a job, since the dispatcher started.

    Attributes:
        kind: As they say it (`forebay worker --kind`); `fleet` where they do not.
        spot: Whether they may be taken back at any time.
        seconds: Of workers: what their threads took for the job, by their number.
        cost: What that costs, by what each said that it costs for an hour; 0.0 where none did.
        idle_seconds: Of workers: the job's part of the time in which they were there and did nothing. Jobs that are
            read share it by how many workers each wants.
        idle_cost: What that costs.
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
        epochs: How many it has; `None` is without end.
        seed: Its seed.
        raced: The splits that were given to a second worker because the first was late, or had others to do first.
        consumers: Its consumers.
        tenant: Whose it is; empty where the service has no tokens.
        key: What other Arrow Flight clients must say to its workers, in `list_flights(criteria=...)`; empty where they
            need say nothing. A secret: it is not shown.
        workers: The workers that the service's policy wants for it; `None` while nothing is decided.
        priority: Jobs of a higher one go before it.
        local_threads: The threads of its consumers' local workers, which are not among those (`distribute(local=...)`).
        decisions: How that came about, the oldest first: the last few. `jobs(name)` has the last 64.
        caching: What each worker keeps of it, by the worker's id, as `stats()["cache"]` of an iterator says it: `kept`,
            `why`, `figures` where `autocache()` measured them, and the `rows` that were found and computed; and the
            `source`, as `stats()["source"]` does. As of a few seconds ago.
        ops: What its ops cost, in the order in which they run; with `jobs(name)` alone. As of a second ago.
        cut: Which ops its consumers run, and what a row that travels has so; empty where there is nothing to choose.
        worked: What workers computed for it, by kind, and what that costs.
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
        address: Where it answers, for Arrow Flight clients too.
        threads: Its threads.
        state: `working`, `idle`, `slow` (it was late with a split, and is given one at a time), `leaving` or `lost`.
        leases: The splits that it holds.
        splits_done: The splits that it has computed; `None`, as the next two, where a tenant's token asks for a worker
            that computes for other tenants, too.
        rows_done: The rows of those.
        rows_shared: Of these, the rows that another job with the same samples had computed.
        silent_ms: Milliseconds since it was last heard of.
        local: Whether it computes for one consumer alone, on that one's machine.
        disk_off: Why nothing is written to its cache folder now; empty where it is, or there is none.
        kind: What kind of machine it is on; `fleet` where it does not say.
        price: What that costs for an hour; 0.0 where it does not say.
        spot: Whether it may be taken back at any time.
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
