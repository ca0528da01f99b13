"""Services on Kubernetes: made, seen and ended through the API, with the rights of a kubeconfig.

One object is the root of a service: a ForebayService where its definition is installed, else a ConfigMap. `POST` makes
the root, so of two starts of one name only one makes it. The root owns all other objects, so a stop deletes the root
alone, by its uid, and the cluster's garbage collector deletes the rest. This module changes and deletes only roots with
its label. Bounds: a wait polls every `POLL_SECONDS`, and ends at the caller's deadline.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass

from forebay import _native
from forebay._src.cluster import parts, reasons
from forebay._src.cluster.api import Api, Kind
from forebay._src.cluster.kubeconfig import Json
from forebay._src.cluster.kubernetes_root import Root, find, forebay_service, owners_of
from forebay._src.cluster.kubernetes_status import status, statuses
from forebay._src.cluster.parts import CONFIG_MAPS, DEPLOYMENTS, FOREBAY_SERVICES, STATEFUL_SETS, Asked
from forebay._src.cluster.place import Request, Tell
from forebay._src.cluster.status import ClusterStatus
from forebay.errors import (
    ConflictError,
    ForebayError,
    InvalidPipelineError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)

#: Seconds between two polls of a service.
POLL_SECONDS = 0.5
#: Tries of a replacement whose object changed between reading and writing.
REPLACE_TRIES = 5
#: The kinds of objects in a service.
_KINDS = (
    parts.PODS,
    parts.REPLICA_SETS,
    STATEFUL_SETS,
    DEPLOYMENTS,
    parts.SERVICES,
    CONFIG_MAPS,
    parts.CLAIMS,
    parts.POLICIES,
)


@dataclass(frozen=True)
class KubernetesPlace:
    """A namespace of a cluster.

    Attributes:
        api: The API of the cluster.
        namespace: Its name.
    """

    api: Api
    namespace: str

    def start(self, request: Request, tell: Tell) -> ClusterStatus:
        """Makes the objects of a service, and waits for its pods."""
        if not request.image:
            hint = f"an image with Forebay {_native.VERSION}, and what your functions import: see deploy/images"
            raise InvalidPipelineError("cluster.start: on Kubernetes, an image is needed", {"hint": hint})
        asked = Asked(request.name, self.namespace, request.image, request.workers, request.threads, dict(request.spec))
        root = start(self.api, asked, request.plain, request.update, tell)
        return wait(self.api, root, request.timeout, tell) if request.timeout else self.status(request.name)

    def status(self, name: str) -> ClusterStatus:
        """Returns the status of a service, also if another tool made it."""
        return status(self.api, self.namespace, name)

    def statuses(self) -> list[ClusterStatus]:
        """Returns the status of each service in the namespace."""
        return statuses(self.api, self.namespace)

    def stop(self, name: str, timeout: float, tell: Tell) -> None:
        """Deletes a service, and waits until nothing of it is left."""
        stop(self.api, self.namespace, name, timeout, tell)


def start(api: Api, asked: Asked, plain: bool, update: bool, progress: Tell) -> Root:
    """Makes the objects of a service, and does not wait for its pods."""
    found = find(api, asked.namespace, asked.name)
    if found is None:
        kind = CONFIG_MAPS if plain or not api.serves(f"/apis/{FOREBAY_SERVICES.version}") else FOREBAY_SERVICES
        try:
            found = _make(api, asked, kind, progress)
        except ConflictError:
            # Another client made the root in the same moment. It is checked in the same way as an older root.
            found = find(api, asked.namespace, asked.name)
            if found is None:
                raise
        else:
            if kind == CONFIG_MAPS:
                _make_parts(api, asked, found, is_new=True)
            return found
    _refuse_others(found, asked.namespace)
    if found.body["metadata"].get("deletionTimestamp"):
        raise ConflictError(f"cluster: {found} is being deleted", {"hint": "try again when it is gone"})
    if differs := _differences(found.asked(), asked.shown()):
        if not update:
            raise ConflictError(
                f"cluster: {asked.name!r} runs already, and not as asked for (now → asked): {differs}",
                {"namespace": asked.namespace, "hint": "change it with --update (update=True), or stop it before"},
            )
        if found.kind == CONFIG_MAPS:
            _check_plain(asked)
        found = _replace(api, asked, found)
        progress(f"{found} is changed: {differs}")
    else:
        progress(f"{found} is there already")
    if found.kind == CONFIG_MAPS:
        _make_parts(api, asked, found, is_new=False)
    return found


def _make(api: Api, asked: Asked, kind: Kind, progress: Tell) -> Root:
    body = _described(asked, kind)
    if kind == CONFIG_MAPS:
        _check_plain(asked)
    try:
        made = Root(kind, api.create(kind, asked.namespace, body))
    except PermissionDeniedError as error:
        if kind != FOREBAY_SERVICES:
            raise
        context: dict[str, str] = {**error.context}
        context["hint"] = "ask for the right to create forebayservices.forebay.dev, or use --plain (plain=True)"
        raise PermissionDeniedError(error.message, context) from None
    how = "which forebay-operator makes pods of" if kind == FOREBAY_SERVICES else "and plain objects that it owns"
    progress(f"made {made}, {how}")
    return made


def _check_plain(asked: Asked) -> None:
    """Refuses what plain objects cannot do, before anything is made or changed."""
    parts.plain(asked, "")
    if asked.workers[0] != asked.workers[1]:
        raise InvalidPipelineError(
            "cluster.start: workers='auto' needs forebay-operator, and this service is made of plain objects",
            {"hint": "give a number of workers, or install the operator: kubectl apply -k deploy/kubernetes"},
        )


def _described(asked: Asked, kind: Kind) -> Json:
    body = parts.service(asked) if kind == FOREBAY_SERVICES else parts.root(asked)
    body["metadata"]["annotations"][parts.ASKED] = json.dumps(asked.shown(), sort_keys=True)
    return body


def _refuse_others(found: Root, namespace: str) -> None:
    if found.is_ours:
        return
    plural = found.kind.plural
    raise ConflictError(
        f"cluster: {found} was not made by `forebay cluster`",
        {"hint": f"choose another name, or manage it as it was made: kubectl -n {namespace} get {plural}"},
    )


def _differences(before: Json, after: Json) -> str:
    names = [name for name in after if before.get(name) != after[name]]
    return ", ".join(f"{name} {json.dumps(before.get(name))} → {json.dumps(after[name])}" for name in names)


def _replace(api: Api, asked: Asked, found: Root) -> Root:
    """Replaces spec and data of a root of ours, and keeps the metadata and the status that other programs wrote."""
    described = _described(asked, found.kind)
    for _ in range(REPLACE_TRIES):
        field = "spec" if found.kind == FOREBAY_SERVICES else "data"
        body, meta = {**found.body, field: described[field]}, found.body["metadata"]
        meta["annotations"] = {**meta.get("annotations", {}), **described["metadata"]["annotations"]}
        try:
            return Root(found.kind, api.replace(found.kind, asked.namespace, body))
        except ConflictError:
            again = find(api, asked.namespace, asked.name)
            if again is None or again.uid != found.uid:
                break
            found = again
    raise ConflictError(f"cluster: {found} changes all the time, or was replaced", {"hint": "try again"})


def _make_parts(api: Api, asked: Asked, root: Root, is_new: bool) -> None:
    """Makes the plain objects. After a failure of the first start, it deletes the objects that it made."""
    try:
        for kind, body in parts.plain(asked, root.uid):
            there = api.get(kind, asked.namespace, body["metadata"]["name"])
            if there is not None and root.uid not in owners_of(there):
                what = f"{kind.kind} {body['metadata']['name']} of namespace {asked.namespace}"
                raise ConflictError(
                    f"cluster: {what} is there, and was not made for this service",
                    {"hint": "choose another name, or delete it"},
                )
            api.apply(kind, asked.namespace, body)
    except ForebayError as error:
        if is_new:
            try:
                api.delete(root.kind, asked.namespace, asked.name, root.uid)
            except ForebayError as left:
                context = {**error.context, "still there": f"{root}: {left.message}"}
                raise type(error)(error.message, context) from None
        raise


def wait(api: Api, root: Root, timeout: float, progress: Tell) -> ClusterStatus:
    """Waits until a service is ready, and reports the reasons why it is not ready yet."""
    meta, deadline = root.body["metadata"], time.monotonic() + timeout
    name, namespace = meta["name"], meta["namespace"]
    told: set[str] = set()

    def tell(line: str) -> None:
        if line not in told:
            told.add(line)
            progress(line)

    while True:
        silent, found = None, None
        try:
            found = status(api, namespace, name)
        except UnavailableError as error:
            # The API server restarts, for example. The pods go on meanwhile.
            silent = error
            tell(error.message.removeprefix("cluster: "))
        if found is not None:
            tell(f"{found.dispatchers} dispatchers and {found.workers} workers are ready")
            for reason in found.reasons:
                tell(reason)
            if found.ready:
                return found
            if found.final:
                raise InvalidPipelineError(f"cluster: {name!r} cannot start: {found.final}", _hints(name, namespace))
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
    context = _hints(name, namespace)
    if found is not None:
        context = {"ready": f"dispatchers {found.dispatchers}, workers {found.workers}", **context}
        why = "\n".join(found.reasons) or "Kubernetes does not say"
        context = {"why": f"{why}\n" if "\n" in why else why, **context}
    elif silent is not None:
        context = {"why": silent.message, **context}
    raise UnavailableError(f"cluster: {name!r} is not ready after {timeout:g} s; it goes on starting", context)


def _hints(name: str, namespace: str) -> dict[str, str]:
    place = f"--on kubernetes --namespace {namespace}"
    return {"hint": f"see `forebay cluster status {name} {place}`; `forebay cluster stop {name} {place}` ends it"}


def stop(api: Api, namespace: str, name: str, timeout: float, progress: Tell) -> None:
    """Deletes a service that this module made, and waits until everything that it owned is gone."""
    root = find(api, namespace, name)
    if root is not None:
        _refuse_others(root, namespace)
    found = _labelled(api, namespace, name)
    # After an interrupted stop, the root is gone, and other objects still name it as their owner.
    owners = {root.uid} if root else {uid for it in found for uid in owners_of(it, name)}
    if not owners:
        raise NotFoundError(
            f"cluster: there is no service {name!r} in namespace {namespace!r}", {"context": api.access.context}
        )
    if root is not None:
        api.delete(root.kind, namespace, name, root.uid)
        progress(f"{root} is deleted, and with it the state of its jobs")
    deadline, last = time.monotonic() + timeout, ""
    while left := _owned(found, owners):
        if (line := f"{len(left)} objects are still there") != last:
            progress(line)
            last = line
        if time.monotonic() >= deadline:
            break
        time.sleep(POLL_SECONDS)
        found = _labelled(api, namespace, name)
    else:
        return
    remaining = "\n".join(_described_left(it) for it in left[: reasons.REASONS_MAX])
    raise UnavailableError(
        f"cluster: {len(left)} objects of {name!r} are still there after {timeout:g} s",
        {"still there": f"{remaining}\n", "hint": "they are being deleted; `stop` again waits for them"},
    )


def _labelled(api: Api, namespace: str, name: str) -> list[Json]:
    """Returns the objects with the label of the service, and a ForebayService of its name."""
    found = [it for kind in _KINDS for it in api.list(kind, namespace, labelSelector=f"{parts.SERVICE}={name}")]
    service = forebay_service(api, namespace, name)
    return [*found, service] if service else found


def _owned(found: list[Json], owners: set[str]) -> list[Json]:
    """Returns the owners and the objects that they own, and adds these objects to the owners."""
    before = -1
    while before != len(owners):
        before = len(owners)
        owners |= {it["metadata"]["uid"] for it in found if owners & owners_of(it)}
    return [it for it in found if it["metadata"]["uid"] in owners]


def _described_left(found: Json) -> str:
    meta = found["metadata"]
    said = f"{found['kind']} {meta['name']}"
    if since := meta.get("deletionTimestamp"):
        said += f", being deleted since {since}"
    if holders := meta.get("finalizers"):
        said += f", held by {', '.join(holders)}"
    return said
