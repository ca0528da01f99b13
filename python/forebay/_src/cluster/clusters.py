"""`forebay.cluster`: starts, shows and ends services on a Kubernetes or Ray cluster."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from forebay import _native
from forebay._src import arguments
from forebay._src.cluster import place
from forebay._src.cluster.place import Place, Request, Tell
from forebay._src.cluster.status import ClusterStatus
from forebay._src.service import security
from forebay._src.service.security import Credentials, Tls
from forebay._src.service.service import Service
from forebay.errors import InvalidPipelineError, UnavailableError

#: Seconds that a service may take to start, by default: an image of gigabytes may be pulled.
START_SECONDS = 600.0
#: Seconds that a service may take to end, by default: pods have 30 s.
STOP_SECONDS = 120.0
#: Seconds that the dispatcher may take to answer.
ANSWER_SECONDS = 10.0
#: The most workers, and the longest name: names of objects contain it, and have at most 63 characters.
WORKERS_MAX, NAME_MAX = 10_000, 30
#: The most workers of `workers="auto"`, by default.
AUTO_MAX = 16

#: Fields of a ForebayService that have options of their own.
_OWN_FIELDS = ("image", "workers")
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_log = logging.getLogger("forebay")


class ClusterService(Service):
    """A service on a cluster, as `start` and `find` return it; `Dataset.distribute` takes it.

    The object connects at its first use, so a machine that does not reach the network of the pods can start, show and
    end a service that trainers elsewhere use. Unlike the result of `up`, the service goes on when this program ends.
    """

    def __init__(self, there: Place, started: ClusterStatus, tell: Tell, shown: Credentials) -> None:
        self._there, self._started, self._progress = there, started, tell
        self._connected: _native.ServiceClient | None = None
        self._up, self._closed, self._shown = None, False, shown

    @property
    def address(self) -> str:
        """The dispatcher's address, as programs in the cluster's network reach it."""
        return self._started.address

    @property
    def name(self) -> str:
        """The name of the service."""
        return self._started.name

    def status(self) -> ClusterStatus:
        """Returns the present status of the service."""
        return self._there.status(self.name)

    def stop(self, *, timeout: float = STOP_SECONDS) -> None:
        """Ends the service, as `stop` does."""
        self._there.stop(self.name, _seconds(timeout, "cluster.stop"), self._progress)
        self._closed = True

    @property
    def _open(self) -> _native.ServiceClient:
        if self._closed:
            raise self._ended()
        if self._connected is None:
            try:
                self._connected = _native.ServiceClient.connect(self.address, ANSWER_SECONDS, **self._shown)
            except UnavailableError as error:
                hint = "only programs in the network of the cluster reach this address: run the trainer there"
                if self._started.on == "kubernetes":
                    hint += f", with `envFrom: [{{configMapRef: {{name: {self.name}}}}}]` and fb.connect()"
                raise UnavailableError(error.message, {**error.context, "hint": hint}) from None
        return self._connected


def start(
    name: str,
    *,
    on: Literal["kubernetes", "ray"] = "kubernetes",
    workers: int | Literal["auto"] = 4,
    max_workers: int | None = None,
    threads: int = 1,
    image: str | None = None,
    namespace: str | None = None,
    context: str | None = None,
    address: str | None = None,
    spec: Mapping[str, Any] | None = None,
    plain: bool = False,
    update: bool = False,
    timeout: float = START_SECONDS,
    tls: Tls | None = None,
    token: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ClusterService:
    """Starts a service on a cluster, and waits until its dispatcher and workers serve.

    The call can be repeated: if a service of this name runs with the same arguments, it waits for that service. On
    Kubernetes a service is a `ForebayService` where forebay-operator is installed, else plain objects; see
    docs/kubernetes.md. On Ray a service is a detached actor, which runs the dispatcher and starts the workers; see
    docs/ray.md.

    Args:
        name: The name: at most 30 of a-z, 0-9 and -, and the first is a letter.
        on: The kind of cluster.
        workers: The number of workers; `"auto"`: as many as the jobs need. On Kubernetes that needs forebay-operator.
        max_workers: The most workers with `workers="auto"`. Default: 16.
        threads: Compute threads of each worker, and the cores that the cluster reserves for it.
        image: The image of the pods: this version of Forebay, and the modules that functions of pipelines import.
        namespace: The namespace. Default: that of the context.
        context: The context of the kubeconfig (`$KUBECONFIG`, or `~/.kube/config`). Default: the current one.
        address: The address of the Ray cluster, as `ray://head:10001`. Default: the cluster that this program is
            connected to, `$RAY_ADDRESS`, or one that runs on this machine.
        spec: More fields of a `ForebayService`, as `{"env": [...], "serviceAccountName": "reads-the-bucket"}`. Without
            forebay-operator: `env`, `imagePullSecrets`, `serviceAccountName`, `volumes` and `volumeMounts`.
        plain: Whether plain objects are made although forebay-operator is installed.
        update: Whether a running service of this name is changed to these arguments.
        timeout: Seconds to wait; with 0 the call returns at once.
        tls: The certificates for connections to it, as for `connect`.
        token: Identifies the caller to it, as for `connect`.
        progress: Is called with a line for each step. Default: the logger `forebay`.

    Returns:
        The service. It goes on when this program ends; `stop` ends it.

    Raises:
        ConflictError: There is a service of this name that runs with other arguments, or that `start` did not make.
        UnavailableError: The cluster does not answer, or the service is not ready in time. Then it goes on starting,
            and the error has the reasons of its pods.
        PermissionDeniedError: The cluster does not let this user do it.
    """
    shown = security.credentials(tls, token)
    request = Request(
        name=_checked(name, "cluster.start"),
        workers=_bounds(workers, max_workers),
        threads=arguments.whole(threads, "cluster.start", "threads", 1, 4096),
        image="" if image is None else arguments.text(image, "cluster.start", "image"),
        spec=_spec(spec),
        plain=arguments.flag(plain, "cluster.start", "plain"),
        update=arguments.flag(update, "cluster.start", "update"),
        timeout=_seconds(timeout, "cluster.start"),
    )
    there, tell = place.of(on, namespace, context, address), progress or _tell
    return ClusterService(there, there.start(request, tell), tell, shown)


def find(
    name: str,
    *,
    on: Literal["kubernetes", "ray"] = "kubernetes",
    namespace: str | None = None,
    context: str | None = None,
    address: str | None = None,
    tls: Tls | None = None,
    token: str | None = None,
) -> ClusterService:
    """Returns a service that runs on a cluster; the arguments are those of `start`.

    Raises:
        NotFoundError: There is no service of this name.
    """
    shown = security.credentials(tls, token)
    there = place.of(on, namespace, context, address)
    return ClusterService(there, there.status(_checked(name, "cluster.find")), _tell, shown)


def status(
    *,
    on: Literal["kubernetes", "ray"] = "kubernetes",
    namespace: str | None = None,
    context: str | None = None,
    address: str | None = None,
) -> list[ClusterStatus]:
    """Returns the status of all services of a namespace, or of a Ray cluster; the arguments are those of `start`."""
    return place.of(on, namespace, context, address).statuses()


def stop(
    name: str,
    *,
    on: Literal["kubernetes", "ray"] = "kubernetes",
    namespace: str | None = None,
    context: str | None = None,
    address: str | None = None,
    timeout: float = STOP_SECONDS,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Ends a service that `start` made, with the state of its jobs, and waits until nothing of it is left.

    The other arguments are those of `start`.

    Args:
        name: The name of the service.
        on: The kind of cluster.
        namespace: The namespace.
        context: The context of the kubeconfig.
        address: The address of the Ray cluster.
        timeout: Seconds to wait.
        progress: Is called with a line for each step. Default: the logger `forebay`.

    Raises:
        NotFoundError: There is no service of this name.
        ConflictError: `start` did not make it.
        UnavailableError: Objects are still there after `timeout` seconds; the error lists them.
    """
    within, named = _seconds(timeout, "cluster.stop"), _checked(name, "cluster.stop")
    place.of(on, namespace, context, address).stop(named, within, progress or _tell)


