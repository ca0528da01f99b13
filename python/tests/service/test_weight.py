"""The weight of a job: its share of the workers' time beside others."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import forebay as fb
import pytest
from forebay.errors import InvalidPipelineError

BATCHES = 120


def toil(batch):
    time.sleep(0.01)
    return {"x": batch["id"]}


def pipeline(rows: int) -> fb.Dataset:
    return fb.range(rows).batch(10).map(toil, schema={"x": "int64"}, writes=["x"])


def taken_beside(service: fb.Service, first: fb.DatasetIterator, **favour: int) -> int:
    """Reads a favoured job to its end, and returns how many batches `first` got meanwhile."""
    next(first)
    begun = threading.Event()

    def read_all() -> int:
        batches = pipeline(10 * BATCHES).distribute(service, job="favoured", **favour).iter()
        next(batches)
        begun.set()
        return 1 + sum(1 for _ in batches)

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(read_all)
        taken = 0
        while not ended.done():
            next(first)
            # While the other job opens, and after it has ended, no job shares the worker.
            taken += begun.is_set() and not ended.done()
        assert ended.result() == BATCHES
    return taken


@pytest.mark.alone
def test_a_job_of_weight_three_gets_three_times_as_much_of_a_worker_that_is_short():
    with fb.up(workers=1, threads=1) as service:
        # The job is long enough to end after the other job.
        taken = taken_beside(service, pipeline(100 * BATCHES).distribute(service, job="light").iter(), weight=3)
    # A third, apart from the batches that each job had ahead.
    assert BATCHES / 6 < taken < BATCHES * 2 / 3, taken


@pytest.mark.parametrize("weight", [0, -1, 1001, 1.5, "much"])
def test_a_weight_that_is_none_is_refused_where_it_was_written(weight):
    with pytest.raises(InvalidPipelineError, match="distribute: weight"):
        pipeline(10).distribute("forebay://127.0.0.1:1", job="x", weight=weight)


@pytest.mark.alone
def test_a_job_of_a_higher_priority_takes_the_worker_and_others_go_on_after_it():
    with fb.up(workers=1, threads=1) as service:
        lows = pipeline(100 * BATCHES).distribute(service, job="low").iter()
        taken = taken_beside(service, lows, priority=3)
        [status] = service.jobs("favoured")
        assert status.priority == 3
        # The batches computed ahead, and not half of the other's.
        assert taken < BATCHES / 4, taken
        ids = [next(lows)["x"][0] for _ in range(3)]
        assert ids == sorted(ids), "nothing is lost"


@pytest.mark.parametrize("priority", [-1, 10, 1.5, "high"])
def test_a_priority_that_is_none_is_refused_where_it_was_written(priority):
    with pytest.raises(InvalidPipelineError, match="distribute: priority"):
        pipeline(10).distribute("forebay://127.0.0.1:1", job="x", priority=priority)
