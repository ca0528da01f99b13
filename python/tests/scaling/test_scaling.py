"""Automatic scaling with real processes: workers start and end as a trainer needs, and the stream stays the same."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import forebay as fb
import numpy as np
import pytest
from forebay.errors import InvalidPipelineError

DEADLINE_S = 150.0


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    """Takes 100 ms of a worker's time, without a core; here it takes no time."""
    import os
    import time

    time.sleep(float(os.environ.get("BATCH_COST_S", "0")))
    return {"x": batch["id"] * 3}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Service]:
    """A service that scales by itself. Its workers take time for each batch."""
    monkeypatch.setenv("BATCH_COST_S", "0.1")
    with fb.up(workers="auto", max_workers=4) as service:
        yield service


def test_workers_follow_the_trainer_and_the_stream_does_not_care(
    service: fb.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = fb.range(40_000).shuffle().batch(4).map(slow)
    batches = ds.distribute(service, job="scaled", epochs=1, seed=5).iter()
    taken = []

    def train_until(step_s: float, workers: range) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(service.worker_pids) not in workers:
            assert time.monotonic() < deadline, service.jobs("scaled")
            taken.append(next(batches)["x"])
            time.sleep(step_s)

    assert len(service.worker_pids) == 1
    # Up to 50 batches/s, of which a worker makes 10.
    train_until(0.02, range(3, 5))
    # 3 batches/s.
    train_until(0.33, range(1, 2))
    job = service.jobs("scaled")[0]
    assert job.workers == 1
    rise = next(d for d in job.decisions if d.workers >= 3)
    assert "batches/s" in rise.reason, rise
    assert rise.figures["figures"]["demand"] > 10, rise
    assert [d.ago for d in job.decisions] == sorted((d.ago for d in job.decisions), reverse=True)
    scale = service.scale()
    assert (scale.wanted, scale.max_workers, scale.policy) == (1, 4, "forebay")
    show = [sys.executable, "-m", "forebay", "jobs", "show", "scaled", "--service", service.address]
    shown = subprocess.run(show, check=True, capture_output=True, text=True).stdout
    assert rise.reason in shown, shown
    monkeypatch.setenv("BATCH_COST_S", "0")
    here = ds.iter(seed=5)
    for batch in taken:
        np.testing.assert_array_equal(batch, next(here)["x"])


@pytest.mark.alone
def test_idle_cores_of_the_trainers_machine_are_decided_on_with_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_COST_S", "0.1")
    ds = fb.range(40_000).shuffle().batch(4).map(slow)
    taken = []
    with fb.up(workers=1, threads=1) as service:
        batches = ds.distribute(service, job="placed", seed=5, local="auto").iter()
        deadline = time.monotonic() + DEADLINE_S
        # Up to 50 batches/s, of which the worker makes 10; the function sleeps, so it needs no core here.
        while not any(worker.local and worker.splits_done for worker in service.workers()):
            decisions = [d for job in service.jobs("placed") for d in job.decisions]
            seen = [d.figures["figures"]["spare"] for d in decisions if d.figures["figures"]]
            if seen and max(seen) < 0.1:
                pytest.skip("something else uses every core of this machine")
            assert time.monotonic() < deadline, decisions
            taken.append(next(batches)["x"])
            time.sleep(0.02)
        job = service.jobs("placed")[0]
        placed = next(d for d in job.decisions if d.figures["local"] > 0)
        assert "at the trainer" in placed.reason, placed
        assert placed.figures["figures"]["spare"] > 0, placed
        batches.close()
    monkeypatch.setenv("BATCH_COST_S", "0")
    here = ds.iter(seed=5)
    for batch in taken:
        np.testing.assert_array_equal(batch, next(here)["x"])


def test_a_worker_that_is_dearer_than_waiting_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH_COST_S", "0.1")
    ds = fb.range(40_000).batch(4).map(slow)
    prices = {"objective": "cost", "trainer_price": 0.1, "worker_price": 1}
    with fb.up(workers="auto", max_workers=4, **prices) as service:
        batches = ds.distribute(service, job="dear", seed=5).iter()
        deadline = time.monotonic() + DEADLINE_S
        # Up to 15 batches/s, of which a worker makes 10: another worker would end the waits, for twice the price. If
        # this machine is busy at the start, a worker seems to make less, and a second one is tried.
        decided: list[Any] = []
        while not decided or (decided[-1].figures["rule"], decided[-1].workers) != ("cheapest", 1):
            assert time.monotonic() < deadline, service.jobs("dear")
            next(batches)
            time.sleep(0.066)
            decided = [d for job in service.jobs("dear") for d in job.decisions]
        # The number of workers stays the same.
        for _ in range(100):
            next(batches)
            time.sleep(0.066)
        (job,) = service.jobs("dear")
        assert (job.workers, job.decisions[-1].workers) == (1, 1), job
        # At first there may be no waits, because other workers have made batches ahead.
        figures = job.decisions[-1].figures["figures"]
        assert figures["demand"] > 1.2 * figures["supply"], job
        assert "1 worker is the cheapest" in job.decisions[-1].reason, job
        batches.close()


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidPipelineError, match="the price of machines is not known"):
        fb.up(objective="cost", trainer_price=3)
    with pytest.raises(InvalidPipelineError, match="there are prices, and the objective is time"):
        fb.up(trainer_price=3, worker_price=1)
    with pytest.raises(InvalidPipelineError, match="price of a worker is -1"):
        fb.up(objective="cost-within:1.05", trainer_price=3, worker_price=-1)
    with pytest.raises(InvalidPipelineError, match="static:2 does not support the objective cost"):
        fb.up(workers="auto", policy="static:2", objective="cost", trainer_price=3, worker_price=1)
    with pytest.raises(InvalidPipelineError, match="max_workers=3 goes with workers='auto'"):
        fb.up(workers=2, max_workers=3)
    with pytest.raises(InvalidPipelineError, match="max_workers=0 is out of range"):
        fb.up(workers="auto", max_workers=0)
    with pytest.raises(InvalidPipelineError, match='"best" is no policy'):
        fb.up(workers="auto", policy="best")
