"""The status of a service on a cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterStatus:
    """The status of a service on a cluster.

    Attributes:
        name: Its name.
        on: `kubernetes` or `ray`.
        place: Its namespace, or the address of the Ray cluster.
        kind: The form of the service: a `ForebayService` (with forebay-operator), `objects`, or `actors` of Ray.
        address: Where programs that reach the cluster's network connect.
        ready: Whether the dispatcher and all workers serve; where the jobs decide on the number, the fewest workers.
        dispatchers: The number of dispatchers that serve, and of all: `1/1`.
        workers: The number of workers that serve, and of all: `3/4`.
        image: The image of its pods; empty on Ray.
        ours: Whether `forebay cluster` made it, and may stop it.
        reasons: The reasons why it is not ready, in the words of the platform.
        final: The reasons that only a change of the service can remove.
    """

    name: str
    on: str
    place: str
    kind: str
    address: str
    ready: bool
    dispatchers: str
    workers: str
    image: str = ""
    ours: bool = True
    reasons: tuple[str, ...] = ()
    final: str | None = None
