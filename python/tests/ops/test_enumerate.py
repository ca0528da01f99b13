"""Numbers of samples in an epoch: those of a list, wherever the samples are computed."""

from __future__ import annotations

import itertools

import forebay as fb
import forebay.errors as E
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import name

OPS = {
    "shuffle": lambda ds, n: ds.shuffle(),
    "take": lambda ds, n: ds.take(n * 4),
    "skip": lambda ds, n: ds.skip(n),
    "shard": lambda ds, n: ds.shard(1 + n % 3, n % (1 + n % 3)),
    "repeat": lambda ds, n: ds.repeat(1 + n % 2),
    "select": lambda ds, n: ds.select_rows([0] * n) if ds.cardinality else ds,
    "many": lambda ds, n: ds.flat_map(lambda row: [row] * (1 + n % 3), schema={"id": "int64"}, count=1 + n % 3),
    "map": lambda ds, n: ds.map(lambda row: row, schema={"id": "int64"}),
}
steps = st.lists(st.tuples(st.sampled_from(sorted(OPS)), st.integers(0, 9)), max_size=4)


def added(ds: fb.Dataset, chosen) -> fb.Dataset:
    for op, n in chosen:
        ds = OPS[op](ds, n)
    return ds


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), steps, st.integers(-3, 3))
def test_numbers_are_those_of_the_list_at_their_place(rows, before, start):
    ds = added(fb.range(rows), before)
    plain = [int(row["id"]) for row in ds.iter(seed=2)]
    numbered = [(int(row["index"]), int(row["id"])) for row in ds.enumerate(start=start).iter(seed=2, threads=2)]
    assert numbered == list(enumerate(plain, start))
    # Later ops move rows with their numbers.
    of = dict(numbered)
    twice = {"schema": {"id": "int64", "index": "int64"}, "count": 2}
    if any(op == "many" for op, _ in before):
        with pytest.raises(fb.errors.InvalidPipelineError, match="flat_map comes after enumerate"):
            ds.enumerate(start=start).flat_map(lambda row: [row, row], **twice)
        return
    behind = ds.enumerate(start=start).flat_map(lambda row: [row, row], **twice)
    for made in (ds.enumerate(start=start).shuffle().skip(3), behind.shuffle(), behind.take(7)):
        assert all(of[int(row["index"])] == int(row["id"]) for row in made.iter(seed=2))
    assert sorted(int(row["index"]) for row in behind.shuffle().iter(seed=2)) == sorted([*of, *of])


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_workers_ranks_and_skipped_samples_change_no_number(service):
    def fragile(row):
        if row["id"] % 7 == 3:
            raise ValueError("bad")
        return row

    ds = fb.range(100).map(fragile, schema={"id": "int64"}).shuffle().enumerate("n").batch(6)
    options = {"seed": 1, "on_error": "skip", "error_budget": 0.5}
    got = [(int(n), int(i)) for b in ds.iter(**options) for n, i in zip(b["n"], b["id"], strict=True)]
    order = [int(row["id"]) for row in fb.range(100).shuffle().iter(seed=1)]
    assert got == [(n, i) for n, i in enumerate(order) if i % 7 != 3]
    there = ds.distribute(service, job=name(), **options)
    assert [(int(n), int(i)) for b in there for n, i in zip(b["n"], b["id"], strict=True)] == got
    shares = [[int(n) for b in ds.iter(**options, consumers=(i, 2), even=False) for n in b["n"]] for i in range(2)]
    assert sorted(itertools.chain(*shares)) == sorted(n for n, _ in got)


def test_where_no_number_is_known_it_is_refused():
    ds = fb.range(9)
    counted = ds.flat_map(lambda row: [row], schema={"id": "int64"}, count=1)
    for make, says in [
        (lambda: ds.filter(fb.col("id") > 1).enumerate(), "put enumerate before filter"),
        (lambda: fb.from_generator(lambda: iter([{"x": 1}])).enumerate(), "enumerate\\(ds\\) of Python"),
        (lambda: ds.enumerate().enumerate("again"), "one is enough"),
        (lambda: ds.enumerate("id"), "give another name"),
        (lambda: ds.enumerate().cache(), "put cache before enumerate"),
        (lambda: ds.batch(2).enumerate(), "put it before batch"),
        (lambda: list(counted.enumerate().iter(on_error="skip")), "put enumerate before flat_map"),
    ]:
        with pytest.raises(E.InvalidPipelineError) as error:
            make()
        import re

        assert re.search(says, str(error.value)), str(error.value)
    assert [int(row["twice"]) for row in ds.enumerate().map(lambda row: {"twice": row["index"] * 2})][:3] == [0, 2, 4]
