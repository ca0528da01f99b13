"""Mixes of datasets whose rows are not counted: filtered, packed, made by functions."""

from __future__ import annotations

import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint, name

E = fb.errors
WEIGHTS = {"web": 0.6, "code": 0.3, "math": 0.1}
LENGTH = 16
#: Rows of each dataset, and the rows that its filter keeps.
SIZES = {"web": 900, "code": 400, "math": 300}


def document(row):
    number = int(row["id"])
    return {"ids": np.arange(number * 100, number * 100 + 1 + number % 23, dtype=np.int32)}


def packed(part: str) -> fb.Dataset:
    """Returns packed rows of the documents that a filter keeps."""
    start = list(SIZES).index(part) * 10_000
    documents = fb.range(start, start + SIZES[part]).filter(fb.col("id") % 3 != 1)
    return documents.map(document, reads=["id"], schema={"ids": ("int32", (None,))}).pack("ids", LENGTH)


@pytest.fixture(scope="module")
def parts() -> dict[str, fb.Dataset]:
    return {part: packed(part) for part in SIZES}


@pytest.fixture(scope="module")
def lists(parts) -> dict[str, list[tuple[int, ...]]]:
    """The rows of each dataset alone, which does not shuffle."""
    return {part: [tuple(row["ids"].tolist()) for row in ds] for part, ds in parts.items()}


def schedule(seed: int, epoch: int, rows: int) -> list[str]:
    """Returns the dataset of each place, by a mix of counted datasets."""
    counted = fb.mix({part: fb.range(100_000) for part in SIZES}, weights=WEIGHTS, rows=rows, source="source")
    return [str(row["source"]) for row in counted.iter(seed=seed, epoch=epoch)]


