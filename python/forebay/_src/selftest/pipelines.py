"""The pipelines, run on workers and by the oracle: they check and transform the input, and have random ops.

Each pipeline calls a Python function that, at the start of the call, writes the ids of its rows to a file that outlives
its process. So repeated computation is counted at its place, and not estimated.
"""

from __future__ import annotations

import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from forebay._src.selftest.data import PAYLOAD_BYTES, RECORD, Array

#: 1/4, so that products and sums of a few bits are exact on every processor.
SCALE = 0.25
PRIME = 1_000_003
#: Makes cached rows large enough to fill blocks.
TILES = 16
SIDE = 48


@dataclass(frozen=True)
class Parse:
    """Checks records, and draws a number for each. A call takes `seconds`, as a costly transformation would.

    >>> row = np.zeros(1, RECORD)
    >>> row["crc"] = zlib.crc32(row.tobytes()[:PAYLOAD_BYTES])
    >>> out = Parse("", 0.0)({"record": [row.tobytes()]}, np.random.default_rng(0))
    >>> sorted(out), out["id"].tolist()
    (['id', 'noise', 'x'], [0])
    """

    log: str
    seconds: float

    def __call__(self, columns: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        """Returns the fields of the records."""
        raw = [bytes(record) for record in columns["record"]]
        rows = np.frombuffer(b"".join(raw), RECORD)
        note(self.log, rows["id"])
        for record, crc in zip(raw, rows["crc"], strict=True):
            if zlib.crc32(record[:PAYLOAD_BYTES]) != crc:
                raise ValueError("a record's checksum differs from the written one")
        time.sleep(self.seconds)
        return {"id": rows["id"].astype(np.int64), "x": rows["x"].copy(), "noise": rng.random(len(rows))}


@dataclass(frozen=True)
class Check:
    """Checks records without random numbers, so that its results may be cached.

    >>> row = np.zeros(1, RECORD)
    >>> row["crc"] = zlib.crc32(row.tobytes()[:PAYLOAD_BYTES])
    >>> Check("", 0.0)({"record": [row.tobytes()]})["id"].tolist()
    [0]
    """

    log: str
    seconds: float

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns the fields of the records."""
        fields = Parse(self.log, self.seconds)(columns, np.random.default_rng(0))
        return {"id": fields["id"], "x": np.tile(fields["x"], (1, TILES))}


@dataclass(frozen=True)
class Number:
    """Reads the number of a picture from its path."""

    log: str
    seconds: float

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        """Returns the numbers."""
        ids = np.array([int(Path(path).stem) for path in columns["path"]], np.int64)
        note(self.log, ids)
        time.sleep(self.seconds)
        return {"id": ids}


def note(log: str, ids: Array) -> None:
    """Appends a line to a file, whole or not at all: the first two ids and how many there are."""
    if log:
        second = ids[1] if len(ids) > 1 else -1
        file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{ids[0]} {second} {len(ids)}\n".encode())
        os.close(file)


def of_records(folder: Path, batch: int, log: str, seconds: float) -> fb.Dataset:
    """Records: checked, with a drawn number, an expression of floats and one of integers."""
    schema = {"id": "int64", "x": ("float32", (4,)), "noise": "float64"}
    batches = fb.from_tfrecord(str(folder / "*.tfrecord")).shuffle().batch(batch)
    parsed = batches.map(Parse(log, seconds), schema=schema)
    scaled = parsed.with_column("x", fb.col("x") * SCALE + 1.0)
    return scaled.with_column("hash", fb.col("id") * 7919 % PRIME)


def of_kept(folder: Path, batch: int, log: str, seconds: float) -> fb.Dataset:
    """Records that are checked once and cached, with an expression of integers."""
    schema = {"id": "int64", "x": ("float32", (4 * TILES,))}
    checked = (
        fb.from_tfrecord(str(folder / "*.tfrecord")).shuffle().map(Check(log, seconds), schema=schema, batched=True)
    )
    return checked.cache().with_column("hash", fb.col("id") * 7919 % PRIME).batch(batch)


def of_pictures(folder: Path, batch: int, log: str, seconds: float) -> fb.Dataset:
    """Pictures: decoded, cropped at random, flipped, to normalised float32."""
    number = Number(log, seconds)
    return (
        fb.from_image_folder(folder)
        .shuffle()
        .map(number, reads=["path"], writes=["id"], batched=True, schema={"id": "int64"})
        .drop("path")
        .decode_image("image")
        .random_resized_crop("image", SIDE)
        .random_flip("image")
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD)
        .batch(batch)
    )


def truth(records: Array, ids: Array, noise: Array) -> dict[str, Array]:
    """Computes the expected batch of these records with NumPy alone, given the random numbers."""
    x = records["x"][ids] * np.float32(SCALE) + np.float32(1)
    return {"id": ids, "x": x, "noise": noise, "hash": ids * 7919 % PRIME}


def truth_of_kept(records: Array, ids: Array) -> dict[str, Array]:
    """As `truth`, for records that are cached."""
    return {"id": ids, "x": np.tile(records["x"][ids], (1, TILES)), "hash": ids * 7919 % PRIME}
