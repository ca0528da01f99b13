"""Any workload names its data: by annotations of a job's object, which its pods inherit, or of a pod.

Run by `make kubernetes`. Neither Kubeflow, JobSet nor KubeRay runs here: the tests make the objects that these would
make between a job and its pods.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from kubernetes_cast import open_definition
from kubernetes_cluster import ApiError, Json, wait_for
from kubernetes_world import DEFINITIONS, World, caches, pod_of, spec_of

PROGRAM = os.environ.get("FOREBAY_OPERATOR")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")

CACHE, SPEC = "forebay.dev/cache", "forebay.dev/cache-spec"
YAML = """
mountPath: /images
dataset: {dataSources: [{location: "local:///dataset/mnist"}]}
cacheEngine:
  fluid:
    alluxioRuntime:
      tieredStorage: [{cachePath: /dev/shm, quota: 1Gi, mediumType: MEM}]
"""
#: The status of a Job that has ended. Newer API servers require all of these fields.
JOB_COMPLETE: Json = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:01:00Z",
    "conditions": [{"type": it, "status": "True"} for it in ("SuccessCriteriaMet", "Complete")],
}
#: Kinds of jobs: group, version, kind, plural, and the status with which they end.
KINDS = {
    "TrainJob": (
        "trainer.kubeflow.org",
        "v1alpha1",
        "trainjobs",
        {"conditions": [{"type": "Complete", "status": "True"}]},
    ),
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets", {"conditions": [{"type": "Completed", "status": "True"}]}),
    "PyTorchJob": ("kubeflow.org", "v1", "pytorchjobs", {"conditions": [{"type": "Succeeded", "status": "True"}]}),
    "RayJob": ("ray.io", "v1", "rayjobs", {"jobDeploymentStatus": "Complete"}),
    "RayCluster": ("ray.io", "v1", "rayclusters", {}),
    "Job": ("batch", "v1", "jobs", JOB_COMPLETE),
}
#: The objects between a job and its pods, from the job downwards.
BETWEEN = {"TrainJob": ["JobSet", "Job"], "JobSet": ["Job"], "RayJob": ["RayCluster"]}


@pytest.fixture(scope="module", autouse=True)
def kinds(operated: Any) -> None:
    """Installs the definitions of other projects. They accept any object."""
    for kind, (group, version, plural, _) in KINDS.items():
        if kind != "Job":
            operated.cluster.request("POST", DEFINITIONS, open_definition(group, version, kind, plural))
    group, version, plural, _ = KINDS["RayJob"]
    wait_for("the kinds are there", lambda: operated.cluster.find(f"/apis/{group}/{version}/{plural}") is not None)


def path(world: World, kind: str) -> str:
    group, version, plural, _ = KINDS[kind]
    return f"/apis/{group}/{version}/namespaces/{world.namespace}/{plural}"


def owned(owner: Json) -> list[Json]:
    meta = owner["metadata"]
    named = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
    return [{**named, "controller": True}]


def make(world: World, kind: str, name: str, annotations: Json | None = None, owner: Json | None = None) -> Json:
    group, version, _, _ = KINDS[kind]
    meta: Json = {"name": name, "annotations": annotations or {}}
    if owner is not None:
        meta["ownerReferences"] = owned(owner)
    container = {"name": "c", "image": "registry.example/trainer:1"}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}} if kind == "Job" else {}
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": meta, "spec": spec}
    return {**world.cluster.request("POST", path(world, kind), body), "apiVersion": body["apiVersion"], "kind": kind}


def chain(world: World, kind: str, name: str, annotations: Json) -> tuple[Json, Json]:
    """Makes a job and the objects between it and its pods; returns the job, and the pods' owner."""
    job = owner = make(world, kind, name, annotations)
    for between in BETWEEN.get(kind, []):
        owner = make(world, between, name, owner=owner)
    return job, owner


