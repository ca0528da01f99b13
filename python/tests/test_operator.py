"""`forebay-operator operate` on a real kube-apiserver and etcd: from the manifest of a job to pods that may run.

Run by `make kubernetes`. Neither kubelet nor scheduler runs here: a pod "runs" when its gate is lifted, or when the annotation is
there for which its init container waits (clusters before 1.27). The tests play Fluid's controllers.
"""

from __future__ import annotations

import base64
import json
import os
import random
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes_cast import FLUID, FLUID_KINDS, KUBEDL_KINDS, Fluid
from kubernetes_cluster import ApiError, Cluster, Json, Operator, wait_for

PROGRAM, PROGRAMS = os.environ.get("FOREBAY_OPERATOR"), os.environ.get("FOREBAY_KUBE_APISERVER")
DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
HISTORIES = int(os.environ.get("FOREBAY_KUBERNETES_HISTORIES", "30"))

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator, and says where it is")

ISSUE = """
apiVersion: "training.kubedl.io/v1alpha1"
kind: "TFJob"
metadata:
  name: "tf-cache"
spec:
  cleanPodPolicy: None
  cacheBackend:
    mountPath: "/data"
    dataset:
      dataSources:
        - location: local:///dataset/mnist
          subDirName: mnist
    cacheEngine:
      fluid:
        alluxioRuntime:
          replicas: 1
          tieredStorage:
            - cachePath: /dev/shm
              quota: "1Gi"
              mediumType: MEM
  tfReplicaSpecs:
    Worker:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: tensorflow
              image: kubedl/tf-mnist-with-summaries:1.0
              command: ["python", "/var/tf_mnist/mnist_with_summaries.py", "--data_dir=/data/mnist"]
"""
TIER = {"cachePath": "/dev/shm", "quota": "1Gi", "mediumType": "MEM"}


def caches(namespace: str) -> str:
    return f"/apis/cache.kubedl.io/v1alpha1/namespaces/{namespace}/cachebackends"


def jobs(namespace: str, plural: str = "tfjobs") -> str:
    return f"/apis/training.kubedl.io/v1alpha1/namespaces/{namespace}/{plural}"


def spec_of(location: str = "local:///dataset/mnist", engine: str = "fluid", **options: Any) -> Json:
    engines: Json = {"fluid": {"alluxioRuntime": {"replicas": 1, "tieredStorage": [TIER]}}, "forebay": {"tieredStorage": [TIER]}}
    sources = [{"location": location, "subDirName": "mnist"}]
    spec: Json = {"dataset": {"dataSources": sources}, "cacheEngine": {engine: engines[engine]}}
    return {**spec, "options": options} if options else spec


def cache_of(name: str, spec: Json) -> Json:
    return {"apiVersion": "cache.kubedl.io/v1alpha1", "kind": "CacheBackend", "metadata": {"name": name}, "spec": spec}


def job_of(name: str, backend: Json, kind: str = "TFJob") -> Json:
    return {"apiVersion": "training.kubedl.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": {"cacheBackend": backend}}


