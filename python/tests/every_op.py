"""Random pipelines of every op that the engine knows, from a seed; and which ops a pipeline has."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import forebay as fb
import pipelines
from op_families import FAMILIES, ID, Op
from pipelines import extended

#: The dtypes of a key.
KEYS = ("int64", "int32", "bool", "string")

#: Names in the JSON of a pipeline: its ops, its expressions, their functions, and what its source combines.
TAGS = ("op", "expr", "fn", "combine")


def known() -> dict[str, set[str]]:
    """Returns the names that the engine knows: it lists them when it is given another one."""
    wrong = {
        "op": {"op": "?"},
        "expr": _computed({"expr": "?"}),
        "fn": _computed({"expr": "call", "call": {"fn": "?"}}),
    }
    found = {}
    for tag, op in wrong.items():
        try:
            fb.range(1)._pipeline.then(json.dumps(op), None, None, False, None, 0)
        except fb.errors.InvalidPipelineError as error:
            found[tag] = set(re.findall("`([a-z_0-9]+)`", error.message))
    return found


def _computed(part: dict[str, Any]) -> dict[str, Any]:
    return {"op": "with_column", "column": "x", "value": [{"expr": "col", "name": "id"}, part]}


def used(ds: fb.Dataset) -> dict[str, set[str]]:
    """Returns the names in a pipeline."""
    found: dict[str, set[str]] = {tag: set() for tag in TAGS}

    def walk(part: Any) -> None:
        if isinstance(part, list):
            for item in part:
                walk(item)
        elif isinstance(part, dict):
            for key, value in part.items():
                if key in found and isinstance(value, str):
                    found[key].add(value)
                walk(value)

    walk(json.loads(ds._pipeline.to_json()))
    return found


def without_caches(ds: fb.Dataset) -> Any:
    """Returns the JSON of a pipeline without its caches and the user's lines, to compare."""

    def walk(part: Any) -> Any:
        if isinstance(part, list):
            return [walk(item) for item in part if not _is_cache(item)]
        return {key: walk(value) for key, value in part.items() if key != "site"} if isinstance(part, dict) else part

    return walk(json.loads(ds._pipeline.to_json()))


def _is_cache(part: Any) -> bool:
    op = part.get("op") if isinstance(part, dict) else None
    return isinstance(op, dict) and op.get("op") in ("cache", "autocache")


def made_pieces(row):
    for piece in range(row["id"] % 3):
        yield {"id": row["id"], "piece": piece}


def drawn(row, rng):
    return {"drawn": rng.random()}


def often(row, rng):
    return rng.random() < 0.8


