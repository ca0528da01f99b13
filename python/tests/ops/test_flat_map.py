"""Several samples of one: as plain Python makes them, here and on a service, resumed anywhere, and skipped together."""

from __future__ import annotations

import itertools
import re

import forebay as fb
import forebay.errors as E
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipelines import fingerprint, name

EXECUTORS = ["thread", "process"]
SCHEMA = {"id": "int64", "part": "int64"}


def several(row):
    """Makes 0 to 4 rows of a row."""
    for part in range(row["id"] * 7 % 5):
        yield {"id": row["id"], "part": part}


def resumed(ds, state, **options):
    it = ds.iter(**options)
    it.load_state_dict(state)
    return [fingerprint(batch) for batch in it]


def model(ids):
    return [(i, part) for i in ids for part in range(i * 7 % 5)]


def pairs(rows):
    return [(int(row["id"]), int(row["part"])) for row in rows]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_it_equals_a_loop_for_any_threads_and_executor(executor):
    ds = fb.range(700).flat_map(several)
    for threads in (1, 3):
        assert pairs(ds.iter(executor=executor, threads=threads)) == model(range(700))
    shuffled = [int(row["id"]) for row in fb.range(700).shuffle()]
    assert pairs(fb.range(700).shuffle().flat_map(several).iter(executor=executor)) == model(shuffled)


def test_batches_are_full_and_later_ops_see_single_rows():
    ds = fb.range(150).flat_map(several).filter(fb.col("part") != 1).with_column("twice", fb.col("part") * 2)
    batches = list(ds.batch(32))
    want = [pair for pair in model(range(150)) if pair[1] != 1]
    assert [pair for b in batches for pair in zip(b["id"].tolist(), b["part"].tolist(), strict=True)] == want
    assert {len(b["id"]) for b in batches[:-1]} == {32}
    assert all((b["twice"] == 2 * b["part"]).all() for b in batches)


def drawn(row, rng):
    return [{"id": row["id"], "first": rng.random()} for _ in range(3)]


def second(row, rng):
    return {"second": rng.random()}


def test_each_row_of_a_sample_draws_for_itself_and_the_same_everywhere(service):
    ds = fb.range(60).shuffle().flat_map(drawn, schema={"id": "int64", "first": "float64"})
    ds = ds.flat_map(lambda row: [row, row], schema={"id": "int64", "first": "float64"})
    # Before and after a batch that the consumer makes: the parts of rows travel to it.
    ds = ds.map(second, writes="second", schema={"second": "float64"}).take(300)
    ds = ds.map(lambda row, rng: {"third": rng.random()}, writes="third", schema={"third": "float64"}).batch(7)
    want = [fingerprint(batch) for batch in ds.iter(seed=3, epochs=2)]
    batches = list(ds.iter(seed=3))
    for column, distinct in (("first", 150), ("second", 300), ("third", 300)):
        assert len(set(itertools.chain(*(b[column].tolist() for b in batches)))) == distinct
    assert [fingerprint(batch) for batch in ds.iter(seed=3, epochs=2, threads=1, executor="process")] == want
    there = ds.distribute(service, job=name(), seed=3, epochs=2)
    assert [fingerprint(batch) for batch in there] == want


def test_without_it_no_draw_changes_and_the_first_row_draws_as_its_sample():
    def draw(row, rng):
        return {"id": row["id"], "x": rng.random()}

    schema = {"id": "int64", "x": "float64"}
    plain = [row["x"] for row in fb.range(20).shuffle().map(draw, schema=schema).iter(seed=4)]
    same = fb.range(20).shuffle().flat_map(lambda row: [row], schema={"id": "int64"}).map(draw, schema=schema)
    assert [row["x"] for row in same.iter(seed=4)] == plain


def test_a_run_resumes_after_every_batch(service):
    ds = fb.range(90).shuffle().flat_map(several).map(second, writes="second", schema={"second": "float64"}).batch(7)
    want = [fingerprint(batch) for batch in ds.iter(seed=1)]
    it = ds.iter(seed=1)
    for at in range(len(want)):
        assert resumed(ds, it.state_dict(), seed=1) == want[at:]
        next(it)
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=1)] == want


def fragile(row):
    for part in range(4):
        if row["id"] % 10 == 3 and part == 2:
            raise ValueError("a bad piece")
        yield {"id": row["id"], "part": part}