def pod_of(name: str, cache: str | None = None, owner: Json | None = None, **annotations: str) -> Json:
    """A pod that asks for a cache by annotation, or has an owner, or neither."""
    containers = [{"name": name_of, "image": "registry.example/trainer:1"} for name_of in ("trainer", "sidecar")]
    init = [{"name": "prepare", "image": "registry.example/trainer:1"}]
    meta: Json = {"name": name, "annotations": {**({"forebay.dev/cache": cache} if cache else {}), **annotations}}
    if owner is not None:
        identity = {key: owner["metadata"][key] for key in ("name", "uid")}
        meta["ownerReferences"] = [{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True, **identity}]
    spec = {"containers": containers, "initContainers": init, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class World:
    """A namespace of the cluster, and what a test does in it."""

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


def waits(pod: Json) -> bool:
    gated = any(gate["name"] == "forebay.dev/cache" for gate in pod["spec"].get("schedulingGates", []))
    held = any(it["name"] == "forebay-cache-wait" for it in pod["spec"].get("initContainers", []))
    return gated or (held and pod["metadata"].get("annotations", {}).get("forebay.dev/cache-ready") != "true")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Fluid, Operator]]:
    if not PROGRAMS:
        pytest.skip("no kube-apiserver: `make kubernetes` finds or builds one, or says why not")
    cluster = Cluster(Path(PROGRAMS), tmp_path_factory.mktemp("cluster"))
    fluid = Fluid(cluster, binds_claims=False)
    try:
        for kind in KUBEDL_KINDS + FLUID_KINDS:
            cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind)
        cluster.kubectl("create", "namespace", "forebay")
        cluster.kubectl("apply", "-f", str(DEPLOY / "crd.yaml"), "-f", str(DEPLOY / "rbac.yaml"))
        fluid.binds_claims = not cluster.start_controllers()
        fluid.start()
        operator = Operator(cluster, str(PROGRAM))
        operator.start()
        configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/forebay-operator"
        wait_for("the webhook is registered", lambda: cluster.find(configuration))
        yield cluster, fluid, operator
    finally:
        fluid.close()
        cluster.close()


@pytest.fixture
def world(parts: tuple[Cluster, Fluid, Operator], request: pytest.FixtureRequest) -> World:
    cluster, fluid, operator = parts
    fluid.percent = "100.0%"
    fluid.holds = set()
    number = len(cluster.list("/api/v1/namespaces"))
    return World(cluster, fluid, operator, f"ns-{number}")


def test_the_manifest_of_a_job_makes_its_cache_and_its_pod_runs(world: World) -> None:
    world.fluid.holds = {"nobody"}
    world.cluster.kubectl("apply", "-n", world.namespace, "-f", "-", stdin=ISSUE)
    job = {"kind": "TFJob", **world.cluster.request("GET", f"{jobs(world.namespace)}/tf-cache")}
    name = f"cache-tf-cache-{job['metadata']['uid'].replace('-', '')[:5]}"
    # KubeDL is not here: the test makes the pod that it would make.
    pod = world.make_pod("tf-cache-worker-0", owner=job)
    for container in pod["spec"]["containers"] + [c for c in pod["spec"]["initContainers"] if c["name"] == "prepare"]:
        assert {"name": "cachevolume", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]
        assert {it["name"]: it["value"] for it in container["env"]} == dict.fromkeys(("KUBEDL_CACHE_NAME", "FOREBAY_CACHE_NAME"), name)
    assert {"claimName": name, "readOnly": True} in [it.get("persistentVolumeClaim") for it in pod["spec"]["volumes"]]
    assert waits(pod)
    world.until_state(name, "PVCCreated")
    world.until_runs("tf-cache-worker-0")
    dataset = world.cluster.request("GET", f"{FLUID}/namespaces/{world.namespace}/datasets/{name}")
    assert dataset["spec"] == {"mounts": [{"mountPoint": "local:///dataset/mnist", "name": "mnist"}]}
    runtime = world.cluster.request("GET", f"{FLUID}/namespaces/{world.namespace}/alluxioruntimes/{name}")
    levels = [{"path": "/dev/shm", "quota": "1Gi", "mediumtype": "MEM"}]
    assert runtime["spec"] == {"replicas": 1, "tieredstore": {"levels": levels}}
    printed = world.cluster.kubectl("get", "cachebackend", "-n", world.namespace).stdout.splitlines()
    assert printed[0].split() == ["NAME", "JOB-NAME", "CACHE-STATUS", "ENGINE", "USED-NUM", "LAST-USED-TIME", "CACHED", "AGE"]
    assert printed[1].split()[:6] == [name, "tf-cache", "PVCCreated", "fluid", "1", "100.0%"]
    (user,) = world.status(name)["users"]
    assert (user["kind"], user["name"], user["uid"]) == ("TFJob", "tf-cache", job["metadata"]["uid"])


