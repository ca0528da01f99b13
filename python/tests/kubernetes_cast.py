"""Stand-ins for programs that do not run in tests: Fluid's controllers, and the controller of volumes."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from kubernetes_cluster import ApiError, Cluster, Json

FLUID = "/apis/data.fluid.io/v1alpha1"
RUNTIMES = ("alluxioruntimes", "juicefsruntimes", "jindoruntimes")


def open_definition(group: str, version: str, kind: str, plural: str) -> Json:
    """A CustomResourceDefinition that takes any spec and status."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [{**served, "subresources": {"status": {}}}],
        },
    }


FLUID_KINDS = [
    open_definition("data.fluid.io", "v1alpha1", kind, plural)
    for kind, plural in (
        ("Dataset", "datasets"),
        ("AlluxioRuntime", "alluxioruntimes"),
        ("JuiceFSRuntime", "juicefsruntimes"),
        ("JindoRuntime", "jindoruntimes"),
    )
]
KUBEDL_KINDS = [
    open_definition("training.kubedl.io", "v1alpha1", kind, plural)
    for kind, plural in (("TFJob", "tfjobs"), ("PyTorchJob", "pytorchjobs"))
]


def key(found: Json) -> tuple[str, str]:
    return found["metadata"]["namespace"], found["metadata"]["name"]


class Fluid:
    """Binds each Dataset that has a runtime, makes its volume and claim, and removes them with it."""

    def __init__(self, cluster: Cluster, *, binds_claims: bool) -> None:
        self.cluster, self.binds_claims = cluster, binds_claims
        self.percent = "0.0%"
        self.holds: set[str] = set()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        if self._thread.is_alive():
            self._thread.join(90)

    def _run(self) -> None:
        while not self._ends.is_set():
            # Another client changed the object, or the API does not answer. The next step tries again.
            with contextlib.suppress(ApiError, OSError, ValueError):
                self.step()
            time.sleep(0.05)

    def step(self) -> None:
        runtimes = {
            (it["metadata"]["namespace"], it["metadata"]["name"])
            for k in RUNTIMES
            for it in self.cluster.list(f"{FLUID}/{k}")
        }
        datasets = {
            (it["metadata"]["namespace"], it["metadata"]["name"]): it for it in self.cluster.list(f"{FLUID}/datasets")
        }
        for (namespace, name), dataset in datasets.items():
            if (namespace, name) in runtimes and name not in self.holds:
                self._bind(namespace, name, dataset)
        for volume in self.cluster.list("/api/v1/persistentvolumes"):
            meta, is_fluid = volume["metadata"], volume["spec"].get("storageClassName") == "fluid"
            if is_fluid and volume["status"].get("phase") == "Released" and "deletionTimestamp" not in meta:
                self.cluster.delete(f"/api/v1/persistentvolumes/{meta['name']}")
        for claim in self.cluster.list("/api/v1/persistentvolumeclaims"):
            meta = claim["metadata"]
            namespace, name = key(claim)
            if meta.get("annotations", {}).get("CreatedBy") != "fluid":
                continue
            if (namespace, name) not in runtimes and "deletionTimestamp" not in meta:
                self.cluster.delete(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}")
                self.cluster.delete(f"/api/v1/persistentvolumes/{namespace}-{name}")
            if self.binds_claims:
                self._play_volumes(claim)

    def _play_volumes(self, claim: Json) -> None:
        meta = claim["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/persistentvolumeclaims/{meta['name']}"
        if "deletionTimestamp" in meta:
            self.cluster.request("PATCH", path, {"metadata": {"finalizers": None}})
        elif claim.get("status", {}).get("phase") != "Bound":
            self.cluster.request("PATCH", f"{path}/status", {"status": {"phase": "Bound"}})

    def _bind(self, namespace: str, name: str, dataset: Json) -> None:
        path = f"{FLUID}/namespaces/{namespace}/datasets/{name}"
        states = {"cached": "4.07MiB", "cachedPercentage": self.percent}
        status: Json = {"phase": "Bound", "ufsTotal": "11.06MiB", "cacheStates": states}
        if dataset.get("status") != status:
            self.cluster.request("PATCH", f"{path}/status", {"status": status})
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        if self.cluster.find(f"{claims}/{name}") is not None:
            return
        size, by = {"storage": "100Gi"}, {"CreatedBy": "fluid"}
        common: Json = {"accessModes": ["ReadOnlyMany"], "storageClassName": "fluid"}
        volume: Json = {
            **common,
            "capacity": size,
            "claimRef": {"namespace": namespace, "name": name},
            "csi": {"driver": "fuse.csi.fluid.io", "volumeHandle": f"{namespace}-{name}"},
        }
        claim: Json = {**common, "volumeName": f"{namespace}-{name}", "resources": {"requests": size}}
        self._make("/api/v1/persistentvolumes", "PersistentVolume", f"{namespace}-{name}", by, volume)
        self._make(claims, "PersistentVolumeClaim", name, by, claim)

    def _make(self, path: str, kind: str, name: str, annotations: Json, spec: Json) -> None:
        meta: dict[str, Any] = {"name": name, "annotations": annotations}
        try:
            self.cluster.request("POST", path, {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec})
        except ApiError as error:
            if error.code != 409:
                raise
