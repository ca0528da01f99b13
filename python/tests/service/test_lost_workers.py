"""A worker that was killed stays in sight for a while; a job shows how many workers compute for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import forebay as fb


def forebay(service: fb.Service, *arguments: str) -> str:
    command = [sys.executable, "-m", "forebay", *arguments, "--service", service.address]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=180).stdout


def slow(row):
    time.sleep(0.002)
    return row


def test_a_killed_worker_is_listed_with_its_time_and_reason_and_one_that_leaves_is_not(until):
    ds = fb.range(6000).map(slow, schema={"id": "int64"}).batch(50)
    with fb.up(workers=3, threads=1) as service:

        def computing() -> int:
            return service.jobs()[0].workers_computing

        seen = []
        with ds.distribute(service, job="kept", epochs=None).iter() as batches:
            seen.append(next(batches))
            until(lambda: computing() == 3)
            # The policy decides within some seconds.
            until(lambda: " 3 of " in forebay(service, "jobs"))
            killed, left, _ = service.worker_pids
            os.kill(killed, signal.SIGKILL)
            until(lambda: [w.state for w in service.workers()].count("lost") == 1)
            os.kill(left, signal.SIGTERM)

            def one_is_left() -> bool:
                seen.append(next(batches))
                return sum(w.state != "lost" for w in service.workers()) == 1

            until(one_is_left)
            assert computing() <= 1
            (lost,) = (w for w in service.workers() if w.state == "lost")
            assert lost.lost_ms is not None
            assert "its connection broke" in lost.lost
            assert lost.leases == 0
            shown = forebay(service, "workers")
            assert f"{lost.worker[:8]} at {lost.address} was lost " in shown, shown
            listed = {w["worker"]: w for w in json.loads(forebay(service, "workers", "--json"))}
            assert listed[lost.worker]["lost"] == lost.lost
            assert sum(w["lost_ms"] is None for w in listed.values()) == 1
            alarms = json.loads(forebay(service, "top", "--json"))["alarms"]
            assert "1 worker lost in the last 10 minutes" in [alarm["text"] for alarm in alarms]
        # A worker at the address of a lost one takes its place in the list.
        command = [
            sys.executable,
            "-m",
            "forebay",
            "worker",
            "--dispatcher",
            service.address.removeprefix("forebay://"),
        ]
        again = subprocess.Popen([*command, "--listen", lost.address, "--threads", "1"], stderr=subprocess.DEVNULL)
        try:
            until(lambda: "lost" not in [w.state for w in service.workers()])
        finally:
            again.terminate()
            again.wait(timeout=60)
