"""`forebay cluster` against a real kube-apiserver: with the operator and without, and with mistakes of users.

No kubelet runs here: `kubernetes_kubelet` starts the processes of pods with the commands of their templates.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import forebay as fb
import pytest
from forebay._src.cluster import api as cluster_api
from forebay.errors import (
    ConflictError,
    InvalidPipelineError,
    NotFoundError,
    PermissionDeniedError,
    UnavailableError,
)
from kubernetes_cluster import Json, wait_for
from kubernetes_kubelet import Kubelet
from kubernetes_world import World
from pipelines import fingerprint

pytestmark = pytest.mark.skipif(
    not os.environ.get("FOREBAY_KUBE_APISERVER"), reason="`make kubernetes` finds or builds a kube-apiserver"
)

IMAGE = "registry.example/forebay:0.1"
DOCS = Path(__file__).resolve().parents[3] / "docs" / "kubernetes.md"
#: The kinds of objects in a service, besides pods.
KINDS = (
    "configmap",
    "service",
    "persistentvolumeclaim",
    "networkpolicy",
    "statefulset",
    "deployment",
    "forebayservice",
)


class User:
    """A user with a kubeconfig for the namespace of a test."""

    def __init__(self, world: World, kubelet: Kubelet, config: Path) -> None:
        self.world, self.kubelet, self.config = world, kubelet, config
        self.namespace, self.lines = world.namespace, list[str]()

    def start(self, name: str = "pipes", **changes: Any) -> fb.cluster.ClusterService:
        given = {"image": IMAGE, "workers": 2, "timeout": 60, "progress": self.lines.append, **changes}
        return fb.cluster.start(name, namespace=self.namespace, **given)

    def stop(self, name: str = "pipes", **changes: Any) -> None:
        fb.cluster.stop(name, namespace=self.namespace, **{"timeout": 60, "progress": self.lines.append, **changes})

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "forebay", "cluster", *arguments, "-n", self.namespace]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def objects(self) -> list[str]:
        """The names of all objects, except the cluster's own."""
        names = self.world.cluster.kubectl("get", ",".join(KINDS), "-o", "name", "-n", self.namespace).split()
        return [name for name in names if "kube-root-ca" not in name]

    def get(self, path: str) -> Json:
        found: Json = self.world.cluster.request("GET", path.replace("NS", self.namespace))
        return found


@pytest.fixture
def user(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    if "controllers" not in world.cluster.running:
        pytest.skip("needs the kube-controller-manager, which makes pods")
    config = world.cluster.kubeconfig("admin")
    monkeypatch.setenv("KUBECONFIG", str(config))
    network = int(world.namespace.rsplit("-", 1)[1])
    with Kubelet(world.cluster, world.namespace, tmp_path / "node", network) as kubelet:
        yield User(world, kubelet, config)


def reach(service: fb.cluster.ClusterService, user: User) -> None:
    """Gives the service the address of its pod: nothing here resolves the names of a cluster."""
    (pod,) = user.kubelet.dispatchers(service.name)
    object.__setattr__(service._started, "address", f"forebay://{pod}:7070")


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "operator"])
def test_a_service_starts_computes_and_goes_without_a_trace(user: User, plain: bool) -> None:
    service = user.start(plain=plain)
    kind = "objects" if plain else "ForebayService"
    found = service.status()
    assert (found.ready, found.dispatchers, found.workers, found.kind) == (True, "1/1", "2/2", kind), user.lines
    assert service.address == f"forebay://pipes.{user.namespace}.svc:7070"
    settings = user.get("/api/v1/namespaces/NS/configmaps/pipes")["data"]
    assert settings == {"FOREBAY_SERVICE": service.address}
    reach(service, user)
    ds = fb.range(400).shuffle().batch(10)
    got = [fingerprint(batch) for batch in ds.distribute(service, job="train", seed=3)]
    assert got == [fingerprint(batch) for batch in ds.iter(seed=3)]
    wait_for("two workers", lambda: len(service.workers()) == 2)

    again = user.command("start", "pipes", "--image", IMAGE, "--workers", "2", *(["--plain"] if plain else []))
    assert (again.returncode, again.stdout) == (0, f"forebay://pipes.{user.namespace}.svc:7070\n"), again.stderr
    assert "is there already" in again.stderr
    table = user.command("status").stdout.splitlines()
    assert table[1].split()[:5] == ["pipes", "yes", "1/1", "2/2", kind]
    shown = json.loads(user.command("status", "pipes", "--json").stdout)
    assert (shown["image"], shown["reasons"], shown["ours"]) == (IMAGE, [], True)

    service.stop(timeout=60)
    assert user.objects() == []
    assert fb.cluster.status(namespace=user.namespace) == []
    assert user.command("stop", "pipes").returncode == 4


