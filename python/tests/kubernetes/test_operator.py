"""`forebay-operator operate` on a real kube-apiserver and etcd: from the manifest of a job to pods that may run.

Run by `make kubernetes`. Neither kubelet nor scheduler runs here: a pod "runs" when its gate is lifted, or when the
annotation is there for which its init container waits (clusters before 1.27). The tests play Fluid's controllers.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_cast import FLUID
from kubernetes_cluster import ApiError, Json, wait_for
from kubernetes_world import DEPLOY, WEBHOOKS, World, cache_of, caches, jobs, spec_of, waits

PROGRAM = os.environ.get("FOREBAY_OPERATOR")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")

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
VARIABLES = ("KUBEDL_CACHE_NAME", "FOREBAY_CACHE_NAME")
COLUMNS = ["NAME", "JOB-NAME", "CACHE-STATUS", "ENGINE", "USED-NUM", "LAST-USED-TIME", "CACHED", "AGE"]


def test_the_manifest_of_a_job_makes_its_cache_and_its_pod_runs(world: World) -> None:
    world.fluid.holds = {"unused"}
    world.cluster.kubectl("apply", "-n", world.namespace, "-f", "-", stdin=ISSUE)
    job = {"kind": "TFJob", **world.cluster.request("GET", f"{jobs(world.namespace)}/tf-cache")}
    name = f"cache-tf-cache-{job['metadata']['uid'].replace('-', '')[:5]}"
    # KubeDL does not run here: the test makes the pod that KubeDL would make.
    pod = world.make_pod("tf-cache-worker-0", owner=job)
    for container in pod["spec"]["containers"] + [c for c in pod["spec"]["initContainers"] if c["name"] == "prepare"]:
        mount = {"name": "cachevolume", "mountPath": "/data", "readOnly": True, "mountPropagation": "HostToContainer"}
        assert mount in container["volumeMounts"]
        assert {it["name"]: it["value"] for it in container["env"]} == dict.fromkeys(
            ("KUBEDL_CACHE_NAME", "FOREBAY_CACHE_NAME"), name
        )
    assert {"claimName": name, "readOnly": True} in [it.get("persistentVolumeClaim") for it in pod["spec"]["volumes"]]
    assert waits(pod)
    world.until_state(name, "PVCCreated")
    world.until_runs("tf-cache-worker-0")
    dataset = world.cluster.request("GET", f"{FLUID}/namespaces/{world.namespace}/datasets/{name}")
    assert dataset["spec"] == {"mounts": [{"mountPoint": "local:///dataset/mnist", "name": "mnist"}]}
    runtime = world.cluster.request("GET", f"{FLUID}/namespaces/{world.namespace}/alluxioruntimes/{name}")
    levels = [{"path": "/dev/shm", "quota": "1Gi", "mediumtype": "MEM"}]
    assert runtime["spec"] == {"replicas": 1, "tieredstore": {"levels": levels}}
    printed = world.cluster.kubectl("get", "cachebackend", "-n", world.namespace).splitlines()
    assert printed[0].split() == [
        "NAME",
        "JOB-NAME",
        "CACHE-STATUS",
        "ENGINE",
        "USED-NUM",
        "LAST-USED-TIME",
        "CACHED",
        "AGE",
    ]
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
    told = {"Creating", "ClaimAbsent", "ClaimBound"}
    wait_for("events tell of the states", lambda: all(world.events(reason) for reason in told))


def ready(status: Json) -> tuple[str, str] | None:
    found = [it for it in status.get("conditions", []) if it["type"] == "Ready"]
    return (found[0]["status"], found[0]["reason"]) if found else None


def test_pods_that_are_made_later_get_the_cache_as_well(world: World) -> None:
    # KubeDL injects once for each job: pods that it makes again have no cache.
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
    wait_for(
        "the new one is told", lambda: again["metadata"]["uid"] in {it["uid"] for it in world.status("used")["users"]}
    )
    world.finish_job("j")
    world.cluster.delete(f"{jobs(world.namespace, 'pytorchjobs')}/j")
    wait_for(
        "no pod is left", lambda: world.status("used").get("usedNum") == 0 and "lastUsedTime" in world.status("used")
    )


def test_a_job_whose_template_names_a_cache_uses_it_with_and_without_pods(world: World) -> None:
    world.make_cache("batch", spec_of())
    container = {"name": "c", "image": "registry.example/trainer:1"}
    template = {
        "metadata": {"annotations": {"forebay.dev/cache": "batch"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    path = f"/apis/batch/v1/namespaces/{world.namespace}/jobs"
    made = world.cluster.request("POST", path, {"metadata": {"name": "b"}, "spec": {"template": template}})
    wait_for(
        "it is used", lambda: [it["uid"] for it in world.status("batch").get("users", [])] == [made["metadata"]["uid"]]
    )
    # The job controller does not run here: the test makes the pod that the controller would make.
    world.make_pod("b-1", "batch", owner={"apiVersion": "batch/v1", "kind": "Job", "metadata": made["metadata"]})
    world.until_runs("b-1")
    assert [it["kind"] for it in world.status("batch")["users"]] == ["Job"]
    world.cluster.delete(f"{world.pods}/b-1", gracePeriodSeconds=0)
    world.cluster.delete(f"{path}/b", propagationPolicy="Background")
    wait_for("no pod uses it", lambda: world.status("batch").get("usedNum") == 0)


def test_an_idle_cache_goes_with_all_that_was_made_for_it(world: World) -> None:
    world.make_job("j", {"name": "idle", "mountPath": "/data", **spec_of(idleTime=2)})
    world.until_state("idle", "PVCCreated")
    world.finish_job("j")
    world.until_gone("idle")
    wait_for("its claim is gone", lambda: not world.cluster.list(world.claims))
    for plural in ("datasets", "alluxioruntimes"):
        assert world.cluster.list(f"{FLUID}/namespaces/{world.namespace}/{plural}") == []


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
    # KubeDL deletes at once, and can then never report its job as finished.
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


def another(found: Json | None, uid: str) -> bool:
    return found is not None and found["metadata"]["uid"] != uid


@contextlib.contextmanager
def stopped(process: subprocess.Popen[bytes]) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def test_the_forebay_engine_makes_a_volume_of_its_driver_and_removes_it(world: World) -> None:
    spec = spec_of("s3://bucket/train", "forebay")
    spec["cacheEngine"]["forebay"]["prefetch"] = True
    world.make_cache("own", spec)
    drivers = "/apis/storage.k8s.io/v1/csidrivers"
    status = world.until_state("own", "CacheFailed", "EngineNotInstalled")
    assert "csi.forebay.dev is not installed" in status["message"]
    driver = {"metadata": {"name": "csi.forebay.dev"}, "spec": {"attachRequired": False, "podInfoOnMount": True}}
    world.cluster.request("POST", drivers, driver)
    try:
        if "controllers" not in world.cluster.running:
            claim = wait_for("the claim", lambda: world.cluster.find(f"{world.claims}/own"))
            world.cluster.request(
                "PATCH", f"{world.claims}/{claim['metadata']['name']}/status", {"status": {"phase": "Bound"}}
            )
        world.until_state("own", "PVCCreated")
        volume = world.cluster.request("GET", f"/api/v1/persistentvolumes/forebay.{world.namespace}.own")
        attributes = volume["spec"]["csi"]["volumeAttributes"]
        assert json.loads(attributes["sources"]) == [{"location": "s3://bucket/train", "subDirName": "mnist"}]
        assert attributes["prefetch"] == "true"
        assert json.loads(attributes["tiers"]) == [{"path": "/dev/shm", "quota": 1 << 30, "medium": "MEM"}]
        if "controllers" in world.cluster.running:
            # The operator makes a deleted claim and its volume again, also if the volume is released late.
            old = world.cluster.request("GET", f"{world.claims}/own")["metadata"]["uid"]
            with stopped(world.cluster.running["controllers"]):
                world.cluster.delete(f"{world.claims}/own")
                world.cluster.request("PATCH", f"{world.claims}/own", {"metadata": {"finalizers": None}})
                wait_for("another claim", lambda: another(world.cluster.find(f"{world.claims}/own"), old))
                world.until_state("own", "PVCCreating", "ClaimPending")
            world.until_state("own", "PVCCreated")
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


@contextlib.contextmanager
def rules(world: World) -> Iterator[bool]:
    """Adds the rules to the definition; servers before 1.25 know none."""
    if world.cluster.minor < 25:
        yield False
        return
    world.cluster.kubectl("apply", "-f", str(DEPLOY / "crd-rules.yaml"))
    two = spec_of("s3://a/b", "forebay")
    two["dataset"]["dataSources"] *= 2
    del two["dataset"]["dataSources"][0]["subDirName"]

    def refused() -> bool:
        try:
            world.cluster.request("POST", f"{caches(world.namespace)}?dryRun=All", cache_of("two", two))
        except ApiError as error:
            return error.code == 422
        return False

    try:
        wait_for("the rules hold", refused)
        yield True
    finally:
        world.cluster.kubectl("apply", "-f", str(DEPLOY / "crd.yaml"))


def test_what_the_engine_forebay_cannot_do_is_refused(world: World) -> None:
    """By the rules of the definition, or by the operator in the same words."""
    none = spec_of("s3://bucket/train", "forebay", minCachedPercent=50)
    none["cacheEngine"]["forebay"]["replicas"] = 0
    two = spec_of("s3://bucket/train", "forebay")
    two["dataset"]["dataSources"] = [{"location": "s3://a/b", "subDirName": "b"}, {"location": "s3://a/c"}]
    change = {"spec": {"dataset": {"dataSources": [{"location": "s3://bucket/other"}]}}}
    for name, spec, why in (("none", none, "minCachedPercent"), ("two", two, "subDirName")):
        world.make_cache(name, spec)
        assert why in world.until_state(name, "CacheFailed", "InvalidSpec")["message"]
    with rules(world) as hold:
        if not hold:
            return
        with pytest.raises(ApiError, match="subDirName"):
            world.make_cache("two2", two)
        world.make_cache("own", spec_of("s3://bucket/train", "forebay"))
        path = f"{caches(world.namespace)}/own"
        forebay = {"forebay": {"replicas": 2, "nodeSelector": {"gpu": "true"}}}
        world.cluster.request("PATCH", path, {"spec": {"options": {"idleTime": 60}, "cacheEngine": forebay}})
        with pytest.raises(ApiError, match="delete the cache and create it again"):
            world.cluster.request("PATCH", path, change)
        # With Fluid, all of this may be.
        world.make_cache("fluid", {**spec_of(minCachedPercent=50), "dataset": two["dataset"]})
        world.cluster.request("PATCH", f"{caches(world.namespace)}/fluid", change)


def test_the_webhook_shows_a_certificate_of_the_registered_authority(world: World) -> None:
    webhooks = world.cluster.request("GET", WEBHOOKS)["webhooks"]
    authority = base64.b64decode(webhooks[0]["clientConfig"]["caBundle"]).decode()
    context = ssl.create_default_context(cadata=authority)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}))
    assert opener.open(f"{world.operator.url}/healthz", timeout=90).read() == b"ok"
    policies = [it["failurePolicy"] for it in webhooks]
    assert policies == (["Fail", "Fail", "Ignore"] if world.cluster.minor >= 28 else ["Fail", "Ignore"])


def test_a_pod_of_an_old_cluster_waits_by_a_file(tmp_path: Path) -> None:
    file = tmp_path / "annotations"
    file.write_text('a="b"\n')
    command = [str(PROGRAM), "wait", "--file", str(file), "--timeout", "30"]
    with subprocess.Popen(command) as waiter:
        assert waiter.poll() is None
        file.write_text('a="b"\nforebay.dev/cache-ready="true"\n')
        assert waiter.wait(90) == 0
    file.write_text("")
    late = subprocess.run([*command[:-1], "1"], capture_output=True, text=True, timeout=90)
    assert late.returncode == 1
    assert "the cache is not ready after 1 s" in late.stderr


def test_the_definition_is_that_of_the_program() -> None:
    made = subprocess.run([str(PROGRAM), "crd"], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "crd.yaml").read_text(), "write it anew: forebay-operator crd > deploy/kubernetes/crd.yaml"
    made = subprocess.run([str(PROGRAM), "crd", "--rules"], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "crd-rules.yaml").read_text(), "write it anew, as crates/kubernetes/README.md says"


def test_the_api_server_takes_all_of_the_folder(world: World) -> None:
    said = world.cluster.kubectl("apply", "--dry-run=server", "-k", str(DEPLOY))
    for kind in ("customresourcedefinition", "deployment", "service", "clusterrole", "rolebinding", "serviceaccount"):
        assert f"{kind}." in said or f"{kind}/" in said, said
    world.cluster.kubectl("create", "namespace", "forebay-csi")
    said = world.cluster.kubectl("apply", "--dry-run=server", "-k", str(DEPLOY / "csi"))
    for kind in ("csidriver", "daemonset", "serviceaccount"):
        assert f"{kind}." in said or f"{kind}/" in said, said
