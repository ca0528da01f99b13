"""The objects of a service on Kubernetes, described. Pure.

`service` describes a ForebayService, which forebay-operator makes into pods. `plain` describes the objects for a
cluster without the operator: the same as the operator's, except that the number of workers is fixed and that there are
no PodDisruptionBudgets. A test compares both on a real API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forebay._src.cluster.api import Kind
from forebay._src.cluster.kubeconfig import Json
from forebay._src.cluster.place import shown
from forebay.errors import InvalidPipelineError

FOREBAY_SERVICES = Kind("forebay.dev/v1alpha1", "ForebayService", "forebayservices")
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SERVICES = Kind("v1", "Service", "services")
CLAIMS = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
PODS = Kind("v1", "Pod", "pods")
EVENTS = Kind("v1", "Event", "events")
STATEFUL_SETS = Kind("apps/v1", "StatefulSet", "statefulsets")
REPLICA_SETS = Kind("apps/v1", "ReplicaSet", "replicasets")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
POLICIES = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")

#: Label of all objects of a service: its name; of its pods: dispatcher or worker.
SERVICE, ROLE, WORKER_TYPE = "forebay.dev/service", "forebay.dev/role", "forebay.dev/worker-type"
#: Label of all objects: the program that made them.
MANAGED_BY = "app.kubernetes.io/managed-by"
#: Annotation of the object that owns the others: the arguments of `start`, as JSON.
ASKED = "forebay.dev/cluster-spec"
#: Its value for objects of this module.
OURS = "forebay-cluster"

#: Fields of a ForebayService that plain objects can have, too.
PLAIN_FIELDS = ("env", "imagePullSecrets", "serviceAccountName", "volumeMounts", "volumes")
#: The type of the workers: its Deployment is NAME-worker-cpu.
_TYPE = "cpu"
_DISPATCHER, _WORKER = (7070, 7071), (7080, 7081)
#: User of the pods; seconds in which a pod may end, in which a process must listen, and that it may be silent later.
_USER, _END_SECONDS, _START_SECONDS, _SILENT_SECONDS = 65_532, 30, 300, 60


@dataclass(frozen=True)
class Asked:
    """The service that a user asks for.

    Attributes:
        name: The name of the service.
        namespace: Its namespace.
        image: The image of its pods.
        workers: The fewest and the most workers; the same where they are not scaled.
        threads: Compute threads of each worker.
        spec: More fields of a ForebayService.
    """

    name: str
    namespace: str
    image: str
    workers: tuple[int, int]
    threads: int
    spec: Mapping[str, Any] = field(default_factory=dict)

    def shown(self) -> Json:
        """Returns the arguments that can change, as they are kept with the service."""
        return {
            "image": self.image,
            "workers": shown(self.workers),
            "threads": self.threads,
            "spec": dict(self.spec),
        }


def service(asked: Asked) -> Json:
    """Describes a ForebayService."""
    fewest, most = asked.workers
    worker = {
        "name": _TYPE,
        "threads": asked.threads,
        "replicas": {"min": fewest, "max": most},
        "resources": _resources(asked),
    }
    spec = {"dispatcher": {"volume": {}}, **asked.spec, "image": asked.image, "workers": [worker]}
    return {**_head(FOREBAY_SERVICES, asked, asked.name), "spec": spec}


def _resources(asked: Asked) -> Json:
    return {"requests": {"cpu": str(asked.threads)}}


def root(asked: Asked) -> Json:
    """Describes the object that owns the plain ones; trainers set its data as their environment."""
    data = {"FOREBAY_SERVICE": f"forebay://{address(asked.name, asked.namespace)}"}
    return {**_head(CONFIG_MAPS, asked, asked.name), "data": data}


def address(name: str, namespace: str) -> str:
    """Returns the `host:port` at which pods of the cluster reach the dispatcher."""
    return f"{name}.{namespace}.svc:{_DISPATCHER[0]}"


def plain(asked: Asked, uid: str) -> list[tuple[Kind, Json]]:
    """Describes the objects that the one of this uid owns."""
    if further := sorted(set(asked.spec) - set(PLAIN_FIELDS)):
        raise InvalidPipelineError(
            f"cluster.start: spec= has {', '.join(further)}, which needs forebay-operator",
            {"hint": "install it (kubectl apply -k deploy/kubernetes), or leave the field out"},
        )
    name = asked.name
    headless = {"clusterIP": "None", "publishNotReadyAddresses": True}
    bodies: list[tuple[Kind, str, Json]] = [
        (SERVICES, name, {"spec": {"type": "ClusterIP", **_reached(asked)}}),
        (SERVICES, f"{name}-dispatchers", {"spec": {**headless, **_reached(asked)}}),
        (POLICIES, f"{name}-dispatcher", {"spec": _policy(asked, "dispatcher", _DISPATCHER)}),
        (POLICIES, f"{name}-worker", {"spec": _policy(asked, "worker", _WORKER)}),
        (CLAIMS, f"{name}-dispatcher", {"spec": _claim()}),
        (STATEFUL_SETS, f"{name}-dispatcher", {"spec": _dispatcher(asked)}),
        (DEPLOYMENTS, f"{name}-worker-{_TYPE}", {"spec": _workers(asked)}),
    ]
    roles = {STATEFUL_SETS: {ROLE: "dispatcher"}, DEPLOYMENTS: {ROLE: "worker", WORKER_TYPE: _TYPE}}
    described = []
    for kind, own, rest in bodies:
        body = {**_head(kind, asked, own), **rest}
        body["metadata"].pop("annotations")
        body["metadata"]["labels"] |= roles.get(kind, {})
        owner = {"apiVersion": CONFIG_MAPS.version, "kind": CONFIG_MAPS.kind, "name": name, "uid": uid}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        described.append((kind, body))
    return described


def _head(kind: Kind, asked: Asked, name: str) -> Json:
    labels = {
        SERVICE: asked.name,
        "app.kubernetes.io/name": "forebay",
        "app.kubernetes.io/instance": asked.name,
        MANAGED_BY: OURS,
    }
    meta: Json = {"name": name, "namespace": asked.namespace, "labels": labels, "annotations": {}}
    return {"apiVersion": kind.version, "kind": kind.kind, "metadata": meta}


def _labels(asked: Asked, role: str) -> Json:
    return {SERVICE: asked.name, ROLE: role}


def _reached(asked: Asked) -> Json:
    ports = [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
        for name, port in zip(("forebay", "metrics"), _DISPATCHER, strict=True)
    ]
    return {"ports": ports, "selector": _labels(asked, "dispatcher")}


def _policy(asked: Asked, role: str, ports: tuple[int, int]) -> Json:
    """Only pods of the namespace may connect: a dispatcher without tokens lets its callers run code."""
    rules = [{"from": [{"podSelector": {}}], "ports": [{"port": port, "protocol": "TCP"}]} for port in ports]
    return {"podSelector": {"matchLabels": _labels(asked, role)}, "policyTypes": ["Ingress"], "ingress": rules}


def _claim() -> Json:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}


def _dispatcher(asked: Asked) -> Json:
    (port, metrics), labels = _DISPATCHER, _labels(asked, "dispatcher")
    args = ["--listen", f"0.0.0.0:{port}", "--metrics", f"0.0.0.0:{metrics}", "--state-dir", "/state"]
    args += ["--max-workers", str(asked.workers[1])]
    claim = {"name": "state", "persistentVolumeClaim": {"claimName": f"{asked.name}-dispatcher"}}
    state = [claim], [{"name": "state", "mountPath": "/state"}]
    return {
        "replicas": 1,
        "serviceName": f"{asked.name}-dispatchers",
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _pod(asked, "dispatcher", args, _DISPATCHER, state, None)},
    }


def _workers(asked: Asked) -> Json:
    (port, metrics), labels = _WORKER, {**_labels(asked, "worker"), WORKER_TYPE: _TYPE}
    args = ["--dispatcher", address(asked.name, asked.namespace), "--listen", f"0.0.0.0:{port}"]
    args += ["--metrics", f"0.0.0.0:{metrics}", "--threads", str(asked.threads)]
    pod = _pod(asked, "worker", args, _WORKER, ([], []), _resources(asked))
    return {
        "replicas": asked.workers[0],
        "minReadySeconds": 5,
        # A new worker is there before an old one leaves, which first serves the data that it holds.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "25%"}},
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def _pod(
    asked: Asked,
    role: str,
    args: list[str],
    ports: tuple[int, int],
    own: tuple[list[Json], list[Json]],
    resources: Json | None,
) -> Json:
    """Describes a pod: not root, a read-only root, and no token of a service account unless one is named."""
    spec, (volumes, mounts) = asked.spec, own
    env = [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "HOME", "value": "/tmp"},
        *spec.get("env", []),
    ]
    named = zip(("forebay", "metrics"), ports, strict=True)
    container = {
        "name": role,
        "image": asked.image,
        "command": ["forebay", role],
        "args": args,
        "env": env,
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in named],
        "volumeMounts": [*mounts, {"name": "tmp", "mountPath": "/tmp"}, *spec.get("volumeMounts", [])],
        "startupProbe": _probe(2, _START_SECONDS),
        "readinessProbe": _probe(5, 15),
        "livenessProbe": _probe(10, _SILENT_SECONDS),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        **({"resources": resources} if resources else {}),
    }
    pod: Json = {
        "containers": [container],
        "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}, *spec.get("volumes", [])],
        "terminationGracePeriodSeconds": _END_SECONDS,
        # Forebay would take the variables of Services for options.
        "enableServiceLinks": False,
        "automountServiceAccountToken": "serviceAccountName" in spec,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if account := spec.get("serviceAccountName"):
        pod["serviceAccountName"] = account
    if secrets := spec.get("imagePullSecrets"):
        pod["imagePullSecrets"] = [{"name": name} for name in secrets]
    return pod


def _probe(period: int, seconds: int) -> Json:
    return {"tcpSocket": {"port": "forebay"}, "periodSeconds": period, "failureThreshold": seconds // period}
