"""Forebay on the rivals' harness: W1 (JPEG), W2 (small records), W3 (text), W4 (Parquet), here and through a service.

`compare.py` puts it next to the rivals' files and runs it. Antialiasing is off, as in DALI's and tf.data's pipelines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import peerlib as P  # the rivals' harness


def w1(data: str) -> fb.Dataset:
    """JPEG, random resized crop 224, flip, normalise to float32, batches of 64."""
    return (
        fb.from_image_folder(data + "/files")
        .drop("path")
        .shuffle()
        .repeat()
        .decode_image("image", mode="RGB")
        .random_resized_crop("image", 224, antialias=False)
        .random_flip("image")
        .normalize("image", mean=fb.IMAGENET_MEAN, std=fb.IMAGENET_STD, layout="HWC")
        .batch(64, drop_remainder=True)
    )


def w2(data: str) -> fb.Dataset:
    """A million records of 4 float32 and a label: scale, shuffle, batches of 256."""
    records = {"x": np.load(data + "/w2/x.npy"), "y": np.load(data + "/w2/y.npy")}
    return (
        fb.from_numpy(records)
        .shuffle()
        .repeat()
        .with_column("x", fb.col("x") * 2.0 + 1.0)
        .batch(256, drop_remainder=True)
    )


def w2_python(data: str) -> fb.Dataset:
    """The same, scaled by a Python function of each row."""
    records = {"x": np.load(data + "/w2/x.npy"), "y": np.load(data + "/w2/y.npy")}
    return fb.from_numpy(records).shuffle().repeat().map(scale).batch(256, drop_remainder=True)


def w3(data: str) -> fb.Dataset:
    """Lines of text, BPE, end to end in sequences of 1,024 tokens, batches of 8."""
    eos = json.loads(Path(data, "w3/tok.json").read_text())["model"]["vocab"]["<eos>"]
    return (
        fb.from_text(data + "/w3/text.txt")
        .repeat()
        .tokenize("text", data + "/w3/tok.json", add_special_tokens=False)
        .pack("text", 1024, eos_id=eos)
        .batch(8, drop_remainder=True)
    )


def w4(data: str) -> fb.Dataset:
    """Parquet: 13 numbers to log1p, 26 categories to buckets, side by side, in batches of 4,096."""
    numbers, categories = [f"I{i + 1}" for i in range(13)], [f"C{i + 1}" for i in range(26)]
    return (
        fb.from_parquet(data + "/w4/*.parquet")
        .repeat()
        .with_column("dense", fb.stack([fb.col(name).log1p() for name in numbers]))
        .with_column("sparse", fb.stack([fb.col(name) % 100003 for name in categories]))
        .select(["dense", "sparse", "label"])
        .batch(4096, drop_remainder=True)
    )


def w2_columns(data: str) -> fb.Dataset:
    """The records of W2, scaled by a Python function of columns."""
    records = {"x": np.load(data + "/w2/x.npy"), "y": np.load(data + "/w2/y.npy")}
    return fb.from_numpy(records).shuffle().repeat().map(scale, batched=True).batch(256, drop_remainder=True)


def scale(row: dict[str, Any]) -> dict[str, Any]:
    """A user's function of one record, or of columns."""
    return {"x": row["x"] * np.float32(2) + np.float32(1), "y": row["y"]}


def local(make: Any, key: str, label: str) -> Any:
    """A run in this process, with default settings."""

    def run(ctx: Any) -> Iterator[dict[str, Any]]:
        ctx.to_np = lambda batch: (batch[key], batch.get(label))
        return iter(make(ctx.data).iter(seed=1))

    return run


def service(make: Any, key: str, label: str) -> Any:
    """A run through a dispatcher and one worker on this machine."""

    def run(ctx: Any) -> Iterator[dict[str, Any]]:
        ctx.to_np = lambda batch: (batch[key], batch.get(label))
        up = fb.up(workers=1)
        ctx.cleanup = up.close
        return iter(make(ctx.data).distribute(up, job="bench", seed=1))

    return run


if __name__ == "__main__":
    image, record, text, table = ("image", "label"), ("x", "y"), ("text", ""), ("dense", "sparse")
    P.run(
        "forebay",
        {
            "W1": {"local": local(w1, *image), "service": service(w1, *image)},
            "W2": {
                "local": local(w2, *record),
                "service": service(w2, *record),
                "python": local(w2_python, *record),
                "columns": local(w2_columns, *record),
            },
            "W3": {"local": local(w3, *text), "service": service(w3, *text)},
            "W4": {"local": local(w4, *table), "service": service(w4, *table)},
        },
        P.ver("forebay", "numpy"),
    )
