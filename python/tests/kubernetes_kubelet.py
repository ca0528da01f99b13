"""Plays scheduler and kubelet for pods of services: each runs as a process here, with the command of its pod.

A pod has an address of the loopback network. What its command has as 0.0.0.0 is that address, names of Services are the
addresses of their dispatchers, and what is mounted are folders. All else is as the pod's template says.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from kubernetes_cluster import ApiError, Cluster, Json


@dataclass
class Pod:
    """A pod, and its process."""

    name: str
    address: str
    spec: Json
    process: subprocess.Popen[bytes]
    log: Path
    ready: bool | None = None
    restarts: int = 0
    ends_since: float | None = None
    #: Exit codes, and seconds from SIGTERM to the end, of processes that were told to end.
    ended: list[tuple[int, float]] = field(default_factory=list)


class Kubelet:
    """See the module's documentation."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, network: int = 1) -> None:
        self.cluster, self.namespace, self.folder, self.network = cluster, namespace, folder, network
        self.pods: dict[str, Pod] = {}
        self.ended: list[tuple[str, int, float]] = []
        self.images: list[tuple[str, str]] = []
        self.addresses: dict[str, str] = {}
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(90)
        for pod in self.pods.values():
            over(pod.process)

    def _run(self) -> None:
        while not self._ends.is_set():
            # An object changed meanwhile, or the API does not answer. The next step tries again.
            with contextlib.suppress(ApiError, OSError, ValueError):
                self.step()
            time.sleep(0.05)

    def step(self) -> None:
        there = {
            it["metadata"]["uid"]: it for it in self.cluster.list(f"{self.path}?labelSelector=forebay.dev/service")
        }
        for uid, found in there.items():
            if uid not in self.pods and "deletionTimestamp" not in found["metadata"]:
                self.pods[uid] = self._start(found)
            elif "deletionTimestamp" in found["metadata"]:
                self._end(uid, found["metadata"]["name"])
            else:
                self._observe(self.pods[uid])
        for uid in set(self.pods) - set(there):
            # The pod was removed by force, so its process ends, too.
            over(self.pods.pop(uid).process)

    def _start(self, found: Json) -> Pod:
        name = found["metadata"]["name"]
        target = {"kind": "Node", "name": "node"}
        binding: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        with contextlib.suppress(ApiError):
            self.cluster.request("POST", f"{self.path}/{name}/binding", binding)
        log, address = self.folder / f"{name}.log", self.address(name)
        spec = found["spec"]
        self.images.append((found["metadata"]["labels"]["forebay.dev/role"], spec["containers"][0]["image"]))
        return Pod(name, address, spec, self._launch(name, spec, log), log)

    def address(self, pod: str) -> str:
        """The address of a pod of this name. A pod that is made again has the same address."""
        number = len(self.addresses) + 1
        return self.addresses.setdefault(pod, f"127.77.{self.network}.{number}")

    def _launch(self, name: str, spec: Json, log: Path) -> subprocess.Popen[bytes]:
        (container,) = spec["containers"]
        mounts = {it["mountPath"]: self._folder(name, spec, it["name"]) for it in container["volumeMounts"]}
        variables = {it["name"]: it.get("value") or self._field(name, it) for it in container["env"]}
        environment = {k: v for k, v in os.environ.items() if not k.startswith("FOREBAY_")}
        program, role = container["command"]
        assert program == "forebay"
        arguments = [self._translated(argument, name, mounts) for argument in container["args"]]
        # The process ends when the test ends for any reason.
        command = [sys.executable, "-m", "forebay", role, *arguments, "--exit-with-parent"]
        with log.open("ab") as to:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=to, stderr=to, env={**environment, **variables}
            )

    def _field(self, name: str, variable: Json) -> str:
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name", variable
        return name

    def _translated(self, argument: str, name: str, mounts: dict[str, Path]) -> str:
        argument = argument.replace("$(POD_NAME)", name).replace("0.0.0.0:", f"{self.address(name)}:")
        argument = re.sub(
            rf"^([a-z0-9-]+)\.[a-z0-9-]+\.{self.namespace}\.svc:", lambda it: f"{self.address(it[1])}:", argument
        )
        service = re.fullmatch(rf"([a-z0-9-]+)\.{self.namespace}\.svc:(\d+)", argument)
        if service:
            return ",".join(f"{it}:{service[2]}" for it in self.dispatchers(service[1]))
        for path, folder in mounts.items():
            if argument == path or argument.startswith(f"{path}/"):
                return f"{folder}{argument[len(path) :]}"
        return argument

    def dispatchers(self, service: str) -> list[str]:
        """The addresses of the dispatchers of a service."""
        path = f"/apis/apps/v1/namespaces/{self.namespace}/statefulsets/{service}-dispatcher"
        replicas = self.cluster.request("GET", path)["spec"]["replicas"]
        return [self.address(f"{service}-dispatcher-{number}") for number in range(replicas)]

    def _folder(self, pod: str, spec: Json, name: str) -> Path:
        volume = next(it for it in spec["volumes"] if it["name"] == name)
        if "persistentVolumeClaim" in volume:
            folder = self.folder / "claims" / volume["persistentVolumeClaim"]["claimName"]
        else:
            folder = self.folder / pod / name
        folder.mkdir(parents=True, exist_ok=True)
        if "secret" in volume:
            secrets = f"/api/v1/namespaces/{self.namespace}/secrets"
            data = self.cluster.request("GET", f"{secrets}/{volume['secret']['secretName']}")["data"]
            for item in volume["secret"].get("items", [{"key": key, "path": key} for key in data]):
                (folder / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))
        return folder

    def _observe(self, pod: Pod) -> None:
        if pod.process.poll() is not None:
            over(pod.process)
            pod.restarts += 1
            time.sleep(0.2)
            pod.process = self._launch(pod.name, pod.spec, pod.log)
        (container,) = pod.spec["containers"]
        probed = container["readinessProbe"]["tcpSocket"]["port"]
        port = next(it["containerPort"] for it in container["ports"] if it["name"] == probed)
        ready = listens(pod.address, port)
        if ready != pod.ready:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
            told = {"phase": "Running", "podIP": pod.address, "conditions": [condition]}
            self.cluster.request("PATCH", f"{self.path}/{pod.name}/status", {"status": told})
            pod.ready = ready

    def _end(self, uid: str, name: str) -> None:
        pod = self.pods.get(uid)
        if pod is not None:
            if pod.ends_since is None:
                pod.ends_since = time.monotonic()
                pod.process.send_signal(signal.SIGTERM)
            took, grace = time.monotonic() - pod.ends_since, pod.spec["terminationGracePeriodSeconds"]
            if pod.process.poll() is None and took < grace:
                return
            self.ended.append((name, over(pod.process), took))
            del self.pods[uid]
        self.cluster.delete(f"{self.path}/{name}", gracePeriodSeconds=0, preconditions={"uid": uid})

    def logs(self) -> str:
        """The end of each process's log."""
        return "\n".join(f"--- {it.name}\n{it.read_text()[-2000:]}" for it in sorted(self.folder.glob("*.log")))


def over(process: subprocess.Popen[bytes]) -> int:
    """Ends a process if it has not ended; returns its exit code."""
    process.kill()
    with process:
        return process.wait(90)


def listens(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True
