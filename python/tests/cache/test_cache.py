"""The rows of cache(): the same stream for any cached rows, computed once, shared by pipelines with the same prefix."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forebay as fb
import numpy as np
import pytest
from keeping import SCHEMA, calls, counted, draw, once, run, stream
from pictures import encoded, picture
from pipelines import fingerprint, make, name


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JPEGs of many shapes and kinds, in two classes."""
    root = tmp_path_factory.mktemp("photos")
    options = [{}, {"progressive": True}, {"subsampling": 0}, {"quality": 30}, {"subsampling": 2, "optimize": True}]
    for i in range(40):
        pixels = picture(i, 90 + 7 * (i % 5), 70 + 11 * (i % 7))
        grey = pixels[:, :, 0] if i % 9 == 4 else pixels
        folder = root / ["dam", "weir"][i % 2]
        folder.mkdir(exist_ok=True)
        (folder / f"{i:02}.jpg").write_bytes(encoded(grey, "JPEG", **options[i % len(options)]))
    return root


# The same stream.


@pytest.mark.parametrize("keep", ["cache", "autocache"])
@pytest.mark.parametrize("block", range(10))
def test_random_pipelines_give_the_same_stream_with_a_cache_somewhere(block, keep, shards, service):
    def compare(seed: int, plain: fb.Dataset, kept: fb.Dataset) -> None:
        options = {"seed": seed, "epochs": 2}
        want = stream(plain.iter(**options))
        assert stream(kept.iter(**options)) == want, (seed, kept.explain())
        assert stream(kept.iter(**options, threads=1)) == want, (seed, "warm", kept.explain())
        assert stream(kept.distribute(service, job=name(), **options)) == want, (seed, "service", kept.explain())

    seeds = range(5000 + 12 * block, 5012 + 12 * block)
    pairs = [(seed, make(seed, shards), make(seed, shards, keep)) for seed in seeds]
    some = [pair for pair in pairs if f".{keep}()" in pair[2].explain(splits=False)]
    assert some
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(compare, *zip(*some, strict=True)))


def augmented(ds: fb.Dataset, place: int) -> fb.Dataset:
    """Returns the ops of image training; a cache comes after so many of them."""
    ops = [
        lambda ds: ds.decode_image("image", mode="RGB"),
        lambda ds: ds.resize("image", shorter=64),
        lambda ds: ds.center_crop("image", 60),
        lambda ds: ds.random_resized_crop("image", 48),
        lambda ds: ds.random_flip("image"),
        lambda ds: ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="CHW"),
    ]
    for i, op in enumerate(ops):
        ds = op(ds.cache() if i == place else ds)
    return ds.drop("path").batch(7)


@pytest.mark.parametrize("place", range(4))
def test_real_jpegs_are_the_same_bits_wherever_the_fused_chain_is_cut(place, photos, service):
    fused = augmented(fb.from_image_folder(photos).shuffle(), -1)
    kept = augmented(fb.from_image_folder(photos).shuffle(), place)
    want = stream(fused.iter(seed=5, epochs=3))
    assert stream(kept.iter(seed=5, epochs=3)) == want
    assert stream(kept.iter(seed=5, epochs=3)) == want, "from what is kept"
    for _ in range(2):
        assert stream(kept.distribute(service, job=name(), seed=5, epochs=3)) == want


def test_what_is_kept_is_not_written_to_by_its_readers(photos):
    kept = fb.from_image_folder(photos).decode_image("image").resize("image", 40).cache().drop("path").batch(8)
    want = stream(kept.iter())
    for batch in kept.iter():
        if batch["image"].flags.writeable:
            batch["image"][:] = 0
    assert stream(kept.iter()) == want