def test_a_shared_cache_goes_through_its_states_and_is_told_by_events_and_conditions(world: World) -> None:
    world.fluid.holds = {"shared"}
    world.fluid.percent = "30.0%"
    world.make_cache("shared", spec_of(minCachedPercent=50))
    world.make_job("train", {"name": "shared", "mountPath": "/data"}, "PyTorchJob")
    status = world.until_state("shared", "PVCCreating", "ClaimAbsent")
    assert world.cache("shared")["metadata"]["finalizers"] == ["forebay.dev/cache"]  # type: ignore[index]
    world.make_pod("p", "shared")
    world.fluid.holds = set()
    wait_for("not enough is cached", lambda: ready(world.status("shared")) == ("False", "NotCachedYet"))
    assert world.status("shared")["cacheStatus"] == "PVCCreated"
    assert world.waits("p")
    world.fluid.percent = "50.0%"
    world.until_runs("p")
    status = world.status("shared")
    assert ready(status) == ("True", "ClaimBound")
    assert (status["observedGeneration"], status["cached"], status["total"]) == (1, "4.07MiB", "11.06MiB")
    assert sorted((it["kind"], it["name"]) for it in status["users"]) == [("Pod", "p"), ("PyTorchJob", "train")]
    for reason in ("Creating", "ClaimAbsent", "ClaimBound"):
        wait_for(reason, lambda reason=reason: world.events(reason))


def ready(status: Json) -> tuple[str, str] | None:
    found = [it for it in status.get("conditions", []) if it["type"] == "Ready"]
    return (found[0]["status"], found[0]["reason"]) if found else None


def test_pods_that_are_made_later_get_the_cache_as_well(world: World) -> None:
    # KubeDL injects once for each job: pods that it makes again have nothing.
    world.make_cache("again", spec_of())
    job = world.make_job("train", {"name": "again", "mountPath": "/in"})
    world.until_state("again", "PVCCreated")
    for number in range(3):
        pod = world.make_pod(f"train-{number}", owner=job)
        assert {it["mountPath"] for it in pod["spec"]["containers"][0]["volumeMounts"]} == {"/in"}
        world.until_runs(f"train-{number}")
        world.cluster.delete(f"{world.pods}/train-{number}", gracePeriodSeconds=0)


def test_users_are_those_that_live_by_uid(world: World) -> None:
    # KubeDL keeps names, which a job that is deleted early leaves behind, and which two jobs of one name share.
    world.make_cache("used", spec_of())
    backend = {"name": "used", "mountPath": "/data"}
    first, other = world.make_job("j", backend), world.make_job("j", backend, "PyTorchJob")
    wait_for("both are told", lambda: world.status("used").get("usedNum") == 2)
    assert {it["uid"] for it in world.status("used")["users"]} == {it["metadata"]["uid"] for it in (first, other)}
    assert world.status("used")["usedBy"] == ["j"]
    world.cluster.delete(f"{jobs(world.namespace)}/j")
    wait_for("one is left", lambda: world.status("used").get("usedNum") == 1)
    again = world.make_job("j", backend)
    wait_for("the new one is told", lambda: again["metadata"]["uid"] in {it["uid"] for it in world.status("used")["users"]})
    world.finish_job("j")
    world.cluster.delete(f"{jobs(world.namespace, 'pytorchjobs')}/j")
    wait_for("nobody is left", lambda: world.status("used").get("usedNum") == 0 and "lastUsedTime" in world.status("used"))


def test_an_idle_cache_goes_with_all_that_was_made_for_it(world: World) -> None:
    world.make_job("j", {"name": "idle", "mountPath": "/data", **spec_of(idleTime=2)})
    world.until_state("idle", "PVCCreated")
    world.finish_job("j")
    world.until_gone("idle")
    wait_for("its claim is gone", lambda: not world.cluster.list(world.claims))
    for plural in ("datasets", "alluxioruntimes"):
        assert world.cluster.list(f"{FLUID}/namespaces/{world.namespace}/{plural}") == []


