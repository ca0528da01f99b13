"""A worker that is much slower than the others changes only which worker computes a split."""

from __future__ import annotations

import os
import time

import forebay as fb
import pytest

SLOW = "FOREBAY_TEST_SLOW_SECONDS"


def toil(batch):
    """Sleeps for the time that its process was configured with."""
    time.sleep(float(os.environ.get(SLOW, "0")))
    return {"double": batch["id"] * 2}


@pytest.mark.alone
def test_splits_of_a_slow_worker_are_raced_and_the_stream_is_the_same(monkeypatch, until):
    ds = fb.range(1600).shuffle().batch(8).map(toil, schema={"double": "int64"}, writes=["double"])
    want = [(b["id"].tolist(), b["double"].tolist()) for b in ds.iter(seed=3)]
    with fb.up(workers=2, threads=1) as service:
        # Longer than the test takes: without speculative execution, the stream would wait for it.
        monkeypatch.setenv(SLOW, "120")
        service.add_worker()
        monkeypatch.delenv(SLOW)
        until(lambda: len(service.workers()) == 3)
        it = ds.distribute(service, job="stragglers", seed=3).iter()
        assert [(b["id"].tolist(), b["double"].tolist()) for b in it] == want
        (job,) = service.jobs()
        assert job.raced > 0
        until(lambda: sorted(w.state for w in service.workers()) == ["idle", "idle", "slow"])