def test_a_state_fits_with_and_without_what_is_kept(tmp_path):
    ds = once(500, tmp_path / "log").shuffle().with_column("half", fb.col("cube") // 2).batch(9)
    want = stream(ds.iter(seed=3, epochs=2))
    it = ds.iter(seed=3, epochs=2)
    for _ in range(70):
        next(it)
    resumed = ds.iter(seed=3, epochs=2)
    resumed.load_state_dict(it.state_dict())
    assert stream(resumed) == want[70:]


def test_a_repeated_sample_is_kept_once_and_comes_as_often(tmp_path):
    ds = once(40, tmp_path / "log").repeat(5).batch(16)
    ids = [i for batch in ds for i in batch["cube"].tolist()]
    assert ids == [i**3 for i in range(40)] * 5


# Computed once.


def baseline(rows: int, log: Path) -> Counter:
    """Returns the calls of one epoch: some samples are computed twice, to compare."""
    list(fb.range(rows).map(counted(log), schema=SCHEMA))
    return calls(log)


def test_later_epochs_jobs_and_pipelines_compute_nothing_again(tmp_path):
    first, log = baseline(300, tmp_path / "first"), tmp_path / "log"
    ds = once(300, log)
    assert sorted(i for b in ds.shuffle().batch(8).iter(epochs=3) for i in b["id"]) == sorted([*range(300)] * 3)
    assert calls(log) == first
    assert sum(1 for _ in ds.filter(fb.col("id") % 2 == 0).iter(seed=4, threads=1)) == 150
    shuffled = fb.range(300).shuffle().map(counted(log), schema=SCHEMA, name="other name").take(200).cache().batch(32)
    assert len(list(shuffled.iter(seed=9))) == 7
    assert calls(log) == first, "another pipeline that begins alike"
    longer = fb.range(300).map(counted(log), schema=SCHEMA).with_column("more", fb.col("id") + 1).cache()
    assert len(list(longer)) == 300
    assert calls(log) != first, "another prefix is another computation"


def test_filtered_rows_are_not_computed_again(tmp_path):
    log = tmp_path / "log"
    ds = fb.range(200).map(counted(log), schema=SCHEMA).filter(fb.col("cube") % 3 == 1).cache().shuffle()
    ids = [sorted(int(row["id"]) for row in ds.iter(seed=epoch)) for epoch in range(3)]
    assert ids == [[i for i in range(200) if i % 3 == 1]] * 3
    assert calls(log) == baseline(200, tmp_path / "first")


def test_two_jobs_at_once_compute_each_sample_once(tmp_path):
    first, log = baseline(2000, tmp_path / "first"), tmp_path / "log"
    ds = once(2000, log).batch(50)
    start = threading.Barrier(3)

    def read(_):
        start.wait()
        return stream(ds.iter(threads=2))

    with ThreadPoolExecutor(3) as pool:
        streams = list(pool.map(read, range(3)))
    assert streams[0] == streams[1] == streams[2]
    assert calls(log) == first


def test_jobs_of_a_service_share_what_its_worker_keeps(tmp_path):
    first, log = baseline(1000, tmp_path / "first"), tmp_path / "log"
    ds = once(1000, log).shuffle().batch(20)
    with fb.up(workers=1, threads=2, cache_memory="64MiB") as one:
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(lambda s: stream(ds.distribute(one, job=name(), seed=s)), seed) for seed in (1, 2)]
            got = [job.result() for job in jobs]
        assert calls(log) == first, "two at once"
        assert stream(ds.distribute(one, job=name(), seed=1)) == got[0] == stream(ds.iter(seed=1))
    assert set((calls(log) - first).values()) <= {1, 2}, "only this process computed them again"


def test_what_workers_keep_is_told_with_the_job(until):
    ds = fb.range(1000).map(cube, schema=SCHEMA)
    with fb.up(workers=2, cache_memory="64MiB") as service:
        it = ds.cache().batch(10).distribute(service, job="kept", epochs=None).iter()
        next(it)
        stream(ds.distribute(service, job="not kept"))

        def found() -> int:
            next(it)
            cached = service.jobs("kept")[0].caching.values()
            return sum(cache["rows"]["found_in_memory"] for cache in cached)

        until(lambda: found() >= 1000)
        (kept,) = service.jobs("kept")
        assert set(kept.caching) <= {worker.worker for worker in service.workers()}
        for cache in kept.caching.values():
            assert cache["kept"].startswith("map(cube) of range("), cache
            assert cache["why"] == "cache() is written there"
        show = [sys.executable, "-m", "forebay", "jobs", "show", "kept", "--service", service.address]
        told = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        assert "KEEPS" in told
        assert "cache() is written there" in told
        assert not service.jobs("not kept")[0].caching


def cube(row):
    return {"id": row["id"], "cube": row["id"] ** 3}


