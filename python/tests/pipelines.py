"""Random pipelines from a seed: for the tests that compare streams."""

from __future__ import annotations

import random
from pathlib import Path

import forebay as fb
import numpy as np
from pictures import encoded, picture

PNGS = [encoded(picture(i, 12 + i % 5, 10 + i % 3), "PNG") for i in range(40)]


def add_noise(row, rng):
    return {"noise": rng.standard_normal(3), "twice": row["id"] * 2}


def columns(batch):
    return {"sum": batch["id"] + 1}


def odd(row):
    return row["id"] % 2 == 1


def count_up():
    for i in range(90):
        yield {"id": np.int64(i), "name": f"sample {i}"}


AUGMENT = [
    lambda ds: ds.color_jitter("image", brightness=0.5, contrast=0.5, saturation=0.5, hue=0.2),
    lambda ds: ds.random_grayscale("image", p=0.5).gaussian_blur("image", 5),
    lambda ds: ds.rand_augment("image", interpolation="bilinear"),
    lambda ds: ds.random_rotation("image", 45, fill=7).random_erasing("image"),
]


def source(rng: random.Random, shards: Path) -> fb.Dataset:
    kind = rng.choice(["range", "range", "numpy", "images", "tar", "generator", "map dataset"])
    if kind == "range":
        return fb.range(rng.choice([0, 1, 5, 64, 200, 777]))
    if kind == "numpy":
        n = rng.choice([3, 100, 333])
        return fb.from_numpy({"id": np.arange(n), "x": np.arange(3 * n, dtype=np.float32).reshape(n, 3)})
    if kind == "images":
        return fb.from_dict({"id": list(range(len(PNGS))), "image": PNGS})
    if kind == "tar":
        ds = fb.from_tar(shards / "train-*.tar").map(key_number, reads=["__key__"], writes=["id"])
        return ds.drop("json").rename(png="image")
    if kind == "generator":
        return fb.from_generator(count_up)
    return fb.from_map_dataset([{"id": np.int64(i), "text": "x" * (i % 9)} for i in range(120)])


def key_number(row):
    return {"id": np.int64(int(row["__key__"]))}


def make(seed: int, shards: Path) -> fb.Dataset:
    """The pipeline of a seed."""
    rng = random.Random(seed)
    ds = source(rng, shards)
    image = "image" in ds.schema
    decoded = False
    filtered = "generator" in ds.explain(splits=False).split("\n")[1]
    for _ in range(rng.randint(0, 5)):
        ops = ["filter", "filter function", "with_column", "map", "take", "skip", "shard", "columns"]
        if not filtered:
            ops += ["shuffle", "shuffle", "repeat"]
        if image and not decoded:
            ops += ["image"] * 4
        op = rng.choice(ops)
        if op == "filter":
            ds, filtered = ds.filter(fb.col("id") % rng.randint(2, 4) != 0), True
        elif op == "filter function":
            ds, filtered = ds.filter(odd), True
        elif op == "with_column":
            ds = ds.with_column("y", fb.col("id") * 3 - 1)
        elif op == "map":
            ds = ds.map(add_noise, writes=["noise", "twice"], schema={"noise": ("float64", (3,)), "twice": "int64"})
        elif op == "columns":
            ds = ds.map(columns, batched=True, writes=["sum"], schema={"sum": "int64"})
        elif op == "take":
            ds = ds.take(rng.randint(0, 150))
            filtered = filtered or "take" in ds.explain(splits=False).partition("after the merge")[2]
        elif op == "skip":
            ds = ds.skip(rng.randint(0, 20))
            filtered = filtered or "skip" in ds.explain(splits=False).partition("after the merge")[2]
        elif op == "shard":
            count = rng.randint(1, 3)
            ds = ds.shard(count, rng.randrange(count))
            filtered = filtered or "shard" in ds.explain(splits=False).partition("after the merge")[2]
        elif op == "shuffle":
            ds = ds.shuffle()
        elif op == "repeat":
            ds = ds.repeat(rng.randint(1, 3))
        elif op == "image":
            ds, decoded = ds.decode_image("image", mode=rng.choice(["RGB", "L"])), True
            if rng.random() < 0.5:
                ds = ds.random_resized_crop("image", rng.randint(4, 12))
            else:
                ds = ds.resize("image", (8, 6))
            if rng.random() < 0.5:
                ds = ds.random_flip("image")
            if rng.random() < 0.5:
                ds = rng.choice(AUGMENT)(ds)
            if rng.random() < 0.5:
                channels = ds.schema["image"].shape[2]
                ds = ds.normalize(
                    "image", mean=[0.5] * channels, std=[0.25] * channels, layout=rng.choice(["CHW", "HWC"])
                )
    if rng.random() < 0.8:
        ds = ds.batch(rng.choice([1, 3, 8, 32, 100]), drop_remainder=rng.random() < 0.3)
        if rng.random() < 0.2:
            ds = ds.map(columns, writes=["sum"], schema={"sum": "int64"})
    return ds


def fingerprint(batch: dict) -> list:
    """Everything about a batch, to compare."""
    parts = []
    for name, value in batch.items():
        array = np.asarray(value)
        content = [repr(v) for v in array.ravel()] if array.dtype == object else array.tobytes()
        parts.append((name, str(array.dtype), array.shape, content))
    return parts