def model(lists, stop: str | int | None, seed: int, epoch: int = 0) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The naive mix: draws from lists in the order of the places."""
    at, passes = dict.fromkeys(lists, 0), dict.fromkeys(lists, 0)
    for part in schedule(seed, epoch, stop if isinstance(stop, int) else 6 * 1024):
        if at[part] == len(lists[part]):
            passes[part] += 1
            if stop == "first" or (stop == "all" and all(passes.values()) and passes[part] == 1):
                return
            at[part] = 0
        yield part, lists[part][at[part]]
        at[part] += 1


def found(ds: fb.Dataset, **options) -> list[tuple[str, tuple[int, ...]]]:
    return [(str(row["source"]), tuple(row["ids"].tolist())) for row in ds.iter(**options)]


@pytest.mark.parametrize("stop", ["first", "all", 2500, None])
def test_a_mix_of_packed_datasets_is_the_naive_mix_of_their_rows(parts, lists, stop):
    options = {"rows": stop} if isinstance(stop, int) else {"stop": stop}
    ds = fb.mix(parts, weights=WEIGHTS, source="source", **options)
    for epoch in (0, 1):
        want = list(itertools.islice(model(lists, stop, 5, epoch), 4000))
        got = found(ds.take(4000), seed=5, epoch=epoch)
        assert len(got) > 600
        assert got == want
    assert found(ds.take(4000), seed=5, epochs=2, threads=1) == found(ds.take(4000), seed=5, epochs=2, threads=5)
    assert ds.cardinality == {"first": None, "all": None, 2500: 2500, None: float("inf")}[stop]


def test_once_gives_each_row_once_and_keeps_the_ratio_of_the_others(parts, lists):
    ds = fb.mix(parts, weights=WEIGHTS, stop="once", source="source")
    got = found(ds, seed=3)
    for part, rows in lists.items():
        assert [row for source, row in got if source == part] == rows
    # A dataset that has ended leaves its share to the others, in windows of their own.
    first = min(max(i for i, (source, _) in enumerate(got) if source == part) for part in lists)
    gone = next(part for part in lists if all(source != part for source, _ in got[first + 1 :]))
    rest = [part for part in lists if part != gone]
    ratio = WEIGHTS[rest[0]] / (WEIGHTS[rest[0]] + WEIGHTS[rest[1]])
    window = [source for source, _ in got[first + 1 : first + 1 + 1024] if source in rest]
    if len(window) == 1024 and len(set(window)) == 2:
        assert abs(window.count(rest[0]) - ratio * 1024) < 80


@pytest.mark.parametrize("stop", ["first", "all", "once", "rows"])
def test_a_stream_resumes_at_each_batch(parts, stop):
    options = {"rows": 1500} if stop == "rows" else {"stop": stop}
    mix = fb.mix(parts, weights=WEIGHTS, source="source", **options)
    for ds in (mix.batch(37), mix.skip(10).take(1200).filter(fb.col("source") != "math").batch(50)):
        it = ds.iter(seed=1, epochs=2)
        states, want = [it.state_dict()], []
        for batch in it:
            want.append(fingerprint(batch))
            states.append(json.loads(json.dumps(it.state_dict())))
        sizes = [len(json.dumps(state)) for state in states]
        assert max(sizes) < 4000
        for at in [*range(0, len(states), 5), *range(len(states) - 4, len(states))]:
            again = ds.iter(seed=1, epochs=2, threads=1 + at % 3)
            again.load_state_dict(states[at])
            assert [fingerprint(batch) for batch in itertools.islice(again, 9)] == want[at : at + 9], at


def test_packing_and_buckets_behind_a_mix_of_filtered_datasets_resume(tmp_path: Path):
    def documents(part: str) -> fb.Dataset:
        start = list(SIZES).index(part) * 10_000
        kept = fb.range(start, start + SIZES[part]).shuffle().filter(fb.col("id") % 2 == 0)
        return kept.map(document, reads=["id"], schema={"ids": ("int32", (None,))})

    mix = fb.mix({part: documents(part) for part in SIZES}, weights=WEIGHTS, stop="all")
    bucketed = mix.bucket_by_length("ids", boundaries=[4, 12], batch_sizes=[8, 8, 8])
    for ds in (mix.pack("ids", 64, strategy="first_fit", window=20).batch(5), bucketed):
        it = ds.iter(seed=9, epochs=2)
        states, want = [], []
        for batch in it:
            want.append(fingerprint(batch))
            states.append(it.state_dict())
        assert len(want) > 60
        for at in range(0, len(states), 11):
            again = ds.iter(seed=9, epochs=2)
            again.load_state_dict(states[at])
            assert [fingerprint(batch) for batch in itertools.islice(again, 6)] == want[at + 1 : at + 7]


def test_ranks_mix_their_shares_and_resume(parts, lists):
    ds = fb.mix(parts, weights=WEIGHTS, stop="once", source="source").batch(20)
    each = []
    for rank in range(3):
        it = ds.iter(seed=2, consumers=(rank, 3), even=False)
        batches = list(itertools.islice(it, 7))
        state, rest = it.state_dict(), list(it)
        again = ds.iter(seed=2, consumers=(rank, 3), even=False)
        again.load_state_dict(state)
        assert [fingerprint(b) for b in again] == [fingerprint(b) for b in rest]
        each.append(batches + rest)
    # Each rank packs its own share of the documents, so tokens are those of the whole, and each comes once.
    tokens = [t for batches in each for b in batches for row in b["ids"] for t in row.tolist() if t]
    want = [t for rows in lists.values() for row in rows for t in row if t]
    assert sorted(tokens) == sorted(want)
    counted = fb.mix(parts, weights=WEIGHTS, rows=3000)
    sizes = [sum(1 for _ in counted.iter(consumers=(rank, 7), even=False)) for rank in range(7)]
    assert sum(sizes) == 3000
    assert max(sizes) - min(sizes) <= 1


def records() -> Iterator[dict[str, int]]:
    for number in range(500):
        yield {"id": 7000 + number}


def three(row):
    return [{"id": int(row["id"]) * 10 + k} for k in range(int(row["id"]) % 3)]


def test_generators_and_functions_that_make_rows_are_mixed(tmp_path: Path):
    lines = "".join(json.dumps({"id": n}) + "\n" for n in range(2000))
    (tmp_path / "a.jsonl").write_text(lines)
    datasets = {
        "made": fb.range(600).flat_map(three, schema={"id": "int64"}),
        "files": fb.from_jsonl(tmp_path / "a.jsonl").shuffle().filter(fb.col("id") > 99),
        "yielded": fb.from_generator(records, schema={"id": "int64"}),
    }
    ds = fb.mix(datasets, stop="once", source="source")
    rows = [(str(row["source"]), int(row["id"])) for row in ds.iter(seed=4)]
    want = [n * 10 + k for n in range(600) for k in range(n % 3)]
    assert [n for part, n in rows if part == "made"] == want
    assert [n for part, n in rows if part == "yielded"] == [7000 + n for n in range(500)]
    files = [n for part, n in rows if part == "files"]
    assert sorted(files) == list(range(100, 2000)) != files
    assert ds.cardinality is None
    assert fb.mix(datasets, stop=None).cardinality == float("inf")
    # A dataset that begins again is shuffled anew.
    again = fb.mix(datasets, weights={"made": 1, "files": 8, "yielded": 1}, rows=6000, source="source")
    files = [int(row["id"]) for row in again.iter(seed=4) if row["source"] == "files"]
    assert sorted(files[:1900]) == sorted(files[1900:3800]) == list(range(100, 2000))
    assert files[:1900] != files[1900:3800]


def fails_at_seven(row):
    if int(row["id"]) % 50 == 7:
        raise ValueError(f"no good: {row['id']}")
    return {"id": row["id"]}


def test_samples_of_a_dataset_are_skipped_and_written_down(tmp_path: Path, service):
    fragile = fb.range(300).filter(fb.col("id") % 2 == 1).map(fails_at_seven, schema={"id": "int64"})
    ds = fb.mix({"good": fb.range(1000, 1300).filter(fb.col("id") > 0), "bad": fragile}, stop="once", source="source")
    with pytest.raises(E.FunctionError) as raised:
        list(ds.iter(seed=1))
    assert raised.value.context["part"] == "bad"
    assert "test_streamed_mix.py" in str(raised.value)
    path = tmp_path / "bad.jsonl"
    it = ds.batch(16).iter(seed=1, on_error="quarantine", quarantine=path, error_budget=1.0)
    rows = [int(n) for batch in it for n in batch["id"]]
    assert sorted(rows) == sorted([*range(1000, 1300), *[n for n in range(1, 300, 2) if n % 50 != 7]])
    assert len(it.skipped) == 6
    assert {lost.error.context["part"] for lost in it.skipped} == {"bad"}
    letters = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert len(letters) == 6
    assert all(letter["record"] for letter in letters)
    # A resume from a state in the middle leaves them out, and a service leaves out the same samples.
    options = {"seed": 1, "on_error": "skip", "error_budget": 1.0, "epochs": 2}
    want = [fingerprint(batch) for batch in ds.batch(16).iter(**options)]
    it = ds.batch(16).iter(**options)
    state = [next(it), next(it), it.state_dict()][-1]
    again = ds.batch(16).iter(**options)
    again.load_state_dict(state)
    assert [fingerprint(batch) for batch in again] == want[2:]
    there = ds.batch(16).distribute(service, job=name(), **options).iter()
    assert [fingerprint(batch) for batch in there] == want
    assert sorted(lost.sample for lost in there.skipped) == sorted(2 * [lost.sample for lost in it_of(ds, options)])


def it_of(ds: fb.Dataset, options: dict) -> list:
    """The samples that an epoch in this process leaves out."""
    it = ds.batch(16).iter(**{**options, "epochs": 1})
    list(it)
    return it.skipped


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda a, b: fb.mix([a, b.batch(2)]), E.InvalidPipelineError, "put batch behind mix"),
        (lambda a, b: fb.mix([a, b]).shuffle(), E.InvalidPipelineError, "put shuffle into the datasets"),
        (lambda a, b: fb.mix([a, b]).enumerate("n"), E.InvalidPipelineError, "enumerate comes after mix"),
        (lambda a, b: fb.mix([a, b]).repeat(2), E.InvalidPipelineError, "put repeat into the datasets"),
        (lambda a, b: fb.mix([a, b]).cache(), E.InvalidPipelineError, "not counted"),
        (lambda a, b: fb.mix([a, b.cache()]), E.InvalidPipelineError, "mix the saved files"),
        (lambda a, b: fb.mix([a, fb.mix([a, b])]), E.InvalidPipelineError, "mix all datasets at once"),
        (lambda a, b: fb.concatenate([a, b]), E.InvalidPipelineError, "once .save. and read"),
        (lambda a, b: fb.concatenate([b, fb.mix([a, b])]), E.InvalidPipelineError, "saved|mix all"),
        (lambda a, b: list(fb.mix([a, b]).iter(consumers=(0, 2), even=True)), E.InvalidPipelineError, "even=True"),
        (lambda a, b: list(fb.mix([a, b]).iter(ordered=False)), E.InvalidPipelineError, "ordered=False"),
        (lambda a, b: list(fb.mix([a, b.filter(fb.col("id") < 0)])), E.DataError, '"1" gives no row'),
        (lambda a, b: list(fb.mix([a, b.filter(fb.col("id") < 0)], stop="all")), E.DataError, '"1" gives no row'),
        (lambda a, b: list(fb.mix([a, b.filter(fb.col("id") < 0)], rows=9)), E.DataError, '"1" gives no row'),
    ],
)
def test_what_cannot_be_mixed_is_refused_with_what_to_write(make: Callable, error, says):
    a, b = fb.range(40).filter(fb.col("id") % 2 == 0), fb.range(70)
    with pytest.raises(error, match=says):
        make(a, b)


def test_a_consumer_without_a_split_of_a_dataset_is_told_why():
    small = fb.range(900).filter(fb.col("id") % 2 == 0)
    ds = fb.mix({"small": small, "large": fb.range(1000, 100_000)}).batch(8)
    with pytest.raises(E.DataError, match='"small" gives no row to consumer 1 of 2') as caught:
        list(ds.iter(consumers=(1, 2), even=False))
    assert "coordinated=True" in caught.value.context["hint"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        next(iter(ds.iter(consumers=(0, 2))))
    # On a service, the consumers of the mix do not end together.
    assert ["distribute()" in str(one.message) for one in said if one.category is fb.RanksWarning] == [False]
    parts = [list(ds.iter(consumers=(index, 2), coordinated=True)) for index in range(2)]
    assert len(parts[0]) == len(parts[1]) > 0


def one_token(row):
    return {"ids": np.zeros(1, np.int32)}


def sometimes(row, rng):
    return rng.random() < 0.5


def test_a_dataset_that_begins_again_without_a_row_is_an_error_and_no_endless_loop():
    ids = {"schema": {"ids": ("int32", (None,))}}
    short = fb.range(3).map(one_token, reads=["id"], **ids).pack("ids", LENGTH, drop_remainder=True)
    for options in ({"stop": "all"}, {"rows": 2000}, {"stop": None}):
        with pytest.raises(E.DataError, match='"short" gives no row'):
            list(fb.mix({"long": packed("web"), "short": short}, **options))
    # It has its row in some of its epochs only.
    rare = fb.mix({"all": fb.range(10), "rare": fb.range(1).filter(sometimes)}, rows=1000)
    ends = []
    for threads in (1, 4):
        seen: list[int] = []
        with pytest.raises(E.DataError, match='"rare" gives no row'):
            seen.extend(int(row["id"]) for row in rare.iter(seed=2, threads=threads))
        ends.append(seen)
    assert ends[0] == ends[1]


def test_rows_behind_the_end_of_an_epoch_are_not_computed_and_cannot_fail():
    calls = []

    def once(row):
        if row["id"] == 5000:
            calls.append(1)
            assert len(calls) == 1, "it was read whole, and the epoch ends"
        return {"id": row["id"]}

    last = fb.range(5000, 6000).filter(fb.col("id") % 2 == 0).map(once, schema={"id": "int64"})
    rows = [int(row["id"]) for row in fb.mix([fb.range(10), last], weights=[1, 4], stop="all").iter(seed=1)]
    assert rows.count(5000) == 1
    assert rows.count(0) > 1


def test_a_mix_explains_itself_and_a_dataset_without_rows_is_left_out_by_once(parts):
    text = fb.mix(parts, weights=WEIGHTS).batch(8).explain()
    assert "mix: rows of each dataset" in text
    a, b = fb.range(40).filter(fb.col("id") % 2 == 0), fb.range(70).filter(fb.col("id") < 0)
    assert [int(row["id"]) for row in fb.mix([a, b], stop="once")] == list(range(0, 40, 2))


def slow(row):
    time.sleep(0.0002)
    return {"id": row["id"]}


@pytest.mark.parametrize("stop", ["first", "all", "once", "rows"])
def test_a_service_gives_the_same_mix_and_states_fit_both(parts, service, stop):
    options = {"rows": 1500} if stop == "rows" else {"stop": stop}
    ds = fb.mix(parts, weights=WEIGHTS, source="source", **options).batch(50)
    want = [fingerprint(batch) for batch in ds.iter(seed=6, epochs=2)]
    job = name()
    there = ds.distribute(service, job=job, seed=6, epochs=2).iter()
    first = [fingerprint(batch) for batch in itertools.islice(there, 5)]
    state = json.loads(json.dumps(there.state_dict()))
    assert first + [fingerprint(batch) for batch in there] == want
    # The state goes on here, in the same job, and in another one.
    here = ds.iter(seed=6, epochs=2)
    here.load_state_dict(state)
    assert [fingerprint(batch) for batch in here] == want[5:]
    again = ds.distribute(service, job=job, seed=6, epochs=2).iter()
    again.load_state_dict(state)
    assert [fingerprint(batch) for batch in again] == want[5:]
    assert {job["state"] for job in jobs_of(service, job)} == {"finished"}


def jobs_of(service: fb.Service, job: str) -> list[dict]:
    return [{"name": found.name, "state": found.state} for found in service.jobs() if found.name.startswith(f"{job}.")]


def test_a_worker_that_is_killed_changes_no_row_of_a_mix():
    slowed = fb.range(3000).filter(fb.col("id") % 2 == 0).map(slow, schema={"id": "int64"})
    ds = fb.mix([slowed, fb.range(10_000, 11_000).filter(fb.col("id") % 3 > 0)], weights=[3, 1], stop="all").batch(64)
    want = [fingerprint(batch) for batch in ds.iter(seed=5)]
    with fb.up(workers=2, threads=1) as service:
        got = []
        for batch in ds.distribute(service, job=name(), seed=5):
            got.append(fingerprint(batch))
            if len(got) == 6:
                service.kill_worker(0)
    assert got == want


def test_ranks_of_a_service_have_the_rows_of_ranks_here(parts, service):
    ds = fb.mix(parts, weights=WEIGHTS, stop="first", source="source").batch(10)
    with pytest.raises(E.InvalidPipelineError, match="end epochs together"):
        list(ds.distribute(service, job=name(), consumers=(0, 2)))
    job = name()
    for rank in range(2):
        here = [fingerprint(b) for b in ds.iter(seed=8, consumers=(rank, 2), even=False)]
        there = ds.distribute(service, job=job, seed=8, consumers=(rank, 2), even=False)
        assert [fingerprint(b) for b in there] == here


def draws(row, rng):
    return {"drawn": rng.random()}


def thrice(row):
    return [{"id": row["id"]}] * 3


def luckily(row, rng):
    return rng.random() < 0.7


@pytest.mark.parametrize("stop", ["first", "all", "once"])
def test_random_ops_behind_it_draw_the_same_on_a_service(service, stop):
    """The ids of a counted dataset's rows did not travel, so all of them drew the same numbers."""
    parts = [
        fb.range(30).filter(fb.col("id") > 3),
        fb.range(30),
        fb.range(9).flat_map(thrice, reads="id", schema={"id": "int64"}),
    ]
    ds = fb.mix(parts, stop=stop).filter(luckily, reads="id").map(draws, reads="id", schema={"drawn": "float64"})
    for made in (ds, ds.batch(4)):
        want = [fingerprint(item) for item in made.iter(seed=2, epochs=2)]
        assert [fingerprint(item) for item in made.distribute(service, job=name(), seed=2, epochs=2)] == want
    assert len({float(row["drawn"]) for row in ds.iter(seed=2)}) == len(list(ds.iter(seed=2)))
