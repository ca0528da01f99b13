"""Random pipelines from a seed: for the tests that compare streams.

A pipeline is a source, a few ops, and perhaps a batch with ops after it. Ops are drawn without regard to their place:
an op that is refused while the pipeline is written is left out.
"""

from __future__ import annotations

import functools
import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np

WORDS = ["", "a", "naïve", "tide", "forebay", "Σ"]


def name() -> str:
    """Returns a job's name that no other job has."""
    return f"job-{uuid.uuid4().hex[:8]}"


# Users' functions: of a sample, of columns, with and without a generator of their own.


def add_noise(row, rng):
    return {"noise": rng.standard_normal(3), "twice": row["id"] * 2}


def columns(batch):
    return {"sum": batch["id"] + 1}


def noisy_columns(batch, rng):
    return {"jitter": batch["id"] + rng.integers(0, 5, len(batch["id"]))}


def spell(row):
    return {"word": WORDS[row["id"] % len(WORDS)], "raw": b"\0" * int(row["id"] % 4)}


def ragged(row):
    return {"ragged": np.arange(row["id"] % 5, dtype=np.float32)}


def only_id(row):
    return {"id": row["id"] // 2, "half": row["id"] % 2 == 0}


def twice(row):
    return {"id": np.int64(row["id"] * 2)}


def odd(row):
    return row["id"] % 2 == 1


def mostly(row, rng):
    return rng.random() < 0.8


def not_third(batch):
    return batch["id"] % 3 != 1


def key_number(row):
    return {"id": np.int64(int(row["__key__"]))}


def line_number(row):
    return {"id": np.int64(int(row["text"].split()[-1]))}


def count_up():
    for i in range(90):
        yield {"id": np.int64(i), "name": f"sample {i}"}


# What few processes need is imported and made where it is used: many tests start processes that import this module.


@functools.cache
def pngs() -> list[bytes]:
    from pictures import encoded, picture

    return [encoded(picture(i, 12 + i % 5, 10 + i % 3), ["PNG", "JPEG", "WEBP"][i % 3]) for i in range(40)]


@functools.cache
def files(folder: Path) -> Path:
    """Writes the same 130 rows as Parquet, JSON lines and text."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [{"id": i, "x": i / 7, "name": WORDS[i % len(WORDS)], "gap": None if i % 3 else i} for i in range(130)]
    pq.write_table(pa.Table.from_pylist(rows[:80]), folder / "rows-0.parquet", row_group_size=30)
    pq.write_table(pa.Table.from_pylist(rows[80:]), folder / "rows-1.parquet")
    for part, some in enumerate([rows[:50], rows[50:]]):
        (folder / f"rows-{part}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
        (folder / f"rows-{part}.txt").write_text("".join(f"line {row['id']}\n" for row in some))
    return folder


AUGMENT = [
    lambda ds: ds.color_jitter("image", brightness=0.5, contrast=0.5, saturation=0.5, hue=0.2),
    lambda ds: ds.random_grayscale("image", p=0.5).gaussian_blur("image", 5).random_solarize("image"),
    lambda ds: ds.rand_augment("image", interpolation="bilinear"),
    lambda ds: ds.random_rotation("image", 45, fill=7).random_erasing("image"),
    lambda ds: ds.auto_augment("image", "svhn").gaussian_noise("image", p=0.5).aug_mix("image"),
    lambda ds: ds.random_affine("image", 20).random_perspective("image").random_equalize("image"),
]


def source(rng: random.Random, shards: Path) -> fb.Dataset:
    n = rng.choice([0, 1, 3, 5, 64, 100, 200, 333, 777])
    match rng.choice(
        ["range", "range", "numpy", "gaps", "images", "tar", "generator", "map", "parquet", "jsonl", "text", "mix"]
    ):
        case "range":
            return fb.range(-rng.randint(0, 3), n, rng.choice([1, 1, 2]))
        case "numpy":
            n = max(n, 1)
            return fb.from_numpy({"id": np.arange(n), "x": np.arange(3 * n, dtype=np.float32).reshape(n, 3)})
        case "gaps":
            some = [None if i % 4 == 1 else i / 2 for i in range(n + 1)]
            return fb.from_dict({"id": list(range(n + 1)), "gap": some, "name": [WORDS[i % 6] for i in range(n + 1)]})
        case "images":
            return fb.from_dict({"id": list(range(len(pngs()))), "image": pngs()})
        case "tar":
            ds = fb.from_tar(shards / "train-*.tar").map(key_number, reads=["__key__"], writes=["id"])
            return ds.drop("json").rename(png="image")
        case "generator":
            return fb.from_generator(count_up)
        case "map":
            return fb.from_map_dataset([{"id": np.int64(i), "text": "x" * (i % 9)} for i in range(120)])
        case "text":
            return fb.from_text(files(shards) / "rows-*.txt").map(line_number, writes=["id"], schema={"id": "int64"})
        case "mix":
            return mixed(rng, n, shards)
        case "jsonl":
            return fb.from_jsonl(files(shards) / "rows-*.jsonl")
        case _:
            return fb.from_parquet(files(shards) / "rows-*.parquet")


def mixed(rng: random.Random, n: int, shards: Path) -> fb.Dataset:
    """Several datasets as one: of numbers, of files, with ops of their own."""
    lines = fb.from_jsonl(files(shards) / "rows-*.jsonl").select("id").shuffle()
    parts = [fb.range(1, n + 2), lines, fb.range(50).shuffle().map(twice, writes=["id"]).skip(rng.randint(0, 9))]
    parts.append(fb.range(40).window(3, stride=2).with_column("id", fb.col("id").list.get(-1)))
    kind = rng.random()
    if kind < 0.2:
        return fb.concatenate(parts)
    if kind < 0.35:
        return fb.interleave(parts, cycle_length=rng.randint(1, 5), block_length=rng.randint(1, 20))
    weights: Any = [rng.randint(1, 5) for _ in parts]
    if kind < 0.6:
        later = {rng.randint(1, 99): [rng.randint(1, 5) for _ in parts]}
        weights = fb.schedule({0: weights, **later}, between=rng.choice(["steps", "linear"]))
    stop, source = rng.choice(["first", "all", "once"]), rng.choice([None, "from"])
    return fb.mix(parts, weights=weights, stop=stop, source=source, per_batch=rng.choice([None, None, 4, 32]))


Op = Callable[[fb.Dataset, random.Random], fb.Dataset]


def other(ds: fb.Dataset, rng: random.Random) -> str:
    """Returns a column that no other op here needs; `id` if there is none, which ops then refuse or keep."""
    names = [name for name in ds.schema if name not in ("id", "image")]
    return rng.choice(names) if names else "id"


def filtered(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    x = fb.col("id")
    expressions = [x % rng.randint(2, 4) != 0, (x > 3) & (x < 90) | (x == 1), ~(x.hash_mod(5) == 2), x >= 0, x < 0]
    return ds.filter(rng.choice([*expressions, odd, mostly]))


def computed(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    x = fb.col("id")
    real = (abs(x) + 1).cast("float64")
    value = rng.choice(
        [
            x * 3 - 1,
            x // 2 + x % 3,
            fb.where(x % 2 == 0, x * 10, -1),
            x.hash_mod(7),
            x.clip(2, 50).cast("uint8"),
            real.log() + real.sqrt() ** 0.5,
            (x * -0.01).exp(),
            fb.col(other(ds, rng)).is_null(),
            fb.lit(rng.randint(0, 9)),
        ]
    )
    return ds.with_column(rng.choice(["y", "z"]), value)


def mapped(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    match rng.randrange(6):
        case 0:
            return ds.map(add_noise, writes=["noise", "twice"], schema={"noise": ("float64", (3,)), "twice": "int64"})
        case 1:
            return ds.map(spell, reads="id", writes=["word", "raw"], schema={"word": "string", "raw": "bytes"})
        case 2:
            return ds.map(ragged, writes="ragged", schema={"ragged": ("float32", (None,))})
        case 3:
            return ds.map(only_id, reads=["id"], schema={"id": "int64", "half": "bool"})
        case 4:
            return ds.map(noisy_columns, batched=True, writes=["jitter"], schema={"jitter": "int64"})
        case _:
            return ds.map(columns, batched=True, writes=["sum"], schema={"sum": "int64"})


def recolumned(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    name = other(ds, rng)
    match rng.randrange(4):
        case 0:
            return ds.drop(name) if name != "id" else ds
        case 1:
            return ds.rename({name: f"{name}_"}) if name != "id" else ds
        case 2:
            kept = [c for c in ds.schema if c in ("id", "image") or rng.random() < 0.5]
            return ds.select(rng.sample(kept, len(kept)))
        case _:
            text = ds.schema[name].dtype in ("string", "bytes")
            return ds if text or name == "id" else ds.cast({name: rng.choice(["float32", "float64", "float16"])})


def pictured(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    """Returns a whole chain on one image column, with some ops left out."""
    ds = ds.decode_image("image", mode=rng.choice(["RGB", "L"]))
    size, antialias = (rng.randint(4, 12), rng.randint(4, 12)), rng.random() < 0.7
    match rng.randrange(4):
        case 0:
            ds = ds.random_resized_crop("image", size, antialias=antialias)
        case 1:
            ds = ds.center_crop("image", size)
        case 2:
            ds = ds.resize("image", 16).random_resized_crop("image", size, scale=(0.5, 1.0))
        case _:
            ds = ds.resize("image", size, antialias=antialias)
    if rng.random() < 0.5:
        ds = ds.random_flip("image", p=rng.choice([0.0, 0.5, 1.0]))
    if rng.random() < 0.5:
        ds = rng.choice(AUGMENT)(ds)
    if rng.random() < 0.5:
        channels = ds.schema["image"].shape[2]
        layout = rng.choice(["CHW", "HWC"])
        ds = ds.normalize("image", mean=[0.5] * channels, std=[0.25] * channels, layout=layout)
    return ds


def sharded(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    count = rng.randint(1, 3)
    return ds.shard(count, rng.randrange(count))


OPS: list[Op] = [
    filtered,
    filtered,
    lambda ds, rng: ds.filter(not_third, batched=True),
    computed,
    computed,
    mapped,
    mapped,
    recolumned,
    recolumned,
    pictured,
    pictured,
    pictured,
    sharded,
    lambda ds, rng: ds.shuffle(),
    lambda ds, rng: ds.shuffle(),
    lambda ds, rng: ds.repeat(rng.randint(1, 3)),
    lambda ds, rng: ds.repeat().take(rng.randint(0, 250)),
    lambda ds, rng: ds.take(rng.randint(0, 150)),
    lambda ds, rng: ds.skip(rng.randint(0, 20)),
    lambda ds, rng: ds.prefetch(rng.randint(1, 9)),
]
AFTER_BATCH: list[Op] = [
    computed,
    recolumned,
    lambda ds, rng: ds.map(columns, writes=["sum"], schema={"sum": "int64"}),
    lambda ds, rng: ds.map(noisy_columns, writes=["jitter"], schema={"jitter": "int64"}),
    lambda ds, rng: ds.prefetch(rng.randint(1, 4)),
]


def called(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    x = fb.col("id")
    text = x.cast(str)
    value = rng.choice(
        [
            x.bucketize([3, 17, 50]) * 2 + abs(x).sign(),
            x.isin([1, 5, rng.randint(0, 90)]),
            x.hash_mod(5).one_hot(5),
            text.str.slice(-2).str.replace("1", "one").str.upper(),
            text.str.split("1", 0).str.search("[2-4]$"),
        ]
    )
    return ds.with_column("called", value)


def selected(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    rows = [rng.random() for _ in range(rng.randrange(1, 60))]
    count = min(ds.cardinality or 0, 1000)
    return ds.select_rows([int(row * count) for row in rows]) if count else ds


def pieces(row):
    for piece in range(row["id"] % 3):
        yield {"id": row["id"], "piece": piece}


def multiplied(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    lists = [name for name, column in ds.schema.items() if column.shape]
    if lists and rng.random() < 0.5:
        return ds.explode(rng.choice(lists))
    return ds.flat_map(pieces, reads="id", schema={"id": "int64", "piece": "int64"})


def numbered(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    return ds.enumerate(start=rng.randint(-2, 2)).shuffle()


def parted(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    return ds.split(rng.choice([0.3, 0.9]), seed=rng.randrange(9))[rng.randrange(2)]


#: These ops are drawn separately, so that the pipelines of the ops above stay the same.
MORE: list[Op] = [called, called, selected, parted, multiplied, multiplied, numbered]
MORE_AFTER_BATCH: list[Op] = [
    called,
    lambda ds, rng: ds.take(rng.randint(1, 30)),
    lambda ds, rng: ds.skip(rng.randint(0, 3)),
]


def padded(rng: random.Random, lists: list[str]) -> dict:
    """Returns the padding arguments of a batch with these columns; empty if it pads none."""
    if not lists or rng.random() < 0.3:
        return {}
    column = rng.choice(lists)
    fixed = {"pad_to": {column: rng.randint(1, 4)}, "truncate": [column]}
    length = rng.choice([{}, fixed, {"multiple_of": rng.randint(1, 5)}])
    return {"pad": rng.choice([0, 7]), "lengths": {column: "length"}, **length}


def make(seed: int, shards: Path, keep: str | None = None) -> fb.Dataset:
    """Returns the pipeline of a seed; also with a `cache` or some `autocache` in it, if that is possible."""
    rng, place, more = random.Random(seed), random.Random(seed), random.Random(f"{seed} more")
    ds = source(rng, shards)
    for _ in range(rng.randint(0, 6)):
        seen = "image" in ds.schema and ds.schema["image"].dtype == "bytes"
        ds = extended(ds, pictured if seen and rng.random() < 0.4 else rng.choice(OPS), rng)
        if keep and place.random() < 0.4:
            ds = extended(ds, lambda ds, _: getattr(ds, keep)(), place)
    if more.random() < 0.5:
        ds = extended(ds, more.choice(MORE), more)
    if rng.random() < 0.8:
        shapes = {name: column.shape or () for name, column in ds.schema.items()}
        # Lists of different lengths make no batch, unless they are padded.
        padding = padded(more, [name for name, shape in shapes.items() if shape[:1] == (None,)])
        ds = ds.select([name for name, shape in shapes.items() if None not in (shape[1:] if padding else shape)])
        size = rng.choice([1, 2, 3, 7, 8, 32, 100])
        ds = ds.batch(size, drop_remainder=rng.random() < 0.3, **padding)
        if more.random() < 0.4:
            ds = extended(ds, more.choice(MORE_AFTER_BATCH), more)
        for _ in range(rng.choice([0, 0, 1, 2])):
            ds = extended(ds, rng.choice(AFTER_BATCH), rng)
    return ds


def extended(ds: fb.Dataset, op: Op, rng: random.Random) -> fb.Dataset:
    """Returns the dataset with one more op, or unchanged if the op is refused, or reads a row that fails."""
    try:
        return op(ds, rng)
    except (fb.errors.InvalidPipelineError, fb.errors.NotFoundError, fb.errors.DataError):
        return ds


def fingerprint(batch: dict) -> list:
    """Returns all properties of a batch, to compare."""
    parts = []
    for name, value in batch.items():
        missing = np.ma.getmaskarray(value).tobytes() if np.ma.isMaskedArray(value) else b""
        array = np.ma.filled(value, 0) if missing else np.asarray(value)
        content = [described(v) for v in array.ravel()] if array.dtype == object else array.tobytes()
        parts.append((name, str(array.dtype), array.shape, content, missing))
    return parts


def described(value: object) -> object:
    """One value of an object array."""
    return (value.dtype.str, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)
