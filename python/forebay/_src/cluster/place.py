"""The place where a service runs: the calls that both kinds of clusters have, and the request of a user."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from forebay._src import arguments
from forebay._src.cluster.status import ClusterStatus
from forebay.errors import InvalidPipelineError

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """The request of a user, checked.

    Attributes:
        name: The name of the service.
        workers: The fewest and the most workers; the same where they are not scaled.
        threads: Compute threads of each worker.
        image: The image of the pods; empty where none is given.
        spec: More fields of a ForebayService.
        plain: Whether plain objects are made although there is an operator.
        update: Whether a running service is changed.
        timeout: Seconds to wait; 0: not at all.
    """

    name: str
    workers: tuple[int, int]
    threads: int
    image: str
    spec: Mapping[str, Any]
    plain: bool
    update: bool
    timeout: float


def shown(workers: tuple[int, int]) -> int | str:
    """Returns a number of workers, or both bounds.

    >>> shown((4, 4)), shown((1, 16))
    (4, '1 to 16')
    """
    return workers[0] if workers[0] == workers[1] else f"{workers[0]} to {workers[1]}"


class Place(Protocol):
    """A cluster, and the part of it that is searched for services."""

    def start(self, request: Request, tell: Tell) -> ClusterStatus:
        """Starts a service, and waits until it is ready."""

    def status(self, name: str) -> ClusterStatus:
        """Returns the status of a service."""

    def statuses(self) -> list[ClusterStatus]:
        """Returns the status of each service."""

    def stop(self, name: str, timeout: float, tell: Tell) -> None:
        """Ends a service, and waits until it is gone."""


def of(on: str, namespace: str | None, context: str | None, address: str | None) -> Place:
    """Returns the place that a user names. Its modules are imported here, because most programs need none of them."""
    foreign = {"ray": {"namespace": namespace, "context": context}, "kubernetes": {"address": address}}
    if on not in foreign:
        raise InvalidPipelineError(f"cluster: on={on!r} is no kind of cluster", {"hint": "use 'kubernetes' or 'ray'"})
    if names := [name for name, value in foreign[on].items() if value is not None]:
        raise InvalidPipelineError(f"cluster: {', '.join(names)} is nothing of on={on!r}", {"hint": "leave it out"})
    if on == "ray":
        from forebay._src.cluster.on_ray import RayPlace, connected

        return RayPlace(connected(address))
    from forebay._src.cluster import kubeconfig
    from forebay._src.cluster.api import Api
    from forebay._src.cluster.on_kubernetes import KubernetesPlace

    access = kubeconfig.read(context)
    place = access.namespace if namespace is None else arguments.text(namespace, "cluster", "namespace")
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", place):
        raise InvalidPipelineError(f"cluster: {arguments.shown(place)} is no name of a namespace")
    return KubernetesPlace(Api(access), place)
