"""Buckets equal TensorFlow's, in any process and after a resume; coordinated consumers share the same one."""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from golden.bucket.make_golden import BOUNDARIES, SIZES, rows

E = fb.errors
EXPECTED = json.loads((Path(__file__).parents[1] / "golden" / "bucket" / "expected.json").read_text())
OPTIONS = {"longest": {}, "boundary": {"pad_to": "boundary"}, "drop": {"drop_remainder": True}}


def documents(longest: int = 30) -> fb.Dataset:
    lists = rows(longest)
    fill = lambda row: {**row, "ids": np.array(lists[int(row["id"])], np.int32)}  # noqa: E731
    return fb.range(len(lists)).map(fill, schema={"id": "int64", "ids": ("int32", (None,))})


def bucketed(longest: int = 30, **options) -> fb.Dataset:
    return documents(longest).bucket_by_length("ids", BOUNDARIES, SIZES, pad=-1, **options)


def plain(batches) -> list[tuple[list[int], list[list[int]]]]:
    seen = []
    for batch in batches:
        ids = batch["ids"]
        assert (ids.dtype, ids.ndim) == (np.int32, 2), "one array, of any length"
        seen.append((batch["id"].tolist(), ids.tolist()))
    return seen


def state_of(it) -> dict:
    return json.loads(json.dumps(it.state_dict()))


@pytest.mark.parametrize("case", sorted(EXPECTED))
@pytest.mark.parametrize("threads", [1, 3])
def test_batches_are_those_of_tensorflow(case, threads):
    ds = bucketed(19 if case == "boundary" else 30, **OPTIONS[case])
    assert plain(ds.iter(threads=threads)) == [(i, ids) for i, ids in EXPECTED[case]]


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_saved_state_gives_exactly_the_rest(epochs):
    ds = bucketed()
    whole = plain(ds.iter(epochs=epochs))
    it = ds.iter(epochs=epochs)
    for at in range(len(whole) + 1):
        again = ds.iter(epochs=epochs)
        again.load_state_dict(state_of(it))
        # The resumed iterator is saved and resumed once more.
        head = plain([next(again)]) if at < len(whole) else []
        rest = ds.iter(epochs=epochs)
        rest.load_state_dict(state_of(again))
        assert head + plain(rest) == whole[at:], at
        if at < len(whole):
            next(it)


def test_a_service_gives_the_same_also_from_a_state_and_after_a_worker_died():
    ds = bucketed().map(lambda b: {"sum": b["ids"].sum(1)}, schema={"sum": "int64"}, writes=["sum"])
    want = [(b["id"].tolist(), b["sum"].tolist()) for b in ds.iter(epochs=2)]
    with fb.up(workers=2, threads=1) as service:
        it = ds.distribute(service, job="buckets", epochs=2).iter()
        seen = [next(it) for _ in range(9)]
        service.kill_worker()
        state = state_of(it)
        it.close()
        again = ds.distribute(service, job=uuid.uuid4().hex, epochs=2).iter()
        again.load_state_dict(state)
        seen += list(again)
    assert [(b["id"].tolist(), b["sum"].tolist()) for b in seen] == want


def ranks(ds: fb.Dataset, count: int, **options) -> list:
    return [ds.iter(consumers=(rank, count), coordinated=True, **options) for rank in range(count)]


