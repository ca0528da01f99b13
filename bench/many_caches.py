"""Measures the operator with many caches of the engine `forebay`, each a volume and a claim.

    FOREBAY_OPERATOR=PROGRAM FOREBAY_KUBE_APISERVER=FOLDER python bench/many_caches.py

It starts a real API server, controller-manager and etcd on this machine, whose load is part of the times. It prints the
time until all caches are ready, the operator's processor time, its memory and its requests; then the same of an idle
half minute, of a restart, and of the deletion of all.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "tests"))

from kubernetes_cluster import wait_for
from kubernetes_world import Operated, cache_of, caches, spec_of

NAMESPACE = "bench"
DRIVERS = "/apis/storage.k8s.io/v1/csidrivers"
IDLE_SECONDS = 30
WAIT_SECONDS = 600


class Bench:
    """The operator under measurement."""

    def __init__(self, operated: Operated) -> None:
        self.operated, self.cluster = operated, operated.cluster

    def usage(self) -> tuple[float, float, float, float]:
        """Returns seconds of processor time, MB of memory, requests and reconciles of the operator's process."""
        process = self.cluster.running["operator"].pid
        stat = Path(f"/proc/{process}/stat").read_text().rsplit(") ", 1)[1].split()
        status = Path(f"/proc/{process}/status").read_text()
        memory = next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))
        figures = self.operated.operator.figures()

        def total(of: str) -> float:
            return sum(value for name, value in figures.items() if name.startswith(of))

        requests, reconciles = total("forebay_operator_requests_total"), total("forebay_operator_reconciles_total")
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), memory, requests, reconciles

    def states(self) -> list[str]:
        """Returns the states of the caches."""
        time.sleep(0.5)
        items = self.cluster.list(caches(NAMESPACE))
        return [it.get("status", {}).get("cacheStatus", "") for it in items]

    def measure(self, what: str, run: Callable[[], None], fresh: bool = False) -> None:
        """Runs a phase; `fresh`: the phase starts the process, whose counts begin at 0."""
        before, began = self.usage(), time.monotonic()
        run()
        seconds, after = time.monotonic() - began, self.usage()
        base = (0.0, 0.0, 0.0, 0.0) if fresh else before
        processor, requests, reconciles = after[0] - base[0], after[2] - base[2], after[3] - base[3]
        print(
            f"{what:24} {seconds:7.1f} s  processor {processor:6.2f} s  memory {after[1]:5.0f} MB  "
            f"requests {requests:6.0f}  reconciles {reconciles:6.0f}",
            flush=True,
        )


def main() -> None:
    """Starts a cluster with the operator, and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--caches", type=int, default=1000)
    count = parser.parse_args().caches
    with tempfile.TemporaryDirectory() as folder:
        programs, program = Path(os.environ["FOREBAY_KUBE_APISERVER"]), os.environ["FOREBAY_OPERATOR"]
        operated = Operated(programs, program, Path(folder))
        try:
            operated.start()
            run(operated, count)
        finally:
            operated.close()


def run(operated: Operated, count: int) -> None:
    """Measures the phases with `count` caches."""
    bench, cluster = Bench(operated), operated.cluster
    cluster.kubectl("create", "namespace", NAMESPACE)
    driver = {"metadata": {"name": "csi.forebay.dev"}, "spec": {"attachRequired": False, "podInfoOnMount": True}}
    cluster.request("POST", DRIVERS, driver)

    def make(number: int) -> None:
        cluster.request("POST", caches(NAMESPACE), cache_of(f"cache-{number}", spec_of("s3://bucket/train", "forebay")))

    def are_ready() -> bool:
        return bench.states().count("PVCCreated") == count

    def create() -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(make, range(count)))
        wait_for("all caches are ready", are_ready, WAIT_SECONDS)

    def restart() -> None:
        operated.operator.stop()
        operated.operator.start()
        # Each cache is reconciled once; the services' queue is empty.
        wait_for("all caches were looked at", lambda: is_up() and bench.usage()[3] >= count, WAIT_SECONDS)

    def is_up() -> bool:
        return operated.operator.is_healthy()

    def delete() -> None:
        cluster.request("DELETE", caches(NAMESPACE))
        wait_for("all caches are gone", lambda: not cluster.list(caches(NAMESPACE)), WAIT_SECONDS)

    print(f"{count} caches, Kubernetes 1.{cluster.minor}", flush=True)
    bench.measure("create, until all ready", create)
    bench.measure("nothing happens", lambda: time.sleep(IDLE_SECONDS))
    bench.measure("restart", restart, fresh=True)
    bench.measure("delete, until all gone", delete)


if __name__ == "__main__":
    main()
