"""Packing: no token is lost or comes twice, rows are exact, and the stream does not depend on the process."""

from __future__ import annotations

import itertools
import json
import random
import uuid

import forebay as fb
import numpy as np
import pytest
from pipelines import fingerprint

E = fb.errors

EOS, PAD, LENGTH = 7, -1, 32


def document(i: int) -> list[int]:
    """Returns a document: most are short, some empty, a few longer than rows. A token encodes document and place."""
    n = random.Random(i).choice([0, 1, 3, 5, 8, 13, 20, 31, 32, 33, 70, 200])
    return [1000 * (i + 1) + k for k in range(n)]


def as_list(row):
    return {"ids": np.array(document(int(row["id"])), np.int32)}


def documents(n: int = 700) -> fb.Dataset:
    return fb.range(n).map(as_list, schema={"ids": ("int32", (None,))})


def pack(ds: fb.Dataset, strategy: str, **options) -> fb.Dataset:
    if strategy != "concat":
        options.setdefault("window", 50)
    return ds.pack("ids", LENGTH, strategy=strategy, pad_id=PAD, **options)


def parts(row: dict) -> list[tuple[int, ...]]:
    """Returns the documents' parts of a row, after checking that its three columns agree."""
    tokens, positions, segments = (row[k] for k in ("ids", "position_ids", "segment_ids"))
    assert all(a.shape == (LENGTH,) and a.dtype == np.int32 for a in (tokens, positions, segments))
    used = int(np.count_nonzero(segments))
    assert (tokens[used:] == PAD).all()
    assert not positions[used:].any()
    found = []
    for segment in range(1, int(segments.max(initial=0)) + 1):
        where = np.flatnonzero(segments == segment)
        assert where.tolist() == list(range(where[0], where[-1] + 1))
        assert positions[where].tolist() == list(range(len(where)))
        found.append(tuple(tokens[where].tolist()))
    assert sum(map(len, found)) == used
    return found


