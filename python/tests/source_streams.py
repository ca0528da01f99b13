"""Streams of remote files, and damage of the pages in a cache: also for the processes that tests start."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import forebay as fb

SOURCES = {
    "files": (lambda at: fb.from_files(f"{at}/*/*.bin").drop("path").shuffle(), "*/*.bin"),
    "lines": (lambda at: fb.from_text(f"{at}/lines/*").shuffle(window=None), "lines/*"),
    "lines, over windows": (lambda at: fb.from_text(f"{at}/lines/*").shuffle(window="256KiB"), "lines/*"),
    "tar": (lambda at: fb.from_tar(f"{at}/shards/*.tar").shuffle(window=None), "shards/*.tar"),
    "tar, over windows": (lambda at: fb.from_tar(f"{at}/shards/*.tar").shuffle(window="8KiB"), "shards/*.tar"),
    "tar, as it lies": (lambda at: fb.from_tar(f"{at}/shards/*.tar"), "shards/*.tar"),
    "parquet": (lambda at: fb.from_parquet(f"{at}/parquet/*.parquet").shuffle(), "parquet/*.parquet"),
}


def digest(batches) -> str:
    """Of every value, its length, its column and its batch."""
    seen = hashlib.sha256()
    for batch in batches:
        for column, values in batch.items():
            seen.update(f"{column} {values.dtype} {values.shape}".encode())
            for value in values:
                data = value.encode() if isinstance(value, str) else bytes(value)
                seen.update(f" {len(data)} ".encode() + data)
    return seen.hexdigest()


def pages(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.pages"))


HARM = {
    "a bit": lambda path: path.write_bytes(flipped(path.read_bytes())),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "gone": lambda path: path.unlink(),
}


def flipped(data: bytes) -> bytes:
    """Half of the pages are in the half that is spoilt."""
    middle = len(data) // 2
    return data[:middle] + bytes(byte ^ 1 for byte in data[middle : middle + 4096]) + data[middle + 4096 :]
