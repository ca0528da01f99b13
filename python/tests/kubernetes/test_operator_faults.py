"""`forebay-operator operate` under faults: bad input, objects that vanish, crashes, conflicts, random histories.

If a test is about a fault of KubeDL's caches, a comment in it describes the fault. Run by `make kubernetes`.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal

import pytest
from kubernetes_cast import FLUID, FLUID_KINDS
from kubernetes_cluster import ApiError, Cluster, Json, Operator, wait_for
from kubernetes_world import DEFINITIONS, TIER, World, caches, denied, jobs, pod_of, spec_of

PROGRAM = os.environ.get("FOREBAY_OPERATOR")
HISTORIES = int(os.environ.get("FOREBAY_KUBERNETES_HISTORIES", "30"))

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")


def test_children_that_vanish_are_made_again(world: World) -> None:
    # KubeDL waits in PVCCreating for ever.
    world.make_cache("lost", spec_of())
    world.until_state("lost", "PVCCreated")
    dataset = f"{FLUID}/namespaces/{world.namespace}/datasets/lost"
    old = world.cluster.request("GET", dataset)["metadata"]["uid"]
    world.cluster.delete(dataset)
    wait_for(
        "another Dataset", lambda: (world.cluster.find(dataset) or {"metadata": {"uid": old}})["metadata"]["uid"] != old
    )
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
    foreign: Json = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "Dataset",
        "metadata": {"name": "taken"},
        "spec": {"mounts": []},
    }
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
    spec["cacheEngine"]["fluid"]["alluxioRuntime"]["tieredStorage"] = [
        {k: v for k, v in {**TIER, **change}.items() if v is not None}
    ]
    with pytest.raises(ApiError, match=said) as refused:
        world.make_cache("bad", spec)
    assert refused.value.code == 422


def test_bad_specs_are_refused_or_fail_with_their_reason(world: World) -> None:
    spec = spec_of()
    engines = {"fluid": {"alluxioRuntime": {"tieredStorage": [TIER]}}, "forebay": {}}
    for wrong in (
        {"cacheEngine": {}},
        {"cacheEngine": None},
        {"cacheEngine": {"other": {}}},
        {"cacheEngine": engines},
        {"dataset": None},
    ):
        with pytest.raises(ApiError) as refused:
            world.make_cache("bad", {key: value for key, value in {**spec, **wrong}.items() if value is not None})
        assert refused.value.code == 422, wrong
    twice = {"dataset": {"dataSources": [spec["dataset"]["dataSources"][0]] * 2}}
    world.make_cache("twice", {**spec, **twice})
    assert "a folder of its own" in world.until_state("twice", "CacheFailed", "InvalidSpec")["message"]
    world.make_cache("Upper.name".lower(), spec)
    assert "is no name for a cache" in world.until_state("upper.name", "CacheFailed", "InvalidSpec")["message"]
    # After a user corrects a spec, the operator makes its objects: a failure is not final.
    world.cluster.request("PATCH", f"{caches(world.namespace)}/twice", {"spec": {"dataset": spec["dataset"]}})
    world.until_state("twice", "PVCCreated")
    # The status of a job has the error of the cache that the job defines.
    world.make_job("wrong", {"mountPath": "/data", "dataset": spec["dataset"], "cacheEngine": {"other": {}}})
    event = wait_for("the job hears", lambda: world.events("CacheBackendRefused"))[0]
    assert (event["regarding"]["kind"], event["regarding"]["name"]) == ("TFJob", "wrong")
    world.make_job("unserved", {"name": "missing", "mountPath": "/data"})
    event = wait_for("the job hears", lambda: world.events("CacheBackendNotFound"))[0]
    assert event["regarding"]["name"] == "unserved"
    world.make_cache("missing", spec)
    wait_for("it is used", lambda: world.status("missing").get("usedNum") == 1)


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


def test_finished_pods_that_are_not_deleted_do_not_keep_a_cache(world: World) -> None:
    # Kubernetes may protect the claim as long as their objects are there; the operator ends that after 30 s.
    world.make_cache("kept", spec_of())
    world.make_pod("p", "kept")
    world.until_state("kept", "PVCCreated")
    world.until_runs("p")
    # The scheduler does not run here. Only a pod that has a node protects its claim.
    bound: Json = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    world.cluster.request("POST", f"{world.pods}/p/binding", bound)
    world.finish_pod("p")
    world.cluster.delete(f"{caches(world.namespace)}/kept")
    world.until_gone("kept")
    assert world.cluster.find(f"{world.claims}/kept") is None
    assert world.cluster.find(f"{world.pods}/p") is not None


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


def test_fluid_that_is_not_installed_is_told_and_found_once_it_is(world: World) -> None:
    definition = next(it for it in FLUID_KINDS if it["spec"]["names"]["kind"] == "JindoRuntime")
    world.cluster.delete(f"{DEFINITIONS}/{definition['metadata']['name']}")
    wait_for("the kind is gone", lambda: world.cluster.find(f"{FLUID}/jindoruntimes") is None)
    spec = spec_of()
    spec["cacheEngine"] = {"fluid": {"jindoRuntime": {"tieredStorage": [TIER]}}}
    world.make_cache("jindo", spec)
    status = world.until_state("jindo", "CacheFailed", "EngineNotInstalled")
    assert "Fluid is not installed, or lacks this runtime" in status["message"]
    wait_for("the kind is back", lambda: install(world.cluster, definition))
    world.until_state("jindo", "PVCCreated")


def install(cluster: Cluster, definition: Json) -> bool:
    try:
        cluster.request("POST", DEFINITIONS, definition)
    except ApiError:
        return False
    return True


def test_the_operator_and_the_api_server_are_killed_and_started_again(world: World) -> None:
    world.fluid.holds = {"k"}
    world.make_cache("k", spec_of())
    world.make_pod("p", "k")
    world.operator.kill()
    world.cluster.stop("kube-apiserver", signal.SIGKILL)
    world.cluster.start_api()
    # The webhook is down: pods that name a cache by label wait for it, and other pods are made as they are.
    pod = pod_of("labelled")
    pod["metadata"]["labels"] = {"forebay.dev/cache": "k"}
    with pytest.raises(ApiError, match="webhook"):
        world.cluster.request("POST", world.pods, pod)
    world.cluster.request("POST", world.pods, pod_of("plain"))
    world.fluid.holds = set()
    world.operator.start()
    world.until_state("k", "PVCCreated")
    world.until_runs("p")
    world.cluster.stop("kube-apiserver", signal.SIGTERM)
    world.cluster.start_api()
    world.cluster.delete(f"{caches(world.namespace)}/k")
    world.finish_pod("p")
    world.cluster.delete(f"{world.pods}/p", gracePeriodSeconds=0)
    world.until_gone("k")


def test_one_of_two_operators_acts_and_the_other_takes_over(world: World) -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/forebay/leases/forebay-operator"
    other = Operator(world.cluster, str(PROGRAM), name="other", lease=2)
    other.start()
    try:
        wait_for("it serves the webhook", lambda: other.is_healthy())
        assert "operating" not in other.log()
        # After a stop of one operator, the other acts at once. After a kill, the other waits until the Lease ends.
        world.operator.stop()
        wait_for("the other acts", lambda: world.cluster.request("GET", lease)["spec"]["holderIdentity"] == "other")
        world.make_cache("of-two", spec_of())
        world.until_state("of-two", "PVCCreated")
        other.kill()
        world.operator.start()
        world.make_cache("of-one", spec_of())
        world.until_state("of-one", "PVCCreated")
        assert world.cluster.request("GET", lease)["spec"]["holderIdentity"] == "operator"
    finally:
        other.kill()
        if "operator" not in world.cluster.running:
            world.operator.start()


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


def test_random_histories_leak_nothing(world: World) -> None:
    """Jobs, pods and caches come and go, and the operator is killed. At the end all objects that it made are gone."""
    rng = random.Random(7)
    cluster, namespace = world.cluster, world.namespace
    deployed = world.operator
    for number in range(HISTORIES):
        steps = [rng.choice(("job", "pod", "finish", "remove", "uncache", "kill", "settle")) for _ in range(8)]
        made: list[str] = []
        for step, what in enumerate(steps):
            name = f"h{number}-{step}"
            if what == "job":
                backend = {"mountPath": "/data", **spec_of()}
                shared = {"name": f"shared-{rng.randrange(2)}", "options": {"idleTime": rng.randrange(2)}}
                world.make_job(name, {**backend, **shared} if rng.random() < 0.5 else backend)
                made.append(name)
            elif what == "pod":
                # The webhook may still be starting.
                with contextlib.suppress(ApiError):
                    cluster.request("POST", world.pods, pod_of(name, f"shared-{rng.randrange(2)}"))
            elif what == "finish" and made:
                world.finish_job(made[-1])
            elif what == "remove" and made:
                cluster.delete(f"{jobs(namespace)}/{made.pop(0)}")
            elif what == "uncache":
                cluster.delete(f"{caches(namespace)}/shared-{rng.randrange(2)}")
            elif what == "settle":
                # Each cache becomes ready or goes, so the operator completes its work between random steps.
                wait_for("caches settle", lambda: all(is_settled(it) for it in cluster.list(caches(namespace))))
            elif what == "kill":
                deployed.kill()
                deployed.start()
        for job in cluster.list(jobs(namespace)):
            cluster.delete(f"{jobs(namespace)}/{job['metadata']['name']}")
        for pod in cluster.list(world.pods):
            cluster.delete(f"{world.pods}/{pod['metadata']['name']}", gracePeriodSeconds=0)
        for cache in cluster.list(caches(namespace)):
            cluster.delete(f"{caches(namespace)}/{cache['metadata']['name']}")
        lists = [
            caches(namespace),
            world.claims,
            *(f"{FLUID}/namespaces/{namespace}/{it}" for it in ("datasets", "alluxioruntimes")),
        ]
        try:
            wait_for("all is gone", lambda lists=lists: not any(cluster.list(it) for it in lists))
        except AssertionError as late:
            left = {it: [found["metadata"] for found in cluster.list(it)] for it in lists}
            raise AssertionError(f"history {number} {steps}: {late}: {left}; {deployed.log()[-3000:]}") from None


def is_settled(cache: Json) -> bool:
    return "deletionTimestamp" in cache["metadata"] or cache.get("status", {}).get("cacheStatus") == "PVCCreated"


def test_nothing_that_the_operator_asked_for_was_denied(world: World) -> None:
    # The service account of the operator has only the rights of deploy/kubernetes/rbac.yaml.
    forbidden, allowed = denied(world.cluster)
    assert forbidden == set()
    assert allowed > 20
