"""The reasons why pods of a service are not ready, in Kubernetes' own words: an image, a node, a quota, an exit. Pure.

Bounds: `REASONS_MAX` reasons of `REASON_CHARACTERS` each. A reason that several pods share is listed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from forebay._src.cluster.kubeconfig import Json
from forebay._src.cluster.parts import ROLE

#: The most reasons, and the characters of each.
REASONS_MAX = 8
REASON_CHARACTERS = 400
#: The reasons in the status of a pod that starts. If something is wrong, the events say more.
_STARTS = ("ContainerCreating", "PodInitializing")


def reasons(pods: Iterable[Json], workloads: Iterable[Json], events: Iterable[Json], names: set[str]) -> list[str]:
    """Returns why pods are not ready, and why some are not made.

    Args:
        pods: The pods of the service.
        workloads: Its StatefulSet and Deployments.
        events: Warnings of its namespace.
        names: The names of its objects; events of others are left out.

    >>> waits = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling a"}}
    >>> status = {"containerStatuses": [{"state": waits}]}
    >>> labels = {ROLE: "worker"}
    >>> pods = [{"metadata": {"name": f"p-{i}", "labels": labels}, "status": status} for i in range(2)]
    >>> reasons(pods, [], [], set())
    ['2 worker pods: ImagePullBackOff: Back-off pulling a']
    """
    pods, found, loud = list(pods), Counter[str](), set[str]()
    for pod in pods:
        if is_ready(pod):
            continue
        meta = pod["metadata"]
        role = str(meta.get("labels", {}).get(ROLE, "other"))
        said = "is being deleted" if meta.get("deletionTimestamp") else _of_pod(pod)
        if said is not None:
            # The events of the pod would repeat the reason.
            loud.add(meta["name"])
        found[f"{role}\0{said or _waits_for(pod)}"] += 1
    told = [_counted(key, count) for key, count in found.items()]
    told += list(_refused(workloads))
    told += list(_of_events(events, names - loud))
    return [it if len(it) <= REASON_CHARACTERS else f"{it[: REASON_CHARACTERS - 1]}…" for it in told][:REASONS_MAX]


def is_ready(pod: Json) -> bool:
    """Returns whether a pod serves."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    return any(it.get("type") == "Ready" and it.get("status") == "True" for it in _conditions(pod))


def _conditions(found: Json) -> list[Json]:
    return found.get("status", {}).get("conditions") or []


def _of_pod(pod: Json) -> str | None:
    """Returns the reason why a pod is not ready, or `None` if its status has none."""
    status = pod.get("status", {})
    for condition in _conditions(pod):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _joined(condition)
    if status.get("phase") == "Failed":
        return _joined({"reason": status.get("reason") or "Failed", "message": status.get("message")})
    for container in [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]:
        waiting = container.get("state", {}).get("waiting")
        if waiting and waiting.get("reason") not in _STARTS:
            ended = container.get("lastState", {}).get("terminated")
            return _joined(waiting) + (f"; it ended before with {_ended(ended)}" if ended else "")
        if ended := container.get("state", {}).get("terminated"):
            return f"ended with {_ended(ended)}"
    return None


def _waits_for(pod: Json) -> str:
    """Returns how far the start of a pod is, for a pod whose status has no reason."""
    if not pod.get("spec", {}).get("nodeName"):
        return "waits for a node"
    statuses = pod.get("status", {}).get("containerStatuses") or []
    return "is started" if any(it.get("state", {}).get("running") for it in statuses) else "waits for its containers"


def _ended(terminated: Json) -> str:
    said = " ".join(str(terminated.get("message") or "").split())
    return f"exit code {terminated.get('exitCode')} ({terminated.get('reason') or 'Error'})" + (
        f": {said}" if said else ""
    )


def _joined(found: Json) -> str:
    reason, message = str(found.get("reason") or "waits"), " ".join(str(found.get("message") or "").split())
    return f"{reason}: {message}" if message else reason


def _counted(key: str, count: int) -> str:
    role, said = key.split("\0", 1)
    return f"{count} {role} pod{'s' if count > 1 else ''}: {said}"


def _refused(workloads: Iterable[Json]) -> Iterator[str]:
    """Yields the reasons why Deployments may not make pods: most of the time a quota."""
    for found in workloads:
        for condition in _conditions(found):
            if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
                yield f"{found['metadata']['name']}: {_joined(condition)}"


def _of_events(events: Iterable[Json], names: set[str]) -> Iterator[str]:
    """Yields the last warning about each object."""
    last: dict[str, Json] = {}
    for event in sorted(events, key=lambda it: str(it.get("lastTimestamp") or it.get("eventTime") or "")):
        of = event.get("involvedObject", {})
        if of.get("name") in names:
            last[f"{of.get('kind')} {of.get('name')}"] = event
    for name, event in last.items():
        yield f"{name}: {_joined(event)}"
