"""`ordered=False`: splits in any order, each sample exactly once, for any cut and resume of a run."""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint

E = fb.errors


def waits_for(gate: Path, number: int):
    """Blocks the row of a number until the gate exists."""
    path = str(gate)

    def wait(row):
        deadline = time.monotonic() + 60
        while row["id"] == number and not Path(path).exists():
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return row

    return wait


def frozen(batch) -> str:
    return repr(fingerprint(batch))


def test_a_slow_sample_holds_up_its_own_batch_alone(tmp_path):
    gate = tmp_path / "gate"
    ds = fb.range(4005).map(waits_for(gate, 7)).batch(10)
    it = ds.iter(ordered=False, threads=2)
    # All rows after it, including the short last batch.
    first = [next(it) for _ in range(395)]
    assert not any(7 in batch["id"] for batch in first)
    assert sorted(len(batch["id"]) for batch in first)[:2] == [5, 10]
    state = json.dumps(it.state_dict())
    assert len(state) < 1000, "splits that follow each other are a range"
    gate.touch()
    whole = Counter(map(frozen, ds.iter(threads=2)))
    assert Counter(map(frozen, itertools.chain(first, it))) == whole, "each batch is one of the ordered stream"
    for ordered in (True, False):
        again = ds.iter(ordered=ordered, threads=2)
        again.load_state_dict(json.loads(state))
        rest = [frozen(batch) for batch in again]
        assert Counter([*map(frozen, first), *rest]) == whole
        if ordered:
            assert rest[0] == frozen(next(ds.iter())), "what is missing comes in order"


def test_a_slow_split_of_a_service_holds_up_no_other(tmp_path, service):
    gate = tmp_path / "gate"
    ds = fb.range(3000).map(waits_for(gate, 7)).batch(10)
    options = {"job": f"job-{uuid.uuid4().hex[:8]}", "ordered": False}
    it = ds.distribute(service, **options).iter()
    first = next(it)
    assert 7 not in first["id"]
    state = it.state_dict()
    gate.touch()
    whole = Counter(map(frozen, ds.iter()))
    assert Counter(map(frozen, [first, *it])) == whole
    here = ds.iter(ordered=False)
    here.load_state_dict(state)
    assert Counter(map(frozen, [first, *here])) == whole


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("any-order")
    number = iter(range(3000))
    for name, rows in enumerate((400, 0, 1, 700, 300)):
        lines = [f'{{"id": {i}, "x": "{"y" * (i * 37 % 200)}"}}\n' for i in itertools.islice(number, rows)]
        (root / f"{name}.jsonl").write_text("".join(lines))
    return root


def pipeline(files: Path, seed: int) -> fb.Dataset:
    rng = np.random.default_rng(seed)
    kind = seed % 4
    ds = fb.range(int(rng.integers(0, 1500))) if kind < 2 else fb.from_jsonl(f"{files}/*.jsonl")
    if kind == 1:
        ds = ds.shuffle()
    if kind == 3:
        ds = ds.shuffle(window=f"{int(rng.integers(1, 60))}KiB")
    if seed % 3 == 1:
        ds = ds.filter(fb.col("id") % 5 != 0)
    if seed % 5 == 1:
        ds = ds.take(int(rng.integers(1, 900))) if kind < 2 and seed % 3 != 1 else ds.repeat(2)
    return ds.batch(int(rng.integers(1, 60))) if seed % 7 else ds


def cut(ds: fb.Dataset, rng: np.random.Generator, start) -> Iterator[dict]:
    """Reads a dataset in pieces, each by a new iterator that resumes where the previous one was."""
    state = None
    while True:
        it = start(ds, bool(rng.integers(0, 4)))
        if state is not None:
            it.load_state_dict(json.loads(json.dumps(state)))
        many = int(rng.integers(1, 60))
        batches = list(itertools.islice(it, many))
        yield from batches
        state = it.state_dict()
        it.close()
        if len(batches) < many:
            return


def ids(batches) -> list[int]:
    return sorted(int(i) for batch in batches for i in np.atleast_1d(batch["id"]))


