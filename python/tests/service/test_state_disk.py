"""The disk of a dispatcher's state is full: jobs wait, nothing is lost, and they continue once there is room."""

from __future__ import annotations

import resource
import signal
import subprocess
import threading
import urllib.request

import forebay as fb
import pytest
from forebay._src.selftest.relay import free_port
from pipelines import name

#: One page of the ledger's file: no larger write succeeds.
FULL = 4096


def fill(dispatcher: subprocess.Popen[str]) -> None:
    """Simulates a full disk: no file of this process can be written beyond its first bytes."""
    resource.prlimit(dispatcher.pid, resource.RLIMIT_FSIZE, (FULL, resource.RLIM_INFINITY))


def make_room(dispatcher: subprocess.Popen[str]) -> None:
    resource.prlimit(dispatcher.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def failures(at: str) -> float:
    """Returns how many attempts to write the ledger have failed."""
    with urllib.request.urlopen(f"http://{at}/metrics", timeout=90) as response:
        lines = response.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("forebay_ledger_write_failures_total"))


@pytest.mark.parametrize("killed", [False, True])
def test_jobs_wait_for_room_and_then_go_on_exactly(fleet, until, killed):
    options = ["--state-dir", fleet.folder / "state", "--metrics", metrics := f"127.0.0.1:{free_port()}"]
    address = fleet.start("dispatcher", "--listen", "127.0.0.1:0", *options)
    dispatcher = fleet.processes[-1]
    fleet.worker(address)
    ds = fb.range(400_000).shuffle().batch(10)
    it = ds.distribute(address, job=name(), seed=3).iter()
    got = [next(it)["id"].tolist() for _ in range(20)]
    fill(dispatcher)
    reader = threading.Thread(target=lambda: got.extend(batch["id"].tolist() for batch in it))
    reader.start()
    if killed:
        dispatcher.send_signal(signal.SIGKILL)
        dispatcher.wait(90)
        fleet.start("dispatcher", "--listen", address, *options)
        dispatcher = fleet.processes[-1]
        fill(dispatcher)
    until(lambda: failures(metrics) > 0)
    assert reader.is_alive()
    make_room(dispatcher)
    reader.join(120)
    assert not reader.is_alive()
    assert got == [batch["id"].tolist() for batch in ds.iter(seed=3)]