def end(world: World, kind: str, name: str) -> None:
    world.cluster.request("PATCH", f"{path(world, kind)}/{name}/status", {"status": KINDS[kind][3]})


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "JobSet", "TrainJob", "RayJob"])
def test_the_pods_of_a_job_inherit_the_cache_that_it_defines(world: World, kind: str) -> None:
    job, owner = chain(world, kind, "train", {SPEC: YAML})
    cache = f"cache-train-{job['metadata']['uid'].replace('-', '')[:5]}"
    pod = world.make_pod("train-0", owner=owner)
    assert {it["mountPath"] for it in pod["spec"]["containers"][0]["volumeMounts"]} == {"/images"}
    assert pod["metadata"]["labels"][CACHE] == cache
    world.until_state(cache, "PVCCreated")
    world.until_runs("train-0")
    # Its pods are listed under the job, and not under the objects between them.
    (user,) = world.status(cache)["users"]
    assert (user["kind"], user["uid"]) == (kind, job["metadata"]["uid"])
    end(world, kind, "train")
    world.finish_pod("train-0")
    wait_for("no pod uses it", lambda: world.status(cache).get("usedNum") == 0)
    found = world.cache(cache)
    assert found is not None
    assert [it["uid"] for it in found["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]


def test_jobs_share_a_cache_by_name_and_a_second_definition_of_it_is_told(world: World) -> None:
    make(world, "JobSet", "a", {CACHE: "shared", SPEC: YAML})
    world.until_state("shared", "PVCCreated")
    make(world, "Job", "b", {CACHE: "shared"})
    make(world, "TrainJob", "c", {CACHE: "shared", SPEC: YAML.replace("mnist", "other")})
    wait_for("all use it", lambda: world.status("shared").get("usedNum") == 3)
    (told,) = [it for it in world.status("shared")["conditions"] if it["type"] == "SpecConflict"]
    assert "TrainJob c" in told["message"]
    end(world, "TrainJob", "c")
    wait_for(
        "the conflict is over",
        lambda: "SpecConflict" not in {it["type"] for it in world.status("shared")["conditions"]},
    )


def test_pods_with_the_same_spec_share_a_cache_that_goes_when_it_is_idle(world: World) -> None:
    idle = json.dumps(spec_of(idleTime=1))
    pods = [world.make_pod(name, None, **{SPEC: idle}) for name in ("p", "q")]
    (cache,) = {it["metadata"]["labels"][CACHE] for it in pods}
    for name in ("p", "q"):
        world.until_runs(name)
    other = world.make_pod("other", None, **{SPEC: YAML})["metadata"]["labels"][CACHE]
    world.until_state(other, "PVCCreated")
    found = world.cache(other)
    assert found is not None
    assert found["spec"]["options"] == {"idleTime": 600}
    for name in ("p", "q"):
        world.finish_pod(name)
        world.cluster.delete(f"{world.pods}/{name}", gracePeriodSeconds=0)
    world.until_gone(cache)


def test_a_wrong_spec_is_told_to_the_job_and_its_pods_are_refused(world: World) -> None:
    wrong = {SPEC: YAML.replace("location", "url")}
    job = make(world, "Job", "wrong", wrong)
    event = wait_for("the job hears", lambda: world.events("InvalidCacheSpec"))[0]
    assert event["regarding"]["name"] == "wrong"
    assert "has the field dataset.dataSources[0].url" in event["note"]
    with pytest.raises(ApiError, match="has the field dataset"):
        world.cluster.request("POST", world.pods, pod_of("wrong-0", owner=job))
    with pytest.raises(ApiError, match="has the field dataset"):
        world.cluster.request("POST", world.pods, pod_of("p", None, **wrong))
    assert world.cluster.list(caches(world.namespace)) == []
    # A job without a cache is not touched.
    plain = make(world, "Job", "plain")
    pod = world.cluster.request("POST", world.pods, pod_of("plain-0", owner=plain))
    assert "labels" not in pod["metadata"]
