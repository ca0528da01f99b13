"""The calls that tests of the operator need: they make jobs, caches and pods in a namespace, and wait for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubernetes_cast import FLUID_KINDS, KUBEDL_KINDS, Fluid
from kubernetes_cluster import Cluster, Json, Operator, wait_for

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/forebay-operator"
TIER = {"cachePath": "/dev/shm", "quota": "1Gi", "mediumType": "MEM"}


class Operated:
    """A cluster with the operator, and with the stand-ins of the tests."""

    def __init__(self, programs: Path, program: str, folder: Path) -> None:
        self.cluster = Cluster(programs, folder)
        self.fluid = Fluid(self.cluster, binds_claims=False)
        self.operator = Operator(self.cluster, program)
        self.namespaces = 0

    def start(self) -> None:
        for kind in KUBEDL_KINDS + FLUID_KINDS:
            self.cluster.request("POST", DEFINITIONS, kind)
        self.cluster.kubectl("create", "namespace", "forebay")
        self.cluster.kubectl("apply", "-f", str(DEPLOY / "crd.yaml"), "-f", str(DEPLOY / "rbac.yaml"))
        self.fluid.binds_claims = not self.cluster.start_controllers()
        self.fluid.start()
        self.operator.start()
        wait_for("the webhook is registered", lambda: self.cluster.find(WEBHOOKS))

    def close(self) -> None:
        self.fluid.close()
        self.cluster.close()


def caches(namespace: str) -> str:
    return f"/apis/cache.kubedl.io/v1alpha1/namespaces/{namespace}/cachebackends"


def jobs(namespace: str, plural: str = "tfjobs") -> str:
    return f"/apis/training.kubedl.io/v1alpha1/namespaces/{namespace}/{plural}"


def spec_of(location: str = "local:///dataset/mnist", engine: str = "fluid", **options: Any) -> Json:
    engines: Json = {
        "fluid": {"alluxioRuntime": {"replicas": 1, "tieredStorage": [TIER]}},
        "forebay": {"tieredStorage": [TIER]},
    }
    sources = [{"location": location, "subDirName": "mnist"}]
    spec: Json = {"dataset": {"dataSources": sources}, "cacheEngine": {engine: engines[engine]}}
    return {**spec, "options": options} if options else spec


def cache_of(name: str, spec: Json) -> Json:
    return {"apiVersion": "cache.kubedl.io/v1alpha1", "kind": "CacheBackend", "metadata": {"name": name}, "spec": spec}


def job_of(name: str, backend: Json, kind: str = "TFJob") -> Json:
    return {
        "apiVersion": "training.kubedl.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"cacheBackend": backend},
    }


def pod_of(name: str, cache: str | None = None, owner: Json | None = None, **annotations: str) -> Json:
    """A pod that asks for a cache by annotation, or has an owner, or neither."""
    containers = [{"name": name_of, "image": "registry.example/trainer:1"} for name_of in ("trainer", "sidecar")]
    init = [{"name": "prepare", "image": "registry.example/trainer:1"}]
    meta: Json = {"name": name, "annotations": {**({"forebay.dev/cache": cache} if cache else {}), **annotations}}
    if owner is not None:
        identity = {key: owner["metadata"][key] for key in ("name", "uid")}
        meta["ownerReferences"] = [
            {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **identity}
        ]
    spec = {"containers": containers, "initContainers": init, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class World:
    """A namespace of the cluster, and the actions of a test in it."""

    def __init__(self, cluster: Cluster, fluid: Fluid, operator: Operator, namespace: str) -> None:
        self.cluster, self.fluid, self.operator, self.namespace = cluster, fluid, operator, namespace
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.pods = f"/api/v1/namespaces/{namespace}/pods"
        self.claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"

    def make_cache(self, name: str, spec: Json) -> Json:
        made: Json = self.cluster.request("POST", caches(self.namespace), cache_of(name, spec))
        return made

    def make_job(self, name: str, backend: Json, kind: str = "TFJob") -> Json:
        plural = kind.lower() + "s"
        made: Json = self.cluster.request("POST", jobs(self.namespace, plural), job_of(name, backend, kind))
        return {**made, "apiVersion": "training.kubedl.io/v1alpha1", "kind": kind}

    def make_pod(self, *arguments: Any, **named: Any) -> Json:
        """Makes a pod; while the webhook is registering, the API makes it without a cache, so it is made again."""
        pod = pod_of(*arguments, **named)

        def made() -> Json | None:
            there: Json = self.cluster.request("POST", self.pods, pod)
            if there["metadata"].get("labels", {}).get("forebay.dev/cache"):
                return there
            self.cluster.delete(f"{self.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)
            return None

        found: Json = wait_for("the webhook changes the pod", made)
        return found

    def cache(self, name: str) -> Json | None:
        return self.cluster.find(f"{caches(self.namespace)}/{name}")

    def status(self, name: str) -> Json:
        found = self.cache(name)
        return {} if found is None else found.get("status", {})

    def until_state(self, name: str, state: str, reason: str | None = None) -> Json:
        def reached() -> Json | None:
            status = self.status(name)
            return status if status.get("cacheStatus") == state and reason in (None, status["reason"]) else None

        try:
            found: Json = wait_for(f"{name} is {state}", reached)
        except AssertionError as late:
            raise AssertionError(f"{late}; it is {self.status(name)}; {self.operator.log()[-3000:]}") from None
        return found

    def until_gone(self, name: str) -> None:
        try:
            wait_for(f"{name} is gone", lambda: self.cache(name) is None)
        except AssertionError as late:
            raise AssertionError(f"{late}; it is {self.status(name)}; {self.operator.log()[-3000:]}") from None

    def waits(self, name: str) -> bool:
        return waits(self.cluster.request("GET", f"{self.pods}/{name}"))

    def until_runs(self, name: str) -> None:
        wait_for(f"pod {name} may run", lambda: not self.waits(name))

    def finish_job(self, name: str, kind: str = "tfjobs") -> None:
        done = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
        self.cluster.request("PATCH", f"{jobs(self.namespace, kind)}/{name}/status", done)

    def finish_pod(self, name: str) -> None:
        self.cluster.request("PATCH", f"{self.pods}/{name}/status", {"status": {"phase": "Succeeded"}})

    def events(self, reason: str) -> list[Json]:
        found = self.cluster.list(f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events")
        return [it for it in found if it["reason"] == reason]


def denied(cluster: Cluster) -> tuple[set[tuple[str, ...]], int]:
    """Returns the requests that the API always denied the operator, and the number of allowed kinds of requests."""
    # An API server that has just started denies some requests that it allows later. A missing right stays denied.
    lines = (cluster.folder / "audit.log").read_text().splitlines()
    asked: dict[str, set[tuple[str, ...]]] = {"allow": set(), "forbid": set()}
    for it in map(json.loads, lines):
        what = it.get("objectRef", {})
        decision = it.get("annotations", {}).get("authorization.k8s.io/decision")
        if decision and "resource" in what:
            asked[decision].add((it["verb"], what.get("apiGroup", ""), what["resource"], what.get("subresource", "")))
    return asked["forbid"] - asked["allow"], len(asked["allow"])


def waits(pod: Json) -> bool:
    gated = any(gate["name"] == "forebay.dev/cache" for gate in pod["spec"].get("schedulingGates", []))
    held = any(it["name"] == "forebay-cache-wait" for it in pod["spec"].get("initContainers", []))
    return gated or (held and pod["metadata"].get("annotations", {}).get("forebay.dev/cache-ready") != "true")