def test_children_that_vanish_are_made_again(world: World) -> None:
    # KubeDL waits in PVCCreating for ever.
    world.make_cache("lost", spec_of())
    world.until_state("lost", "PVCCreated")
    dataset = f"{FLUID}/namespaces/{world.namespace}/datasets/lost"
    old = world.cluster.request("GET", dataset)["metadata"]["uid"]
    world.cluster.delete(dataset)
    wait_for("another Dataset", lambda: (world.cluster.find(dataset) or {"metadata": {"uid": old}})["metadata"]["uid"] != old)
    world.until_state("lost", "PVCCreated")


def test_a_child_of_an_earlier_cache_that_still_goes_is_waited_for(world: World) -> None:
    meta = {"name": "slow", "finalizers": ["example.com/slow"]}
    datasets = f"{FLUID}/namespaces/{world.namespace}/datasets"
    old: Json = {"apiVersion": "data.fluid.io/v1alpha1", "kind": "Dataset", "metadata": meta, "spec": {}}
    uid = world.cluster.request("POST", datasets, old)["metadata"]["uid"]
    world.cluster.delete(f"{datasets}/slow")
    world.make_cache("slow", spec_of())
    world.until_state("slow", "CacheCreating", "ChildTerminating")
    world.cluster.request("PATCH", f"{datasets}/slow", {"metadata": {"finalizers": None}})
    world.until_state("slow", "PVCCreated")
    assert world.cluster.request("GET", f"{datasets}/slow")["metadata"]["uid"] != uid


def test_what_is_anothers_is_not_taken(world: World) -> None:
    datasets = f"{FLUID}/namespaces/{world.namespace}/datasets"
    foreign: Json = {"apiVersion": "data.fluid.io/v1alpha1", "kind": "Dataset", "metadata": {"name": "taken"}, "spec": {"mounts": []}}
    world.cluster.request("POST", datasets, foreign)
    world.make_cache("taken", spec_of())
    status = world.until_state("taken", "CacheFailed", "ChildNotOwned")
    assert "Dataset taken is there, and was not made for this cache" in status["message"]
    wait_for("an event says so", lambda: world.events("ChildNotOwned"))
    assert world.cluster.request("GET", f"{datasets}/taken")["spec"] == {"mounts": []}
    world.cluster.delete(f"{caches(world.namespace)}/taken")
    world.until_gone("taken")
    assert world.cluster.find(f"{datasets}/taken") is not None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"quota": "much"}, "quota"),
        ({"mediumType": "TAPE"}, "mediumType"),
        ({"quota": None}, "quota"),
    ],
)
def test_a_bad_tier_is_refused_when_it_is_applied(world: World, change: Json, said: str) -> None:
    spec = spec_of()
    spec["cacheEngine"]["fluid"]["alluxioRuntime"]["tieredStorage"] = [{k: v for k, v in {**TIER, **change}.items() if v is not None}]
    with pytest.raises(ApiError, match=said) as refused:
        world.make_cache("bad", spec)
    assert refused.value.code == 422