def late(row):
    if row["id"] % 10 == 7 and row["part"] in (1, 3):
        raise ValueError("a bad part")
    return row


def death(row):
    if row["id"] == 21 and row["part"] == 2:
        import os

        os._exit(9)
    return row


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_sample_that_fails_is_left_out_with_all_its_rows_and_counted_once(executor, service):
    ds = fb.range(100).shuffle().flat_map(fragile).map(late, schema=SCHEMA).batch(8)
    options = {"seed": 2, "on_error": "skip", "error_budget": 0.5}
    it = ds.iter(**options, executor=executor)
    batches = [fingerprint(batch) for batch in it]
    kept = [int(i) for batch in ds.iter(**options) for i in batch["id"]]
    assert sorted(kept) == sorted(i for i in range(100) for _ in range(4) if i % 10 not in (3, 7))
    assert sorted(s.sample for s in it.skipped) == sorted(f"row {i}" for i in range(100) if i % 10 in (3, 7))
    if executor == "process":
        there = ds.distribute(service, job=name(), **options).iter()
        assert [fingerprint(batch) for batch in there] == batches
        assert [s.sample for s in there.skipped] == [s.sample for s in it.skipped]
    with pytest.raises(E.FunctionError, match="ValueError: a bad p") as error:
        list(ds.iter(executor=executor))
    assert error.value.context["sample"].startswith("row ")


def test_a_sample_whose_row_ends_a_process_is_left_out_and_stays_out_when_resumed():
    ds = fb.range(60).flat_map(fragile).map(death, schema=SCHEMA).batch(5)
    options = {"on_error": "skip", "error_budget": 0.5, "executor": "process"}
    it = ds.iter(**options)
    batches = [fingerprint(batch) for batch in it]
    assert sorted(s.sample for s in it.skipped) == sorted(["row 21"] + [f"row {i}" for i in range(3, 60, 10)])
    again = ds.iter(**options)
    first = [fingerprint(next(again)) for _ in range(18)]
    assert first + resumed(ds, again.state_dict(), **options) == batches


def forever(row):
    while True:
        yield {"x": 1}


def wide(row):
    for _ in range(150):
        yield {"x": np.zeros(1 << 20, np.uint8)}


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize(
    ("fn", "schema", "says"),
    [
        (forever, {"x": "int64"}, "forever made more than 65536 rows of one row"),
        (wide, {"x": ("uint8", (1 << 20,))}, "wide made more than 128 MiB of rows of one row"),
        (lambda row: None, SCHEMA, "NoneType instead of several rows.*return \\[\\]"),
        (lambda row: row, {"id": "int64"}, "dict instead of several rows.*return \\[row\\]"),
        (lambda row: "abc", SCHEMA, "str instead of several rows"),
        (lambda row: [1], SCHEMA, "int instead of a dictionary"),
        (lambda row: [{"id": 1}, {"x": 2}], {"id": "int64"}, 'column "id" is missing'),
    ],
)
def test_what_is_no_bounded_list_of_rows_is_an_error_with_the_sample(fn, schema, says, executor):
    ds = fb.range(1).flat_map(fn, schema=schema)
    with pytest.raises(E.FunctionError) as error:
        list(ds.iter(executor=executor))
    assert re.search(says, str(error.value), re.DOTALL), str(error.value)
    assert error.value.context["sample"] == "row 0"
    assert "hint" in error.value.context


def test_a_wrong_count_names_its_row():
    ds = fb.range(20).flat_map(several, count=4)
    with pytest.raises(E.FunctionError, match="made 0 rows of a row, and count= says 4") as error:
        list(ds)
    assert error.value.context["sample"] == "row 0"
    with pytest.raises(E.FunctionError, match="made more than the 3 rows"):
        list(fb.range(5).skip(2).flat_map(several, count=3))
    with pytest.raises(E.InvalidPipelineError, match="count"):
        fb.range(3).flat_map(several, count=0)


def crops(row, rng):
    """Makes three rows of a row, each with a number of its own."""
    return [{"id": row["id"], "part": part, "x": rng.random()} for part in range(3)]


