"""Mixes whose weights change: shares by place, ends, resume, ranks, services; counted datasets and filtered ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint, name

E = fb.errors
NAMES = ["web", "code", "math"]
POINTS = {0: [8, 2, 0], 1500: [4, 4, 2], 2600: [0, 1, 1], 5000: [1, 1, 1]}


def datasets(streamed: bool, rows: int = 100_000) -> dict[str, fb.Dataset]:
    """Returns datasets whose samples tell where they are from; `streamed` ones are not counted."""
    made = {part: fb.range(number * 10**6, number * 10**6 + rows) for number, part in enumerate(NAMES)}
    return {part: ds.filter(fb.col("id") >= 0) if streamed else ds for part, ds in made.items()}


def scheduled(streamed: bool, between: str = "steps", rows: int = 7000, **options) -> fb.Dataset:
    weights = fb.schedule({row: dict(zip(NAMES, of, strict=True)) for row, of in POINTS.items()}, between=between)
    return fb.mix(datasets(streamed), weights=weights, rows=rows, **options)


def ids(ds: fb.Dataset, **options) -> list[int]:
    return [int(row["id"]) for row in ds.iter(**options)]


def share(between: str, part: int, place: float) -> float:
    """The share of a dataset at a place, by the definition."""
    rows = list(POINTS)
    shares = [POINTS[row][part] / sum(POINTS[row]) for row in rows]
    if between == "linear":
        return float(np.interp(place, rows, shares))
    return shares[sum(row <= place for row in rows) - 1]


@pytest.mark.parametrize("between", ["steps", "linear"])
def test_shares_follow_the_schedule_and_each_dataset_its_order(between):
    found = ids(scheduled(False, between), seed=3)
    assert len(found) == 7000
    for part in range(len(NAMES)):
        own = [n for n in found if n // 10**6 == part]
        assert own == [part * 10**6 + k for k in range(len(own))]
        # Windows begin at a row where weights are set.
        for start, end in itertools.pairwise([*POINTS, 7000]):
            for first in range(start, end, 1024):
                last = min(first + 1024, end)
                want = sum(share(between, part, place + 0.5) for place in range(first, last))
                assert abs(sum(n // 10**6 == part for n in found[first:last]) - want) < 1.6
    assert all(n // 10**6 != 2 for n in found[: 1500 if between == "steps" else 1])
    assert ids(scheduled(False, between), seed=4) != found
    assert ids(scheduled(False, between), seed=3, threads=1) == found


@pytest.mark.parametrize("between", ["steps", "linear"])
def test_filtered_datasets_are_mixed_at_the_same_places(between):
    counted, streamed = (scheduled(kind, between, source="source") for kind in (False, True))
    found = ids(counted, seed=5)
    assert ids(streamed, seed=5) == found
    assert ids(streamed, seed=5, threads=1) == found
    # At any place: random access gives the row of the stream.
    assert [int(counted[place]["id"]) for place in (0, 1499, 1500, 2600, 6999)] == [
        ids(counted)[place] for place in (0, 1499, 1500, 2600, 6999)
    ]
    shuffled = ids(counted.shuffle(), seed=5)
    assert sorted(shuffled) == sorted(found) != shuffled


@pytest.mark.parametrize("streamed", [False, True])
def test_a_run_resumes_at_any_batch_with_the_weights_that_it_had(streamed):
    ds = scheduled(streamed, "linear").batch(50)
    it = ds.iter(seed=1)
    states, want = [it.state_dict()], []
    for batch in it:
        want.append(fingerprint(batch))
        states.append(json.loads(json.dumps(it.state_dict())))
    for at in range(0, len(states), 7):
        again = ds.iter(seed=1)
        again.load_state_dict(states[at])
        assert [fingerprint(batch) for batch in itertools.islice(again, 5)] == want[at : at + 5]


def test_ranks_share_the_schedule():
    ds = scheduled(False).batch(50)
    want = [fingerprint(batch) for batch in ds.iter(seed=2)]
    parts = [[fingerprint(b) for b in ds.iter(seed=2, consumers=(rank, 3), even=False)] for rank in range(3)]
    assert [b for step in itertools.zip_longest(*parts) for b in step if b is not None] == want
    # Each rank of a streamed mix mixes its own share of the rows, before a change and behind it.
    streamed = scheduled(True)
    each = [ids(streamed, seed=2, consumers=(rank, 2), even=False) for rank in range(2)]
    assert [len(own) for own in each] == [3500, 3500]
    assert len(set(each[0] + each[1])) == 7000
    early = [n for own in each for n in own[:750]]
    assert all(n // 10**6 != 2 for n in early)
    maths = sum(n // 10**6 == 2 for own in each for n in own)
    assert abs(maths - sum(share("steps", 2, place) for place in range(7000))) < 8


@pytest.mark.parametrize("streamed", [False, True])
def test_a_service_gives_the_same_stream(streamed, service):
    ds = scheduled(streamed, "linear", rows=5200).batch(100)
    want = [fingerprint(batch) for batch in ds.iter(seed=8)]
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=8)] == want


@pytest.mark.parametrize("streamed", [False, True])
def test_a_mix_ends_by_its_rule_under_changing_weights(streamed):
    parts = datasets(streamed, rows=900)

    def counts(points: dict, stop: str | None) -> list[int]:
        ds = fb.mix(list(parts.values()), weights=fb.schedule(points), stop=stop)
        found = ids(ds.take(9000), seed=1)
        return [sum(n // 10**6 == part for n in found) for part in range(3)]

    late = {0: [1, 0, 0], 800: [1, 2, 1]}
    # A streamed mix ends within a window.
    slack = 64 if streamed else 8
    # 100 more of the first, beside 200 and 100.
    assert counts(late, "first") == pytest.approx([900, 200, 100], abs=slack)
    assert counts(late, "once") == [900, 900, 900]
    web, code, maths = counts(late, "all")
    assert (web, code, maths) == pytest.approx([1700, 1800, 900], abs=2 * slack)
    assert min(web, code, maths) >= 900
    assert counts(late, None) == pytest.approx([800 + 2050, 4100, 2050], abs=16)
    # Where all with a weight have ended, the weights that come next hold.
    assert counts({0: [1, 0, 0], 2000: [1, 1, 1]}, "once") == [900, 900, 900]
    for stop in ("all", "once"):
        with pytest.raises(E.InvalidPipelineError, match="has been read whole") as raised:
            counts({0: [1, 1, 1], 600: [1, 1, 0]}, stop)
        assert "last row of the schedule" in raised.value.context["hint"]


def test_a_state_belongs_to_its_schedule_and_weights_may_differ_where_it_has_not_come():
    parts = list(datasets(False).values())
    before = fb.mix(parts, weights=[8, 1, 1], rows=6000).batch(100)
    it = before.iter(seed=1)
    seen = [fingerprint(next(it)) for _ in range(30)]
    other = fb.mix(parts, weights=[1, 1, 8], rows=6000).batch(100).iter(seed=1)
    with pytest.raises(E.InvalidPipelineError, match="another iterator") as raised:
        other.load_state_dict(it.state_dict())
    assert "weights=fb.schedule({0: ..., row: ...})" in raised.value.context["hint"]
    # One schedule says both, and the rows before the change are those of the first weights.
    both = fb.mix(parts, weights=fb.schedule({0: [8, 1, 1], 3072: [1, 1, 8]}), rows=6000).batch(100)
    assert [fingerprint(batch) for batch in itertools.islice(both.iter(seed=1), 30)] == seen


def test_a_schedule_is_explained():
    text = scheduled(False).explain()
    assert "web (80.0000 %, and 40.0000 % at row 1500, and 0.0000 % at row 2600" in text


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fb.schedule({}), "dictionary of weights by row"),
        (lambda: fb.schedule([(0, {})]), "dictionary of weights by row"),
        (lambda: fb.schedule({5: {"a": 1}}), "first weights are set at row 5"),
        (lambda: fb.schedule({-1: {"a": 1}}), "out of range"),
        (lambda: fb.schedule({"0": {"a": 1}}), "whole number"),
        (lambda: fb.schedule({0: {"a": 1}}, by="batches"), "rows are what a schedule counts"),
        (lambda: fb.schedule({0: {"a": 1}}, between="cosine"), "between"),
        (lambda: mixed({0: {"a": 1}}), "has none for 'b'"),
        (lambda: mixed({0: {"a": 1, "b": 1}, 9: {"a": 1, "c": 1}}), "names 'c'"),
        (lambda: mixed({0: {"a": 1, "b": -1}}), 'weight of "b" is -1'),
        (lambda: mixed({0: {"a": 0, "b": 0}}), "all weights are 0"),
        (lambda: mixed({0: {"a": 1, "b": 0}, 9: {"a": 1, "b": 0}}), '"b" is always 0'),
        (lambda: mixed({0: {"a": 1, "b": 1}, 9: {"a": 1, "b": float("nan")}}), "weights|number|nan"),
        (lambda: mixed({0: {"a": 1, "b": 1}, 9: {"a": 1, "b": 1e-300}}), "too small a share"),
        (lambda: mixed({0: {"a": 1, "b": 1}, 50: {"a": 1, "b": 2}}, rows=50), "an epoch has 50 rows"),
        (lambda: mixed({n: {"a": 1, "b": 1 + n} for n in range(2000)}, between="linear"), "change at 1999 rows"),
    ],
)
def test_schedules_that_are_none_are_refused_with_what_to_write(make: Callable, says):
    with pytest.raises(E.InvalidPipelineError, match=says) as raised:
        make()
    assert raised.value.context.get("hint") or "whole number" in says or "between" in says


def mixed(points: dict, between: str = "steps", **options) -> fb.Dataset:
    weights = fb.schedule(points, between=between)
    return fb.mix({"a": fb.range(100), "b": fb.range(100)}, weights=weights, **options)