@pytest.mark.parametrize("seed", range(24))
def test_each_sample_comes_once_wherever_a_run_is_cut(files, seed):
    rng, ds = np.random.default_rng(seed), pipeline(files, seed)

    def start(ds, unordered):
        return ds.iter(seed=seed, epochs=2, ordered=not unordered, threads=int(rng.integers(1, 4)))

    want = list(ds.iter(seed=seed, epochs=2))
    got = list(cut(ds, rng, start))
    assert ids(got) == ids(want)
    if seed % 4 < 2 and seed % 3 != 1:
        assert Counter(map(frozen, got)) == Counter(map(frozen, want)), "where rows are counted, batches are the same"


@pytest.mark.parametrize("seed", [4, 6, 11])
def test_ranks_and_a_worker_that_dies(files, seed, service):
    ds, world = pipeline(files, seed), 2
    want, got, job = ids(ds.iter(seed=seed)), [], f"job-{uuid.uuid4().hex[:8]}"
    options = {"seed": seed, "job": job, "ordered": False, "even": False}
    ranks = [ds.distribute(service, consumers=(rank, world), **options).iter() for rank in range(world)]
    got += list(itertools.islice(ranks[0], 3))
    service.kill_worker(0)
    service.add_worker()
    state = ranks[0].state_dict()
    ranks[0].close()
    ranks[0] = ds.distribute(service, consumers=(0, world), **options).iter()
    ranks[0].load_state_dict(state)
    got += list(ranks[1]) + list(ranks[0])
    assert ids(got) == want


def test_losses_are_those_of_the_ordered_stream():
    def fragile(row):
        if row["id"] % 97 == 5:
            raise ValueError("no")
        return row

    ds = fb.range(2000).map(fragile).batch(8)
    options = {"on_error": "skip", "error_budget": 100}
    ordered, any_order = ds.iter(**options), ds.iter(ordered=False, **options)
    assert ids(any_order) == ids(ordered)
    assert sorted(s.sample for s in any_order.skipped) == sorted(s.sample for s in ordered.skipped)
    with pytest.raises(E.DataError, match="error_budget allows 3"):
        list(ds.iter(ordered=False, on_error="skip", error_budget=3))


def some_ids(row):
    return {"ids": np.arange(row["id"] % 5 + 1, dtype=np.int32)}


LISTS = fb.range(20).map(some_ids, schema={"ids": ("int32", (None,))})


@pytest.mark.parametrize(
    ("ds", "op"),
    [
        (fb.range(9).filter(fb.col("id") > 1).take(3).batch(2), "take"),
        (fb.range(9).filter(fb.col("id") > 1).skip(3), "skip"),
        (LISTS.bucket_by_length("ids", [4], [4, 2]), "bucket_by_length"),
        (fb.range(9).batch_by_key("id", 2), "batch_by_key"),
        (LISTS.pack("ids", 8), "pack"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_ops_that_need_the_order_say_so(ds, op, service):
    for start in (ds.iter, lambda **o: ds.distribute(service, job="never", **o).iter()):
        with pytest.raises(E.InvalidPipelineError, match=f"ordered=False, and what {op} gives") as caught:
            next(start(ordered=False))
        assert caught.value.context["line"].startswith(__file__)
    assert "never" not in [job.name for job in service.jobs()]
    with pytest.raises(E.InvalidPipelineError, match="coordinated=True"):
        next(fb.range(9).batch(2).iter(ordered=False, coordinated=True, consumers=(0, 2)))


def test_consumers_that_end_epochs_together_need_the_order(service):
    ds = fb.range(100).filter(fb.col("id") > 3).batch(2)
    options = {"job": f"job-{uuid.uuid4().hex[:8]}", "consumers": (0, 2), "ordered": False}
    with pytest.raises(E.InvalidPipelineError, match="when consumers end epochs together") as caught:
        next(ds.distribute(service, **options).iter())
    assert "even=False" in caught.value.context["hint"]


def test_a_state_out_of_order_is_not_dealt_to_other_ranks(tmp_path):
    gate = tmp_path / "gate"
    ds = fb.range(4000).map(waits_for(gate, 7)).batch(10)
    it = ds.iter(ordered=False, threads=2)
    next(it)
    gate.touch()
    other = ds.iter(consumers=(0, 2))
    other.load_state_dict(it.state_dict())
    with pytest.raises(E.InvalidPipelineError, match="came out of order cannot be divided again"):
        next(other)
