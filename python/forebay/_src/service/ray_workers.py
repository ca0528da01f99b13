"""`forebay.ray`: workers as actors of the Ray cluster of this program."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import ipaddress
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from forebay import _native
from forebay._src import arguments
from forebay._src.service import security
from forebay._src.service.ray_fleet import ANSWER_SECONDS, Fleet, RayEvent, RayWorker
from forebay._src.service.ray_host import WorkerHost
from forebay._src.service.security import Credentials, Tls
from forebay._src.service.service import Service, resolve
from forebay.errors import InvalidPipelineError, UnavailableError

#: Options of an actor that the user may not set.
_OURS = ("num_cpus", "max_concurrency", "max_restarts", "max_task_retries", "lifetime", "name", "get_if_exists")


class RayWorkers:
    """The result of `workers`: a context manager that ends the workers on exit; they also end with this program."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._finalizer = weakref.finalize(self, fleet.stop)
        # The finalizer's own exit hook may run after Ray's connection has ended, and would not wait for the workers.
        self._finalizer.atexit = False
        self._at_exit = atexit.register(functools.partial(fleet.close, drain=False))

    @property
    def workers(self) -> list[RayWorker]:
        """The workers, the oldest first, including the workers that wait for room."""
        return list(self._fleet.shown)

    @property
    def events(self) -> list[RayEvent]:
        """The last 256 events of the workers, the oldest first. The logger `forebay` reports them, too."""
        return self._fleet.events()

    def close(self, *, drain: bool = True) -> None:
        """Ends the workers. A second call does nothing.

        Args:
            drain: Whether they first serve the data that they hold, for 15 s at most, so that no job computes it again.
        """
        first_served = arguments.flag(drain, "close", "drain")
        self._fleet.close(first_served)
        atexit.unregister(self._at_exit)

    def __enter__(self) -> RayWorkers:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the workers; after an error, at once."""
        self.close(drain=kind is None)

    def __repr__(self) -> str:
        """The number of workers."""
        return f"RayWorkers({len(self.workers)})"


def workers(
    service: Service | str,
    *,
    num_cpus: int = 1,
    count: int | None = None,
    max_workers: int | None = None,
    kind: str | None = None,
    spot: bool = False,
    tls: Tls | None = None,
    token: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> RayWorkers:
    """Keeps as many workers on the Ray cluster of this program as the service needs (`service.scale()`).

    Each is a Ray actor that runs `forebay worker` on its node. They start and end as jobs need them; a worker that is
    no longer needed first serves the data that it holds. If a worker cannot start, or dies, `events` reports it with
    its cause, and another starts after a pause: 1 s, then 2, up to 60. A worker for which the cluster has no room waits
    for it, so that Ray's autoscaler sees it.

    Args:
        service: The service, or its address, which the nodes of the cluster must be able to reach. With tokens, it
            needs an administrator's: the service tells only them how many workers it needs.
        num_cpus: The cores that Ray reserves for each worker, and its number of threads.
        count: The number of workers, which the jobs then do not change. Default: as many as they need.
        max_workers: The most workers. Default: the limit of the dispatcher. It does not go with `count`.
        kind: The dispatcher's kind of worker for these workers (`forebay dispatcher --offer`), which has their price.
            Default: it has no kinds.
        spot: With `kind`, whether it is the kind that may be preempted.
        tls: The certificates of the workers, and the authorities that they trust; the files are read on the nodes.
            Default: those of the connection of `service`.
        token: The workers' token for the dispatcher; a worker's token is enough. It passes through Ray. Default: the
            token of the connection of `service`.
        options: More options of the actors, those of `ray.remote`: `resources`, `memory`, `runtime_env`,
            `scheduling_strategy` (default: `"SPREAD"`).

    Returns:
        The workers. Keep the object: they end with it, when its context is left, or with this program. The call does
        not wait for them to start.

    Raises:
        UnavailableError: Ray is not installed, or this program has not called `ray.init()`.
        PermissionDeniedError: The service has tokens, and this one is not an administrator's.
        InvalidPipelineError: An argument is invalid, or the service is on this machine alone and the cluster is not.
    """
    cpus, of = arguments.whole(num_cpus, "ray.workers", "num_cpus", 1, 4096), _kind(kind, spot)
    ray = _connected()
    found = resolve(service, "ray.workers")
    scale = found.scale()
    found._open.wanted(*(of or ()))
    most = scale.max_workers
    if count is not None and max_workers is not None:
        raise InvalidPipelineError(
            "ray.workers: count= and max_workers= are both given", {"hint": "leave one of them out"}
        )
    if count is not None:
        most = arguments.whole(count, "ray.workers", "count", 1, 100_000)
    if max_workers is not None:
        most = arguments.whole(max_workers, "ray.workers", "max_workers", 1, 100_000)
    loopback = _is_loopback(found.address)
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
    if loopback and len(nodes) > 1:
        raise InvalidPipelineError(
            f"ray.workers: only this machine can reach {found.address}, and the Ray cluster has {len(nodes)} nodes",
            {"hint": "start `forebay dispatcher --listen 0.0.0.0:7070`, and connect to it as the nodes can reach it"},
        )
    command = ["--dispatcher", found.address, "--threads", str(cpus)]
    if of:
        price = next(known.price for known in scale.kinds if (known.kind, known.spot) == of)
        command += ["--kind", of[0], "--price", str(price), *(["--spot"] if of[1] else [])]
    shown = _variables(_shown(found, tls, token))
    started = _actor_class(ray, cpus, dict(options or {}))
    needs = _needs(cpus, options or {})
    asks = _native.ServiceClient.connect(found.address, ANSWER_SECONDS, **found._shown)
    fixed = None if count is None else most
    return RayWorkers(Fleet(ray, asks, most, lambda: started.remote(command, shown, loopback), needs, of, fixed))


def _kind(kind: str | None, spot: bool) -> tuple[str, bool] | None:
    """Returns the kind to start, and whether it may be preempted."""
    is_spot = arguments.flag(spot, "ray.workers", "spot")
    if kind is None and is_spot:
        raise InvalidPipelineError("ray.workers: spot=True goes with kind=", {"hint": "say which kind these are"})
    return None if kind is None else (arguments.text(kind, "ray.workers", "kind"), is_spot)


def _connected() -> Any:
    """Returns the module Ray if this program is connected to a cluster; starts none."""
    if importlib.util.find_spec("ray") is None:
        raise UnavailableError("ray.workers: Ray is not installed", {"hint": "pip install ray"})
    import ray

    if not ray.is_initialized():
        raise UnavailableError(
            "ray.workers: this program is not connected to a Ray cluster", {"hint": "call ray.init() before"}
        )
    return ray


def _actor_class(ray: Any, cpus: int, options: dict[str, Any]) -> Any:
    """Returns the class of the actors, its options checked."""
    if ours := sorted(set(options) & set(_OURS)):
        raise InvalidPipelineError(
            f"ray.workers: options= has {', '.join(ours)}, which Forebay sets itself",
            {"hint": "give num_cpus= and max_workers= to ray.workers"},
        )
    own = {"num_cpus": cpus, "max_concurrency": WorkerHost.THREADS, "max_restarts": 0}
    try:
        return ray.remote(WorkerHost).options(**{"scheduling_strategy": "SPREAD", **options, **own})
    except (TypeError, ValueError) as error:
        raise InvalidPipelineError(f"ray.workers: Ray refuses options={options!r}: {error}") from error


def _needs(cpus: int, options: Mapping[str, Any]) -> dict[str, float]:
    """Returns the resources that Ray reserves for a worker, by the names that nodes have for them.

    >>> _needs(2, {"num_gpus": 0, "memory": 1e9, "resources": {"input": 1}})
    {'CPU': 2, 'memory': 1000000000.0, 'input': 1}
    """
    named = {"CPU": cpus, "GPU": options.get("num_gpus"), "memory": options.get("memory")}
    return {name: amount for name, amount in {**named, **(options.get("resources") or {})}.items() if amount}


def _shown(service: Service, tls: Tls | None, token: str | None) -> Credentials:
    """Returns the workers' credentials: the given ones, and those of the service's connection for the rest."""
    given, own = security.credentials(tls, token), service._shown
    shown: Credentials = {**own}
    if tls is not None:
        shown["tls"] = given["tls"]
    if token is not None:
        shown["token"], shown["token_file"] = token, None
    if shown["tls"] is not None and shown["tls"][1] is None:
        raise InvalidPipelineError(
            "ray.workers: over TLS, workers need a certificate of their own",
            {"hint": "tls=fb.Tls(ca=..., cert=..., key=...), with files that are on the nodes"},
        )
    return shown


def _variables(shown: Credentials) -> dict[str, str]:
    """Returns the variables from which a worker reads its credentials."""
    ca, cert, key, name = shown["tls"] or (None, None, None, None)
    named = {"TLS_CA": ca, "TLS_CERT": cert, "TLS_KEY": key, "TLS_NAME": name}
    named |= {"TOKEN": shown["token"], "TOKEN_FILE": shown["token_file"]}
    return {f"FOREBAY_{name}": value for name, value in named.items() if value}


def _is_loopback(address: str) -> bool:
    """Returns whether dispatchers can be reached only from their own machine.

    >>> [_is_loopback(a) for a in ("forebay://127.0.0.1:7070", "[::1]:1,localhost:2", "10.0.0.5:7070", "head:7070")]
    [True, True, False, False]
    """
    hosts = [one.rpartition(":")[0] or one for one in address.removeprefix("forebay://").split(",")]

    def local(host: str) -> bool:
        try:
            return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
        except ValueError:
            return False

    return all(map(local, hosts))
