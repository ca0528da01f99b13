"""What a job weighs: how much of the workers' time it gets beside others."""

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


def test_a_job_of_weight_three_gets_three_times_as_much_of_a_worker_that_is_short():
    # Long enough to end after the other.
    light, heavy = pipeline(100 * BATCHES), pipeline(10 * BATCHES)
    with fb.up(workers=1, threads=1) as service, ThreadPoolExecutor(1) as pool:
        lights = light.distribute(service, job="light").iter()
        next(lights)
        begun = threading.Event()

        def read_all() -> int:
            batches = heavy.distribute(service, job="heavy", weight=3).iter()
            next(batches)
            begun.set()
            return 1 + sum(1 for _ in batches)

        ended = pool.submit(read_all)
        taken = 0
        while not ended.done():
            next(lights)
            # While the other opens, there is nobody to share with.
            taken += begun.is_set()
        assert ended.result() == BATCHES
    # A third, give or take what each had ahead.
    assert BATCHES / 6 < taken < BATCHES * 2 / 3, taken


@pytest.mark.parametrize("weight", [0, -1, 1001, 1.5, "much"])
def test_a_weight_that_is_none_is_refused_where_it_was_written(weight):
    with pytest.raises(InvalidPipelineError, match="distribute: weight"):
        pipeline(10).distribute("forebay://127.0.0.1:1", job="x", weight=weight)


def test_a_job_of_a_higher_priority_takes_the_worker_and_others_go_on_after_it():
    low, urgent = pipeline(100 * BATCHES), pipeline(10 * BATCHES)
    with fb.up(workers=1, threads=1) as service, ThreadPoolExecutor(1) as pool:
        lows = low.distribute(service, job="low").iter()
        next(lows)
        begun = threading.Event()

        def read_all() -> int:
            batches = urgent.distribute(service, job="urgent", priority=3).iter()
            next(batches)
            begun.set()
            return 1 + sum(1 for _ in batches)

        ended = pool.submit(read_all)
        taken = 0
        while not ended.done():
            next(lows)
            taken += begun.is_set() and not ended.done()
        assert ended.result() == BATCHES
        [status] = service.jobs("urgent")
        assert status.priority == 3
        # What was computed ahead, and not a half of what the other took.
        assert taken < BATCHES / 4, taken
        ids = [next(lows)["x"][0] for _ in range(3)]
        assert ids == sorted(ids), "nothing is lost"


@pytest.mark.parametrize("priority", [-1, 10, 1.5, "high"])
def test_a_priority_that_is_none_is_refused_where_it_was_written(priority):
    with pytest.raises(InvalidPipelineError, match="distribute: priority"):
        pipeline(10).distribute("forebay://127.0.0.1:1", job="x", priority=priority)