CROPS = {**SCHEMA, "x": "float64"}


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_an_exact_number_of_rows_is_counted_and_may_be_shuffled_chosen_and_shared():
    plain = fb.range(50).flat_map(crops, schema=CROPS, count=3)
    assert len(plain) == 150
    rows = [(int(r["id"]), int(r["part"]), float(r["x"])) for r in plain.iter(seed=5)]
    assert [row[:2] for row in rows] == [(i, part) for i in range(50) for part in range(3)]
    ds = plain.shuffle()
    mixed = [(int(r["id"]), int(r["part"]), float(r["x"])) for r in ds.iter(seed=5)]
    assert sorted(mixed) == rows
    neighbours = sum(a[0] == b[0] for a, b in itertools.pairwise(mixed))
    assert neighbours < 15
    assert [(int(r["id"]), int(r["part"])) for r in plain.select_rows([149, 0, 4, 4]).iter(seed=5)] == [
        (49, 2),
        (0, 0),
        (1, 1),
        (1, 1),
    ]
    some = [float(r["x"]) for r in plain.skip(7).take(100).shard(2, 1).iter(seed=5)]
    assert some == [row[2] for row in rows[7:107][1::2]]
    twice = plain.flat_map(lambda row: [row, row], schema=CROPS, count=2).shuffle().batch(20)
    assert len(twice) == 15
    assert sorted(float(x) for b in twice.iter(seed=5) for x in b["x"]) == sorted([row[2] for row in rows] * 2)
    batches = [batch["x"].tolist() for batch in ds.batch(8).iter(seed=5)]
    share = {"seed": 5, "even": False}
    shares = [[b["x"].tolist() for b in ds.batch(8).iter(**share, consumers=(i, 3))] for i in range(3)]
    assert [shares[i % 3][i // 3] for i in range(len(batches))] == batches
    train, test = plain.split(0.8, seed=1)
    assert {int(r["id"]) for r in train} | {int(r["id"]) for r in test} == set(range(50))
    assert not {int(r["id"]) for r in train} & {int(r["id"]) for r in test}
    assert (len(train), len(test)) == (len(list(train)), len(list(test)))


def test_a_counted_one_resumes_anywhere_on_any_number_of_workers(service):
    ds = fb.range(40).shuffle().flat_map(crops, schema=CROPS, count=3).shuffle().map(late_draw, schema=DRAWN).batch(7)
    want = [fingerprint(batch) for batch in ds.iter(seed=1)]
    it = ds.iter(seed=1, threads=2, executor="process")
    for at in range(len(want)):
        assert resumed(ds, it.state_dict(), seed=1) == want[at:]
        assert fingerprint(next(it)) == want[at]
    assert [fingerprint(batch) for batch in ds.distribute(service, job=name(), seed=1)] == want


def late_draw(row, rng):
    return {**row, "y": rng.random()}


DRAWN = {**CROPS, "y": "float64"}


def test_where_samples_may_be_skipped_an_exact_number_is_not_in_the_plan():
    ds = fb.range(40).flat_map(crops, schema=CROPS, count=3)
    plain = [float(row["x"]) for row in ds.iter(seed=2)]
    assert [float(row["x"]) for row in ds.iter(seed=2, on_error="skip")] == plain
    with pytest.raises(E.InvalidPipelineError, match="shuffle comes after flat_map, and samples that fail"):
        list(ds.shuffle().iter(on_error="skip"))


def test_what_cannot_stand_behind_it_says_what_to_write():
    ds = fb.range(9).flat_map(several)
    assert ds.cardinality is None
    for make, says in [
        (lambda: ds.shuffle(), "put shuffle before flat_map"),
        (lambda: ds.cache(), "put cache before flat_map"),
        (lambda: ds.autocache(), "put autocache before flat_map"),
        (lambda: ds.select_rows([0]), "put select_rows before flat_map"),
        (lambda: fb.range(9).batch(3).flat_map(several), "put it before batch"),
        (lambda: fb.range(9).batch(3).unbatch(), "leave batch and unbatch out"),
        (lambda: fb.range(9).flat_map(lambda row: []), "give schema"),
        (lambda: fb.range(9).flat_map(lambda row: []), "made no row of the first 4 samples"),
    ]:
        with pytest.raises(E.InvalidPipelineError) as error:
            list(make())
        assert says in str(error.value)
    with pytest.raises(E.FunctionError, match="make several of one with flat_map"):
        list(fb.range(9).map(lambda b: {"x": [1, 2]}, batched=True, schema={"x": "int64"}))


lists = st.lists(st.lists(st.integers(-9, 9), max_size=5), min_size=1, max_size=30)


def shaped(sample):
    return {**sample, "pairs": np.array(sample["pairs"], np.int32).reshape(-1, 2)}


@settings(max_examples=30, deadline=None)
@given(lists)
def test_explode_equals_pyarrow(rows):
    samples = [{"doc": f"d{i}", "ids": row, "pairs": [[item, item] for item in row]} for i, row in enumerate(rows)]
    shapes = {"doc": "string", "ids": ("int64", [None]), "pairs": ("int32", [None, 2])}
    ds = fb.from_map_dataset([shaped(sample) for sample in samples], schema=shapes)
    table = pa.table({"doc": [f"d{i}" for i in range(len(rows))], "ids": pa.array(rows, pa.list_(pa.int64()))})
    parents = pc.list_parent_indices(table["ids"])
    want = list(
        zip(table["doc"].take(parents).to_pylist(), table["ids"].combine_chunks().flatten().to_pylist(), strict=True)
    )
    both = ds.explode("ids", "pairs")
    got = [(row["doc"], int(row["ids"])) for row in both]
    assert got == want
    assert all(row["pairs"].tolist() == [row["ids"]] * 2 for row in both)


def test_explode_refuses_columns_of_different_lengths_by_their_sample():
    samples = [{"a": [1, 2], "b": [3, 4]}, {"a": [1], "b": [2, 3]}, {"a": [], "b": []}]
    ds = fb.from_map_dataset(samples, schema={"a": ("int64", [None]), "b": ("int64", [None])})
    assert len(list(ds.explode("a"))) == 3
    with pytest.raises(E.DataError, match="1 and 2 steps") as error:
        list(ds.explode("a", "b"))
    assert error.value.context["sample"] == "row 1"
    it = ds.explode("a", "b").iter(on_error="skip", error_budget=0.5)
    assert [(int(r["a"]), int(r["b"])) for r in it] == [(1, 3), (2, 4)]
    assert [s.sample for s in it.skipped] == ["row 1"]
    for columns, says in [(["id"], "no first dimension"), ([], "no columns"), (["nowhere"], "nowhere")]:
        with pytest.raises((E.InvalidPipelineError, E.NotFoundError), match=says):
            fb.range(3).explode(*columns)


def test_unbatch_undoes_batches_of_a_source_and_keeps_images_whole():
    images = np.arange(3 * 4 * 5 * 6 * 3, dtype=np.uint8).reshape(3, 4, 5, 6, 3)
    ds = fb.from_numpy({"image": images, "label": np.arange(12).reshape(3, 4)}).unbatch().batch(5)
    got = list(ds)
    assert np.array_equal(np.concatenate([b["image"] for b in got]), images.reshape(12, 5, 6, 3))
    assert np.concatenate([b["label"] for b in got]).tolist() == list(range(12))
    with pytest.raises(E.InvalidPipelineError, match="no first dimension"):
        fb.from_numpy({"x": np.zeros((3, 4)), "y": [1, 2, 3]}).unbatch()


@pytest.mark.filterwarnings("ignore::forebay.RanksWarning")
def test_consumers_share_the_samples_and_flips_of_crops_differ():
    ds = fb.range(200).flat_map(several)
    shares = [pairs(ds.iter(consumers=(index, 3))) for index in range(3)]
    assert sorted(itertools.chain(*shares)) == sorted(model(range(200)))
    image = np.arange(8 * 8 * 3, dtype=np.uint8).reshape(8, 8, 3)
    crops = fb.from_numpy({"image": np.stack([image] * 4)}).flat_map(
        lambda row: [row] * 6, schema={"image": ("uint8", (8, 8, 3))}
    )
    flipped = [row["image"].tobytes() for row in crops.random_resized_crop("image", 4)]
    assert len(set(flipped)) == 24


def test_a_function_that_depends_on_more_than_its_row_is_reported():
    count = itertools.count()

    def unsteady(row):
        return [{"x": next(count)} for _ in range(3)]

    with pytest.warns(fb.NonDeterministicWarning, match="another result"):
        list(fb.range(2000).flat_map(unsteady, schema={"x": "int64"}))
