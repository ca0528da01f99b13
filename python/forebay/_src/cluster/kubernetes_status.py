"""The status of services on Kubernetes, read from their workloads and pods."""

from __future__ import annotations

import contextlib

from forebay._src.cluster import parts, reasons
from forebay._src.cluster.api import Api
from forebay._src.cluster.kubeconfig import Json
from forebay._src.cluster.kubernetes_root import Root, find
from forebay._src.cluster.parts import CONFIG_MAPS, DEPLOYMENTS, FOREBAY_SERVICES, STATEFUL_SETS
from forebay._src.cluster.status import ClusterStatus
from forebay.errors import ForebayError, NotFoundError, PermissionDeniedError

#: Reasons in the status of a ForebayService that only a change of its spec removes.
_FINAL = ("InvalidSpec", "ChildNotOwned")


def status(api: Api, namespace: str, name: str) -> ClusterStatus:
    """Returns the status of a service, also if another tool made it."""
    root = find(api, namespace, name)
    if root is None or (root.kind == CONFIG_MAPS and not _is_service(root)):
        raise NotFoundError(
            f"cluster: there is no service {name!r} in namespace {namespace!r}",
            {"context": api.access.context, "hint": "`forebay cluster status` without a name lists all"},
        )
    return _look(api, root)


def statuses(api: Api, namespace: str) -> list[ClusterStatus]:
    """Returns the status of each service in a namespace."""
    roots = [Root(CONFIG_MAPS, it) for it in api.list(CONFIG_MAPS, namespace, labelSelector=parts.SERVICE)]
    roots = [it for it in roots if it.is_ours and not it.body["metadata"].get("ownerReferences")]
    # Without the operator, or without the right to read its objects, only plain objects can be listed.
    with contextlib.suppress(NotFoundError, PermissionDeniedError):
        roots += [Root(FOREBAY_SERVICES, it) for it in api.list(FOREBAY_SERVICES, namespace)]
    return sorted((_look(api, it) for it in roots), key=lambda it: it.name)


def _is_service(root: Root) -> bool:
    return parts.SERVICE in root.body["metadata"].get("labels", {})


def _look(api: Api, root: Root) -> ClusterStatus:
    meta, body = root.body["metadata"], root.body
    name, namespace, chosen = meta["name"], meta["namespace"], f"{parts.SERVICE}={meta['name']}"
    sets = api.list(STATEFUL_SETS, namespace, labelSelector=chosen)
    deployments = api.list(DEPLOYMENTS, namespace, labelSelector=chosen)
    dispatchers, workers = _ready(sets), _ready(deployments)
    enough = bool(dispatchers[0]) and (workers[0] >= workers[1] > 0 or _is_scaled(root, workers[0]))
    told = body.get("status", {}) if root.kind == FOREBAY_SERVICES else {}
    is_current = told.get("observedGeneration", 0) >= meta.get("generation", 0) or root.kind == CONFIG_MAPS
    rolled = all(_is_new(it) for it in (*sets, *deployments))
    ready = bool(enough and is_current and rolled) and not meta.get("deletionTimestamp")
    degraded = [it for it in told.get("conditions") or [] if it["type"] == "Degraded" and it["status"] == "True"]
    why = [] if ready else _why(api, namespace, chosen, [*sets, *deployments])
    why = [f"{it['reason']}: {it['message']}" for it in degraded if it["reason"] != "PodsMissing"] + why
    if root.kind == FOREBAY_SERVICES and not is_current:
        why.append("no operator has looked at the ForebayService yet: does forebay-operator run?")
    final = [f"{it['reason']}: {it['message']}" for it in degraded if it["reason"] in _FINAL] if is_current else []
    return ClusterStatus(
        name=name,
        on="kubernetes",
        place=namespace,
        kind="ForebayService" if root.kind == FOREBAY_SERVICES else "objects",
        address=_address(api, namespace, name),
        ready=ready,
        dispatchers=f"{dispatchers[0]}/{dispatchers[1]}",
        workers=f"{workers[0]}/{workers[1]}",
        image=str(body.get("spec", {}).get("image") or root.asked().get("image") or ""),
        ours=root.is_ours,
        reasons=tuple(dict.fromkeys(why)),
        final=final[0] if final else None,
    )


def _is_scaled(root: Root, ready: int) -> bool:
    """Whether the number of workers follows the jobs, and a worker runs: then the service serves."""
    workers = root.body.get("spec", {}).get("workers") or [] if root.kind == FOREBAY_SERVICES else []
    scaled = [it for it in workers if (it.get("replicas") or {}).get("min") != (it.get("replicas") or {}).get("max")]
    fewest = sum((it.get("replicas") or {}).get("min") or 0 for it in workers)
    return bool(scaled) and ready >= fewest


def _ready(workloads: list[Json]) -> tuple[int, int]:
    return (
        sum(it.get("status", {}).get("readyReplicas") or 0 for it in workloads),
        sum(it["spec"].get("replicas", 1) for it in workloads),
    )


def _is_new(workload: Json) -> bool:
    """Whether a workload has all pods of its newest spec, and no older ones: as `kubectl rollout status` decides it."""
    told, wanted = workload.get("status", {}), workload["spec"].get("replicas", 1)
    seen = told.get("observedGeneration", 0) >= workload["metadata"].get("generation", 0)
    updated = told.get("updatedReplicas") or 0
    return bool(seen and updated >= wanted and (told.get("replicas") or 0) <= updated)


def _why(api: Api, namespace: str, chosen: str, workloads: list[Json]) -> list[str]:
    """Returns why pods are not ready, as far as the caller may see it."""
    try:
        pods = api.list(parts.PODS, namespace, labelSelector=chosen)
    except ForebayError as error:
        return [f"why cannot be read: {error.message.removeprefix('cluster: ')}"]
    try:
        warnings = api.list(parts.EVENTS, namespace, fieldSelector="type=Warning")
    except ForebayError:
        # Most reasons are in the pods. Many users may not read events.
        warnings = []
    service = chosen.partition("=")[2]
    names = {it["metadata"]["name"] for it in (*pods, *workloads)} | {f"{service}-dispatcher"}
    return reasons.reasons(pods, workloads, warnings, names)


def _address(api: Api, namespace: str, name: str) -> str:
    """Returns the address of the dispatcher: that of a load balancer, or the name that pods of the cluster resolve."""
    found = api.get(parts.SERVICES, namespace, name) or {}
    for entry in found.get("status", {}).get("loadBalancer", {}).get("ingress") or []:
        if host := entry.get("hostname") or entry.get("ip"):
            return f"forebay://{host}:{parts.address(name, namespace).rpartition(':')[2]}"
    return f"forebay://{parts.address(name, namespace)}"
