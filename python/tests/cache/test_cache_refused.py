"""A misplaced cache() is refused with the line that added it. An allowed one has no other effects."""

from __future__ import annotations

import forebay as fb
import pytest
from keeping import run
from pipelines import ragged

REFUSED = [
    (lambda: fb.from_generator(lambda: iter([{"id": 1}])), "a generator's samples have no names", "from_map_dataset"),
    (lambda: fb.range(3).cache().with_column("y", 1), "cache comes after cache (", "the last one is enough"),
    (lambda: fb.range(9).filter(fb.col("id") > 1).take(2), "cache comes after take (", "put cache before take"),
    (lambda: fb.range(9).filter(fb.col("id") > 1).batch(2), "cache comes after batch (", "put cache before batch"),
    (
        lambda: fb.range(9).batch(3).map(lambda b: b, schema={"id": "int64"}),
        "cache comes after map (",
        "put cache before batch",
    ),
    (
        lambda: fb.range(9).map(lambda r, rng: r, schema={"id": "int64"}),
        "cache comes after map (",
        "give freeze=True",
    ),
    (
        lambda: (
            fb.range(9).map(ragged, schema={"ragged": ("float32", (None,))}).bucket_by_length("ragged", [8], [2, 2])
        ),
        "cache comes after bucket_by_length (",
        "put cache before bucket_by_length",
    ),
]


@pytest.mark.parametrize(("before", "message", "hint"), REFUSED, ids=[message[:34] for _, message, _ in REFUSED])
def test_what_cannot_be_kept_is_refused_where_it_was_written(before, message, hint):
    ds = before()
    with pytest.raises(fb.errors.InvalidPipelineError) as caught:
        ds.cache(name="mine")
    error = caught.value
    assert message in error.message
    assert hint in error.context["hint"]
    assert error.context["op"] == "cache (mine)"
    line = test_what_cannot_be_kept_is_refused_where_it_was_written.__code__.co_firstlineno + 4
    assert error.context["line"].endswith(f"test_cache_refused.py:{line}"), error.context["line"]


def test_an_order_may_come_before_and_a_batch_whose_rows_are_known():
    ds = fb.range(20).shuffle().skip(2).repeat(2).batch(4).with_column("y", fb.col("id") * 2).cache()
    assert sum(len(batch["y"]) for batch in ds) == 36
    assert "cache: what is above runs once for each sample" in ds.explain()


def test_a_pipeline_is_the_same_dataset_as_before_unless_it_has_a_cache():
    ds = fb.range(5).shuffle().batch(2)
    assert ds.dataset_id != fb.range(5).shuffle().cache().batch(2).dataset_id
    assert fb.range(5).cache().dataset_id != fb.range(5).cache(freeze=True).dataset_id


@pytest.mark.parametrize("variable", ["FOREBAY_CACHE_MEMORY", "FOREBAY_CACHE_DISK"])
def test_a_setting_that_is_no_size_is_said(variable):
    script = """
        import forebay as fb
        try:
            list(fb.range(3).cache())
        except fb.errors.InvalidPipelineError as error:
            print(error.message, error.context["variable"], error.context["hint"])
    """
    said = run(script, **{variable: "plenty"})
    assert said.startswith(f'"plenty" is no size {variable} use a number of bytes')
    with pytest.raises(fb.errors.InvalidPipelineError, match="is no size"):
        fb.up(workers=1, cache_memory="a lot")