def test_another_number_of_workers_is_a_conflict_or_an_update(user: User) -> None:
    user.start(plain=True)
    with pytest.raises(ConflictError, match=r"not as asked for \(now → asked\): workers 2 → 3(.|\n)*--update"):
        user.start(plain=True, workers=3)
    service = user.start(plain=True, workers=3, spec={"env": [{"name": "A", "value": "b"}]}, update=True)
    assert service.status().workers == "3/3"
    pod = user.get("/apis/apps/v1/namespaces/NS/deployments/pipes-worker-cpu")["spec"]["template"]["spec"]
    assert {"name": "A", "value": "b"} in pod["containers"][0]["env"]
    # Arguments that plain objects cannot express change nothing.
    for wrong in ({"spec": {"tls": {"secretName": "certs"}}}, {"workers": "auto"}):
        with pytest.raises(InvalidPipelineError, match="needs forebay-operator"):
            user.start(plain=True, **{"workers": 3, **wrong}, update=True)
    assert "certs" not in str(user.get("/api/v1/namespaces/NS/configmaps/pipes"))
    # Fields that an update no longer names are gone.
    user.start(plain=True, workers=3, update=True)
    pod = user.get("/apis/apps/v1/namespaces/NS/deployments/pipes-worker-cpu")["spec"]["template"]["spec"]
    assert {"name": "A", "value": "b"} not in pod["containers"][0]["env"]


def test_plain_objects_are_those_of_the_operator(user: User) -> None:
    spec = {"env": [{"name": "A", "value": "b"}], "serviceAccountName": "default", "imagePullSecrets": ["pull"]}
    user.start("op", spec=spec, timeout=0)
    paths = {
        "statefulsets": "/apis/apps/v1/namespaces/NS/statefulsets/op-dispatcher",
        "deployments": "/apis/apps/v1/namespaces/NS/deployments/op-worker-cpu",
        "services": "/api/v1/namespaces/NS/services/op",
        "headless": "/api/v1/namespaces/NS/services/op-dispatchers",
        "policy": "/apis/networking.k8s.io/v1/namespaces/NS/networkpolicies/op-worker",
    }

    def all_of() -> dict[str, Json] | None:
        found = {name: user.world.cluster.find(path.replace("NS", user.namespace)) for name, path in paths.items()}
        return found if all(found.values()) else None  # type: ignore[return-value]

    of_operator = wait_for("the operator makes its parts", all_of)
    user.stop("op")
    user.start("op", spec=spec, timeout=0, plain=True)
    plain = wait_for("plain objects", all_of)
    for name in paths:
        one, other = (comparable(it[name]["spec"]) for it in (of_operator, plain))
        assert one == other, name


def comparable(spec: Json) -> Json:
    """Removes the fields that the cluster chooses."""
    return {k: v for k, v in spec.items() if k not in ("clusterIP", "clusterIPs", "replicas")}


def test_of_many_starts_at_once_one_makes_the_service(user: User) -> None:
    with ThreadPoolExecutor(6) as pool:
        started = [pool.submit(user.start, plain=True) for _ in range(6)]
        assert [it.result().status().ready for it in started] == [True] * 6
    assert sum(line.startswith("made ") for line in user.lines) == 1
    assert sum("is there already" in line for line in user.lines) == 5


def test_what_is_anothers_is_neither_changed_nor_deleted(user: User) -> None:
    world = user.world
    manifest = {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "ForebayService",
        "metadata": {"name": "theirs"},
        "spec": {"image": IMAGE, "dispatcher": {"volume": {}}, "workers": [{"name": "cpu"}]},
    }
    world.cluster.kubectl("apply", "-n", user.namespace, "-f", "-", stdin=json.dumps(manifest))
    wait_for("the operator makes it", lambda: "configmap/theirs" in user.objects())
    for call in (user.start, user.stop):
        with pytest.raises(ConflictError, match=r"ForebayService theirs .* was not made by `forebay cluster`"):
            call("theirs")
    # The status shows it nevertheless.
    assert not fb.cluster.find("theirs", namespace=user.namespace).status().ours

    # A part has the name of a foreign object: `start` does not take it over, and deletes the parts that it has made.
    core = f"/api/v1/namespaces/{user.namespace}"
    port = {"ports": [{"port": 1}], "clusterIP": "None"}
    world.cluster.request("POST", f"{core}/services", {"metadata": {"name": "mine-dispatchers"}, "spec": port})
    with pytest.raises(ConflictError, match=r"Service mine-dispatchers .* is there, and was not made for this service"):
        user.start("mine", plain=True)
    wait_for("what was made is gone", lambda: not [it for it in user.objects() if it.endswith("/mine")])
    assert "service/mine-dispatchers" in user.objects()
    assert user.command("stop", "mine").returncode == 4