def test_bad_specs_are_refused_or_fail_with_their_reason(world: World) -> None:
    spec = spec_of()
    engines = {"fluid": {"alluxioRuntime": {"tieredStorage": [TIER]}}, "forebay": {}}
    for wrong in ({"cacheEngine": {}}, {"cacheEngine": None}, {"cacheEngine": {"other": {}}}, {"cacheEngine": engines}, {"dataset": None}):
        with pytest.raises(ApiError) as refused:
            world.make_cache("bad", {key: value for key, value in {**spec, **wrong}.items() if value is not None})
        assert refused.value.code == 422, wrong
    twice = {"dataset": {"dataSources": [spec["dataset"]["dataSources"][0]] * 2}}
    world.make_cache("twice", {**spec, **twice})
    assert "a folder of its own" in world.until_state("twice", "CacheFailed", "InvalidSpec")["message"]
    world.make_cache("Upper.name".lower(), spec)
    assert "is no name for a cache" in world.until_state("upper.name", "CacheFailed", "InvalidSpec")["message"]
    # A spec that is put right is made: the failure is no dead end.
    world.cluster.request("PATCH", f"{caches(world.namespace)}/twice", {"spec": {"dataset": spec["dataset"]}})
    world.until_state("twice", "PVCCreated")
    # A job hears what is wrong with the cache that it defines.
    world.make_job("wrong", {"mountPath": "/data", "dataset": spec["dataset"], "cacheEngine": {"other": {}}})
    event = wait_for("the job hears", lambda: world.events("CacheBackendRefused"))[0]
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("TFJob", "wrong")
    world.make_job("nobody", {"name": "missing", "mountPath": "/data"})
    event = wait_for("the job hears", lambda: world.events("CacheBackendNotFound"))[0]
    assert event["regarding"]["name"] == "nobody"
    world.make_cache("missing", spec)
    wait_for("it is used", lambda: world.status("missing").get("usedNum") == 1)


def test_two_jobs_that_define_one_cache_otherwise_are_told(world: World) -> None:
    world.make_job("a", {"name": "one", "mountPath": "/data", **spec_of()})
    world.until_state("one", "PVCCreated")
    world.make_job("b", {"name": "one", "mountPath": "/data", **spec_of("s3://other/data")})

    def conflict() -> list[Json]:
        return [it for it in world.status("one").get("conditions", []) if it["type"] == "SpecConflict"]

    (told,) = wait_for("the conflict is told", conflict)
    assert "TFJob b" in told["message"]
    world.finish_job("b")
    wait_for("the conflict is over", lambda: not conflict())


def test_a_changed_spec_reaches_the_engine(world: World) -> None:
    world.make_cache("grows", spec_of())
    world.until_state("grows", "PVCCreated")
    engine = {"fluid": {"alluxioRuntime": {"replicas": 3}}}
    world.cluster.request("PATCH", f"{caches(world.namespace)}/grows", {"spec": {"cacheEngine": engine}})
    runtime = f"{FLUID}/namespaces/{world.namespace}/alluxioruntimes/grows"
    wait_for("three workers", lambda: world.cluster.request("GET", runtime)["spec"]["replicas"] == 3)
    wait_for("it is told", lambda: world.status("grows")["observedGeneration"] == 2)


def test_a_cache_that_is_used_is_deleted_when_its_users_end(world: World) -> None:
    # KubeDL deletes at once, and its job can then never be told as finished.
    world.make_cache("busy", spec_of())
    world.make_job("j", {"name": "busy", "mountPath": "/data"})
    world.make_pod("p", "busy")
    world.until_state("busy", "PVCCreated")
    world.until_runs("p")
    world.cluster.delete(f"{caches(world.namespace)}/busy")
    wait_for("the delay is told", lambda: world.events("DeletionDelayed"))
    world.make_pod("late", "busy")
    world.until_runs("late")
    world.finish_job("j")
    world.finish_pod("p")
    wait_for("the last user is told", lambda: [it["name"] for it in world.status("busy").get("users", [])] == ["late"])
    assert world.cluster.find(f"{world.claims}/busy") is not None
    for pod in ("p", "late"):
        world.cluster.delete(f"{world.pods}/{pod}", gracePeriodSeconds=0)
    world.until_gone("busy")
    assert world.cluster.find(f"{FLUID}/namespaces/{world.namespace}/datasets/busy") is None


