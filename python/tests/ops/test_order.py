"""The order of ops: cheaper, the same bytes, in any process; the conditions for moving an op, and the reports."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from pictures import encoded, picture
from pipelines import fingerprint, make, name


def stream(it) -> list:
    return [fingerprint(batch) for batch in it]


def ids(it) -> list[int]:
    return [int(row["id"]) for row in it]


def logged(path: Path, column: str = "id"):
    """Returns a function that logs the samples of its calls."""

    def triple(row):
        with open(path, "a") as file:
            file.write(f"{row[column]}\n")
        return {"triple": row[column] * 3}

    return triple


def calls(path: Path) -> set[int]:
    """Returns the samples of its calls since the last request."""
    found = {int(line) for line in path.read_text().split()} if path.exists() else set()
    path.unlink(missing_ok=True)
    return found


SCHEMA = {"triple": "int64"}
FEW = fb.col("id") % 5 == 0


@pytest.fixture(scope="module")
def photos() -> dict[str, list]:
    """Encoded images of several sizes, and their labels."""
    images = [encoded(picture(i, 60 + i % 7, 70 + i % 5), "JPEG") for i in range(40)]
    return {"image": images, "label": list(range(40))}


def naive(photos: dict[str, list]) -> fb.Dataset:
    """Returns a pipeline with everything on whole images, the filter last."""
    return (
        fb.from_dict(photos)
        .shuffle()
        .decode_image("image")
        .random_flip("image")
        .color_jitter("image", brightness=0.4, contrast=0.4, saturation=0.4)
        .with_column("twice", fb.col("label") * 2)
        .resize("image", 24)
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CHW")
        .filter(fb.col("twice") % 3 == 0)
        .batch(4)
    )


@pytest.mark.parametrize("block", range(4))
def test_random_pipelines_give_the_same_stream_in_any_exact_order(block, shards):
    for seed in range(9000 + 25 * block, 9025 + 25 * block):
        ds = make(seed, shards)
        want = stream(ds.iter(seed=seed, epochs=2, order="off"))
        assert stream(ds.iter(seed=seed, epochs=2)) == want, (seed, ds.explain())


def test_filters_run_before_functions_that_say_what_they_read(tmp_path):
    log = tmp_path / "log"
    ds = fb.range(50).map(logged(log), reads=["id"], writes=["triple"], schema=SCHEMA).filter(FEW)
    assert ids(ds.iter(order="off")) == [*range(0, 50, 5)]
    assert calls(log) == {*range(50)}
    assert ids(ds) == [*range(0, 50, 5)]
    assert calls(log) == {*range(0, 50, 5)}, "only for the samples that are kept"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"writes": ["triple"]}, {}),
        ({"reads": ["id"]}, {}),
        ({"reads": ["id"], "writes": ["triple"], "keep_position": True}, {}),
        ({"reads": ["id"], "writes": ["triple"]}, {"keep_position": True}),
    ],
)
def test_without_reads_or_with_keep_position_nothing_passes(tmp_path, options, kept):
    log = tmp_path / "log"
    few = FEW if "writes" in options else fb.col("triple") % 15 == 0
    ds = fb.range(50).map(logged(log), schema=SCHEMA, **options).filter(few, **kept)
    assert len(list(ds)) == 10
    assert calls(log) == {*range(50)}
    assert "runs before" not in ds.explain()


def test_functions_that_filter_move_too_and_random_ones_draw_the_same(tmp_path):
    log = tmp_path / "log"

    def lucky(row, rng):
        return rng.random() < 0.3

    ds = fb.range(200).map(logged(log), reads=["id"], writes=["triple"], schema=SCHEMA)
    ds = ds.filter(lucky, reads=["id"]).filter(FEW)
    want = ids(ds.iter(seed=3, order="off"))
    calls(log)
    assert ids(ds.iter(seed=3)) == want
    assert calls(log) == set(want)
    assert len(want) < 30


def test_a_filter_that_guards_a_function_stays_before_it():
    def guarded(row):
        if row["id"] == 0:
            raise ZeroDivisionError("there is no such sample here")
        return 10 // row["id"] > 1

    # By its figures the function is far more selective and cheaper, but it must not see rows that the guard removes.
    ds = fb.range(20).filter(fb.col("id") > 0).filter(guarded, reads=["id"])
    assert ids(ds) == [1, 2, 3, 4, 5]
    assert ids(ds.optimize()) == [1, 2, 3, 4, 5]


def test_errors_of_samples_that_a_filter_removes_are_not_seen_unless_they_are_counted(photos):
    broken = {**photos, "image": [b"no image" if i == 7 else image for i, image in enumerate(photos["image"])]}
    ds = fb.from_dict(broken).decode_image("image").filter(fb.col("label") != 7)
    assert len(list(ds)) == 39
    with pytest.raises(fb.errors.DataError):
        list(ds.iter(order="off"))
    it = ds.iter(on_error="skip", error_budget=1)
    assert len(list(it)) == 39
    assert len(it.skipped) == 1


@pytest.mark.parametrize("order", ["exact", "relaxed", "off"])
def test_a_service_gives_the_same_stream_in_each_mode(photos, service, order):
    ds = naive(photos)
    here = stream(ds.iter(seed=5, epochs=2, order=order))
    there = ds.distribute(service, job=name(), seed=5, epochs=2, order=order)
    assert stream(there) == here
    assert (here == stream(ds.iter(seed=5, epochs=2, order="off"))) == (order != "relaxed")


def test_who_joins_a_job_runs_the_order_of_who_created_it(photos, service):
    # With `normalize` last, the consumer runs it; here the last ops differ, so the bytes on the network do, too.
    ds = (
        fb.from_dict({**photos, "image": [encoded(picture(i, 300, 300), "JPEG") for i in range(40)]})
        .decode_image("image")
        .resize("image", 128)
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
        .with_column("twice", fb.col("label") * 2)
        .filter(fb.col("twice") > 20)
        .batch(4)
    )
    want = stream(ds.iter(order="off"))
    for first, second in [("off", "exact"), ("exact", "off")]:
        job = name()
        begun = ds.distribute(service, job=job, order=first).iter()
        assert fingerprint(next(begun)) == want[0]
        state = begun.state_dict()
        begun.close()
        joined = ds.distribute(service, job=job, order=second).iter()
        joined.load_state_dict(state)
        assert stream(joined) == want[1:]


def test_states_go_from_one_exact_order_to_another_and_not_to_a_relaxed_one(photos):
    ds = naive(photos)
    want = stream(ds.iter(seed=2))
    it = ds.iter(seed=2, order="off")
    next(it)
    state = it.state_dict()
    for order in ("exact", "off"):
        again = ds.iter(seed=2, order=order)
        again.load_state_dict(state)
        assert stream(again) == want[1:]
    with pytest.raises(fb.errors.InvalidPipelineError, match="dataset"):
        ds.iter(seed=2, order="relaxed").load_state_dict(state)


def test_relaxed_orders_give_the_same_shapes_and_about_the_same_images(photos):
    ds = naive(photos)
    exact, relaxed = (list(ds.iter(seed=1, epochs=4, order=order)) for order in ("exact", "relaxed"))
    assert [b["label"].tolist() for b in exact] == [b["label"].tolist() for b in relaxed]
    assert [(b["image"].shape, b["image"].dtype) for b in exact] == [
        (b["image"].shape, b["image"].dtype) for b in relaxed
    ]
    a, b = (np.concatenate([batch["image"] for batch in batches]) for batches in (exact, relaxed))
    assert not np.array_equal(a, b)
    assert abs(a.mean() - b.mean()) < 0.1
    assert abs(a.std() - b.std()) < 0.1
    assert ds.dataset_id == ds.optimize(samples=8).dataset_id


def test_optimize_measures_and_keeps_what_is_faster(tmp_path):
    def slow(row):
        return {"sum": int(np.arange(50_000).sum())}

    def cheap_but_useless(row):
        return True

    ds = fb.range(400).map(slow, reads=["id"], writes=["sum"], schema={"sum": "int64"})
    ds = ds.filter(cheap_but_useless, reads=["id"]).filter(fb.col("id") % 100 == 0)
    fast = ds.optimize(samples=200)
    assert ids(fast) == ids(ds.iter(order="off")) == [0, 100, 200, 300]
    told = fast.explain()
    assert "measured to be" in told
    assert "runs before" in told
    longer = fast.with_column("more", fb.col("sum") + 1).filter(fb.col("id") > 0).batch(2)
    assert [b["id"].tolist() for b in longer] == [[100, 200], [300]]
    assert "as written" in fast.explain(order="off")
    assert "measured" not in fast.explain(order="off")


def test_a_relaxed_order_is_taken_if_it_is_measured_to_help_and_is_part_of_the_dataset(service):
    def changed_then_resized(given, side):
        images = [encoded(picture(i, given, given), "JPEG") for i in range(24)]
        ds = fb.from_dict({"image": images}).decode_image("image")
        ds = ds.color_jitter("image", brightness=0.4, contrast=0.4, saturation=0.4)
        return ds.resize("image", side).batch(4)

    smaller = changed_then_resized(400, 24)
    fast = smaller.optimize(samples=24, order="relaxed")
    told = fast.explain(order="relaxed")
    assert "measured to be" in told.partition("as it runs")[2]
    assert "resize" in told.partition("measured to be")[2].splitlines()[1]
    assert fast.dataset_id == smaller.dataset_id
    assert stream(fast.iter(seed=1)) == stream(smaller.iter(seed=1, order="off"))
    # The model finds the same order for this pipeline, so these are its samples, here and on a service.
    assert stream(fast.iter(seed=1, order="relaxed")) == stream(smaller.iter(seed=1, order="relaxed"))
    there = fast.distribute(service, job=name(), epochs=1, seed=1, order="relaxed")
    assert stream(there) == stream(fast.iter(seed=1, epochs=1, order="relaxed"))

    larger = changed_then_resized(32, 224)
    assert "reordered (relaxed" in larger.explain(order="relaxed"), "the model does not know how large they are"
    measured = larger.optimize(samples=24, order="relaxed")
    assert "reordered" not in measured.explain(order="relaxed")
    assert stream(measured.iter(seed=1, order="relaxed")) == stream(larger.iter(seed=1, order="off"))
    with pytest.raises(fb.errors.InvalidPipelineError, match="unknown order 'off'"):
        larger.optimize(order="off")


def test_optimize_leaves_what_cannot_be_better(photos):
    ds = fb.from_dict(photos).decode_image("image").resize("image", 24).batch(4)
    assert "reordered" not in ds.optimize().explain()
    with pytest.raises(fb.errors.InvalidPipelineError, match="no sample"):
        fb.range(0).filter(FEW).optimize()


def test_optimize_takes_a_mix_whose_datasets_are_not_counted():
    ds = fb.mix([fb.range(40).filter(FEW), fb.range(9)]).map(lambda row: {"n": row["id"] + 1})
    assert [int(row["n"]) for row in ds.optimize(samples=16)] == [int(row["n"]) for row in ds]


def test_what_is_no_order_is_refused():
    for call in (
        lambda ds: ds.iter(order="fast"),
        lambda ds: ds.explain(order="fast"),
        lambda ds: ds.distribute("forebay://127.0.0.1:1", job="x", order="fast"),
    ):
        with pytest.raises(fb.errors.InvalidPipelineError, match="unknown order 'fast'"):
            call(fb.range(3))


def test_explain_tells_what_moved_and_why(photos):
    told = naive(photos).explain().partition("as it runs\n")[2].splitlines()
    assert told[0].startswith("  reordered (exact: the same bytes), estimated to be ")
    filtered = next(line for line in told if line.startswith("    filter (test_order.py:"))
    assert filtered.endswith("they see only the rows that it keeps")
    relaxed = naive(photos).explain(order="relaxed")
    assert "other bytes, drawn from the same distribution" in relaxed
    assert "they work on fewer pixels; relaxed" in relaxed