def joined(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    table = {"id": rng.sample(range(-3, 70), 30), "joined": [f"row {i}" for i in range(30)]}
    return ds.join(table, on="id", how=rng.choice(["left", "inner"]))


def parted(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    if rng.random() < 0.5:
        return ds.split(rng.choice([0.3, 0.9]), seed=rng.randrange(9))[rng.randrange(2)]
    return ds.k_fold(rng.randint(2, 4), seed=rng.randrange(9))[rng.randrange(2)][rng.randrange(2)]


ORDER: list[Op] = [
    lambda ds, rng: ds.shuffle(),
    lambda ds, rng: ds.shuffle(),
    lambda ds, rng: ds.shuffle(window=rng.randint(2, 30)),
    lambda ds, rng: ds.repeat(rng.randint(1, 2)),
    lambda ds, rng: ds.take(rng.randint(0, 50)),
    lambda ds, rng: ds.skip(rng.randint(0, 9)),
    lambda ds, rng: ds.shard(2, rng.randrange(2)),
    lambda ds, rng: ds.enumerate(start=rng.randint(-2, 2)),
    lambda ds, rng: ds.sort("id", descending=rng.random() < 0.5),
    lambda ds, rng: ds.unique(rng.choice(["id", "word", "n"])),
    pipelines.selected,
    parted,
]
ROWS: list[Op] = [
    lambda ds, rng: ds.filter(ID % rng.randint(2, 4) != 0),
    lambda ds, rng: ds.filter(often, reads="id"),
    lambda ds, rng: ds.filter((ID > 3) & (ID < 45) | (ID == 1)),
    lambda ds, rng: ds.map(drawn, reads="id", writes="drawn", schema={"drawn": "float64"}),
    lambda ds, rng: ds.with_column("plus", ID * rng.randint(1, 5) + 1),
    lambda ds, rng: ds.flat_map(made_pieces, reads="id", schema={"id": "int64", "piece": "int64"}),
    lambda ds, rng: ds.prefetch(rng.randint(1, 5)),
    joined,
]
AFTER_BATCH: list[Op] = [
    lambda ds, rng: ds.with_column("plus", ID + 1),
    lambda ds, rng: ds.filter(ID % 2 == 0),
    lambda ds, rng: ds.take(rng.randint(0, 9)),
    lambda ds, rng: ds.skip(rng.randint(0, 3)),
    lambda ds, rng: ds.prefetch(rng.randint(1, 5)),
    lambda ds, rng: ds.mixup("image", "id", classes=64),
    lambda ds, rng: ds.cutmix("image", "id", classes=64),
    lambda ds, rng: ds.mosaic("image", p=0.8).random_flip("image"),
]


def combined(parts: list[fb.Dataset], rng: random.Random) -> fb.Dataset:
    """Reads datasets of one schema as one; datasets that are not counted can only be mixed."""
    source = rng.choice([None, "from"])
    kind = rng.choice(["mix", "mix", "mix", "concatenate", "interleave", "zip"])
    if kind == "concatenate":
        return fb.concatenate(parts, source=source)
    if kind == "interleave":
        return fb.interleave(parts, cycle_length=rng.randint(1, 3), block_length=rng.randint(1, 9), source=source)
    if kind == "zip":
        second = parts[1].select("id").rename(id="other")
        return fb.zip(parts[0], second, strict=False)
    weights: Any = [rng.randint(1, 5) for _ in parts]
    if rng.random() < 0.4:
        later = [rng.randint(0, 5) for _ in parts[1:]]
        weights = fb.schedule({0: weights, rng.randint(1, 60): [1, *later]}, between=rng.choice(["steps", "linear"]))
    stop, per_batch = rng.choice(["first", "all", "once"]), rng.choice([None, None, 2, 16])
    return fb.mix(parts, weights=weights, stop=stop, source=source, per_batch=per_batch)


def batched(ds: fb.Dataset, rng: random.Random) -> fb.Dataset:
    """Ends a pipeline: windows, packed ids, buckets, or batches, which may be padded."""
    lists = [name for name, column in ds.schema.items() if (column.shape or ())[:1] == (None,)]
    ids = [name for name in lists if name in ("ids", "targets", "learned")]
    if "ids" in ids and rng.random() < 0.5:
        along = [name for name in ids if name != "ids"] if "corrupt_spans" not in used(ds)["op"] else []
        strategy = rng.choice(["concat", "first_fit", "best_fit"])
        options = {"window": 9} if strategy != "concat" else {"segments": rng.random() < 0.5}
        pad = {name: -100 for name in along if name != "learned"} | {name: 0 for name in along if name == "learned"}
        named = ["ids", *along] if along else "ids"
        ds = ds.pack(named, 12, strategy=strategy, pad=pad or None, cu_seqlens=rng.random() < 0.3, **options)
        lists = [name for name, column in ds.schema.items() if (column.shape or ())[:1] == (None,)]
    if rng.random() < 0.1:
        ds = extended(ds, lambda ds, rng: ds.select("id").window(3, stride=rng.randint(1, 3)), rng)
        ds = extended(ds, lambda ds, rng: ds.unbatch() if rng.random() < 0.5 else ds.explode("id"), rng)
    # What has rows of several shapes in other dimensions has no batches.
    shapes = {name: column.shape or () for name, column in ds.schema.items()}
    ds = ds.select([name for name, shape in shapes.items() if None not in shape[1:]])
    lists = [name for name in lists if name in ds.schema]
    if lists and rng.random() < 0.3:
        bounds: dict[str, Any] = {"batch_sizes": [5, 3, 2]} if rng.random() < 0.7 else {"max_tokens": 200}
        if rng.random() < 0.3:
            bounds["max_tokens"] = rng.randint(100, 200)
        return ds.bucket_by_length(rng.choice(lists), [3, 6], drop_remainder=rng.random() < 0.3, **bounds)
    keys = [name for name, column in ds.schema.items() if column.shape == () and column.dtype in KEYS]
    if keys and rng.random() < 0.2:
        key = rng.choice(keys)
        if key == "id":
            ds, key = ds.with_column("key", ID % rng.randint(1, 9)), "key"
        limits: dict[str, Any] = {"max_keys": rng.randint(1, 6), "drop_remainder": rng.random() < 0.3}
        return ds.batch_by_key(key, rng.randint(1, 5), pad=rng.choice([0, 1]) if lists else None, **limits)
    size, drop = rng.choice([1, 2, 3, 8, 32]), rng.random() < 0.3
    if not lists or rng.random() < 0.15:
        plain = [name for name in ds.schema if name not in lists]
        return ds.select(plain).batch(size, drop_remainder=drop, pad_last=not drop and rng.random() < 0.2)
    if "boxes" in lists and "points" in lists and rng.random() < 0.5:
        return ds.drop("points").batch(size, drop_remainder=drop, ragged=True).mosaic("image", p=0.8)
    if rng.random() < 0.25:
        return ds.batch(size, drop_remainder=drop, ragged=True)
    column = rng.choice(lists)
    fixed = {"pad_to": {column: rng.randint(1, 4)}, "truncate": [column]}
    length: dict[str, Any] = rng.choice([{}, fixed, {"multiple_of": rng.randint(1, 5)}])
    others = [name for name in lists if name != column and ds.schema[name].dtype != "string"]
    ragged = [name for name in others if rng.random() < 0.3]
    options: dict[str, Any] = {"pad": rng.choice([0, 7]), "lengths": {column: "length"}, "ragged": ragged, **length}
    return ds.batch(size, drop_remainder=drop, **options)


def branch(family: str, folder: Path, rng: random.Random, keep: str | None, place: random.Random) -> fb.Dataset:
    """Returns data of a family with a few ops; with a cache in it, if that is asked for and possible."""
    source, ops = FAMILIES[family]
    ds = source(folder)
    for _ in range(rng.randint(0, 5)):
        of = rng.random()
        ds = extended(ds, rng.choice(ops if of < 0.6 else ROWS if of < 0.8 else ORDER), rng)
        if keep and place.random() < 0.4:
            ds = extended(ds, lambda ds, _: getattr(ds, keep)(), place)
    return ds


def several(family: str, folder: Path, rng: random.Random, keep: str | None, place: random.Random) -> fb.Dataset:
    """Returns two or three branches as one dataset, or the first one, if they cannot be combined."""
    parts = [branch(family, folder, rng, keep, place) for _ in range(rng.randint(2, 3))]
    names = [name for name in parts[0].schema if all(parts[0].schema[name] == p.schema.get(name) for p in parts)]
    return combined([part.select(names) for part in parts], rng)


def make(seed: int, folder: Path, keep: str | None = None) -> fb.Dataset:
    """Returns the pipeline of a seed; `keep` puts a `cache` or some `autocache` into it, where that is possible."""
    rng, place = random.Random(f"every op {seed}"), random.Random(seed)
    if rng.random() < 0.1:
        return pipelines.make(10**6 + seed, folder, keep)
    family = rng.choice(list(FAMILIES))
    ds = branch(family, folder, rng, keep, place)
    if rng.random() < 0.25:
        drawn_before = rng.getstate()
        try:
            ds = several(family, folder, rng, keep, place)
        except fb.errors.InvalidPipelineError:
            # Some sources cannot be combined with a cache in them.
            rng.setstate(drawn_before)
            ds = extended(ds, lambda ds, rng: several(family, folder, rng, None, place), rng)
        for _ in range(rng.randint(0, 3)):
            ds = extended(ds, rng.choice(rng.choice([FAMILIES[family][1], ROWS, ORDER])), rng)
    if rng.random() < 0.85:
        ds = extended(ds, batched, rng)
        for _ in range(rng.choice([0, 0, 1, 2])):
            ds = extended(ds, rng.choice(AFTER_BATCH), rng)
    return ds
