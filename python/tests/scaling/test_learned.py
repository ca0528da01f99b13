"""A dispatcher's profile of a dataset outlives it: it is killed, and the next one begins with the profile."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import forebay as fb
from pipelines import name

DEADLINE_S = 150.0
#: The rules of decisions in a steady state.
AT_REST = ("ahead", "enough", "shared", "unmet")


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    """Takes 100 ms of a worker's time, without a core."""
    import time

    time.sleep(0.1)
    return {"x": batch["id"] * 3}


def learned(state: Path, copy: Path) -> dict[str, Any]:
    """Returns the profile of the only dataset, from a copy of the ledger, which is in use; none if the copy is torn."""
    copy.mkdir(exist_ok=True)
    for file in ("ledger.redb", "ledger.last"):
        shutil.copy(state / file, copy)
    command = [sys.executable, "-m", "forebay", "ledger", "dump", str(copy)]
    dumped = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180).stdout
    rows = [json.loads(line) for line in dumped.splitlines()]
    return next((row["learned"] for row in rows if "learned" in row), {})


def test_a_job_begins_with_what_one_showed_under_a_dispatcher_that_was_killed(tmp_path, until) -> None:
    ds = fb.range(400_000).shuffle().batch(4).map(slow)
    state = tmp_path / "state"
    with fb.up(workers="auto", max_workers=6, state_dir=state) as service:
        one = ds.distribute(service, job="one", epochs=1, seed=5).iter()
        deadline = time.monotonic() + DEADLINE_S
        decided: list[Any] = []
        # Up to 16 batches/s, of which a worker makes 10.
        while not decided or decided[-1].figures["rule"] not in AT_REST:
            assert time.monotonic() < deadline, service.jobs("one")
            next(one)
            time.sleep(0.06)
            decided = list(service.jobs("one")[0].decisions)
        one.close()
        rests: list[Any] = []
        until(lambda: rests.extend(learned(state, tmp_path / "copy").get("rests", [])) or rests)
        (rest,) = rests
        workers = rest["rest"]["at"]["workers"]
        assert workers > 1, decided

        # So that no worker has reported to the next dispatcher: all its figures come from the ledger.
        workers_of_it = service.worker_pids
        for pid in workers_of_it:
            os.kill(pid, signal.SIGSTOP)
        service.restart_dispatcher()
        known = service.jobs("one")[0].ops
        assert [op.op for op in known] == ["read", "map"]
        assert all(op.earlier and op.rows_in > 100 for op in known)
        assert known[1].row_us > 1000
        show = [sys.executable, "-m", "forebay", "jobs", "show", "one", "--service", service.address]
        shown = subprocess.run(show, check=True, capture_output=True, text=True, timeout=180).stdout
        assert "in jobs with this pipeline before" in shown
        for pid in workers_of_it:
            os.kill(pid, signal.SIGCONT)

        def begins_there() -> bool:
            again = name()
            with ds.distribute(service, job=again, epochs=2, seed=6).iter() as it:
                next(it)
                (job,) = service.jobs(again)
            assert (job.workers, job.decisions[0].figures["rule"]) == (workers, "again"), job
            return all(op.earlier and op.rows_in >= was.rows_in for op, was in zip(job.ops, known, strict=True))

        # Unless a worker has reported its ops by then.
        until(begins_there)
