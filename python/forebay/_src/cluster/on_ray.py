"""Services on a Ray cluster: a named, detached actor for each, which runs the dispatcher and keeps the workers.

Ray gives a name to one actor only, so of two starts of one name only one makes the actor. Bounds: the actor answers
within `ANSWER_SECONDS`; a wait polls every `POLL_SECONDS`, and ends at the caller's deadline.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from forebay import _native
from forebay._src.cluster.place import Request, Tell, shown
from forebay._src.cluster.ray_head import ServiceHead
from forebay._src.cluster.status import ClusterStatus
from forebay.errors import (
    ConflictError,
    InvalidPipelineError,
    NotFoundError,
    UnavailableError,
    VersionMismatchError,
)

#: Seconds that an actor may take to answer.
ANSWER_SECONDS = 10.0
#: Seconds between two polls.
POLL_SECONDS = 0.5
#: Ray's namespace of the actors, and the prefix of their names.
NAMESPACE, PREFIX = "forebay", "forebay-service-"
#: Events of workers that do not say why a worker is missing.
_NO_REASONS = ("started", "leaving", "ended")


@dataclass(frozen=True)
class RayPlace:
    """A Ray cluster.

    Attributes:
        ray: The module, connected to it.
    """

    ray: Any

    def start(self, request: Request, tell: Tell) -> ClusterStatus:
        """Makes the actor of a service, and waits for its processes."""
        given = {"image": request.image, "spec": request.spec, "plain": request.plain, "update": request.update}
        if names := [name for name, value in given.items() if value]:
            raise InvalidPipelineError(
                f"cluster.start: {', '.join(names)} is for on='kubernetes'",
                {"hint": "on Ray, workers have the environment that the cluster was started with"},
            )
        start(self.ray, request.name, {"workers": request.workers, "threads": (request.threads, request.threads)}, tell)
        return wait(self.ray, request.name, request.timeout, tell) if request.timeout else self.status(request.name)

    def status(self, name: str) -> ClusterStatus:
        """Returns the status of a service."""
        return status(self.ray, name)

    def statuses(self) -> list[ClusterStatus]:
        """Returns the status of each service in the cluster."""
        return statuses(self.ray)

    def stop(self, name: str, timeout: float, tell: Tell) -> None:
        """Ends a service."""
        stop(self.ray, name, timeout, tell)


def connected(address: str | None) -> Any:
    """Returns the module Ray, connected to a cluster: that of this program, or the one at the address."""
    if importlib.util.find_spec("ray") is None:
        raise UnavailableError("cluster: Ray is not installed", {"hint": "pip install 'forebay[ray]'"})
    import ray

    if ray.is_initialized():
        return ray
    _check_reachable(address)
    try:
        # Without an address this is $RAY_ADDRESS, or a cluster that runs on this machine; no cluster is started.
        ray.init(address=address or "auto", namespace=NAMESPACE, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        context = {"cause": str(error).strip() or type(error).__name__}
        context["hint"] = "give the cluster's address, as `ray://head:10001`, or set RAY_ADDRESS"
        raise UnavailableError(f"cluster: no Ray cluster answers at {address or 'auto'}", context) from None
    return ray


def _check_reachable(address: str | None) -> None:
    """Refuses an address at which nothing listens: Ray would try for minutes."""
    host, _, port = (address or os.environ.get("RAY_ADDRESS", "")).removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        context = {"cause": str(error), "hint": "is the address the right one, and reachable from here (VPN)?"}
        raise UnavailableError(f"cluster: no Ray cluster answers at {host}:{port}", context) from None


def _found(ray: Any, name: str) -> Any:
    """Returns the actor of a service, or `None`."""
    try:
        return ray.get_actor(PREFIX + name, namespace=NAMESPACE)
    except ValueError:
        return None


def start(ray: Any, name: str, asked: dict[str, tuple[int, int]], progress: Tell) -> None:
    """Makes the actor of a service, and does not wait for its processes."""
    options = {
        "name": PREFIX + name,
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "num_cpus": 0,
        "max_concurrency": ServiceHead.THREADS,
        "max_restarts": 0,
    }
    if _found(ray, name) is None:
        try:
            ray.remote(ServiceHead).options(**options).remote(asked)
            progress(f"made the detached actor {PREFIX + name}")
            return
        except ValueError:
            # Another client made the actor in the same moment.
            pass
    state = _state(ray, name)
    # While the actor starts, it does not answer. The caller waits for it, and asks again.
    there = asked if state is None else state["asked"]
    pairs = [(key, shown(there[key]), shown(asked[key])) for key in asked]
    if differs := [f"{key} {before} → {after}" for key, before, after in pairs if before != after]:
        raise ConflictError(
            f"cluster: {name!r} runs already, and not as asked for (now → asked): {', '.join(differs)}",
            {"hint": "choose another name, or stop it before"},
        )
    progress(f"the actor {PREFIX + name} is there already")


def _state(ray: Any, name: str) -> dict[str, Any] | None:
    """Returns the state that the actor reports, or `None` while it starts."""
    actor = _found(ray, name)
    if actor is None:
        raise NotFoundError(
            f"cluster: there is no service {name!r} on this Ray cluster",
            {"hint": "`forebay cluster status --on ray` without a name lists all"},
        )
    if not hasattr(actor, "state"):
        raise ConflictError(
            f"cluster: the actor {PREFIX + name} was not made by `forebay cluster`", {"hint": "choose another name"}
        )
    try:
        state: dict[str, Any] = ray.get(actor.state.remote(), timeout=ANSWER_SECONDS)
    except ray.exceptions.GetTimeoutError:
        return None
    except ray.exceptions.RayError as error:
        context = {"cause": str(error), "hint": "the cluster's nodes need Forebay: the same version as here"}
        raise UnavailableError(f"cluster: {name!r} could not start, or its node is lost", context) from None
    if state["version"] != _native.VERSION:
        versions = f"the cluster has Forebay {state['version']}, and this program {_native.VERSION}"
        raise VersionMismatchError(f"cluster: {versions}", {"hint": "install the same version on both"})
    return state


def wait(ray: Any, name: str, timeout: float, progress: Tell) -> ClusterStatus:
    """Waits until the dispatcher and all workers serve."""
    deadline, told, found = time.monotonic() + timeout, set[str](), None
    while True:
        found = status(ray, name)
        for line in (f"{found.dispatchers} dispatchers and {found.workers} workers are ready", *found.reasons):
            if line not in told:
                told.add(line)
                progress(line)
        if found.ready:
            return found
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    why = "\n".join(found.reasons) or "Ray does not say"
    raise UnavailableError(
        f"cluster: {name!r} is not ready after {timeout:g} s; it goes on starting",
        {
            "why": f"{why}\n" if "\n" in why else why,
            "ready": f"dispatchers {found.dispatchers}, workers {found.workers}",
            "hint": f"see `forebay cluster status {name} --on ray`; `forebay cluster stop {name} --on ray` ends it",
        },
    )


def status(ray: Any, name: str) -> ClusterStatus:
    """Returns the status of a service."""
    place = str(ray.get_runtime_context().gcs_address)
    state = _state(ray, name)
    if state is None:
        reasons = ("the actor of the service has not started yet",)
        return ClusterStatus(name, "ray", place, "actors", "", False, "0/1", "0/0", reasons=reasons)
    fewest, _ = state["asked"]["workers"]
    running = state["workers"].count("running")
    wanted = max(fewest, len(state["workers"]) - state["workers"].count("leaving"))
    ready = bool(state["dispatcher"]) and running >= max(fewest, 1)
    return ClusterStatus(
        name=name,
        on="ray",
        place=place,
        kind="actors",
        address=state["address"],
        ready=ready,
        dispatchers=f"{int(state['dispatcher'])}/1",
        workers=f"{running}/{wanted}",
        reasons=() if ready else tuple(it for it in state["told"] if not it.startswith(_NO_REASONS)),
    )


def statuses(ray: Any) -> list[ClusterStatus]:
    """Returns the status of each service in the cluster."""
    from ray.util import list_named_actors

    named = [it["name"] for it in list_named_actors(all_namespaces=True) if it["namespace"] == NAMESPACE]
    return [status(ray, it.removeprefix(PREFIX)) for it in sorted(named) if it.startswith(PREFIX)]


def stop(ray: Any, name: str, timeout: float, progress: Tell) -> None:
    """Ends a service: its workers serve the splits that they hold, then the dispatcher ends, and its state goes."""
    actor, deadline = _found(ray, name), time.monotonic() + timeout
    if actor is None:
        raise NotFoundError(f"cluster: there is no service {name!r} on this Ray cluster")
    if not hasattr(actor, "stop"):
        raise ConflictError(f"cluster: the actor {PREFIX + name} was not made by `forebay cluster`")
    try:
        ray.get(actor.stop.remote(), timeout=timeout)
        progress(f"{name!r} has ended, and with it the state of its jobs")
    except ray.exceptions.GetTimeoutError:
        progress(f"{name!r} did not end within {timeout:g} s, and is killed")
    except ray.exceptions.RayError as error:
        progress(f"the actor has died before: {str(error).splitlines()[0]}")
    ray.kill(actor)
    while _found(ray, name) is not None:
        if time.monotonic() >= deadline + ANSWER_SECONDS:
            raise UnavailableError(
                f"cluster: the actor {PREFIX + name} is still there",
                {"hint": "is its node alive? see `ray list actors`"},
            )
        time.sleep(POLL_SECONDS)
