"""Pipelines for tests of the cache: functions that log their calls, and separate processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
from pipelines import fingerprint


def stream(it) -> list:
    return [fingerprint(batch) for batch in it]


def counted(log: Path):
    """Returns a costly function that logs the samples of its calls."""

    def costly(row):
        with open(log, "a") as file:
            file.write(f"{row['id']}\n")
        return {"id": row["id"], "cube": row["id"] ** 3}

    return costly


SCHEMA = {"id": "int64", "cube": "int64"}


def calls(log: Path) -> Counter:
    return Counter(map(int, log.read_text().split())) if log.exists() else Counter()


def once(rows: int, log: Path) -> fb.Dataset:
    """Returns samples that should be computed once."""
    return fb.range(rows).map(counted(log), schema=SCHEMA).cache()


def large(log: Path):
    """Returns a costly function that returns 4 KiB for each sample."""

    def costly(row):
        with open(log, "a") as file:
            file.write(f"{row['id']}\n")
        return {"id": row["id"], "x": np.arange(1024, dtype=np.float32) * np.float32(row["id"])}

    return costly


ROWS = 600


def heavy(log: Path) -> fb.Dataset:
    ds = fb.range(ROWS).map(large(log), schema={"id": "int64", "x": ("float32", (1024,))})
    return ds.cache().shuffle().batch(16)


def digest(batches) -> str:
    return hashlib.sha256(repr(stream(batches)).encode()).hexdigest()


def draw(row, rng):
    return {"drawn": rng.random()}


def run(script: str, **variables: str) -> str:
    """Runs a script in a separate process."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def dear(log: Path) -> fb.Dataset:
    """Returns samples that cost far more to compute than to read: some milliseconds each."""

    def hard(row):
        with open(log, "a") as file:
            file.write(f"{row['id']}\n")
        drawn = hashlib.pbkdf2_hmac("sha256", b"dam", str(row["id"]).encode(), 25_000)
        return {"id": row["id"], "x": np.resize(np.frombuffer(drawn, np.uint8), 512)}

    ds = fb.range(DEAR_ROWS).map(hard, schema={"id": "int64", "x": ("uint8", (512,))})
    return ds.cache().shuffle().batch(8)


DEAR_ROWS = 96


def epochs(log: Path, count: int = 1, of: str = "heavy", **variables: str) -> str:
    """Returns the digest of a stream that a separate process reads."""
    script = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from keeping import digest, {of}
        print(digest({of}(Path({str(log)!r})).iter(seed=1, epochs={count})))
    """
    return run(script, **variables).split()[-1]


#: Memory has room for few rows, so readers find the rows on disk.
LITTLE = {"FOREBAY_CACHE_MEMORY": "64KiB"}


def plain(log: Path, count: int = 1, of: str = "heavy") -> str:
    """Returns the expected digest, without a cache."""
    return epochs(log, count, of, FOREBAY_CACHE="", FOREBAY_CACHE_MEMORY="0")


def blocks(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.arrow"))


def said(*arguments: object) -> Any:
    """Returns the JSON output of `forebay cache`."""
    command = [sys.executable, "-m", "forebay", "cache", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