def test_a_service_that_was_made_again_meanwhile_is_not_deleted(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.start("twice", plain=True, timeout=0)
    delete, path = cluster_api.Api.delete, f"/api/v1/namespaces/{user.namespace}/configmaps"

    def late(self: Any, kind: Any, namespace: str, name: str, uid: str) -> None:
        body = user.get(f"{path}/{name}")
        user.world.cluster.delete(f"{path}/{name}")
        body["metadata"] = {k: v for k, v in body["metadata"].items() if k in ("name", "labels", "annotations")}
        user.world.cluster.request("POST", path, body)
        delete(self, kind, namespace, name, uid)

    monkeypatch.setattr(cluster_api.Api, "delete", late)
    with pytest.raises(ConflictError, match=r"[Pp]recondition"):
        user.stop("twice")
    assert "configmap/twice" in user.objects()


def test_why_pods_do_not_come_is_said_in_the_words_of_the_cluster(user: User) -> None:
    # Without a kubelet, pods keep the status that the test gives them.
    user.kubelet.__exit__()
    user.start("stuck", plain=True, timeout=0)
    pods = f"/api/v1/namespaces/{user.namespace}/pods"
    found = wait_for("pods", lambda: len(them := user.world.cluster.list(pods)) == 3 and them)
    pulls = {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{IMAGE}"'}
    waits = {"name": "worker", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0}
    lacks = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: too small"}
    for pod in found:
        is_worker = pod["metadata"]["labels"]["forebay.dev/role"] == "worker"
        told = {"containerStatuses": [{**waits, "state": {"waiting": pulls}}]} if is_worker else {"conditions": [lacks]}
        user.world.cluster.request("PATCH", f"{pods}/{pod['metadata']['name']}/status", {"status": told})
    with pytest.raises(UnavailableError, match="not ready after 1 s; it goes on starting") as late:
        user.start("stuck", plain=True, timeout=1)
    why = late.value.context["why"].splitlines()
    assert why == [
        "1 dispatcher pod: Unschedulable: 0/3 nodes: too small",
        f'2 worker pods: ImagePullBackOff: Back-off pulling image "{IMAGE}"',
    ]
    assert set(why) <= set(user.lines)
    done = user.command("start", "stuck", "--plain", "--workers", "2", "--image", IMAGE, "--timeout", "1")
    assert done.returncode == 3
    assert "ImagePullBackOff" in done.stderr

    # Because of a quota, the pods are not even made.
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    user.world.cluster.request("POST", f"/api/v1/namespaces/{user.namespace}/resourcequotas", quota)
    user.world.cluster.request("PATCH", f"/api/v1/namespaces/{user.namespace}/resourcequotas/none/status",
                               {"status": {"hard": {"pods": "0"}, "used": {"pods": "3"}}})  # fmt: skip
    user.start("poor", plain=True, timeout=0)
    wait_for("the quota is told", lambda: any(
        "exceeded quota" in reason for reason in fb.cluster.find("poor", namespace=user.namespace).status().reasons
    ))  # fmt: skip

    # The error lists objects that do not end in time: here a pod on a node waits for its kubelet.
    target = {"target": {"kind": "Node", "name": "node"}, "metadata": {"name": "stuck-dispatcher-0"}}
    user.world.cluster.request("POST", f"{pods}/stuck-dispatcher-0/binding", target)
    with pytest.raises(UnavailableError, match="are still there after 3 s") as left:
        user.stop("stuck", timeout=3)
    assert "Pod stuck-dispatcher-0" in left.value.context["still there"]


def test_a_spec_that_the_operator_refuses_ends_the_wait(user: User) -> None:
    with pytest.raises(InvalidPipelineError, match=r"cannot start: InvalidSpec: .*--listen"):
        user.start("bad", spec={"dispatcher": {"volume": {}, "args": ["--listen", "1:1"]}})
    with pytest.raises(InvalidPipelineError, match="spec= has tls, which needs forebay-operator"):
        user.start("bad2", plain=True, spec={"tls": {"secretName": "certs"}})
    with pytest.raises(InvalidPipelineError, match="workers='auto' needs forebay-operator"):
        user.start("bad2", plain=True, workers="auto")
    with pytest.raises(InvalidPipelineError, match=r"refuses: .*spec.tokens"):
        user.start("bad2", spec={"tokens": {}})
    assert not [it for it in user.objects() if "bad2" in it]


def test_the_rights_that_the_page_lists_are_enough_and_without_them_it_says_which(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    cluster = user.world.cluster
    make = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{user.namespace}"
    text = DOCS.read_text().split("```yaml\n")
    (role,) = [it for block in text for it in [block.split("```")[0]] if "name: forebay-cluster-user" in it]
    config = token_of(user, "someone")
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(PermissionDeniedError, match=r"(?s)configmaps is forbidden: .*administrator"):
        fb.cluster.status(namespace=user.namespace)
    with pytest.raises(PermissionDeniedError):
        user.start(plain=True)
    cluster.request("POST", f"{make}/roles", yaml.safe_load(role))
    subject = {"kind": "ServiceAccount", "name": "someone", "namespace": user.namespace}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "forebay-cluster-user"}
    cluster.request("POST", f"{make}/rolebindings", {"metadata": {"name": "a"}, "roleRef": ref, "subjects": [subject]})
    for plain in (False, True):
        wait_for("the binding holds", lambda plain=plain: may(lambda: user.start("mine", plain=plain)))
        assert fb.cluster.status(namespace=user.namespace)[0].ready
        user.stop("mine")
    with pytest.raises(PermissionDeniedError):
        fb.cluster.status(namespace="default")


def may(call: Callable[[], Any]) -> bool:
    try:
        call()
    except PermissionDeniedError:
        return False
    return True


def token_of(user: User, account: str) -> Path:
    """Makes a service account, and a kubeconfig with a token of it."""
    core = f"/api/v1/namespaces/{user.namespace}"
    user.world.cluster.request("POST", f"{core}/serviceaccounts", {"metadata": {"name": account}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = user.world.cluster.request("POST", f"{core}/serviceaccounts/{account}/token", asked)
    config = json.loads(user.config.read_text())
    config["users"][0]["user"] = {"token": made["status"]["token"]}
    path = user.config.with_name(f"{account}-{user.namespace}.kubeconfig")
    path.write_text(json.dumps(config))
    return path


def test_a_namespace_that_is_not_there_or_ends(user: User) -> None:
    with pytest.raises(NotFoundError, match='namespaces "nowhere" not found'):
        fb.cluster.start("pipes", image=IMAGE, namespace="nowhere", plain=True, timeout=0)
    with pytest.raises(NotFoundError, match="there is no service 'pipes'"):
        fb.cluster.stop("pipes", namespace="nowhere")
    assert fb.cluster.status(namespace="nowhere") == []


def test_a_server_that_is_away_while_a_start_waits_is_waited_for(user: User) -> None:
    user.kubelet.__exit__()
    user.start("patient", plain=True, timeout=0)
    cluster, done = user.world.cluster, threading.Event()

    def restart() -> None:
        wait_for("the start waits", lambda: any("0/2 workers" in line for line in user.lines))
        cluster.stop("kube-apiserver")
        wait_for("it says so", lambda: any("does not answer" in line for line in user.lines))
        cluster.start_api()
        done.set()

    thread = threading.Thread(target=restart)
    thread.start()
    with pytest.raises(UnavailableError, match="not ready after"):
        user.start("patient", plain=True, timeout=20)
    thread.join(200)
    assert done.is_set()


def test_a_server_that_cannot_be_reached_is_an_error_within_a_bound(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_api, "CALL_SECONDS", 0.5)
    config = json.loads(user.config.read_text())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
            (tmp_path / "elsewhere").write_text(json.dumps(config))
            monkeypatch.setenv("KUBECONFIG", str(tmp_path / "elsewhere"))
            for call in (user.start, user.stop):
                with pytest.raises(UnavailableError, match=r"does not answer(.|\n)*reachable from here"):
                    call()


def test_a_certificate_of_a_stranger_is_refused(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from secured import Authority

    config = json.loads(user.config.read_text())
    del config["clusters"][0]["cluster"]["insecure-skip-tls-verify"]
    ca = Authority(tmp_path / "stranger").ca.read_bytes()
    config["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(ca).decode()
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(PermissionDeniedError, match="a certificate that is not trusted"):
        user.start()
