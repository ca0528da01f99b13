"""A service: a dispatcher and its workers, on this machine or elsewhere."""

from __future__ import annotations

import json
import os
import warnings
from types import TracebackType
from typing import Any, Literal

from forebay import _native
from forebay._src import arguments
from forebay._src.iteration.iterator import lose_readers
from forebay._src.service import security
from forebay._src.service.security import NOTHING, Credentials, Tls
from forebay._src.service.status import (
    ConsumerStatus,
    JobStatus,
    KindStatus,
    OpStatus,
    ScaleDecision,
    ScaleStatus,
    Worked,
    WorkerStatus,
)
from forebay._src.usage import explained
from forebay.errors import ClosedError, InvalidPipelineError

#: Seconds that a service may take to answer a process that received it in a pickle.
_ANSWER_S = 10.0


class Service:
    """The result of `connect` and `up`.

    With `up`, the service is a context manager: leaving it ends the dispatcher and the workers. Using it
    afterwards is a `ClosedError`.
    """

    def __init__(
        self, client: _native.ServiceClient, up: _native.Up | None = None, shown: Credentials | None = None
    ) -> None:
        self._client = client
        self._up = up
        self._closed = False
        #: The credentials of the connection.
        self._shown = shown or NOTHING

    @property
    def address(self) -> str:
        """The dispatcher's address, `forebay://host:port`; of several, all addresses with commas between."""
        return self._client.address

    def jobs(self, name: str | None = None) -> list[JobStatus]:
        """Returns the jobs, the oldest first.

        Args:
            name: Returns only the job of this name, with all kept decisions on its workers, and the costs of its ops.
                Default: every job, each with the last few decisions.
        """
        return [
            JobStatus(
                name=job,
                dataset=dataset,
                state=state,
                epochs=epochs or None,
                seed=seed,
                raced=raced,
                consumers=tuple(ConsumerStatus(*c) for c in consumers),
                tenant=tenant,
                key=key,
                workers=workers or None,
                workers_computing=computing,
                priority=priority,
                local_threads=local_threads,
                decisions=tuple(
                    ScaleDecision(ago_ms / 1000, before, since, reason, json.loads(figures), cut_then)
                    for ago_ms, before, since, reason, figures, cut_then in decisions
                ),
                caching={worker: json.loads(cache) for worker, cache in caching},
                ops=tuple(
                    OpStatus(op, line or None, at, *rows, seconds, *bytes_, row_us, earlier)
                    for op, line, at, rows, seconds, bytes_, row_us, earlier in ops
                ),
                cut=cut,
                worked=tuple(Worked(*of) for of in worked),
            )
            for (
                (epochs, seed, raced, workers, computing, local_threads, priority),
                job,
                dataset,
                state,
                consumers,
                tenant,
                key,
                decisions,
                caching,
                ops,
                cut,
                worked,
            ) in self._open.jobs(name)
        ]

    def scale(self) -> ScaleStatus:
        """Returns the number of workers that all jobs need together, for a program that starts and ends workers.

        Raises:
            PermissionDeniedError: The service has tokens, and this one is not an administrator's.
        """
        wanted, workers, max_workers, policy, kinds = self._open.scale()
        return ScaleStatus(wanted or None, workers, max_workers, policy, tuple(KindStatus(*kind) for kind in kinds))

    def workers(self) -> list[WorkerStatus]:
        """Returns the workers, and the workers that the service lost in the last 10 minutes (state `lost`)."""
        return [WorkerStatus(*status[:-1], *status[-1]) for status in self._open.workers()]

    def why(self, job: str) -> str:
        """Says in one sentence what holds a job back, data or training, and how many workers would do.

        Args:
            job: Its name.

        Raises:
            NotFoundError: There is no such job.

        >>> import forebay as fb
        >>> with fb.up() as service:
        ...     batches = list(fb.range(8).batch(4).distribute(service, job="small"))
        ...     why = service.why("small")
        >>> why.endswith(".")
        True
        """
        return self._open.why(job)

    def cancel(self, job: str, *, tenant: str | None = None) -> None:
        """Ends a job permanently; its consumers get a `ClosedError`.

        Args:
            job: Its name.
            tenant: The tenant that owns it. Default: one's own; only an administrator may name another.
        """
        self._open.cancel(job, tenant)

    def forget(self, job: str, *, tenant: str | None = None) -> None:
        """Removes a job that is finished or was cancelled. The figures about its dataset stay.

        The service does so by itself when there are many, or after a while (`forebay dispatcher --keep-jobs`).

        Args:
            job: Its name.
            tenant: The tenant that owns it. Default: one's own; only an administrator may name another.

        Example:
            >>> import forebay as fb
            >>> with fb.up() as service:
            ...     batches = list(fb.range(8).batch(4).distribute(service, job="short"))
            ...     service.forget("short")
            ...     service.jobs()
            []
        """
        self._open.forget(job, tenant)

    @property
    def worker_pids(self) -> list[int]:
        """The processes of the workers that `up` started and that have not ended."""
        return self._ours().worker_pids()

    @property
    def dispatcher_pid(self) -> int:
        """The process of the dispatcher that `up` started."""
        return self._ours().dispatcher_pid()

    def kill_worker(self, index: int = 0) -> int:
        """Kills a worker with SIGKILL and returns the id of its process. For tests and demonstrations."""
        return self._ours().kill_worker(index)

    def add_worker(self) -> int:
        """Starts one more worker and returns the id of its process."""
        return self._ours().add_worker()

    def restart_dispatcher(self) -> int:
        """Kills the dispatcher with SIGKILL, starts it again over its state, and returns the id of its process."""
        return self._ours().restart_dispatcher()

    def close(self) -> None:
        """Ends the processes that `up` started, at the first call; for a service elsewhere, it does nothing."""
        if self._up is not None:
            # First, so that no other thread waits for a process that is about to end.
            self._closed = True
            lose_readers(self.address, self._ended())
            self._up.close()

    @property
    def _open(self) -> _native.ServiceClient:
        """Returns the connection, unless the service was ended here."""
        if self._closed:
            raise self._ended()
        return self._client

    def _ended(self) -> ClosedError:
        return ClosedError(
            f"the service at {self.address} was closed",
            {"hint": "use it before close() and inside its `with` block, or start another one with up()"},
        )

    def _ours(self) -> _native.Up:
        _ = self._open
        if self._up is None:
            raise InvalidPipelineError(
                f"the service at {self.address} was not started here", {"hint": "only what up() starts can be managed"}
            )
        return self._up

    def __enter__(self) -> Service:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the processes that `up` started."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the address and the credentials: in another process it is a connection to the same service.

        The credentials include the token, if it has one.
        """
        _ = self._open
        return _again, (self.address, self._shown)

    def __repr__(self) -> str:
        """The address."""
        return f"Service({self.address!r})"


def _again(address: str, shown: Credentials) -> Service:
    return Service(_native.ServiceClient.connect(address, _ANSWER_S, **shown), shown=shown)


@explained()
def connect(
    address: str | None = None, *, timeout: float = 10.0, tls: Tls | None = None, token: str | None = None
) -> Service:
    """Connects to a service.

    Args:
        address: The dispatcher's address, `forebay://host:port`; if there are several, of which one leads, all
            addresses with commas between: `forebay://a:7070,b:7070`. Default: `$FOREBAY_SERVICE`.
        timeout: Seconds to wait for an answer.
        tls: The certificates to trust and to present. Default: those of `$FOREBAY_TLS_CA`, `_CERT`, `_KEY` and `_NAME`;
            without an authority, the connection is not encrypted.
        token: Identifies the caller. Default: `$FOREBAY_TOKEN`, or the content of the file `$FOREBAY_TOKEN_FILE`.

    Raises:
        UnavailableError: No dispatcher answers.
        VersionMismatchError: It is another version.
        PermissionDeniedError: The certificate of one side is not trusted by the other, or the token is not known.
    """
    address = address or os.environ.get("FOREBAY_SERVICE")
    if not address:
        raise InvalidPipelineError(
            "connect: no address was given", {"hint": "give 'forebay://host:port', or set FOREBAY_SERVICE"}
        )
    seconds = arguments.number(timeout, "connect", "timeout")
    shown = security.credentials(tls, token)
    return Service(_native.ServiceClient.connect(address, seconds, **shown), shown=shown)


@explained(None, n="write workers=n", num_workers="write workers=n")
def up(
    workers: int | Literal["auto"] = 2,
    *,
    threads: int = 0,
    state_dir: arguments.PathLike | None = None,
    max_workers: int | None = None,
    policy: str = "forebay",
    objective: str = "time",
    trainer_price: float | None = None,
    worker_price: float | None = None,
    cache: arguments.Paths | None = None,
    cache_memory: int | str | None = None,
    cache_disk: int | str | None = None,
    cache_store: int | str | None = None,
    cache_source: bool | None = None,
    cache_prices: dict[str, float] | None = None,
) -> Service:
    """Starts a dispatcher and workers on this machine, as separate processes, on a free port.

    It waits until the workers are registered. Where the machine is so busy that only some are after 30 s, it warns and
    begins with these; the others join when they are ready. It fails when a process ends, or when none is ready after
    120 s.

    Args:
        workers: The number of workers; `"auto"` starts and ends as many as the jobs need.
        threads: Compute threads of each worker; 0 divides the cores among them, and is 1 with `workers="auto"`.
        state_dir: Folder for the dispatcher's state. Default: a temporary folder, removed with the service.
        max_workers: Maximum number of workers with `workers="auto"`. Default: the cores of this machine.
        policy: Scaling policy, which decides how many workers there are: `forebay`, or `static:N`.
        objective: Optimisation objective: `"time"`, `"cost"`, or `"cost-within:1.05"`, the lowest cost at 1.05 times
            the shortest time or less.
        trainer_price: Price of a trainer's machine for an hour, in any currency, for the objectives with a cost.
        worker_price: Price of a worker for an hour, in the same currency.
        cache: Cache for the rows of `Dataset.cache` beyond memory, also for the next service: a folder on a local disk,
            which keeps the bytes of remote files, too; the url of a store that machines share
            (`s3://bucket/forebay`, `gs://`, `az://`, `file:///mnt/share`); or a list of one of each. Default:
            `$FOREBAY_CACHE`, or memory only.
        cache_memory: Maximum memory of each worker for cached rows: bytes, or a text like `"4GiB"`. Default:
            `$FOREBAY_CACHE_MEMORY`, or a quarter of the machine's (at most 8 GiB), shared among them.
        cache_disk: Quota of the cache folder. Default: `$FOREBAY_CACHE_DISK`, or 32 GiB.
        cache_store: Quota of the store, for all that use it together. Default: `$FOREBAY_CACHE_STORE`, or 1 TiB.
        cache_source: Whether the cache folder keeps the bytes of remote files, so that they are fetched once for all
            workers, jobs and epochs. Default: `$FOREBAY_CACHE_SOURCE` (`on` or `off`), or yes.
        cache_prices: Prices by which `autocache` decides, in any currency: `month`, of a GiB in the store for a month;
            `write`, of a GiB written to it; `worker`, of a worker for an hour. Default: `$FOREBAY_CACHE_PRICES`
            (`month=0.023,write=0.005,worker=0.38`), or the store costs nothing.

    Returns:
        The service; leaving its context ends it. It ends with this process in any case.

    >>> import forebay as fb
    >>> with fb.up(workers=1) as service:
    ...     ds = fb.range(4).batch(2)
    ...     [batch["id"].tolist() for batch in ds.distribute(service, job="count")]
    [[0, 1], [2, 3]]
    """
    if max_workers is not None and workers != "auto":
        raise InvalidPipelineError(
            f"up: max_workers={max_workers!r} goes with workers='auto'", {"hint": "leave one of them out"}
        )
    if isinstance(workers, str) and workers != "auto":
        raise InvalidPipelineError(f"up: workers={workers!r} is no number", {"hint": 'use 0 to 1024, or "auto"'})
    count = None if workers == "auto" else arguments.whole(workers, "up", "workers", 0, 1024)
    most = 0 if max_workers is None else arguments.whole(max_workers, "up", "max_workers", 1, 1024)
    folder = None if state_dir is None else arguments.path(state_dir, "up")
    kept = [] if cache is None else arguments.paths(cache, "up")
    memory = arguments.amount(cache_memory, "up", "cache_memory")
    disk = arguments.amount(cache_disk, "up", "cache_disk")
    store = arguments.amount(cache_store, "up", "cache_store")
    each = arguments.whole(threads, "up", "threads", 0, 4096)
    bytes_too = arguments.flag_or_none(cache_source, "up", "cache_source")
    paid = None if cache_prices is None else arguments.prices(cache_prices, "up", "cache_prices")
    given = {"trainer_price": trainer_price, "worker_price": worker_price}
    trainer, worker = (None if price is None else arguments.number(price, "up", name) for name, price in given.items())
    started = _native.Up.start(
        count, most, each, folder, policy, objective, (trainer, worker), kept, memory, disk, store, bytes_too, paid
    )
    notice = started.notice()
    if notice is not None:
        warnings.warn(notice, stacklevel=2)
    try:
        return Service(_native.ServiceClient.connect(started.address, 30.0), started)
    except BaseException:
        started.close()
        raise


def resolve(service: Service | str, op: str) -> Service:
    """Returns an open service, after connecting if it is an address; `op` is the method that the user called."""
    if isinstance(service, Service):
        _ = service._open
        return service
    if isinstance(service, str):
        return connect(service)
    raise InvalidPipelineError(f"{op}: {service!r} is no service", {"hint": "give what up() returns, or an address"})
