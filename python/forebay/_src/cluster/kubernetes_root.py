"""The object on Kubernetes that owns the other objects of a service."""

from __future__ import annotations

import json
from dataclasses import dataclass

from forebay._src.cluster import parts
from forebay._src.cluster.api import Api, Kind
from forebay._src.cluster.kubeconfig import Json
from forebay._src.cluster.parts import CONFIG_MAPS, FOREBAY_SERVICES
from forebay.errors import PermissionDeniedError


@dataclass(frozen=True)
class Root:
    """The object that owns the other objects of a service, as it is in the cluster."""

    kind: Kind
    body: Json

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.body["metadata"]["uid"])

    @property
    def is_ours(self) -> bool:
        """Whether this module made it."""
        return bool(self.body["metadata"].get("labels", {}).get(parts.MANAGED_BY) == parts.OURS)

    def asked(self) -> Json:
        """Returns the arguments of `start`."""
        try:
            found = json.loads(self.body["metadata"].get("annotations", {})[parts.ASKED])
        except (KeyError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def __str__(self) -> str:
        meta = self.body["metadata"]
        return f"{self.kind.kind} {meta['name']} of namespace {meta['namespace']}"


def find(api: Api, namespace: str, name: str) -> Root | None:
    """Returns the root of a service of this name, of any maker."""
    if found := forebay_service(api, namespace, name):
        return Root(FOREBAY_SERVICES, found)
    found = api.get(CONFIG_MAPS, namespace, name)
    # The operator's own ConfigMap goes with its ForebayService.
    if found is None or found["metadata"].get("ownerReferences"):
        return None
    return Root(CONFIG_MAPS, found)


def forebay_service(api: Api, namespace: str, name: str) -> Json | None:
    """Returns a ForebayService, or `None` if the caller may not read it: its ConfigMap has the same name."""
    try:
        return api.get(FOREBAY_SERVICES, namespace, name)
    except PermissionDeniedError:
        return None


def owners_of(found: Json, name: str | None = None) -> set[str]:
    """Returns the uids of the owners of an object, or of its owners of this name."""
    named = found["metadata"].get("ownerReferences") or []
    return {str(it.get("uid")) for it in named if name in (None, it.get("name"))}
