"""The speed of reading compressed text, beside Python's own readers.

    python bench/compressed.py [--lines 1000000] [--rounds 3]

One file of text for each codec. Forebay with one thread, and the Python reader of the same lines: MB of decompressed
text a second, the best of several rounds in turns. Then a shuffle over all rows, counted before: rows a second.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import lzma
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import forebay as fb
import numpy as np
import zstandard


def text(lines: int) -> bytes:
    """Returns lines of words by Zipf's law, which compress about as well as prose."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(map(chr, rng.integers(97, 123, int(n)))) for n in rng.integers(2, 11, 30_000)])
    rows = words[np.minimum(rng.zipf(1.3, (lines, 14)), 29_999)]
    return "\n".join(map(" ".join, rows)).encode() + b"\n"


def zstd_lines(path: Path) -> Iterator[str]:
    """Yields lines with the package zstandard."""
    with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
        yield from io.TextIOWrapper(stream, "utf-8")


def python_lines(module: Any) -> Callable[[Path], Iterator[str]]:
    """Returns a reader of lines with a module of Python's library."""

    def lines(path: Path) -> Iterator[str]:
        with module.open(path, "rt", encoding="utf-8") as file:
            yield from file

    return lines


READERS: dict[str, tuple[Callable[[bytes], bytes], Callable[[Path], Iterator[str]]]] = {
    "gz": (lambda data: gzip.compress(data, 6), python_lines(gzip)),
    "zst": (zstandard.compress, zstd_lines),
    "bz2": (bz2.compress, python_lines(bz2)),
    "xz": (lambda data: lzma.compress(data, preset=1), python_lines(lzma)),
    "txt": (bytes, python_lines(io)),
}


def timed(count: Callable[[], int], want: int) -> float:
    """Returns the seconds to count the lines."""
    begin = time.perf_counter()
    assert count() == want
    return time.perf_counter() - begin


def main() -> None:
    """Prints a line for each codec."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    data = text(args.lines)
    print(f"{'':5}{'MB':>6}{'stored':>8}{'forebay':>10}{'python':>10}   rows/s in a shuffle over all")
    with tempfile.TemporaryDirectory() as folder:
        for name, (pack, lines) in READERS.items():
            path = Path(folder, f"a.{name}")
            path.write_bytes(pack(data))
            ds = fb.from_text(path).batch(4096)

            def ours(ds: fb.Dataset = ds) -> int:
                return sum(len(batch["text"]) for batch in ds.iter(threads=1))

            def theirs(path: Path = path, lines: Callable[[Path], Iterator[str]] = lines) -> int:
                return sum(1 for _ in lines(path))

            rounds = [(timed(ours, args.lines), timed(theirs, args.lines)) for _ in range(args.rounds)]
            here, there = (len(data) / 1e6 / min(times) for times in zip(*rounds, strict=True))
            shuffled = fb.from_text(path).shuffle(window=None).batch(1024)
            next(shuffled.iter(threads=1))
            begin, rows = time.perf_counter(), 0
            for batch in shuffled.iter(threads=1, seed=1):
                rows += len(batch["text"])
                if time.perf_counter() - begin > 3:
                    break
            rate = rows / (time.perf_counter() - begin)
            size = path.stat().st_size / 1e6
            print(f"{name:5}{len(data) / 1e6:6.0f}{size:8.0f}{here:10.0f}{there:10.0f}{rate:12.0f}", flush=True)


if __name__ == "__main__":
    main()
