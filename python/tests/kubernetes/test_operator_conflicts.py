"""The operator behind a proxy that refuses or loses a quarter of its writes: the cluster converges after each change.

Run by `make kubernetes`.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_cast import FLUID
from kubernetes_cluster import Cluster, Json, Operator, wait_for
from kubernetes_proxy import FAULTS, Proxy
from kubernetes_world import World, cache_of, caches, job_of, jobs, spec_of

PROGRAM = os.environ.get("FOREBAY_OPERATOR")
HISTORIES = 20
STEPS = 6

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")


class Fuzzed(Operator):
    """An operator that reaches the API through a proxy."""

    def __init__(self, cluster: Cluster, proxy: Proxy) -> None:
        super().__init__(cluster, str(PROGRAM), name="fuzzed", server=proxy.url)


@pytest.fixture
def fuzzed(world: World, tmp_path: Path) -> Iterator[tuple[World, Proxy, Fuzzed]]:
    proxy = Proxy(world.cluster.url, tmp_path, share=0.25, seed=11)
    operator = Fuzzed(world.cluster, proxy)
    world.operator.stop()
    operator.start()
    try:
        yield world, proxy, operator
    finally:
        operator.kill()
        proxy.close()
        world.operator.start()


def services(namespace: str) -> str:
    return f"/apis/forebay.dev/v1alpha1/namespaces/{namespace}/forebayservices"


def service_of(name: str, workers: int) -> Json:
    types = [{"name": f"t{n}", "price": 1, "threads": 1, "replicas": {"min": 0, "max": 2}} for n in range(workers)]
    spec = {"image": "registry.example/forebay:0.1", "dispatcher": {"volume": {}}, "workers": types}
    return {"apiVersion": "forebay.dev/v1alpha1", "kind": "ForebayService", "metadata": {"name": name}, "spec": spec}


def step(cluster: Cluster, namespace: str, number: int, rng: random.Random) -> None:
    """One step of a history: an object is made, changed or deleted."""
    what = rng.choice(("job", "job", "finish", "remove", "cache", "uncache", "service", "service", "unserve"))
    there = [it["metadata"]["name"] for it in cluster.list(jobs(namespace))]
    if what == "job":
        shared = {"name": f"shared-{rng.randrange(2)}", "options": {"idleTime": 1}}
        backend = {"mountPath": "/data", **spec_of(), **(shared if rng.random() < 0.5 else {})}
        cluster.request("POST", jobs(namespace), job_of(f"j{number}", backend))
    elif what == "finish" and there:
        done = {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
        cluster.request("PATCH", f"{jobs(namespace)}/{rng.choice(there)}/status", done)
    elif what == "remove" and there:
        cluster.delete(f"{jobs(namespace)}/{rng.choice(there)}")
    elif what == "cache" and cluster.find(f"{caches(namespace)}/own") is None:
        cluster.request("POST", caches(namespace), cache_of("own", spec_of()))
    elif what == "uncache":
        cluster.delete(f"{caches(namespace)}/own")
    elif what == "service":
        made = service_of("s", rng.randrange(1, 4))
        if cluster.find(f"{services(namespace)}/s") is None:
            cluster.request("POST", services(namespace), made)
        else:
            cluster.request("PATCH", f"{services(namespace)}/s", {"spec": made["spec"]})
    elif what == "unserve":
        cluster.delete(f"{services(namespace)}/s", propagationPolicy="Background")


def unsettled(cluster: Cluster, namespace: str) -> list[str]:
    """Returns the objects that have not reached their expected state."""
    late = []
    for cache in cluster.list(caches(namespace)):
        if "deletionTimestamp" not in cache["metadata"] and cache.get("status", {}).get("cacheStatus") != "PVCCreated":
            late.append(f"{namespace} cache {cache['metadata']['name']} {cache.get('status')}")
    for service in cluster.list(services(namespace)):
        told, wanted = service.get("status", {}), {it["name"] for it in service["spec"]["workers"]}
        deployments = cluster.list(f"/apis/apps/v1/namespaces/{namespace}/deployments")
        made = {it["metadata"]["labels"]["forebay.dev/worker-type"] for it in deployments}
        if told.get("observedGeneration") != service["metadata"]["generation"] or made != wanted:
            late.append(f"{namespace} service: {told} {made} {wanted}")
    return late


def left(cluster: Cluster, namespace: str) -> list[str]:
    core, apps = f"/api/v1/namespaces/{namespace}", f"/apis/apps/v1/namespaces/{namespace}"
    fluid = f"{FLUID}/namespaces/{namespace}"
    kinds = [caches(namespace), f"{core}/persistentvolumeclaims", f"{core}/services", f"{apps}/deployments"]
    kinds += [f"{apps}/statefulsets", f"{fluid}/datasets", f"{fluid}/alluxioruntimes"]
    return [f"{kind} {it['metadata']['name']}" for kind in kinds for it in cluster.list(kind)]


def test_twenty_histories_converge_and_leak_nothing(fuzzed: tuple[World, Proxy, Fuzzed]) -> None:
    world, proxy, operator = fuzzed
    cluster = world.cluster
    if "controllers" not in cluster.running:
        pytest.skip("needs the kube-controller-manager, which deletes what is owned")
    namespaces = [f"{world.namespace}-h{number}" for number in range(HISTORIES)]
    randoms = [random.Random(number) for number in range(HISTORIES)]
    for namespace in namespaces:
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    for number in range(STEPS):
        for namespace, rng in zip(namespaces, randoms, strict=True):
            step(cluster, namespace, number, rng)

    def check(what: str, of: object, namespaces: list[str] = namespaces) -> None:
        assert callable(of)
        found: list[str] = []

        def done() -> bool:
            found[:] = [it for namespace in namespaces for it in of(cluster, namespace)]
            return not found

        try:
            wait_for(what, done, 120)
        except AssertionError as late:
            raise AssertionError(f"{late}: {found[:10]}\n{operator.log()[-4000:]}") from None

    check("all is as it should be", unsettled)
    told = operator.figures()
    page = (Path(__file__).resolve().parents[3] / "docs" / "kubernetes.md").read_text()
    documented = set(re.findall(r"`(forebay_operator_[a-z_]+)", page))
    assert {re.sub(r"_(bucket|sum|count)$", "", it.split("{")[0]) for it in told} == documented
    assert told["forebay_operator_leader"] == 1
    states: Counter[str] = Counter(
        it["status"]["cacheStatus"] for ns in namespaces for it in cluster.list(caches(ns)) if "status" in it
    )
    ready = told.get('forebay_operator_objects{what="cache",state="PVCCreated"}', 0)
    assert ready >= states["PVCCreated"] - 2, (told, states)
    assert told['forebay_operator_reconciles_total{what="cache",outcome="conflict"}'] > 0
    assert told['forebay_operator_reconciles_total{what="service",outcome="done"}'] > 0

    for namespace in namespaces:
        for kind in (jobs(namespace), caches(namespace), services(namespace)):
            for it in cluster.list(kind):
                cluster.delete(f"{kind}/{it['metadata']['name']}", propagationPolicy="Background")
    check("all is gone", left)
    assert set(proxy.faults) == set(FAULTS)
    # The operator has no hot loop: it repeats failed writes, and sends few other requests.
    assert proxy.writes < HISTORIES * STEPS * 60, proxy.writes
