"""Random pipelines of every op give one stream: on any number of threads, in any exact order of ops, with caches, for
ranks, resumed, by place, and on a service.

`FOREBAY_PIPELINES=10000 python -m pytest -n 2 python/tests/iteration/test_every_op.py` compares more of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import every_op
import forebay as fb
import pytest
from pipelines import fingerprint, name

PIPELINES = int(os.environ.get("FOREBAY_PIPELINES", "64"))
BLOCK = 16
FIRST = int(os.environ.get("FOREBAY_FIRST_PIPELINE", "0"))

#: Why several consumers cannot read a pipeline, or no state, no place and no order fits it.
REFUSED = fb.errors.InvalidPipelineError
#: What it is called, and the stream that it should give and gives.
Way = tuple[str, list[Any], list[Any]]


def outcome(stream: Iterable[Any]) -> list[Any]:
    """Returns what a stream yields, and the error that ends it: an error is a function of the pipeline, too."""
    found: list[Any] = []
    try:
        for batch in stream:
            found.append(fingerprint(batch))
    except fb.errors.ForebayError as error:
        found.append((type(error).__name__, error.message, error.context.get("sample")))
    return found


def resumed(ds: fb.Dataset, cut: int, **options: Any) -> list[Any]:
    """Returns the stream from a batch on, by the state before it."""
    it = ds.iter(threads=3, **options)
    for _ in range(cut):
        next(it)
    state = json.loads(json.dumps(it.state_dict()))
    it.close()
    again = ds.iter(threads=1, **options)
    again.load_state_dict(state)
    return outcome(again)


def ranks(ds: fb.Dataset, **options: Any) -> list[list[Any]]:
    """Returns the streams of two consumers.

    Raises:
        InvalidPipelineError: Several consumers cannot read it.
    """
    streams = [outcome(ds.iter(consumers=(rank, 2), **options)) for rank in range(2)]
    if any(failed(stream) and stream[-1][0] == "InvalidPipelineError" for stream in streams):
        raise REFUSED("several consumers")
    return streams


def on_service(ds: fb.Dataset, service: fb.Service, cut: int, **options: Any) -> list[Any]:
    """Returns the stream of a job whose consumer ends at a batch, and resumes."""
    job = name()
    it = ds.distribute(service, job=job, **options).iter()
    first = [fingerprint(next(it)) for _ in range(cut)]
    state = json.loads(json.dumps(it.state_dict()))
    it.close()
    again = ds.distribute(service, job=job, **options).iter()
    again.load_state_dict(state)
    return first + outcome(again)


def failed(stream: list[Any]) -> bool:
    return bool(stream) and isinstance(stream[-1], tuple)


def of_all(ds: fb.Dataset, kept: fb.Dataset, seed: int, service: fb.Service) -> Iterator[Way]:
    """Yields the ways of reading all of a pipeline, which may fail."""
    options = {"seed": seed, "epochs": 2}
    written = outcome(ds.iter(threads=1, order="off", **options))
    yield "threads", written, outcome(ds.iter(threads=4, order="off", **options))
    want = outcome(ds.iter(threads=2, **options))
    # Another order, and a cache, may remove a sample before the op in which it fails.
    if failed(written):
        before = written[:-1]
        yield "order", before, want[: len(before)]
    else:
        yield "order", written, want
        # Where a cache is refused, an op behind it may be another one.
        if every_op.without_caches(kept) == every_op.without_caches(ds):
            yield "cache", want, outcome(kept.iter(threads=2, **options))
    cut = random.Random(seed).randint(0, len(want) - failed(want))
    yield "resume", want[cut:], resumed(ds, cut, **options)
    yield "service", want, on_service(ds, service, cut, **options)


def of_parts(ds: fb.Dataset, seed: int) -> Iterator[Way]:
    """Yields the ways of reading parts of a pipeline."""
    one, rng = {"seed": seed, "epochs": 1}, random.Random(seed)
    whole = outcome(ds.iter(**one))
    if failed(whole):
        return
    begin, end = sorted(rng.randint(0, len(whole)) for _ in range(2))
    with contextlib.suppress(REFUSED):
        yield "slice", whole[begin:end], outcome(ds[begin:end].iter(**one))
    if ds.schema.batch_size and not every_op.used(ds)["op"] & {"bucket_by_length", "batch_by_key"}:
        with contextlib.suppress(REFUSED):
            together = ranks(ds, coordinated=True, **one)
            # What does not fill a batch of each is divided among the ranks.
            steps = max(0, len(whole) // 2 - 1)
            for rank in range(2):
                yield f"coordinated rank {rank}", whole[rank::2][:steps], together[rank][:steps]
    with contextlib.suppress(REFUSED):
        apart = ranks(ds, even=False, **one)
        yield "ranks", ranks(ds, even=False, threads=1, **one), apart
        if ds.schema.batch_size and "after the merge" not in ds.explain(splits=False):
            yield "dealt", whole, [apart[i % 2][i // 2] for i in range(len(whole))]


def differences(seed: int, folder: Any, service: fb.Service) -> list[str]:
    """Returns the ways of reading the pipeline of a seed that give another stream than they should."""
    ds = every_op.make(seed, folder)
    kept = every_op.make(seed, folder, random.Random(seed).choice(["cache", "autocache"]))
    ways = itertools.chain(of_all(ds, kept, seed, service), of_parts(ds, seed))
    return [f"{seed} {way}: {len(got)} of {len(want)}" for way, want, got in ways if got != want]


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
@pytest.mark.parametrize("block", range(FIRST // BLOCK, -(-(FIRST + PIPELINES) // BLOCK)))
def test_every_way_of_reading_gives_the_same_stream(block, shards, service):
    found = []
    for seed in range(BLOCK * block, BLOCK * block + BLOCK):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fb.RanksWarning)
            found += differences(seed, shards, service)
    assert not found, found


def test_every_op_of_the_engine_is_drawn(shards):
    """A new op, expression or function needs a line in `op_families.py` or `every_op.py`."""
    missing = every_op.known()
    assert all(len(names) > 10 for names in missing.values()), missing
    for seed in range(2000):
        ds = every_op.make(seed, shards, [None, "cache", "autocache"][seed % 3])
        for tag, names in every_op.used(ds).items():
            if tag in missing:
                missing[tag] -= names
        if not any(missing.values()):
            return
    assert not missing
