"""Plays scheduler, kubelet and CSI driver for the pods of cache nodes.

A node is a mount of the volume's sources, with the options that the driver passes to `forebay mount` for its
attributes. The process of a pod runs with the command of its template; its folder is that mount, and its address one of
the loopback network.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from kubernetes_cluster import ApiError, Cluster, Json
from mounts import Mount

LABEL = "forebay.dev/cache-node"


class CacheNodes:
    """Nodes that run pods of caches: each at most one. `quota` has the bytes of each node's tier."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path, env: dict[str, str], network: int) -> None:
        self.cluster, self.namespace, self.folder, self.env, self.network = cluster, namespace, folder, env, network
        self.quota: dict[str, int] = {}
        self.mounts: dict[str, Mount] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.node_of: dict[str, str] = {}
        self.path = f"/api/v1/namespaces/{namespace}/pods"
        self.wrong: list[str] = []
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> CacheNodes:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(90)
        for process in self.processes.values():
            process.kill()
            process.wait(90)
        for mount in self.mounts.values():
            self._unmount(mount)

    def _unmount(self, mount: Mount) -> None:
        mount.end()
        subprocess.run(["umount", "-l", str(mount.folder)], stderr=subprocess.DEVNULL, check=False)

    def _run(self) -> None:
        while not self._ends.is_set():
            # An object changed meanwhile, or the API does not answer. The next step tries again.
            with contextlib.suppress(ApiError, OSError, ValueError):
                self.step()
            time.sleep(0.05)

    def step(self) -> None:
        there = {it["metadata"]["name"]: it for it in self.cluster.list(f"{self.path}?labelSelector={LABEL}")}
        for name, pod in there.items():
            if "deletionTimestamp" in pod["metadata"]:
                self._end(name)
                uid = {"uid": pod["metadata"]["uid"]}
                self.cluster.delete(f"{self.path}/{name}", gracePeriodSeconds=0, preconditions=uid)
            elif name not in self.processes:
                self._schedule(name, pod)
        for name in set(self.processes) - set(there):
            self._end(name)

    def _schedule(self, name: str, pod: Json) -> None:
        terms = pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        labels = pod["metadata"]["labels"]
        if [set(it["labelSelector"]["matchLabels"].items()) <= set(labels.items()) for it in terms] != [True]:
            self.wrong.append(f"{name} may share its node: {terms}")
        free = sorted(set(self.quota) - set(self.node_of.values()))
        if not free:
            why = f"0/{len(self.quota)} nodes are available: each has a pod of this cache."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
            if pod["status"].get("conditions") != [condition]:
                self.cluster.request("PATCH", f"{self.path}/{name}/status", {"status": {"conditions": [condition]}})
            return
        target = {"kind": "Node", "name": free[0]}
        binding: Json = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.cluster.request("POST", f"{self.path}/{name}/binding", binding)
        self.node_of[name] = free[0]
        self.processes[name] = self._start(free[0], pod)
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        status = {"phase": "Running", "podIP": self.address(free[0]), "conditions": [ready]}
        self.cluster.request("PATCH", f"{self.path}/{name}/status", {"status": status})

    def address(self, node: str) -> str:
        return f"127.88.{self.network}.{sorted(self.quota).index(node) + 1}"

    def _start(self, node: str, pod: Json) -> subprocess.Popen[bytes]:
        (container,) = pod["spec"]["containers"]
        (volume,) = pod["spec"]["volumes"]
        (mount,) = container["volumeMounts"]
        claim = volume["persistentVolumeClaim"]["claimName"]
        folder = self._mounted(node, claim)
        assert container["command"] == ["forebay"]
        args = [it.replace("0.0.0.0:", f"{self.address(node)}:") for it in container["args"]]
        args = [str(folder) if it == mount["mountPath"] else it for it in args]
        with (self.folder / f"{node}.log").open("ab") as log:
            return subprocess.Popen([sys.executable, "-m", "forebay", *args], stdout=log, stderr=log)

    def _mounted(self, node: str, claim: str) -> Path:
        """The mount of the claim's volume at a node, as the driver makes it."""
        if node not in self.mounts:
            volume = self.cluster.request("GET", f"/api/v1/persistentvolumes/forebay.{self.namespace}.{claim}")
            attributes = volume["spec"]["csi"]["volumeAttributes"]
            sources = [f"{it['subDirName']}={it['location']}" for it in json.loads(attributes["sources"])]
            folder = self.folder / node
            folder.mkdir(parents=True)
            options: list[Any] = ["--cache", self.folder / f"{node}-tier", "--cache-disk", self.quota[node]]
            options += ["--prefetch"] if attributes.get("prefetch") == "true" else []
            mount = Mount(folder, *sources, *options, **self.env)
            if mount.ready != f"mounted at {folder}":
                self.wrong.append(f"{mount.ready} {mount.said}")
            self.mounts[node] = mount
        return self.mounts[node].folder

    def _end(self, name: str) -> None:
        node = self.node_of.pop(name, "")
        process = self.processes.pop(name, None)
        if process is not None:
            process.terminate()
            process.wait(90)
        # The last pod of the volume leaves the node.
        mount = self.mounts.pop(node, None)
        if mount is not None:
            self._unmount(mount)
            os.rmdir(mount.folder)