def _tell(line: str) -> None:
    _log.info("cluster: %s", line)


def _checked(name: str, op: str) -> str:
    if not isinstance(name, str) or len(name) > NAME_MAX or not _NAME.fullmatch(name):
        raise InvalidPipelineError(
            f"{op}: {arguments.shown(name)} is no name for a service",
            {"hint": f"use at most {NAME_MAX} of a-z, 0-9 and -, and begin with a letter"},
        )
    return name


def _seconds(timeout: float, op: str) -> float:
    seconds = arguments.number(timeout, op, "timeout")
    if seconds < 0:
        raise InvalidPipelineError(f"{op}: timeout={timeout!r} is below 0")
    return seconds


def _bounds(workers: int | str, max_workers: int | None) -> tuple[int, int]:
    if workers != "auto":
        if isinstance(workers, str):
            raise InvalidPipelineError(
                f"cluster.start: workers={workers!r} is no number", {"hint": 'use a number, or "auto"'}
            )
        if max_workers is not None:
            raise InvalidPipelineError(
                "cluster.start: max_workers= goes with workers='auto'", {"hint": "leave one of them out"}
            )
        count = arguments.whole(workers, "cluster.start", "workers", 1, WORKERS_MAX)
        return count, count
    most = AUTO_MAX if max_workers is None else max_workers
    # If both bounds are equal, the number of workers is fixed.
    return 1, arguments.whole(most, "cluster.start", "max_workers", 2, WORKERS_MAX)


def _spec(spec: Mapping[str, Any] | None) -> dict[str, Any]:
    if spec is None:
        return {}
    if not isinstance(spec, Mapping) or not all(isinstance(key, str) for key in spec):
        raise InvalidPipelineError("cluster.start: spec= is a dict of fields of a ForebayService")
    if ours := sorted(set(spec) & set(_OWN_FIELDS)):
        raise InvalidPipelineError(
            f"cluster.start: spec= has {', '.join(ours)}", {"hint": "give image=, workers=, max_workers= and threads="}
        )
    return dict(spec)
