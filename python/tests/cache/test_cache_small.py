"""A cache far smaller than the pictures: pictures without room are not decoded whole, and the stream is the same."""

from __future__ import annotations

from pathlib import Path

import forebay as fb
import pytest
from keeping import run, stream
from pictures import encoded, picture

#: Room for about ten of the pictures, decoded.
ROOM = "300KB"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty JPEGs of many shapes, in two classes, one of them cut short and one no picture at all."""
    root = tmp_path_factory.mktemp("photos")
    for i in range(40):
        folder = root / ["dam", "weir"][i % 2]
        folder.mkdir(exist_ok=True)
        whole = encoded(picture(i, 90 + 7 * (i % 5), 70 + 11 * (i % 7)), "JPEG", progressive=i % 3 == 0)
        (folder / f"{i:02}.jpg").write_bytes(b"no picture" if i == 12 else whole[: 300 if i == 25 else None])
    return root


def pipelines(photos: Path) -> dict[str, tuple[fb.Dataset, fb.Dataset]]:
    """Pipelines in which a cache splits a chain of image ops, and the same without it."""

    def plain(ds: fb.Dataset) -> fb.Dataset:
        return ds

    def crop(ds: fb.Dataset) -> fb.Dataset:
        return ds.random_resized_crop("image", 48).random_flip("image")

    def normal(ds: fb.Dataset) -> fb.Dataset:
        return ds.normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)

    def make(keep, rest) -> fb.Dataset:
        ds = fb.from_image_folder(photos).shuffle().decode_image("image", mode="RGB")
        return rest(keep(ds)).batch(7)

    label = fb.col("label")
    behind = {
        "at once": lambda ds: normal(crop(ds.drop("path"))),
        "a column between": lambda ds: crop(ds.with_column("twice", label * 2).select(["image", "twice", "label"])),
        "a filter between": lambda ds: crop(ds.filter(label == 0)),
        "a filter behind": lambda ds: crop(ds).filter(label == 1),
        "images alone": lambda ds: normal(crop(ds.select(["image"]))),
        "another size between": lambda ds: crop(ds.resize("image", shorter=60).random_flip("image")),
    }
    return {what: (make(plain, rest), make(fb.Dataset.cache, rest)) for what, rest in behind.items()}


OPTIONS = {"seed": 3, "epochs": 3, "on_error": "skip", "error_budget": 1.0}


def told(it) -> list:
    return sorted((s.epoch, s.split, s.sample, s.op, s.error.message) for s in it.skipped)


def compare(photos: str) -> None:
    """Compares each pipeline with itself, in a process whose cache is small."""
    for what, (plain, kept) in pipelines(Path(photos)).items():
        reference, it = plain.iter(**OPTIONS), kept.iter(**OPTIONS)
        assert stream(it) == stream(reference), what
        assert told(it) == told(reference), what
        assert len(told(it)) >= 3, what
        rows = it.stats()["cache"]["rows"]
        print(what, rows["found_in_memory"], rows["in_memory"], rows["computed"])


def test_pictures_without_room_are_the_same_and_those_with_are_found(photos):
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from cache import test_cache_small
        test_cache_small.compare({str(photos)!r})
    """
    told = run(script, FOREBAY_CACHE_MEMORY=ROOM, FOREBAY_CACHE="")
    figures = [line.rsplit(maxsplit=3) for line in told.splitlines()]
    assert [what for what, *_ in figures] == list(pipelines(photos))
    for what, found, there, computed in figures:
        assert 5 <= int(there) <= 15, (what, there)
        # All but the first pipeline begin with the rows that the first one cached.
        assert int(found) >= 2 * int(there), (what, found, there)
        assert int(computed) >= 2 * 20, (what, computed)


def test_a_worker_with_a_small_cache_gives_the_same(photos, monkeypatch):
    # No folder, which would have room for all rows.
    monkeypatch.setenv("FOREBAY_CACHE", "")
    with fb.up(workers=1, cache_memory=ROOM) as service:
        for what, (plain, kept) in pipelines(photos).items():
            want = stream(plain.iter(**OPTIONS))
            assert stream(kept.distribute(service, job=what, **OPTIONS)) == want, what