def test_pods_that_wait_do_not_keep_a_cache_that_never_was_ready(world: World) -> None:
    world.fluid.holds = {"never"}
    world.make_cache("never", spec_of())
    world.make_pod("p", "never")
    world.until_state("never", "PVCCreating")
    world.cluster.delete(f"{caches(world.namespace)}/never")
    world.until_gone("never")
    assert world.waits("p")
    world.fluid.holds = set()
    world.make_cache("never", spec_of())
    world.until_runs("p")


def test_a_namespace_goes_with_its_caches(world: World) -> None:
    if "controllers" not in world.cluster.running:
        pytest.skip("needs the kube-controller-manager, which deletes what a namespace has")
    world.make_cache("in-it", spec_of())
    world.make_job("j", {"name": "in-it", "mountPath": "/data"})
    world.until_state("in-it", "PVCCreated")
    world.cluster.delete(f"/api/v1/namespaces/{world.namespace}")
    wait_for("the namespace is gone", lambda: world.cluster.find(f"/api/v1/namespaces/{world.namespace}") is None)


def test_pods_without_a_cache_are_not_touched_and_one_that_has_another_volume_there_is_refused(world: World) -> None:
    plain = pod_of("plain")
    made = world.cluster.request("POST", world.pods, plain)
    assert made["metadata"].get("labels") is None
    assert "volumes" not in made["spec"]
    world.make_pod("ready", "some")
    taken = pod_of("taken", "some")
    taken["spec"]["volumes"] = [{"name": "own", "emptyDir": {}}]
    taken["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/data"}]
    with pytest.raises(ApiError, match="container trainer has volume own at /data"):
        world.cluster.request("POST", world.pods, taken)
    with pytest.raises(ApiError, match="is no name for a cache"):
        world.cluster.request("POST", world.pods, pod_of("bad", "Not.A.Name"))


def test_fluid_that_is_not_installed_is_told_and_found_once_it_is(parts: tuple[Cluster, Fluid, Operator], world: World) -> None:
    definition = next(it for it in FLUID_KINDS if it["spec"]["names"]["kind"] == "JindoRuntime")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    world.cluster.delete(f"{path}/{definition['metadata']['name']}")
    wait_for("the kind is gone", lambda: world.cluster.find(f"{FLUID}/jindoruntimes") is None)
    spec = spec_of()
    spec["cacheEngine"] = {"fluid": {"jindoRuntime": {"tieredStorage": [TIER]}}}
    world.make_cache("jindo", spec)
    status = world.until_state("jindo", "CacheFailed", "EngineNotInstalled")
    assert "Fluid is not installed, or lacks this runtime" in status["message"]
    wait_for("the kind is back", lambda: install(world.cluster, path, definition))
    world.until_state("jindo", "PVCCreated")


def install(cluster: Cluster, path: str, definition: Json) -> bool:
    try:
        cluster.request("POST", path, definition)
    except ApiError:
        return False
    return True


def test_the_forebay_engine_makes_a_volume_of_its_driver_and_removes_it(world: World) -> None:
    world.make_cache("own", spec_of("s3://bucket/train", "forebay"))
    drivers = "/apis/storage.k8s.io/v1/csidrivers"
    status = world.until_state("own", "CacheFailed", "EngineNotInstalled")
    assert "csi.forebay.dev is not installed" in status["message"]
    driver = {"metadata": {"name": "csi.forebay.dev"}, "spec": {"attachRequired": False, "podInfoOnMount": True}}
    world.cluster.request("POST", drivers, driver)
    try:
        if "controllers" not in world.cluster.running:
            claim = wait_for("the claim", lambda: world.cluster.find(f"{world.claims}/own"))
            world.cluster.request("PATCH", f"{world.claims}/{claim['metadata']['name']}/status", {"status": {"phase": "Bound"}})
        world.until_state("own", "PVCCreated")
        volume = world.cluster.request("GET", f"/api/v1/persistentvolumes/forebay.{world.namespace}.own")
        attributes = volume["spec"]["csi"]["volumeAttributes"]
        assert json.loads(attributes["sources"]) == [{"location": "s3://bucket/train", "subDirName": "mnist"}]
        assert json.loads(attributes["tiers"]) == [{"path": "/dev/shm", "quota": 1 << 30, "medium": "MEM"}]
        world.make_pod("p", "own")
        world.until_runs("p")
        world.finish_pod("p")
        world.cluster.delete(f"{world.pods}/p", gracePeriodSeconds=0)
        world.cluster.delete(f"{caches(world.namespace)}/own")
        world.until_gone("own")
        assert world.cluster.find(f"/api/v1/persistentvolumes/forebay.{world.namespace}.own") is None
        assert world.cluster.find(f"{world.claims}/own") is None
    finally:
        world.cluster.delete(f"{drivers}/csi.forebay.dev")


