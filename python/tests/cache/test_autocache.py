"""autocache(): it caches rows if a cache saves time, and no batch depends on it. test_cache.py compares all streams."""

from __future__ import annotations

import time
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from keeping import calls, stream
from pipelines import name
from scaling.test_learned import learned

ROWS = 800


def slow(log: Path):
    """Returns a function that costs far more than a cache hit, and logs the samples of its calls."""

    def costly(row):
        with open(log, "a") as file:
            file.write(f"{row['id']}\n")
        end = time.perf_counter() + 1e-3
        while time.perf_counter() < end:
            pass
        return {"id": row["id"], "x": np.full(64, row["id"], np.int64)}

    return costly


def costly(log: Path) -> fb.Dataset:
    """Returns samples that are worth caching, in small morsels."""
    return fb.range(ROWS).shuffle().map(slow(log), schema={"id": "int64", "x": ("int64", (64,))})


def finished(ds: fb.Dataset) -> fb.Dataset:
    return ds.with_column("more", fb.col("id") + 1).batch(8)


def test_a_costly_function_is_kept_and_called_no_more(tmp_path):
    log = tmp_path / "log"
    want = stream(finished(costly(tmp_path / "plain")).iter(seed=1, epochs=4))
    it = finished(costly(log).autocache()).iter(seed=1, epochs=4)
    assert stream(it) == want
    said = it.stats()["cache"]
    assert said["kept"] == "map", said
    assert said["why"].startswith("map is kept: ")
    assert "computing all: " in said["why"]
    assert said["rows"]["all"] == ROWS
    assert said["rows"]["found_in_memory"] > ROWS
    assert said["figures"]["costs"][0]["nanos"] > 1e6, "what computing costs"
    assert sum(calls(log).values()) < 2.5 * ROWS, "most of the last three epochs is found"


def test_what_was_found_out_lasts_for_the_process(tmp_path):
    log = tmp_path / "log"
    ds = finished(costly(log).autocache())
    list(ds.iter(seed=1, epochs=2))
    before = sum(calls(log).values())
    it = ds.iter(seed=2)
    assert len(list(it)) == ROWS // 8
    assert it.stats()["cache"]["kept"] == "map"
    assert sum(calls(log).values()) - before < ROWS


def test_who_comes_back_for_another_epoch_is_expected_to_come_again(tmp_path):
    log = tmp_path / "log"
    ds = finished(costly(log).autocache())
    said = []
    for epoch in range(4):
        it = ds.iter(seed=1, epoch=epoch)
        list(it)
        said.append(it.stats()["cache"])
    assert said[0]["why"].endswith("; 1 pass to come"), said[0]
    assert [each["kept"] for each in said[1:]] == ["map"] * 3, said
    passes = [each["figures"]["passes"] for each in said]
    assert [int(each) for each in passes[:3]] == [0, 1, 2], passes
    before = sum(calls(log).values())
    list(ds.iter(seed=1, epoch=4))
    assert sum(calls(log).values()) - before < ROWS / 2


def test_a_job_counts_on_what_earlier_ones_read(tmp_path, until):
    ds = finished(costly(tmp_path / "log").autocache())

    state = tmp_path / "state"
    with fb.up(workers=1, threads=2, cache_memory="64MiB", state_dir=state) as first:
        list(ds.distribute(first, job="first", seed=1, epochs=3))
        until(lambda: learned(state, tmp_path / "copy").get("epochs_read") == 3)
    with fb.up(workers=1, threads=2, cache_memory="64MiB", state_dir=state) as later:
        it = ds.distribute(later, job="again", seed=2).iter()
        next(it)

        def decided():
            return [kept for kept in later.jobs("again")[0].caching.values() if "figures" in kept]

        until(decided)
        told = decided()[0]
    assert 3 < told["figures"]["passes"] <= 4, told


def test_a_store_is_written_where_that_is_worth_its_price(tmp_path):
    for price, is_written in [(0.0, True), (1e6, False)]:
        store = tmp_path / f"store-{is_written}"
        store.mkdir()
        prices = {"month": price, "write": price, "worker": 0.5}
        ds = finished(costly(tmp_path / "log").autocache())
        with fb.up(workers=1, threads=1, cache=f"file://{store}", cache_memory="64MiB", cache_prices=prices) as service:
            list(ds.distribute(service, job="priced", seed=1, epochs=3))
        assert bool([*store.rglob("*.arrow")]) == is_written
    for wrong in [{"month": 1.0}, {"disk": 1.0, "worker": 1.0}, {"worker": "x"}, 0.5]:
        with pytest.raises(fb.errors.InvalidPipelineError, match=r"cache_prices|prices of a store"):
            fb.up(workers=0, cache_prices=wrong)


def test_workers_find_out_for_themselves(tmp_path):
    log = tmp_path / "log"
    ds = finished(costly(log).autocache())
    with fb.up(workers=1, threads=2, cache_memory="64MiB") as one:
        got = stream(ds.distribute(one, job=name(), seed=1, epochs=4))
    assert sum(calls(log).values()) < 2.5 * ROWS
    assert got == stream(finished(costly(tmp_path / "plain")).iter(seed=1, epochs=4))


def test_a_cache_at_the_same_place_finds_what_was_kept(tmp_path):
    log = tmp_path / "log"
    begun = costly(log)
    list(finished(begun.autocache()).iter(seed=1, epochs=3))
    before = sum(calls(log).values())
    it = finished(begun.cache()).iter(seed=1)
    list(it)
    assert it.stats()["cache"]["why"] == "cache() is written there"
    assert sum(calls(log).values()) - before < ROWS


def test_an_iterator_that_keeps_nothing_says_nothing():
    it = fb.range(8).batch(2).iter()
    assert "cache" not in it.stats()
    next(it)
    assert "cache" not in it.stats()


def test_the_places_are_explained_and_impossible_ones_refused():
    ds = fb.range(9).autocache().with_column("a", fb.col("id") * 2).autocache()
    said = ds.explain(splits=False)
    assert "autocache: " in said
    assert "nothing is kept, or rows as read, or with_column" in said
    random = fb.range(9).map(lambda row, rng: {"n": row["id"] + int(rng.integers(3))}, schema={"n": "int64"})
    with pytest.raises(fb.errors.InvalidPipelineError, match="draws other random numbers") as caught:
        random.autocache()
    assert "cache(freeze=True)" in caught.value.context["hint"]
    with pytest.raises(fb.errors.InvalidPipelineError, match="autocache comes after cache"):
        fb.range(9).cache().autocache()
    with pytest.raises(fb.errors.InvalidPipelineError, match="generator"):
        fb.from_generator(lambda: iter([{"n": 1}]), schema={"n": "int64"}).autocache()


def test_functions_of_batches_see_whole_ones_when_they_are_measured(tmp_path):
    sizes = tmp_path / "sizes"

    def note(batch):
        with open(sizes, "a") as file:
            file.write(f"{len(batch['id'])}\n")
        return {"n": batch["id"]}

    ds = costly(tmp_path / "log").autocache().batch(48, drop_remainder=True)
    ds = ds.map(note, reads=["id"], writes=["n"], schema={"n": "int64"})
    it = ds.iter(seed=1, epochs=3)
    assert len(list(it)) == 3 * (ROWS // 48)
    assert it.stats()["cache"]["kept"] == "map"
    assert {*calls(sizes)} == {48}
