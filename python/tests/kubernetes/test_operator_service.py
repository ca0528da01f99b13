"""`ForebayService` on a real kube-apiserver and its controllers: one manifest starts a service, and jobs scale it.

No kubelet runs here: `kubernetes_kubelet` starts the processes of pods with the commands of their templates.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from kubernetes_cluster import ApiError, Json, wait_for
from kubernetes_kubelet import Kubelet
from kubernetes_world import World, denied
from pipelines import fingerprint
from secured import Authority, new_token

PROGRAM = os.environ.get("FOREBAY_OPERATOR")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="`make kubernetes` builds forebay-operator")

MANIFEST = """
apiVersion: forebay.dev/v1alpha1
kind: ForebayService
metadata: {name: pipes}
spec:
  image: registry.example/forebay:0.1
  dispatcher:
    volume: {size: 1Gi}
    args: [--policy, "static:3"]
  tls: {secretName: certs}
  tokens: {secretName: tokens}
  workers:
    - {name: cpu, threads: 1, replicas: {min: 1, max: 4}}
"""


class Served:
    """The services of a namespace, with the calls that tests need."""

    def __init__(self, world: World, kubelet: Kubelet) -> None:
        self.world, self.kubelet, self.cluster = world, kubelet, world.cluster
        self.all = f"/apis/forebay.dev/v1alpha1/namespaces/{world.namespace}/forebayservices"
        self.apps = f"/apis/apps/v1/namespaces/{world.namespace}"

    def make(self, name: str, spec: Json) -> Json:
        body = {"apiVersion": "forebay.dev/v1alpha1", "kind": "ForebayService", "metadata": {"name": name}}
        made: Json = self.cluster.request("POST", self.all, {**body, "spec": spec})
        return made

    def status(self, name: str) -> Json:
        found = self.cluster.find(f"{self.all}/{name}")
        return {} if found is None else found.get("status", {})

    def condition(self, name: str, type_: str) -> tuple[str, str, str]:
        service = self.cluster.find(f"{self.all}/{name}") or {"metadata": {}}
        status = service.get("status", {})
        if status.get("observedGeneration") != service["metadata"].get("generation"):
            return "", "", ""
        found = [it for it in status.get("conditions", []) if it["type"] == type_]
        return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else ("", "", "")

    def until(self, what: str, condition: Any, seconds: float = 60) -> Any:
        try:
            return wait_for(what, condition, seconds)
        except AssertionError as late:
            services = [it.get("status") for it in self.cluster.list(self.all)]
            log = self.world.operator.log()[-3000:]
            raise AssertionError(f"{late}\n{services}\n{self.kubelet.logs()}\n{log}") from None

    def until_told(self, name: str, type_: str, status: str, reason: str) -> str:
        self.until(f"{name} is {type_} {status} {reason}", lambda: self.condition(name, type_)[:2] == (status, reason))
        return self.condition(name, type_)[2]

    def deployment(self, name: str) -> Json:
        found: Json = self.cluster.request("GET", f"{self.apps}/deployments/{name}")
        return found

    def ready(self, name: str) -> int:
        return int(self.deployment(name).get("status", {}).get("readyReplicas", 0))


@pytest.fixture
def served(world: World, tmp_path: Path) -> Iterator[Served]:
    if "controllers" not in world.cluster.running:
        pytest.skip("needs the kube-controller-manager, which makes pods")
    network = int(world.namespace.rsplit("-", 1)[1])
    with Kubelet(world.cluster, world.namespace, tmp_path / "node", network) as kubelet:
        yield Served(world, kubelet)


def secret(world: World, name: str, files: dict[str, bytes]) -> None:
    data = {key: base64.b64encode(content).decode() for key, content in files.items()}
    world.cluster.request(
        "POST", f"/api/v1/namespaces/{world.namespace}/secrets", {"metadata": {"name": name}, "data": data}
    )


def secure(world: World, service: str, folder: Path) -> dict[str, Any]:
    """Makes the Secrets of the manifest; returns the files and the token that a trainer needs."""
    authority, tokens = Authority(folder / "pki"), folder / "tokens.json"
    name = f"{service}.{world.namespace}.svc"
    own = authority.issue("service", host=name)
    files = {"tls.crt": own.cert.read_bytes(), "tls.key": own.key.read_bytes(), "ca.crt": authority.ca.read_bytes()}
    secret(world, "certs", files)
    worker, token = new_token(tokens, "worker"), new_token(tokens, "client", "vision")
    secret(world, "tokens", {"tokens.json": tokens.read_bytes(), "worker.token": worker.encode()})
    return {"tls": fb.Tls(ca=authority.ca, name=name), "token": token}


def slow(row: Json) -> Json:
    time.sleep(0.002)
    return {"square": row["id"] ** 2}


def test_one_manifest_starts_a_service_whose_workers_follow_its_jobs_and_whose_image_changes(
    served: Served, tmp_path: Path
) -> None:
    world = served.world
    trainer = secure(world, "pipes", tmp_path)
    world.cluster.kubectl("apply", "-n", world.namespace, "-f", "-", stdin=MANIFEST)
    served.until_told("pipes", "Ready", "True", "Serving")
    settings = world.cluster.request("GET", f"/api/v1/namespaces/{world.namespace}/configmaps/pipes")["data"]
    assert settings["FOREBAY_SERVICE"] == f"forebay://pipes.{world.namespace}.svc:7070"
    assert settings["FOREBAY_TLS_NAME"] == trainer["tls"].name
    # The trainer's pod resolves the name of the Service.
    (dispatcher,) = served.kubelet.dispatchers("pipes")
    service = fb.connect(f"forebay://{dispatcher}:7070", **trainer)

    ds = fb.range(2000).shuffle().map(slow, schema={"square": "int64"}).batch(10)
    expected = [fingerprint(it) for it in ds.iter(seed=7)]
    got = []
    stream = iter(ds.distribute(service, job="train", seed=7))
    got += [fingerprint(next(stream)) for _ in range(5)]
    served.until("three workers, as the job wants", lambda: served.ready("pipes-worker-cpu") == 3)
    assert served.status("pipes")["workersWanted"] == "3"

    # An operator that starts again keeps the number of workers.
    before = served.deployment("pipes-worker-cpu")["metadata"]["generation"]
    world.operator.kill()
    world.operator.start()
    served.until("it is reconciled", lambda: reconciles(world) >= 2)
    assert served.deployment("pipes-worker-cpu")["metadata"]["generation"] == before

    # A new image reaches the dispatcher, and then each worker, while the job goes on.
    image = {"spec": {"image": "registry.example/forebay:0.2"}}
    world.cluster.request("PATCH", f"{served.all}/pipes", image)
    got += [fingerprint(next(stream)) for _ in range(60)]
    served.until_told("pipes", "Progressing", "False", "Complete")
    roles = [role for role, image in served.kubelet.images if image.endswith(":0.2")]
    assert roles[0] == "dispatcher", roles
    assert served.deployment("pipes-worker-cpu")["status"]["updatedReplicas"] == 3
    assert [code for _, code, _ in served.kubelet.ended] == [0] * len(served.kubelet.ended), served.kubelet.ended
    got += [fingerprint(it) for it in stream]
    assert got == expected

    served.until(
        "one worker, as no process reads", lambda: served.deployment("pipes-worker-cpu")["spec"]["replicas"] == 1
    )
    printed = world.cluster.kubectl("get", "forebayservice", "-n", world.namespace).splitlines()
    assert printed[0].split() == ["NAME", "READY", "DISPATCHERS", "WORKERS", "WANTED", "REASON", "AGE"]
    assert printed[1].split()[:3] == ["pipes", "True", "1/1"]


def plain(**changes: Any) -> Json:
    spec = {
        "image": "registry.example/forebay:0.1",
        "dispatcher": {"volume": {}},
        "workers": [{"name": "cpu", "threads": 1, "replicas": {"min": 1, "max": 1}}],
    }
    return {**spec, **changes}


def test_dispatchers_over_etcd_and_worker_types_with_prices(served: Served) -> None:
    etcd = {"endpoints": [f"127.0.0.1:{served.cluster.start_another_etcd()}"], "replicas": 2}
    types = [
        {"name": "big", "kind": "c5", "price": 0.4, "threads": 1, "replicas": {"max": 2}},
        {"name": "spot", "kind": "c5", "price": 0.1, "threads": 1, "spot": True, "replicas": {"min": 0, "max": 2}},
    ]
    served.make("many", plain(dispatcher={"etcd": etcd}, workers=types))
    served.until("both dispatchers", lambda: served.status("many").get("dispatchersReady") == "2/2")
    service = fb.connect(",".join(f"{it}:7070" for it in served.kubelet.dispatchers("many")))
    ds = fb.range(400).map(slow, schema={"square": "int64"}).batch(10)
    got = [fingerprint(it) for it in ds.distribute(service, job="train")]
    assert got == [fingerprint(it) for it in ds]
    # Workers of the cheaper type run, and none of the other type.
    workers = {it["name"]: it["replicas"] for it in served.status("many")["workers"]}
    assert workers["spot"] >= 1, workers
    assert workers["big"] == 0, workers


def test_a_service_goes_with_all_that_was_made_for_it_and_a_type_that_is_gone_with_its_deployment(
    served: Served,
) -> None:
    two = [{"name": name, "price": 1, "threads": 1, "replicas": {"min": 0, "max": 1}} for name in ("a", "b")]
    served.make("gone", plain(workers=two))
    served.until("both types", lambda: len(served.cluster.list(f"{served.apps}/deployments")) == 2)
    served.cluster.request("PATCH", f"{served.all}/gone", {"spec": {"workers": two[:1]}})
    served.until(
        "one type",
        lambda: (
            [it["metadata"]["name"] for it in served.cluster.list(f"{served.apps}/deployments")] == ["gone-worker-a"]
        ),
    )
    served.cluster.delete(f"{served.all}/gone", propagationPolicy="Background")
    core = f"/api/v1/namespaces/{served.world.namespace}"
    budgets = "v1" if served.cluster.minor >= 21 else "v1beta1"
    kinds = [
        *(f"{served.apps}/{it}" for it in ("statefulsets", "deployments")),
        *(f"{core}/{it}" for it in ("services", "persistentvolumeclaims", "pods")),
        f"/apis/networking.k8s.io/v1/namespaces/{served.world.namespace}/networkpolicies",
        f"/apis/policy/{budgets}/namespaces/{served.world.namespace}/poddisruptionbudgets",
    ]
    served.until("all is gone", lambda: not any(served.cluster.list(it) for it in kinds))


def test_bad_specs_are_refused_or_told_and_put_right(served: Served) -> None:
    for wrong in (
        {"dispatcher": {}},
        {"dispatcher": {"volume": {}, "etcd": {"endpoints": ["e:1"]}}},
        {"workers": []},
        {"workers": [{"name": "Upper"}]},
        {"image": None},
        {"autoscale": {"objective": "speed"}},
    ):
        with pytest.raises(ApiError) as refused:
            served.make("bad", {k: v for k, v in plain(**wrong).items() if v is not None})
        assert refused.value.code == 422, wrong
    served.make("bad", plain(workers=[{"name": "cpu", "replicas": {"min": 5, "max": 2}}]))
    said = served.until_told("bad", "Degraded", "True", "InvalidSpec")
    assert "spec.workers[0].replicas is from 5 to 2" in said
    assert served.condition("bad", "Ready")[0] == "False"
    assert served.cluster.list(f"{served.apps}/deployments") == []
    served.cluster.request("PATCH", f"{served.all}/bad", {"spec": plain()})
    served.until_told("bad", "Ready", "True", "Serving")
    served.until_told("bad", "Degraded", "False", "AsDescribed")


def test_what_is_anothers_is_not_taken_and_what_is_changed_is_put_right(served: Served) -> None:
    path = f"/api/v1/namespaces/{served.world.namespace}/configmaps"
    served.cluster.request("POST", path, {"metadata": {"name": "mine"}, "data": {"a": "b"}})
    served.make("mine", plain())
    said = served.until_told("mine", "Degraded", "True", "ChildNotOwned")
    assert "ConfigMap mine is there, and was not made for this service" in said
    assert served.cluster.request("GET", f"{path}/mine")["data"] == {"a": "b"}
    served.cluster.delete(f"{path}/mine")
    served.until_told("mine", "Degraded", "False", "AsDescribed")
    served.until_told("mine", "Progressing", "False", "Complete")
    served.cluster.request("PATCH", f"{path}/mine", {"data": {"FOREBAY_SERVICE": "forebay://elsewhere"}})
    served.until(
        "it is put right", lambda: "elsewhere" not in str(served.cluster.request("GET", f"{path}/mine")["data"])
    )


def test_a_service_that_is_as_it_should_be_costs_no_request(served: Served) -> None:
    served.make("calm", plain(workers=[{"name": "cpu", "threads": 1, "resources": {"requests": {"cpu": "1000m"}}}]))
    served.until_told("calm", "Progressing", "False", "Complete")
    served.until("it is scaled", lambda: "workersWanted" in served.status("calm") or served.ready("calm-worker-cpu"))
    before, first = requests(served.world), reconciles(served.world)
    for number in range(5):
        served.cluster.request("PATCH", f"{served.all}/calm", {"metadata": {"annotations": {"a": str(number)}}})
        expected = first + number + 1
        served.until("it is reconciled", lambda expected=expected: reconciles(served.world) >= expected)
    assert requests(served.world)[len(before) :] == []


def reconciles(world: World) -> float:
    """Returns the number of finished reconciles of services."""
    try:
        return world.operator.figures().get('forebay_operator_reconciles_total{what="service",outcome="done"}', 0)
    except OSError:
        return 0


def requests(world: World) -> list[str]:
    """Returns the operator's requests, without lists and watches."""
    lines = map(json.loads, (world.cluster.folder / "audit.log").read_text().splitlines())
    mine = [it for it in lines if it["verb"] not in ("list", "watch")]
    return [f"{it['verb']} {it['requestURI']}" for it in mine if f"/{world.namespace}/" in it["requestURI"]]


def test_the_definition_takes_what_the_documentation_shows(world: World) -> None:
    pages = Path(__file__).resolve().parents[3] / "docs" / "kubernetes.md"
    blocks = [it for it in pages.read_text().split("```yaml\n")[1:] if "kind: ForebayService" in it]
    assert blocks
    for block in blocks:
        world.cluster.kubectl(
            "apply", "--dry-run=server", "-n", world.namespace, "-f", "-", stdin=block.split("```")[0]
        )


def test_services_need_no_more_rights_than_the_operator_has(world: World) -> None:
    assert denied(world.cluster)[0] == set()


def test_the_program_prints_both_definitions() -> None:
    printed = subprocess.run([str(PROGRAM), "crd"], capture_output=True, text=True, check=True).stdout
    assert "name: cachebackends.cache.kubedl.io" in printed
    assert "name: forebayservices.forebay.dev" in printed