@pytest.mark.parametrize("eos_id", [None, EOS])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_concat_is_all_documents_end_to_end(eos_id, drop_remainder):
    want = [t for i in range(700) for t in document(i) + ([] if eos_id is None else [eos_id])]
    rows = list(pack(documents(), "concat", eos_id=eos_id, segments=True, drop_remainder=drop_remainder))
    got = [t for row in rows for part in parts(row) for t in part]
    assert got == (want[: len(want) // LENGTH * LENGTH] if drop_remainder else want)
    assert all((row["segment_ids"] > 0).all() for row in rows[:-1])
    plain = pack(documents(), "concat", eos_id=eos_id, drop_remainder=drop_remainder)
    assert list(plain.schema) == ["ids"]
    assert [r["ids"].tolist() for r in plain] == [r["ids"].tolist() for r in rows]


@pytest.mark.parametrize("eos_id", [None, EOS])
@pytest.mark.parametrize("strategy", ["first_fit", "best_fit"])
def test_a_fit_keeps_documents_whole_and_loses_none(strategy, eos_id):
    rows = list(pack(documents(), strategy, eos_id=eos_id))
    got = [part for row in rows for part in parts(row)]
    whole = [document(i) + ([] if eos_id is None else [eos_id]) for i in range(700)]
    want = [tuple(d[k : k + LENGTH]) for d in whole for k in range(0, len(d), LENGTH)]
    assert sorted(got) == sorted(want)
    # Windows follow each other, and rows of a window come in the order of their first documents.
    number = [p[0] // 1000 - 1 for row in rows for p in parts(row)[:1] if p[0] != EOS]
    windows = [list(group) for _, group in itertools.groupby(number, lambda i: i // 50)]
    assert len(windows) == 14
    assert all(w == sorted(w) for w in windows)
    padding = sum(int((row["segment_ids"] == 0).sum()) for row in rows) / (len(rows) * LENGTH)
    assert padding < (0.06 if strategy == "first_fit" else 0.03)


def test_a_window_is_bounded_by_its_tokens():
    ds = fb.range(40).map(lambda row: {"ids": np.zeros(950, np.int32)}, schema={"ids": ("int32", (None,))})
    # Each document fills more than two rows of 100, so it has a window of its own: no two rests share a row.
    rows = list(ds.pack("ids", 100, strategy="first_fit", window=2))
    assert len(rows) == 400
    assert {int(row["segment_ids"].max()) for row in rows} == {1}


PIPELINES = {
    "concat": lambda: pack(documents().shuffle(), "concat", eos_id=EOS, segments=True).batch(5),
    "rows": lambda: pack(documents(), "concat"),
    "remainder": lambda: pack(documents(), "concat", drop_remainder=True).batch(4),
    "first fit": lambda: pack(documents().shuffle(), "first_fit", eos_id=EOS).batch(5),
    "best fit": lambda: pack(documents().repeat(2), "best_fit", window=333).batch(8, drop_remainder=True),
    "rows of a fit": lambda: pack(documents(), "best_fit"),
    "counted": lambda: (
        pack(documents().filter(odd, reads=["ids"]).skip(3).take(300), "concat").skip(2).shard(2, 1).take(40).batch(3)
    ),
    "counted fit": lambda: pack(documents().filter(odd).skip(1), "first_fit").skip(2).filter(busy).take(40).batch(3),
    "taken": lambda: pack(documents(), "concat").take(30),
    "taken fit": lambda: pack(documents(), "best_fit").take(40).batch(4),
    "noise": lambda: pack(documents(), "concat").map(noise, writes=["noise"]).batch(6),
    "sparse": lambda: pack(documents().filter(lambda row: len(row["ids"]) == 200).shuffle(), "concat").batch(3),
    "nothing": lambda: pack(documents().filter(lambda row: len(row["ids"]) == 0), "concat").batch(3),
}


def odd(row):
    return len(row["ids"]) % 2 == 1


def busy(row):
    return row["segment_ids"].max() > 1


def noise(row, rng):
    return {"noise": rng.random()}


#: Pipelines that several consumers could not compute each for itself.
UNSHARED = ["counted", "counted fit", "taken", "taken fit"]


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
@pytest.mark.parametrize(
    ("name", "consumers"),
    [(name, one) for name in PIPELINES for one in [(0, 1), (1, 3)] if one[1] == 1 or name not in UNSHARED],
)
def test_the_rest_is_the_same_wherever_it_is_cut(name, consumers):
    options = {"seed": 9, "epochs": 2, "consumers": consumers}
    everything = [fingerprint(b) for b in PIPELINES[name]().iter(threads=2, **options)]
    n = len(everything)
    cuts = sorted({0, 1, 2, 3, n // 5, n // 3, n // 2 - 1, n // 2, n // 2 + 1, n - 1, n})
    it, taken = PIPELINES[name]().iter(threads=3, **options), 0
    for cut in (c for c in cuts if 0 <= c <= n):
        taken += sum(1 for _ in itertools.islice(it, cut - taken))
        state = json.dumps(it.state_dict())
        assert len(state) < 1000
        again = PIPELINES[name]().iter(threads=1, **options)
        again.load_state_dict(json.loads(state))
        assert [fingerprint(b) for b in again] == everything[cut:], cut
    it.close()


def test_rows_of_one_document_draw_numbers_of_their_own():
    drawn = [float(row["noise"]) for row in pack(documents(), "concat").map(noise, writes=["noise"])]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_service_gives_the_same_rows(service, name):
    ds = PIPELINES[name]()
    options = {"seed": 3, "epochs": 2}
    want = [fingerprint(b) for b in ds.iter(**options)]
    job = uuid.uuid4().hex
    it = ds.distribute(service, job=job, **options).iter()
    got = [fingerprint(next(it)) for _ in range(len(want) // 3)]
    state = json.loads(json.dumps(it.state_dict()))
    it.close()
    it = ds.distribute(service, job=job, **options).iter()
    it.load_state_dict(state)
    got += [fingerprint(b) for b in it]
    assert got == want


def test_wrong_arguments_are_refused_where_they_are_written():
    ds = documents()
    for make, says in [
        (lambda: fb.range(3).pack("id", 8), 'column "id" is int64'),
        (lambda: fb.from_dict({"text": ["a"]}).pack("text", 8), r'put \.tokenize\("text", \.\.\.\) before it'),
        (lambda: ds.pack("ids", 0), "length=0"),
        (lambda: ds.pack("ids", 2**40), "length=1099511627776"),
        (lambda: ds.pack("ids", 8, pad_id=2**31), "pad_id=2147483648"),
        (lambda: ds.pack("ids", 8, strategy="worst_fit"), "unknown strategy 'worst_fit'"),
        (lambda: ds.pack("ids", 8, window=3), "concat has no window"),
        (lambda: ds.pack("ids", 8, strategy="best_fit", window=0), "window=0"),
        (lambda: ds.pack("ids", 8, strategy="best_fit", drop_remainder=True), "drop_remainder=True goes with"),
        (lambda: ds.pack("ids", 8, strategy="first_fit", segments=False), "segments=False goes with"),
        (lambda: ds.pack("ids", 8).shuffle(), "shuffle comes after pack"),
        (lambda: ds.pack("ids", 8).repeat(2), "put repeat before pack"),
        (lambda: ds.pack("ids", 8).pack("ids", 4), "pack comes after pack"),
        (lambda: ds.map(lambda r: r, schema={"ids": ("int32", (4,))}).batch(2).pack("ids", 4), "comes after batch"),
    ]:
        with pytest.raises(E.InvalidPipelineError, match=says):
            make()
    with pytest.raises(E.NotFoundError, match='no column "id"') as caught:
        ds.pack("id", 8, name="rows")
    assert caught.value.context["op"] == "pack (rows)"
    assert "test_pack.py" in caught.value.context["line"]
    assert ds.pack("ids", 8).batch(4).cardinality is None


def with_labels(row):
    ids = np.array(document(int(row["id"])), np.int32)
    return {
        "ids": ids,
        "labels": np.where(ids % 3 == 0, ids, -100).astype(np.int64),
        "weight": (ids / 2).astype(np.float32),
    }


ALONG = {"ids": ("int32", (None,)), "labels": ("int64", (None,)), "weight": ("float32", (None,))}


@pytest.mark.parametrize("strategy", ["concat", "first_fit", "best_fit"])
@pytest.mark.parametrize("eos_id", [None, EOS])
def test_columns_along_the_ids_are_placed_as_they_are(strategy, eos_id):
    """Each number lies beside its id; padding and separators have the number that the user gave."""
    ds = fb.range(300).map(with_labels, schema=ALONG)
    options = {"strategy": strategy, "eos_id": eos_id, "pad_id": PAD, "cu_seqlens": True}
    options |= {"segments": True} if strategy == "concat" else {"window": 50}
    packed = ds.pack(["ids", "labels", "weight"], LENGTH, pad={"labels": -100, "weight": 0.5}, **options)
    alone = fb.range(300).map(as_list, schema={"ids": ("int32", (None,))}).pack("ids", LENGTH, **options)
    made = list(packed)
    for row, want in zip(made, alone, strict=True):
        assert all((row[name] == want[name]).all() for name in want)
        ids = row["ids"]
        is_token = (ids != PAD) & (ids != EOS) if eos_id else ids != PAD
        assert (row["labels"] == np.where(is_token & (ids % 3 == 0), ids, -100)).all()
        assert (row["weight"] == np.where(is_token, (ids / 2).astype(np.float32), np.float32(0.5))).all()
        assert row["labels"].dtype == np.int64
        assert row["weight"].dtype == np.float32
        segments = row["segment_ids"]
        lengths = [int((segments == n).sum()) for n in range(1, int(segments.max(initial=0)) + 1)]
        assert np.diff(row["cu_seqlens"]).tolist() == lengths
        assert row["cu_seqlens"][0] == 0
    it = packed.iter()
    [next(it) for _ in range(5)]
    state = it.state_dict()
    it = packed.iter()
    it.load_state_dict(state)
    assert [fingerprint(row) for row in it] == [fingerprint(row) for row in made[5:]]


def test_columns_that_cannot_lie_along_are_refused():
    ds = fb.range(3).map(with_labels, schema=ALONG)
    for call, said in (
        (lambda: ds.pack(["ids", "labels"], 8), "labels"),
        (lambda: ds.pack(["ids", "labels"], 8, pad={"labels": 0.5}), "0.5 is no int64"),
        (lambda: ds.pack(["ids", "ids"], 8, pad={"ids": 0}), "twice"),
        (lambda: ds.pack("ids", 8, pad={"ids": 0}), "pad="),
        (lambda: ds.pack([], 8), "no column"),
        (lambda: ds.with_column("n", 1).pack(["ids", "n"], 8, pad={"n": 0}), '"n" is'),
    ):
        with pytest.raises(E.InvalidPipelineError, match=said):
            call()
    longer = ds.map(lambda row: {**row, "weight": row["weight"][:1]}, schema=ALONG)
    with pytest.raises(E.DataError, match="ids in") as caught:
        list(longer.pack(["ids", "weight"], 8, pad={"weight": 0}))
    assert "sample" in caught.value.context