def test_files_that_come_or_change_are_computed_and_no_others(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "lines"
    folder.mkdir()

    def parse(row):
        with open(log, "a") as file:
            file.write(f"{row['text']}\n")
        return {"n": np.int64(row["text"])}

    def read() -> list[int]:
        ds = fb.from_text(folder / "*.txt").map(parse, schema={"n": "int64"}).cache()
        return [int(row["n"]) for row in ds]

    (folder / "b.txt").write_text("1\n2\n3\n")
    assert read() == [1, 2, 3]
    assert set(calls(log)) == {1, 2, 3}
    log.unlink()
    (folder / "a.txt").write_text("7\n8\n")
    assert read() == [7, 8, 1, 2, 3]
    assert set(calls(log)) == {7, 8}, "rows moved, and are known"
    log.unlink()
    (folder / "b.txt").write_text("4\n5\n6\n")
    os.utime(folder / "b.txt", ns=(0, 12345))
    assert read() == [7, 8, 4, 5, 6]
    assert set(calls(log)) == {4, 5, 6}


# Samples that fail.


def fragile(log: Path, bad: set[int]):
    def step(row):
        with open(log, "a") as file:
            file.write(f"{row['id']}\n")
        if row["id"] in bad:
            raise ValueError(f"no good: {row['id']}")
        return {"id": row["id"], "cube": row["id"] ** 3}

    return step


def told(it) -> list:
    return sorted((s.epoch, s.split, s.sample, s.op, s.error.message) for s in it.skipped)


@pytest.mark.parametrize("on_error", ["skip", "quarantine"])
def test_samples_that_fail_are_not_kept_and_fail_again_the_same_way(on_error, tmp_path, service):
    bad = {3, 50, 51, 120}
    plain = fb.range(130).shuffle().map(fragile(tmp_path / "log", bad), schema=SCHEMA)

    def rest(ds):
        return ds.map(late, name="late", schema=SCHEMA).batch(8)

    options = {"seed": 2, "epochs": 2, "on_error": on_error, "error_budget": 1.0}

    def read(ds, run, file):
        if on_error == "quarantine":
            run = {**run, "quarantine": tmp_path / file}
        it = ds.iter(**run) if "job" not in run else ds.distribute(service, **run).iter()
        return stream(it), told(it), lines(tmp_path / file)

    want = read(rest(plain), options, "plain")
    assert len(want[1]) == 2 * (len(bad) + 2)
    kept = rest(plain.cache())
    assert read(kept, options, "cold") == want
    assert read(kept, options, "warm") == want
    assert read(kept, {**options, "job": name()}, "service") == want


def late(row):
    if row["id"] in (7, 99):
        raise ValueError("late")
    return row


def lines(file: Path) -> list[str]:
    """Returns the lines of a quarantine file, without the names of the pipeline and the job."""
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return sorted(json.dumps({k: v for k, v in r.items() if k in ("sample", "epoch", "record")}) for r in found)


def test_an_error_names_the_sample_and_the_line_with_a_cache_behind_it(tmp_path):
    ds = fb.range(50).map(fragile(tmp_path / "log", {17}), schema=SCHEMA).cache().batch(10)
    for _ in range(2):
        with pytest.raises(fb.errors.FunctionError) as caught:
            list(ds)
        assert caught.value.context["sample"] == "row 17"
        assert "test_cache.py" in caught.value.context["line"]


# Frozen.


def test_frozen_augmentation_is_the_same_in_every_epoch_and_another_with_another_seed(photos):
    ds = fb.from_image_folder(photos).decode_image("image").random_resized_crop("image", 24).random_flip("image")
    frozen = ds.cache(freeze=True).drop("path").batch(40)
    one, two = (fingerprint(batch) for batch in frozen.iter(seed=1, epochs=2))
    assert one == two
    assert one == fingerprint(next(ds.drop("path").batch(40).iter(seed=1))), "as in epoch 0"
    assert one != fingerprint(next(frozen.iter(seed=2)))
    later = frozen.iter(seed=1, epoch=7)
    assert fingerprint(next(later)) == one
    text = frozen.explain(splits=False)
    assert "frozen: random_resized_crop, random_flip of a sample is the same in every epoch" in text


def test_what_is_frozen_does_not_depend_on_what_is_kept(photos, service):
    def ds() -> fb.Dataset:
        ds = fb.from_image_folder(photos).shuffle().decode_image("image").random_resized_crop("image", 20)
        ds = ds.map(draw, writes=["drawn"], schema={"drawn": "float64"}).cache(freeze=True)
        return ds.random_flip("image").drop("path").batch(6)

    here = stream(ds().iter(seed=3, epochs=3))
    assert stream(ds().iter(seed=3, epochs=3)) == here
    assert stream(ds().distribute(service, job=name(), seed=3, epochs=3)) == here
    script = f"""
        import hashlib, pickle, sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        import forebay as fb
        from pipelines import fingerprint
        from keeping import draw
        ds = fb.from_image_folder({str(photos)!r}).shuffle().decode_image("image").random_resized_crop("image", 20)
        ds = ds.map(draw, writes=["drawn"], schema={{"drawn": "float64"}}).cache(freeze=True)
        stream = [fingerprint(b) for b in ds.random_flip("image").drop("path").batch(6).iter(seed=3, epochs=3)]
        print(hashlib.sha256(repr(stream).encode()).hexdigest())
    """
    there = run(script, FOREBAY_CACHE="", FOREBAY_CACHE_MEMORY="0").strip()
    assert there == hashlib.sha256(repr(here).encode()).hexdigest(), "where nothing is ever kept"
