"""Albumentations keeps a generator of its own. The tests seed it as docs/errors.md says."""

from __future__ import annotations

from typing import Any

import albumentations as A
import forebay as fb
import numpy as np

ROWS = 48
transform = A.Compose([A.RandomCrop(24, 24), A.HorizontalFlip(p=0.5), A.ColorJitter(p=0.8), A.GaussNoise(p=0.5)])


def augment(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    transform.set_random_seed(int(rng.integers(2**31)))
    return {"id": row["id"], "image": transform(image=row["image"])["image"]}


def pictures() -> fb.Dataset:
    images = np.random.default_rng(1).integers(0, 256, (ROWS, 32, 32, 3), dtype=np.uint8)
    return fb.from_dict({"id": np.arange(ROWS), "image": images}).shuffle()


def drawn(ds: fb.Dataset, threads: int) -> dict[tuple[int, int], bytes]:
    """Returns the image of each epoch and sample."""
    found = {}
    with ds.iter(seed=7, epochs=2, executor="process", threads=threads) as it:
        for row in it:
            found[it.epoch, int(row["id"])] = row["image"].tobytes()
    return found


def test_images_follow_from_seed_and_epoch_alone_in_processes():
    ds = pictures().map(augment, schema={"id": "int64", "image": ("uint8", (24, 24, 3))})
    first = drawn(ds, threads=1)
    assert len(first) == 2 * ROWS
    assert drawn(ds, threads=3) == first
    assert len(set(first.values())) == 2 * ROWS, "another draw for each sample and epoch"


def test_a_service_draws_the_same():
    ds = pictures().map(augment, schema={"id": "int64", "image": ("uint8", (24, 24, 3))})
    want = drawn(ds, threads=2)
    with fb.up(workers=2, threads=1) as service, ds.distribute(service, job="augmented", seed=7, epochs=2).iter() as it:
        got = {(it.epoch, int(row["id"])): row["image"].tobytes() for row in it}
    assert got == want
