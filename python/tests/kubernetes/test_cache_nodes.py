"""Cache nodes of the engine forebay on a real API server: data is in the tiers of nodes before a pod runs.

The pods' processes, the mounts and the store are real. Scheduler, kubelet and the calls of the CSI driver are played by
`kubernetes_nodes`. Run by `make kubernetes`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from buckets import credentials
from kubernetes_cluster import Json, wait_for
from kubernetes_nodes import LABEL, CacheNodes
from kubernetes_world import World, caches, denied, spec_of
from mounts import FILES, cannot_mount

PROGRAM = os.environ.get("FOREBAY_OPERATOR")
SIZE = sum(map(len, FILES.values()))
CANNOT = cannot_mount()
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator"),
    pytest.mark.skipif(CANNOT is not None, reason=str(CANNOT)),
]


@pytest.fixture
def nodes(world: World, moto: str, tmp_path: Path) -> Iterator[CacheNodes]:
    if "controllers" not in world.cluster.running:
        pytest.skip("no kube-controller-manager makes the pods of Deployments")
    driver = {"metadata": {"name": "csi.forebay.dev"}, "spec": {"attachRequired": False, "podInfoOnMount": False}}
    world.cluster.request("POST", DRIVERS, driver)
    number = int(world.namespace.removeprefix("ns-"))
    try:
        with CacheNodes(world.cluster, world.namespace, tmp_path / "nodes", credentials(moto), number) as nodes:
            yield nodes
        assert nodes.wrong == []
        assert denied(world.cluster)[0] == set()
    finally:
        world.cluster.delete(f"{DRIVERS}/csi.forebay.dev")


def spec(replicas: int | None = None, **options: int) -> Json:
    made = spec_of("s3://mounted/train", "forebay", **options)
    made["cacheEngine"]["forebay"] |= {} if replicas is None else {"replicas": replicas}
    return made


def condition(world: World, name: str, type_: str) -> tuple[str, str, str]:
    found = [it for it in world.status(name).get("conditions", []) if it["type"] == type_]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")


def until(world: World, nodes: CacheNodes, name: str, type_: str, status: str, reason: str) -> str:
    """Waits for a condition of a cache; returns its message."""
    try:
        wait_for(f"{type_} is {reason}", lambda: condition(world, name, type_)[:2] == (status, reason))
    except AssertionError as late:
        logs = "\n".join(it.read_text()[-2000:] for it in nodes.folder.glob("*.log"))
        raise AssertionError(
            f"{late}; {world.status(name)}; {nodes.wrong}; {logs}; {world.operator.log()[-3000:]}"
        ) from None
    return condition(world, name, type_)[2]


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def test_no_pod_runs_before_its_share_of_the_data_is_cached(world: World, nodes: CacheNodes, mount_bucket: str) -> None:
    nodes.quota = {"a": 10 * SIZE}
    world.make_cache("train", spec(2, minCachedPercent=80))
    pod = world.make_pod("p", "train")
    (near,) = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert near["podAffinityTerm"]["labelSelector"]["matchLabels"] == {LABEL: "train"}
    assert near["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    why = until(world, nodes, "train", "Cached", "False", "NodesMissing")
    wait_for("half of all", lambda: world.status("train").get("cachedPercentage") == "50.0%")
    why = wait_for("the cause", lambda: "each has a pod" in (why := condition(world, "train", "Cached")[2]) and why)
    assert why == "1 of 2 cache nodes run: 0/1 nodes are available: each has a pod of this cache."
    waits = until(world, nodes, "train", "Ready", "False", "NotCachedYet")
    assert waits == "pods wait until 80 % are cached: 50.0% so far"
    assert world.status("train")["cacheStatus"] == "PVCCreated"
    assert world.waits("p")
    # A node joins the cluster.
    nodes.quota["b"] = 10 * SIZE
    until(world, nodes, "train", "Cached", "True", "Complete")
    world.until_runs("p")
    status = world.status("train")
    assert (status["cachedPercentage"], status["total"]) == ("100.0%", f"{SIZE / 2**20:.2f}MiB")
    assert [it["name"] for it in status["users"]] == ["p"], "pods of cache nodes use no cache"
    printed = world.cluster.kubectl("get", "cachebackend", "-n", world.namespace).splitlines()
    assert printed[1].split()[:5] == ["train", "p", "PVCCreated", "forebay", "1"]
    assert "100.0%" in printed[1]
    # A pod that does not answer: the figures stay. A change of the object does not wait for the next look at the nodes,
    # but an answer counts for 4 s.
    with stopped(next(iter(nodes.processes.values())).pid):
        path = f"{caches(world.namespace)}/train"

        def is_silent() -> bool:
            now = str(int(time.monotonic() / 6))
            world.cluster.request("PATCH", path, {"metadata": {"annotations": {"now": now}}})
            return condition(world, "train", "Cached")[:2] == ("False", "NodeSilent")

        wait_for("a node is silent", is_silent)
        assert world.status("train")["cachedPercentage"] == "100.0%"
    until(world, nodes, "train", "Cached", "True", "Complete")
    # A lost node: its data is missing until another node has it.
    del nodes.quota["b"]
    (lost,) = [name for name, node in nodes.node_of.items() if node == "b"]
    world.cluster.delete(f"{world.pods}/{lost}")
    until(world, nodes, "train", "Cached", "False", "NodesMissing")
    world.make_pod("later", "train")
    assert world.waits("later")
    nodes.quota["c"] = 10 * SIZE
    world.until_runs("later")
    for name in ("p", "later"):
        world.cluster.delete(f"{world.pods}/{name}", gracePeriodSeconds=0)
    world.cluster.delete(f"{caches(world.namespace)}/train")
    world.until_gone("train")
    wait_for("no pod is left", lambda: not world.cluster.list(world.pods))
    assert world.cluster.find(f"/api/v1/persistentvolumes/forebay.{world.namespace}.train") is None
    for path in ("apps/v1/namespaces/{}/deployments", "networking.k8s.io/v1/namespaces/{}/networkpolicies"):
        assert world.cluster.list(f"/apis/{path.format(world.namespace)}") == []


def test_a_tier_that_is_too_small_is_told_and_the_nodes_follow_the_spec(
    world: World, nodes: CacheNodes, mount_bucket: str
) -> None:
    nodes.quota = {"a": SIZE // 2, "b": SIZE // 2}
    # Without replicas, one node.
    world.make_cache("small", spec(minCachedPercent=100))
    path = f"{caches(world.namespace)}/small"
    world.make_pod("p", "small")
    assert "the tier of node a is full" in until(world, nodes, "small", "Cached", "False", "TierFull")
    until(world, nodes, "small", "Ready", "False", "NotCachedYet")
    assert 0 < float(world.status("small")["cachedPercentage"].rstrip("%")) <= 50
    assert world.waits("p")
    world.cluster.request("PATCH", path, {"spec": {"options": {"minCachedPercent": 20}}})
    world.until_runs("p")
    deployment = f"/apis/apps/v1/namespaces/{world.namespace}/deployments/forebay-cache-small"
    # A drift of the replicas is corrected. The image stays while a pod is ready: another pod might be at a node without
    # the data. A paused Deployment replaces no pod.
    drift = [
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "registry.example/earlier:1"},
        {"op": "replace", "path": "/spec/replicas", "value": 3},
        {"op": "add", "path": "/spec/paused", "value": True},
    ]
    world.cluster.request("PATCH", deployment, drift, patch="json-patch")
    found = wait_for("1 replica", lambda: (it := world.cluster.find(deployment)) and it["spec"]["replicas"] == 1 and it)
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/earlier:1"
    world.cluster.request("PATCH", deployment, {"spec": {"paused": False}})

    def image() -> str:
        found: Json = world.cluster.request("GET", deployment)
        return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

    wait_for("no pod is ready, and the image is the operator's", lambda: image() == "registry.example/forebay:0.1")
    chosen = {"replicas": 2, "nodeSelector": {"gpu": "a100"}, "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    world.cluster.request("PATCH", path, {"spec": {"cacheEngine": {"forebay": chosen}}})
    wait_for("two nodes", lambda: len(nodes.processes) == 2)

    def chooses() -> tuple[Json | None, list[Json] | None]:
        pod = world.cluster.request("GET", deployment)["spec"]["template"]["spec"]
        return pod.get("nodeSelector"), pod.get("tolerations")

    wait_for("the nodes are chosen", lambda: chooses() == (chosen["nodeSelector"], chosen["tolerations"]))
    other = {"nodeSelector": {"gpu": None, "disk": "nvme"}, "tolerations": None}
    world.cluster.request("PATCH", path, {"spec": {"cacheEngine": {"forebay": other}}})
    wait_for("other nodes are chosen", lambda: chooses() == ({"disk": "nvme"}, None))
    world.cluster.request(
        "PATCH",
        path,
        {"spec": {"cacheEngine": {"forebay": {"replicas": 0}}, "options": {"minCachedPercent": 0}}},
    )
    wait_for("no node", lambda: world.cluster.find(deployment) is None and not nodes.processes)
    wait_for("no condition", lambda: condition(world, "small", "Cached") == ("", "", ""))
    world.cluster.delete(f"{world.pods}/p", gracePeriodSeconds=0)
    world.cluster.delete(path)
    world.until_gone("small")
