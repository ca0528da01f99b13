"""AutoScale with real processes: workers come and go as a trainer needs them, and the stream stays the same."""

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
    """Costs a worker 100 ms, and no core; here it costs nothing."""
    import os
    import time

    time.sleep(float(os.environ.get("BATCH_COST_S", "0")))
    return {"x": batch["id"] * 3}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[fb.Service]:
    """A service that decides by itself, on workers to which a batch costs time."""
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


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidPipelineError, match="max_workers=3 goes with workers='auto'"):
        fb.up(workers=2, max_workers=3)
    with pytest.raises(InvalidPipelineError, match="max_workers=0 is out of range"):
        fb.up(workers="auto", max_workers=0)
    with pytest.raises(InvalidPipelineError, match='"best" is no policy'):
        fb.up(workers="auto", policy="best")