def test_the_operator_and_the_api_server_are_killed_and_started_again(world: World) -> None:
    world.fluid.holds = {"k"}
    world.make_cache("k", spec_of())
    world.make_pod("p", "k")
    world.operator.kill()
    world.cluster.stop("kube-apiserver", signal.SIGKILL)
    world.cluster.start_api()
    with pytest.raises(ApiError, match="webhook"):
        # It is down: what names a cache by label waits for it, and what names none is not touched.
        pod = pod_of("labelled")
        pod["metadata"]["labels"] = {"forebay.dev/cache": "k"}
        world.cluster.request("POST", world.pods, pod)
    world.cluster.request("POST", world.pods, pod_of("plain"))
    world.fluid.holds = set()
    world.operator.start()
    world.until_state("k", "PVCCreated")
    world.until_runs("p")
    world.cluster.stop("kube-apiserver", signal.SIGTERM)
    world.cluster.start_api()
    if world.cluster.running["operator"].poll() is not None:
        world.operator.start()  # It lost the election meanwhile, and ends; a kubelet starts it again.
    world.cluster.delete(f"{caches(world.namespace)}/k")
    world.finish_pod("p")
    world.cluster.delete(f"{world.pods}/p", gracePeriodSeconds=0)
    world.until_gone("k")


def test_another_writer_of_the_status_ends_in_no_hot_loop(world: World) -> None:
    world.make_cache("hot", spec_of())
    world.until_state("hot", "PVCCreated")
    path = f"{caches(world.namespace)}/hot/status"
    for number in range(20):
        world.cluster.request("PATCH", path, {"status": {"usedBy": [f"kubedl-{number}"], "usedNum": number}})
    wait_for("it is put right", lambda: world.status("hot").get("usedNum") == 0 and "usedBy" not in world.status("hot"))
    before = world.cache("hot")
    settled = requests_of(world, "hot")
    wait_for("other caches are looked at", lambda: beside(world))
    assert requests_of(world, "hot") - settled <= 3
    assert world.cache("hot") == before


def beside(world: World) -> bool:
    world.make_cache("beside", spec_of())
    world.until_state("beside", "PVCCreated")
    return True


def requests_of(world: World, name: str) -> int:
    lines = (world.cluster.folder / "audit.log").read_text().splitlines()
    path = f"{caches(world.namespace)}/{name}"
    return sum(path in line for line in lines)


def test_nothing_that_the_operator_asked_for_was_denied(world: World) -> None:
    # Its service account has deploy/kubernetes/rbac.yaml alone.
    lines = (world.cluster.folder / "audit.log").read_text().splitlines()
    denied = [it for it in map(json.loads, lines) if it.get("responseStatus", {}).get("code") == 403]
    # A namespace that goes takes nothing new, which is no denial.
    denied = [it for it in denied if "being terminated" not in it["responseStatus"].get("message", "")]
    assert [(it["verb"], it["requestURI"]) for it in denied] == []
    assert len(lines) > 100