def together(batches: list) -> tuple[list[int], list[int]]:
    """One step of all ranks, after checking that it is one bucket, one length and one number of rows."""
    lengths = [len(list(filter(lambda t: t >= 0, row))) for b in batches for row in b["ids"].tolist()]
    assert len({b["ids"].shape for b in batches}) == 1
    buckets = {sum(length >= boundary for boundary in BOUNDARIES) for length in lengths}
    assert len(buckets) == 1
    assert max(lengths) == batches[0]["ids"].shape[1]
    return [i for b in batches for i in b["id"].tolist()], sorted(buckets)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_coordinated_ranks_have_one_bucket_at_each_step_and_share_all_rows(count):
    ds = bucketed()
    # The steps are the batches of one consumer whose batches are as large as those of all ranks together.
    large = documents().bucket_by_length("ids", BOUNDARIES, [n * count for n in SIZES], pad=-1)
    whole = [b["id"].tolist() for b in large]
    steps = [together(list(step))[0] for step in zip(*ranks(ds, count), strict=True)]
    assert steps == [ids[: len(ids) // count * count] for ids in whole if len(ids) >= count]
    left_out = {i for ids in whole for i in ids} - {i for ids in steps for i in ids}
    assert len(left_out) < count * (len(BOUNDARIES) + 1)


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_a_state_of_one_rank_fits_any_number_of_them():
    ds = bucketed()
    its = ranks(ds, 2)
    seen = [i for _ in range(5) for i in together([next(it) for it in its])[0]]
    states = [state_of(it) for it in its]
    assert states[0]["position"].replace('"consumer":[0,2]', "") == states[1]["position"].replace(
        '"consumer":[1,2]', ""
    )
    again = ranks(ds, 3)
    for it in again:
        it.load_state_dict(states[1])
    seen += [i for step in zip(*again, strict=True) for i in together(list(step))[0]]
    assert len(seen) == len(set(seen))
    assert 151 - len(seen) < 3 * (len(BOUNDARIES) + 1)
    alone = ds.iter(consumers=(0, 2))
    alone.load_state_dict(states[0])
    with pytest.raises(E.InvalidPipelineError):
        next(alone)


def test_coordinated_ranks_on_a_service_get_what_they_get_here():
    ds = bucketed()
    want = [plain(it) for it in ranks(ds, 2, epochs=2)]
    with fb.up(workers=2, threads=1) as service:
        there = [
            ds.distribute(service, job="ranks", epochs=2, consumers=(rank, 2), coordinated=True).iter()
            for rank in range(2)
        ]
        seen: list[list] = [[], []]
        for step in zip(*there, strict=True):
            for rank, batch in enumerate(step):
                seen[rank] += plain([batch])
            if len(seen[0]) == 7:
                service.kill_worker()
    assert seen == want


def by_tokens(lengths: list[int], boundaries: list[int], most: int, rows: int, padded: int | None) -> list[list[int]]:
    """The numbers of the rows of each batch, computed row by row."""
    held: list[list[int]] = [[] for _ in range(len(boundaries) + 1)]
    out = []

    def cost(batch: list[int]) -> int:
        return len(batch) * (padded or max(1, *(lengths[i] for i in batch)))

    for i, length in enumerate(lengths):
        bucket = sum(length >= boundary for boundary in boundaries)
        if held[bucket] and cost([*held[bucket], i]) > most:
            out.append(held[bucket])
            held[bucket] = []
        held[bucket].append(i)
        batch = held[bucket]
        if len(batch) == rows or cost(batch) // len(batch) * (len(batch) + 1) > most:
            out.append(batch)
            held[bucket] = []
    return out + [batch for batch in held if batch]


@pytest.mark.parametrize(
    ("boundaries", "sizes", "options"),
    [([4, 9, 20], None, {}), ([], None, {}), ([8], [9, 9], {}), ([4, 9], None, {"pad_to": 30})],
)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_batch_has_as_many_rows_as_its_tokens_allow(boundaries, sizes, options, threads):
    lengths = [len(ids) for ids in rows(30)]
    ds = documents().bucket_by_length("ids", boundaries, sizes, max_tokens=64, **options)
    want = by_tokens(lengths, boundaries, 64, sizes[0] if sizes else 10**9, options.get("pad_to"))
    batches = list(ds.iter(threads=threads))
    assert [batch["id"].tolist() for batch in batches] == want
    assert all(batch["ids"].size <= 64 for batch in batches)
    for at in range(0, len(want), 3):
        it = ds.iter(threads=threads)
        for _ in range(at):
            next(it)
        again = ds.iter()
        again.load_state_dict(state_of(it))
        assert [batch["id"].tolist() for batch in again] == want[at:]


def test_a_sample_that_no_batch_holds_fails_alone():
    ds = documents().bucket_by_length("ids", BOUNDARIES, max_tokens=20)
    with pytest.raises(E.DataError, match=r"has length 2., and max_tokens is 20") as caught:
        list(ds)
    assert {"sample", "op", "line", "hint"} <= caught.value.context.keys()
    short = {i for i, ids in enumerate(rows(30)) if len(ids) <= 20}
    assert {i for batch in ds.iter(on_error="skip", error_budget=99) for i in batch["id"].tolist()} == short
    bounded = bucketed(pad_to="boundary").iter(on_error="skip", error_budget=99)
    assert {i for batch in bounded for i in batch["id"].tolist()} == {i for i in short if len(rows(30)[i]) < 20}


def test_coordinated_ranks_share_tokens():
    ds = documents().bucket_by_length("ids", BOUNDARIES, max_tokens=40)
    seen: list[int] = []
    for step in zip(*ranks(ds, 3), strict=True):
        seen += together(list(step))[0]
        assert step[0]["ids"].size <= 40
    assert len(seen) == len(set(seen)) > 151 - 3 * (len(BOUNDARIES) + 1)


def test_columns_of_frames_are_padded_with_numbers_of_their_own():
    lengths = random.Random(1).choices(range(1, 9), k=40)

    def frames(row):
        n = lengths[int(row["id"])]
        return {"x": np.full((n, 3), n, np.float32), "tags": np.arange(n // 2, dtype=np.uint8), "id": row["id"]}

    schema = {"x": ("float32", (None, 3)), "tags": ("uint8", (None,)), "id": "int64"}
    ds = fb.range(40).map(frames, schema=schema)
    for batch in ds.bucket_by_length("x", [4], [5, 5], pad_to=8, pad={"x": -0.5, "tags": 255}):
        assert (batch["x"].shape[1:], batch["tags"].shape[1]) == ((8, 3), 8)
        for x, tags, i in zip(batch["x"], batch["tags"], batch["id"], strict=True):
            n = lengths[i]
            assert [(x[:n] == n).all(), (x[n:] == -0.5).all(), (tags[n // 2 :] == 255).all()] == [True] * 3


def test_what_cannot_be_is_refused_where_it_is_written():
    ds = documents()
    wrong = [
        (("id", [4], [2, 2]), {}, "has no length"),
        (("ids", [4, 4], [2, 2, 2]), {}, "do not rise"),
        (("ids", [4, 9], [2, 2]), {}, "2 batch_sizes for 2 boundaries"),
        (("ids", [4], [2, 2]), {"pad": 0.5}, "0.5 is none"),
        (("ids", [4], [2, 2]), {"pad": {"id": 1}}, "is not padded"),
        (("ids", [4], [2, 2]), {"pad_to": "widest"}, "unknown pad_to"),
        (("ids", [4]), {}, "nothing bounds a batch"),
        (("ids", [4]), {"max_tokens": 8, "pad_to": 9}, "padded to 9, and max_tokens=8"),
        (("ids", []), {"max_tokens": 8, "pad_to": "boundary"}, "without boundaries"),
    ]
    for arguments, options, says in wrong:
        with pytest.raises(E.InvalidPipelineError, match=says):
            ds.bucket_by_length(*arguments, **options)
    with pytest.raises(E.InvalidPipelineError, match="comes after batch"):
        bucketed().shuffle()
    for pipeline, options in ((fb.range(9), {}), (bucketed(), {"on_error": "skip"})):
        with pytest.raises(E.InvalidPipelineError, match="coordinated=True"):
            next(pipeline.iter(consumers=(0, 2), coordinated=True, **options))
    for options, says in (({"pad_to": "boundary"}, "the last boundary"), ({"pad_to": 10}, "padded to 10")):
        with pytest.raises(E.ForebayError, match=says):
            list(bucketed(**options))
