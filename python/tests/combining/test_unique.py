"""`unique` keeps the first sample of each key; it and `sort` refuse what depends on the seed."""

from __future__ import annotations

import random

import forebay as fb
import numpy as np
import pytest
from forebay._src.ops import join_ops
from pipelines import fingerprint, name

E = fb.errors
RNG = random.Random(4)
USERS = [RNG.choice([None, *range(40)]) for _ in range(300)]
WORDS = [RNG.choice(["", "a", "tide", None]) for _ in range(300)]
CLICKS = fb.from_dict({"n": list(range(300)), "user": USERS, "word": WORDS})


def numbers(ds: fb.Dataset, **options) -> list[int]:
    return [int(row["n"]) for row in ds.iter(**options)]


def first(keys: list) -> list[int]:
    return sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())


def test_the_first_sample_of_each_key_stays():
    assert numbers(CLICKS.unique("user")) == first(USERS)
    assert numbers(CLICKS.unique("user", "word")) == first(list(zip(USERS, WORDS, strict=True)))
    floats = fb.from_numpy({"n": np.arange(6), "x": np.array([0.0, np.nan, -0.0, 2.0, np.nan, 2.0])})
    assert numbers(floats.unique("x")) == [0, 1, 3]
    assert numbers(fb.from_dict({"n": [0, 1, 2], "raw": [b"a", b"", b"a"]}).unique("raw")) == [0, 1]
    assert numbers(CLICKS.take(0).unique("user")) == []
    last = CLICKS.sort("n", descending=True).unique("user")
    assert sorted(numbers(last)) == sorted({key: row for row, key in enumerate(USERS)}.values())


def test_what_stays_is_the_same_everywhere(service):
    ds = CLICKS.unique("user").shuffle().batch(7)
    want = [fingerprint(batch) for batch in ds.iter(seed=5, epochs=2)]
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=5, epochs=2)] == want
    ranks = [[fingerprint(b) for b in ds.iter(seed=5, consumers=(i, 2), even=False)] for i in range(2)]
    assert [ranks[i % 2][i // 2] for i in range(sum(map(len, ranks)))] == want[: len(want) // 2]
    it = ds.iter(seed=5, epochs=2)
    [next(it) for _ in range(4)]
    again = ds.iter(seed=5, epochs=2)
    again.load_state_dict(it.state_dict())
    assert [fingerprint(batch) for batch in again] == want[4:]


def drawn(row, rng):
    return {"x": rng.random()}


@pytest.mark.parametrize("op", ["sort", "unique"])
def test_what_depends_on_the_seed_is_refused(op, monkeypatch):
    noisy = CLICKS.map(drawn, reads="n", writes="x", schema={"x": "float64"})
    mixed = fb.mix([CLICKS.select("n"), fb.range(9).rename(id="n")])
    for ds, column, by in (
        (CLICKS.shuffle(), "n", "shuffle"),
        (CLICKS.shuffle(window=5), "n", "shuffle"),
        (noisy, "x", "map"),
        (noisy.with_column("y", fb.col("x") * 2), "y", "map"),
        (mixed, "n", "mix"),
        (fb.concatenate([CLICKS.select("n"), fb.range(9).rename(id="n").shuffle()]), "n", "concatenate"),
    ):
        with pytest.raises(
            E.InvalidPipelineError, match=f"{op}: '{column}', or its order, depends on the seed by {by}"
        ):
            getattr(ds, op)(column)
    assert len(list(getattr(noisy, op)("n"))) == 300, "another column may be drawn"
    with pytest.raises(E.InvalidPipelineError, match=f"{op}: how many there are is not known"):
        getattr(CLICKS.filter(fb.col("n") > 3), op)("n")
    monkeypatch.setattr(join_ops, "ROWS_MAX", 299)
    with pytest.raises(E.InvalidPipelineError, match=f"{op}: 300 samples are more than 299"):
        getattr(CLICKS, op)("n")


def test_keys_are_bounded_and_named(monkeypatch):
    with pytest.raises(E.InvalidPipelineError, match="unique: no column"):
        CLICKS.unique()
    with pytest.raises(E.NotFoundError, match='no column "who"'):
        CLICKS.unique("who")
    with pytest.raises(TypeError, match=r"name the columns: unique\('a', 'b'\)"):
        CLICKS.unique(subset=["user"])
    with pytest.raises(AttributeError, match=r"write unique\('key'\)"):
        CLICKS.drop_duplicates  # noqa: B018
    monkeypatch.setattr(join_ops, "JOIN_BYTES_MAX", 100)
    with pytest.raises(E.InvalidPipelineError, match="unique: the table has more than"):
        CLICKS.unique("n")