def test_random_histories_leak_nothing(world: World) -> None:
    """Jobs, pods and caches come and go, and the operator is killed; at the end all is gone that was made."""
    rng = random.Random(7)
    cluster, namespace = world.cluster, world.namespace
    deployed = world.operator
    for number in range(HISTORIES):
        steps = [rng.choice(("job", "pod", "finish", "remove", "uncache", "kill")) for _ in range(8)]
        made: list[str] = []
        for step, what in enumerate(steps):
            name = f"h{number}-{step}"
            if what == "job":
                backend = {"mountPath": "/data", **spec_of()}
                shared = rng.random() < 0.5
                world.make_job(name, {"name": f"shared-{rng.randrange(2)}", **backend} if shared else backend)
                made.append(name)
            elif what == "pod" and cluster.running["operator"].poll() is None:
                try:
                    cluster.request("POST", world.pods, pod_of(name, f"shared-{rng.randrange(2)}"))
                except ApiError as error:
                    assert error.code == 500, error  # The webhook is just starting.
            elif what == "finish" and made:
                world.finish_job(made[-1])
            elif what == "remove" and made:
                cluster.delete(f"{jobs(namespace)}/{made.pop(0)}")
            elif what == "uncache":
                cluster.delete(f"{caches(namespace)}/shared-{rng.randrange(2)}")
            elif what == "kill":
                deployed.kill()
                deployed.start()
        for job in cluster.list(jobs(namespace)):
            cluster.delete(f"{jobs(namespace)}/{job['metadata']['name']}")
        for pod in cluster.list(world.pods):
            cluster.delete(f"{world.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)
        for cache in cluster.list(caches(namespace)):
            cluster.delete(f"{caches(namespace)}/{cache['metadata']['name']}")
        if cluster.running["operator"].poll() is not None:
            deployed.start()
        lists = [caches(namespace), world.claims, *(f"{FLUID}/namespaces/{namespace}/{it}" for it in ("datasets", "alluxioruntimes"))]
        try:
            wait_for("all is gone", lambda lists=lists: not any(cluster.list(it) for it in lists))
        except AssertionError as late:
            left = {it: [found["metadata"] for found in cluster.list(it)] for it in lists}
            raise AssertionError(f"history {number} {steps}: {late}: {left}; {deployed.log()[-3000:]}") from None


def test_the_webhook_shows_a_certificate_of_the_registered_authority(world: World) -> None:
    configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/forebay-operator"
    webhooks = world.cluster.request("GET", configuration)["webhooks"]
    authority = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=authority)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}))
    assert opener.open(f"{world.operator.url}/healthz", timeout=10).read() == b"ok"
    policies = [it["failurePolicy"] for it in webhooks]
    assert policies == (["Fail", "Fail"] if world.cluster.minor >= 28 else ["Fail", "Ignore"])


def test_a_pod_of_an_old_cluster_waits_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "annotations"
    file.write_text('a="b"\n')
    command = [str(PROGRAM), "wait", "--file", str(file), "--timeout", "30"]
    with subprocess.Popen(command) as waiter:
        assert waiter.poll() is None
        file.write_text('a="b"\nforebay.dev/cache-ready="true"\n')
        assert waiter.wait(20) == 0
    file.write_text("")
    late = subprocess.run([*command[:-1], "1"], capture_output=True, text=True, timeout=20)
    assert late.returncode == 1
    assert "the cache is not ready after 1 s" in late.stderr


def test_the_definition_is_that_of_the_program() -> None:
    made = subprocess.run([str(PROGRAM), "crd"], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "crd.yaml").read_text(), "write it anew: forebay-operator crd > deploy/kubernetes/crd.yaml"


def test_the_folder_is_what_kustomize_builds(world: World) -> None:
    built = world.cluster.kubectl("kustomize", str(DEPLOY)).stdout
    kinds = {line.removeprefix("kind: ") for line in built.splitlines() if line.startswith("kind: ")}
    assert {"CustomResourceDefinition", "ClusterRole", "Deployment", "Namespace", "Service"} <= kinds
