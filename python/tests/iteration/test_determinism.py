"""The stream depends on the pipeline, the seed and the epoch, and on nothing else."""

from __future__ import annotations

import re

import forebay as fb
import pytest
from pipelines import fingerprint, make


@pytest.mark.parametrize("block", range(10))
def test_random_pipelines_give_the_same_stream_with_any_number_of_threads(block, shards):
    for seed in range(block * 10, block * 10 + 10):
        ds = make(seed, shards)
        streams = [[fingerprint(b) for b in ds.iter(seed=seed, epochs=2, threads=threads)] for threads in (1, 2, 5)]
        assert streams[0] == streams[1] == streams[2], (seed, ds.explain())


@pytest.mark.parametrize("block", range(4))
def test_random_pipelines_give_the_same_stream_in_both_executors(block, shards):
    for seed in range(block * 8, block * 8 + 8):
        ds = make(seed, shards)
        here, there = (
            [fingerprint(b) for b in ds.iter(seed=seed, executor=e, threads=2)] for e in ("thread", "process")
        )
        assert here == there, (seed, ds.explain())


#: Pipelines that several consumers could not compute each for itself.
UNSHARED = re.compile("comes after .*, and several consumers|a generator is read from its start by one consumer")


def refusal(ds: fb.Dataset, options: dict) -> str:
    try:
        ds.iter(**options).__next__()
    except StopIteration:
        return ""
    except fb.errors.InvalidPipelineError as error:
        return error.message
    return ""


@pytest.mark.parametrize("block", range(4))
def test_consumers_are_disjoint_and_together_complete(block, shards):
    for seed in range(block * 8, block * 8 + 8):
        ds = make(seed, shards)
        options = [{"seed": seed, "consumers": (i, 2), "even": False} for i in range(2)]
        if UNSHARED.search(refusal(ds, options[1])):
            continue
        parts = [[fingerprint(b) for b in ds.iter(**o)] for o in options]
        again = [[fingerprint(b) for b in ds.iter(**o, threads=1)] for o in options]
        assert parts == again, seed
        plan = ds.explain(splits=False)
        if "after the merge" not in plan and ds.schema.batch_size:
            whole = [fingerprint(b) for b in ds.iter(seed=seed)]
            dealt = [parts[i % 2][i // 2] for i in range(len(whole))]
            assert dealt == whole, (seed, plan)
